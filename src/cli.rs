//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::ui::Format;

/// Kernel regression evidence bundles: measure, check, report, publish, audit.
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 yes; 1 the answer is no; 2 rejected (broken digest, chain or format);\n3 refused (unsafe object or limit); 4 usage, environment or I/O; 5 no answer."
)]
pub struct Cli {
    /// Format of the data on stdout.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Only data and errors.
    #[arg(long, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands, in the order of the work.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The whole pipeline on this kernel in under a minute: a null run, marked as such.
    Demo(DemoArgs),
    /// Scaffold a case; with --tree and --child from a kernel git tree.
    New(NewArgs),
    /// The catalogue of workloads.
    Workload {
        /// What to do with it.
        #[command(subcommand)]
        action: WorkloadAction,
    },
    /// Raw timing logs made elsewhere become rows of a point.
    Ingest(IngestArgs),
    /// Measure the next point, or all of them where the plan lets one boot be all.
    Run(RunArgs),
    /// Untimed counts of static tracepoints: which kernel code a workload reaches, how often.
    Trace(CaseArgs),
    /// The gates alone; exit 1 when one fails.
    Check(CaseArgs),
    /// Gates, statistics and verdict.
    Analyze(CaseArgs),
    /// The mail, on stdout or as a new file.
    Report(ReportArgs),
    /// The evidence tree.
    Bundle(BundleArgs),
    /// Commit the evidence tree and write the final mail with its permanent link.
    Publish(PublishArgs),
    /// Digests of a tree, then everything derived computed again and compared.
    Verify(TreeArgs),
    /// Every claim of a tree recomputed from its rows.
    Audit(AuditArgs),
    /// The measuring process (used by `run`).
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Process 1 of a guest of engine qemu.
    #[command(hide = true)]
    Guest(GuestArgs),
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// New folder for the case, the tree, the mail and the repository
    /// [default: regbundle-demo, or the next free regbundle-demo-N].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The folder of the case.
    pub case: PathBuf,
    /// A kernel git tree.
    #[arg(long, value_name = "DIR", requires = "child")]
    pub tree: Option<PathBuf>,
    /// The commit in question, any revision of that tree.
    #[arg(long, value_name = "REV", requires = "tree")]
    pub child: Option<String>,
}

/// Actions of `workload`.
#[derive(Debug, Subcommand)]
pub enum WorkloadAction {
    /// Names and what one op of each is.
    List,
    /// One workload in full.
    Show {
        /// Its name.
        name: String,
    },
    /// The catalogue as Markdown: a part of docs/workloads.md.
    #[command(hide = true)]
    Docs,
    /// The standalone C file, on stdout.
    Emit {
        /// Its name.
        name: String,
    },
}

/// Arguments of `ingest`.
#[derive(Debug, Args)]
pub struct IngestArgs {
    /// The folder of the case.
    pub case: PathBuf,
    /// Label of the point, such as parent-a; from the table's column when it has one.
    #[arg(long, value_name = "LABEL")]
    pub point: Option<String>,
    /// formal or standalone; from the table's column when it has one.
    #[arg(long, value_name = "X")]
    pub implementation: Option<String>,
    /// A stream of the row protocol, or a table that case.toml maps.
    pub file: PathBuf,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The folder of the case.
    pub case: PathBuf,
    /// Stop after this many points.
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub points: usize,
}

/// A case.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// The folder of the case.
    pub case: PathBuf,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The folder of the case.
    pub case: PathBuf,
    /// Write the mail to a new file instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Arguments of `bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// The folder of the case.
    pub case: PathBuf,
    /// New folder for the tree [default: CASE/bundle/ID].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// The folder of the case.
    pub case: PathBuf,
    /// The git repository, bare or not.
    #[arg(long, value_name = "DIR")]
    pub repo: PathBuf,
    /// The branch.
    #[arg(long, value_name = "B", default_value = "main")]
    pub branch: String,
    /// Make a new bare repository when there is none.
    #[arg(long)]
    pub init: bool,
    /// Print the steps and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// A tree.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// The folder of the tree.
    pub tree: PathBuf,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The folder of a tree, or `REPO@COMMIT[:PATH]` with a full commit id.
    pub tree: String,
    /// Exit 5 also when any claim is NOT-CHECKABLE.
    #[arg(long)]
    pub strict: bool,
}

/// Arguments of `guest`, from the kernel's command line.
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// Memory cgroup of the programs: root or child.
    #[arg(long, value_parser = ["root", "child"])]
    pub cgroup: String,
    /// Seconds to wait before the guest is ready.
    #[arg(long, value_name = "SECONDS")]
    pub settle: u32,
    /// What the guest's clock counts: ns or instructions.
    #[arg(long, value_parser = ["ns", "instructions"])]
    pub clock: String,
}

/// Arguments of the measuring process.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Name of the workload.
    pub workload: String,
    /// A parameter, name=value.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub parameters: Vec<String>,
    /// The CPU to pin to.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Warm-up rounds.
    #[arg(long, default_value_t = 3)]
    pub warmup: u32,
    /// Measured rounds.
    #[arg(long, default_value_t = 15)]
    pub rounds: u32,
    /// Wait for one byte after each row.
    #[arg(long)]
    pub step: bool,
    /// What a count of the clock stands for, written in the stream's first line: ns, or
    /// instructions. The clock read is the same; `instructions` is true only where an
    /// emulator lets it count guest instructions (qemu -icount shift=0).
    #[arg(long, value_name = "CLOCK", default_value = "ns")]
    pub clock: String,
    /// Seconds to sleep before the first round, then at most as many more until the canary
    /// is steady; 0 does neither.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub settle: u32,
}
