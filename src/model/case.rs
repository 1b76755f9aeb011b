//! A case: the question about one change, as `case.toml` states it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::{Kernel, Role};
use super::protocol::Clock;

/// The number in `format = ` that this program reads.
pub const CASE_FORMAT: u32 = 1;

/// The whole of `case.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Version of this file's format.
    pub format: u32,
    /// Name of the case: the folder of its bundle.
    pub id: String,
    /// What the report is called.
    pub title: String,
    /// What the reporter asks the maintainers.
    #[serde(default)]
    pub question: Option<String>,
    /// What the numbers stand for.
    pub scope: Scope,
    /// The change in question.
    #[serde(default)]
    pub change: Option<ChangeSection>,
    /// Order, rounds and primary workload.
    pub plan: PlanSection,
    /// How points come about; absent when rows are ingested.
    #[serde(default)]
    pub engine: Engine,
    /// What is measured.
    pub workload: Vec<WorkloadSection>,
    /// The machine the case asks for.
    #[serde(default)]
    pub machine: Machine,
    /// Thresholds, fixed before the data.
    #[serde(default)]
    pub gates: GateSection,
    /// The mail.
    #[serde(default)]
    pub report: ReportSection,
    /// Where the evidence is published.
    #[serde(default)]
    pub publish: PublishSection,
    /// How tables of others are read by `ingest`.
    #[serde(default)]
    pub table: Vec<TableMap>,
}

/// `[scope]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// What was measured, one sentence without a full stop.
    pub statement: String,
    /// What the report does not claim.
    #[serde(default)]
    pub not_claimed: Vec<String>,
}

/// `[change]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSection {
    /// A kernel git tree on this machine; never enters the bundle.
    #[serde(default)]
    pub tree: Option<String>,
    /// Full id of the parent commit.
    pub parent: String,
    /// Full id of the child commit.
    pub child: String,
    /// Subject of the child commit.
    pub subject: String,
    /// Author of the child commit, `Name <address>`.
    #[serde(default)]
    pub author: Option<String>,
    /// Author date of the child commit.
    #[serde(default)]
    pub date: Option<String>,
    /// `Link:` trailers.
    #[serde(default)]
    pub links: Vec<String>,
    /// `Fixes:` trailers.
    #[serde(default)]
    pub fixes: Vec<String>,
    /// The exact source change, one clause.
    #[serde(default)]
    pub summary: Option<String>,
    /// Functions the change touches.
    #[serde(default)]
    pub functions: Vec<String>,
}

/// `[plan]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSection {
    /// Roles in the order of the boots.
    pub order: Vec<Role>,
    /// Warm-up rounds before the measured ones.
    #[serde(default = "default_warmup")]
    pub warmup_rounds: u32,
    /// Clean measured rounds per point.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// Name of the workload that decides the verdict.
    pub primary: String,
    /// One boot per point, or all points in one boot (a null run).
    #[serde(default)]
    pub boots: Boots,
    /// Longest time spent on one point, seconds.
    #[serde(default = "default_point_seconds")]
    pub point_seconds: u32,
}

const fn default_warmup() -> u32 {
    3
}

const fn default_rounds() -> u32 {
    15
}

const fn default_point_seconds() -> u32 {
    120
}

/// Whether each point needs a boot of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boots {
    /// A fresh boot per point.
    #[default]
    Distinct,
    /// All points in the running boot: good for a null run only.
    Same,
}

/// `[engine]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Points on this machine.
    #[serde(default)]
    pub host: Option<HostEngine>,
    /// Points as boots of real kernels in qemu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<QemuEngine>,
}

/// `[engine.host]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostEngine {
    /// The kernel expected for each role.
    #[serde(default)]
    pub kernels: BTreeMap<Role, Kernel>,
}

/// `[engine.qemu]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QemuEngine {
    /// The kernel image (bzImage) or distribution package (.deb) of each role; the path is
    /// relative to the case's folder.
    pub kernels: BTreeMap<Role, String>,
    /// What the guest's clock counts.
    #[serde(default)]
    pub clock: GuestClock,
    /// The kernel that must really run for each role.
    #[serde(default)]
    pub expect: BTreeMap<Role, Kernel>,
    /// How guest code is executed.
    #[serde(default)]
    pub accel: Accel,
    /// Memory of the guest, MiB.
    #[serde(default = "default_memory")]
    pub memory: u32,
    /// More words for the kernel's command line.
    #[serde(default)]
    pub append: String,
    /// Longest time from the start of qemu until the guest is ready, seconds.
    #[serde(default = "default_boot_seconds")]
    pub boot_seconds: u32,
    /// The qemu program.
    #[serde(default = "default_qemu")]
    pub program: String,
}

const fn default_memory() -> u32 {
    512
}

const fn default_boot_seconds() -> u32 {
    120
}

fn default_qemu() -> String {
    "qemu-system-x86_64".to_owned()
}

/// What the clock of a guest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestClock {
    /// Guest instructions: one for each nanosecond the guest reads.
    #[default]
    Instructions,
    /// Time that passes for everybody.
    Wall,
}

