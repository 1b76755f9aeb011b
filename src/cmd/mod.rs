//! One file per subcommand: reads, calls, prints; no logic of its own.

pub mod analyze;
pub mod audit;
pub mod bundle;
pub mod check;
pub mod demo;
pub mod guest;
pub mod ingest;
pub mod new;
pub mod publish;
pub mod report;
pub mod run;
pub mod trace;
pub mod verify;
pub mod worker;
pub mod workload;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::edge::case_folder::CaseFolder;
use crate::error::{CommandError, exit};
use crate::input::case::{plan_of, read_case};
use crate::input::evidence::{PLAN_FILE, fold, read_plan};
use crate::model::case::Case;
use crate::model::evidence::Evidence;
use crate::model::plan::Plan;
use crate::model::tree::Tree;
use crate::ui::{Ui, output_error};

/// Parses the command line and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // clap's own code for a usage error is 2, which means rejected here.
            let code = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::YES
            };
            return ExitCode::from(code);
        }
    };
    let ui = Ui {
        format: cli.format,
        quiet: cli.quiet,
    };
    match dispatch(&cli.command, &ui) {
        Ok(code) => match output_error() {
            None => ExitCode::from(code),
            Some(error) => {
                ui.error(&format!(
                    "regbundle: stdout could not be written: {error}; what was printed is not whole"
                ));
                ExitCode::from(exit::USAGE)
            }
        },
        Err(error) => {
            ui.error(&format!("regbundle: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(command: &Command, ui: &Ui) -> Result<u8, CommandError> {
    match command {
        Command::Demo(args) => demo::run(args, ui),
        Command::New(args) => new::run(args, ui),
        Command::Workload { action } => workload::run(action, ui),
        Command::Ingest(args) => ingest::run(args, ui),
        Command::Run(args) => run::run(args, ui),
        Command::Trace(args) => trace::run(args, ui),
        Command::Check(args) => check::run(args, ui),
        Command::Analyze(args) => analyze::run(args, ui),
        Command::Report(args) => report::run(args, ui),
        Command::Bundle(args) => bundle::run(args, ui),
        Command::Publish(args) => publish::run(args, ui),
        Command::Verify(args) => verify::run(args, ui),
        Command::Audit(args) => audit::run(args, ui),
        Command::Worker(args) => worker::run(args),
        Command::Guest(args) => guest::run(args),
    }
}

/// A case and, where there is one, its evidence.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) folder: CaseFolder,
    pub(crate) case: Case,
    pub(crate) files: Tree,
}

/// Reads a case and its files, and checks the case against the plan.
pub(crate) fn load(path: &Path) -> Result<Loaded, CommandError> {
    let folder = CaseFolder::open(path)?;
    let name = folder.case_file().display().to_string();
    let case = read_case(&folder.case_text()?, &name)?;
    let files = folder.read()?;
    if let Some(entry) = files.get(PLAN_FILE) {
        let written = read_plan(&entry.bytes)?;
        same_plan(&plan_of(&case, &name)?, &written, &name)?;
    }
    Ok(Loaded {
        folder,
        case,
        files,
    })
}

/// Reads a case that must have rows, and its evidence.
pub(crate) fn load_evidence(path: &Path) -> Result<(Loaded, Evidence), CommandError> {
    let loaded = load(path)?;
    if !loaded.files.contains_key(PLAN_FILE) {
        return Err(CommandError::NoRows {
            case: path.display().to_string(),
        });
    }
    let (evidence, _) = fold(&loaded.files)?;
    Ok((loaded, evidence))
}

/// Returns the plan of a case.
fn planned(loaded: &Loaded) -> Result<Plan, CommandError> {
    let name = loaded.folder.case_file().display().to_string();
    Ok(plan_of(&loaded.case, &name)?)
}

/// Returns the plan of a case as `plan.json` holds it; the engine writes it before the
/// first row, and not before it knows that a row can come.
pub(crate) fn plan_text(loaded: &Loaded) -> Result<String, CommandError> {
    let mut text = serde_json::to_string_pretty(&planned(loaded)?).unwrap_or_default();
    text.push('\n');
    Ok(text)
}

/// Names the first key of the plan that differs.
fn same_plan(found: &Plan, wanted: &Plan, file: &str) -> Result<(), CommandError> {
    if found == wanted {
        return Ok(());
    }
    let value = |plan| serde_json::to_value(plan).unwrap_or_default();
    let (mut found, mut wanted) = (value(found), value(wanted));
    let mut key = String::new();
    while let Some(next) = differing_key(&found, &wanted) {
        let take = |value: &serde_json::Value| match next.parse::<usize>() {
            Ok(index) => value.get(index).cloned(),
            Err(_) => value.get(&next).cloned(),
        };
        (found, wanted) = (
            take(&found).unwrap_or_default(),
            take(&wanted).unwrap_or_default(),
        );
        if key.is_empty() {
            key.push_str(case_key(&next));
        } else {
            key.push('.');
            key.push_str(&next);
        }
    }
    Err(CommandError::PlanChanged {
        file: file.to_owned(),
        key,
        found: found.to_string(),
        wanted: wanted.to_string(),
    })
}

/// Returns the first key, or index of lists of one length, under which two values differ;
/// `None` when there is none to go down.
fn differing_key(found: &serde_json::Value, wanted: &serde_json::Value) -> Option<String> {
    if let (Some(found), Some(wanted)) = (found.as_array(), wanted.as_array()) {
        let same_length = found.len() == wanted.len();
        let index = found.iter().zip(wanted).position(|(one, two)| one != two);
        return index.filter(|_| same_length).map(|index| index.to_string());
    }
    let (found, wanted) = (found.as_object()?, wanted.as_object()?);
    wanted
        .keys()
        .chain(found.keys())
        .find(|key| found.get(*key) != wanted.get(*key))
        .cloned()
}

/// Returns where `case.toml` says what the plan has under a key.
fn case_key(key: &str) -> &str {
    match key {
        "case_id" => "id",
        "cpu" => "machine.cpu",
        "point_seconds" => "plan.point_seconds",
        "points" => "plan.order",
        "boots" => "plan.boots",
        "warmup_rounds" => "plan.warmup_rounds",
        "rounds" => "plan.rounds",
        "primary" => "plan.primary",
        "workloads" => "workload",
        "kernels" => "engine.host.kernels or engine.qemu.expect",
        "guest" => "engine.qemu",
        "preempt" => "machine.preempt",
        "cgroup" => "machine.cgroup",
        "thresholds" => "gates",
        other => other,
    }
}