impl GuestClock {
    /// What rows measured under it say.
    #[must_use]
    pub const fn rows(self) -> Clock {
        match self {
            Self::Instructions => Clock::Instructions,
            Self::Wall => Clock::Ns,
        }
    }
}

/// How the guest's code is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// KVM where a probe boot comes up under it, else emulation.
    #[default]
    Auto,
    /// KVM.
    Kvm,
    /// Emulation.
    Tcg,
}

/// `[[workload]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSection {
    /// Name in the catalogue.
    pub name: String,
    /// Target or control.
    pub role: WorkloadRole,
    /// Which implementations measure it.
    #[serde(default = "default_implementations")]
    pub implementations: Vec<Implementation>,
    /// Parameters; the rest have the defaults of the catalogue.
    #[serde(default)]
    pub params: BTreeMap<String, u64>,
    /// A program of the reporter's that speaks the row protocol, with arguments; its path is
    /// relative to the case's folder. Empty for workloads of the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

fn default_implementations() -> Vec<Implementation> {
    vec![Implementation::Formal, Implementation::Standalone]
}

/// What a workload stands for in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadRole {
    /// The change should move it.
    Target,
    /// The change should not move it.
    Control,
}

impl WorkloadRole {
    /// The word in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Control => "control",
        }
    }
}

/// Which program measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// The built-in runner.
    Formal,
    /// The C file a maintainer compiles.
    Standalone,
}

impl Implementation {
    /// The word in rows, tables and options.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Formal => "formal",
            Self::Standalone => "standalone",
        }
    }

    /// Reads the word; `None` when it is another one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "formal" => Some(Self::Formal),
            "standalone" => Some(Self::Standalone),
            _ => None,
        }
    }
}

/// `[machine]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The CPU to measure on; the last allowed one when absent.
    #[serde(default)]
    pub cpu: Option<u32>,
    /// The preemption mode every point must really run with.
    #[serde(default)]
    pub preempt: Option<String>,
    /// Memory cgroup the worker must be in: `root` or `child`.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// What the reporter says of the machine, where nothing recorded it.
    #[serde(default)]
    pub description: Option<String>,
    /// Environment class the reporter states for points that did not record one:
    /// `bare-metal`, `virtual-machine` or `emulated`.
    #[serde(default)]
    pub environment: Option<String>,
}

/// `[gates]`: thresholds in percent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GateSection {
    /// Least change against every parent boot that is material.
    pub signal_pct: f64,
    /// Largest difference between two boots of one kernel.
    pub drift_pct: f64,
    /// Largest coefficient of variation of one point.
    pub cv_pct: f64,
    /// Equivalence margin.
    pub margin_pct: f64,
    /// How far above its floor a canary of a clean round may be.
    pub canary_pct: f64,
}

impl Default for GateSection {
    /// The defaults of the verdict's definition; the canary's 3 % is measured (docs/workloads.md).
    fn default() -> Self {
        Self {
            signal_pct: 5.0,
            drift_pct: 2.0,
            cv_pct: 3.0,
            margin_pct: 1.0,
            canary_pct: 3.0,
        }
    }
}

/// `[report]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReportSection {
    /// Regression report or demonstration.
    #[serde(default)]
    pub kind: ReportKind,
    /// Sender, `Name <address>`.
    #[serde(default)]
    pub from: Option<String>,
    /// Recipients.
    #[serde(default)]
    pub to: Vec<String>,
    /// Copies; the regressions list is added by itself.
    #[serde(default)]
    pub cc: Vec<String>,
    /// Message-ID of the posting answered, with its angle brackets.
    #[serde(default)]
    pub in_reply_to: Option<String>,
    /// The subject of the posting answered.
    #[serde(default)]
    pub reply_subject: Option<String>,
    /// Prefix of the subject, such as `io_uring/futex`.
    #[serde(default)]
    pub area: Option<String>,
    /// The `#regzbot title:`; the case's title when absent.
    #[serde(default)]
    pub regzbot_title: Option<String>,
    /// How often a corrected mail was sent already.
    #[serde(default)]
    pub send_counter: u32,
}

/// What kind of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportKind {
    /// A report to a list.
    #[default]
    Regression,
    /// A demonstration or null run: never to be sent.
    Demo,
}

/// `[publish]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PublishSection {
    /// Address of the repository on its forge; the remote `origin` when absent.
    #[serde(default)]
    pub url: Option<String>,
    /// Kind of forge, where the host's name does not tell.
    #[serde(default)]
    pub forge: Option<String>,
}

/// `[[table]]`: how a table made elsewhere is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableMap {
    /// The file's name, without folders.
    pub file: String,
    /// What its lines are.
    pub kind: TableKind,
    /// Workload of every line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Our word to the table's column name.
    pub columns: BTreeMap<String, String>,
    /// Only lines whose column holds this text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub select: BTreeMap<String, String>,
    /// The text in the status column that means the work was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_pass: Option<String>,
}

/// What the lines of a foreign table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// One line per round.
    Rows,
    /// One line per workload and implementation, with the mean of each point.
    Summary,
    /// One line per point: boot, kernel, settings.
    Identity,
}
