//! The engine of this host: points of this boot, when the running kernel is the one
//! the plan expects.

use std::path::Path;

use super::point::{Launcher, Run};
use super::process;
use super::program::Program;
use super::run::{
    Progress, RunError, RunOptions, RunReport, Support, attempts, next_point, open_journal,
    programs, same_kernel, wanted_kernel,
};
use super::stream::{StreamError, Worker};
use crate::edge::case_folder::CaseFolder;
use crate::edge::clock::now_seconds;
use crate::edge::host::HostReader;
use crate::input::evidence::{PLAN_FILE, fold, with_plan};
use crate::model::case::{Boots, Implementation};
use crate::model::evidence::Evidence;
use crate::model::identity::BootIdentity;
use crate::model::journal::RecordKind;
use crate::model::plan::PlannedPoint;
use crate::stats::selection::Floors;

/// Measures the next points of the plan, as far as this boot may; `plan` is written as
/// `plan.json` when there is none yet, once nothing stands against the first row.
///
/// # Errors
///
/// When the boot or kernel is not the one the plan wants, a program fails, or a
/// record does not reach the disk. Rows measured before stay.
pub fn run(
    folder: &CaseFolder,
    plan: &str,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunReport, RunError> {
    let mut files = folder.read()?;
    let planned = with_plan(&mut files, plan);
    let (evidence, end) = fold(&files)?;
    let mut report = RunReport {
        torn: end.torn.clone(),
        ..RunReport::default()
    };
    let Some(first) = next_point(&evidence) else {
        return Ok(report);
    };
    let identity = HostReader::new(Path::new("/")).read(options.cpu);
    admit(&evidence, first, &identity)?;
    let programs = programs(
        &evidence.plan,
        &options.own,
        &folder.path().join("build"),
        Support::Here,
    )?;
    if !planned {
        folder.create(PLAN_FILE, plan.as_bytes())?;
    }
    let journal = open_journal(folder, &end, &identity)?;
    let mut run = Run {
        plan: evidence.plan.clone(),
        floors: Floors::of(&evidence),
        identity,
        point_time: options.point_time,
        programs,
        journal,
        rows: 0,
    };
    let mut launcher = Here { cpu: options.cpu };
    let mut evidence = evidence;
    while let Some(point) = next_point(&evidence).cloned() {
        let full = report.measured.len() >= options.most_points;
        if full || (run.plan.boots == Boots::Distinct && !report.measured.is_empty()) {
            break;
        }
        let attempt = attempts(&evidence, &point.label) + 1;
        let measured = run.point(&mut launcher, &point, attempt, progress)?;
        report
            .measured
            .push((point.label.clone(), attempt, measured.ended_because.clone()));
        if let Some(known) = evidence
            .points
            .iter_mut()
            .find(|known| known.label == point.label)
        {
            known.attempts.push(measured);
        }
    }
    let close = [run.rows.to_string(), now_seconds().to_string()];
    run.journal.append(RecordKind::BootClose, &close)?;
    report.next = next_point(&evidence)
        .map(|point| (point.label.clone(), wanted_kernel(&evidence.plan, point)));
    Ok(report)
}

/// Checks that this boot may be the point.
fn admit(
    evidence: &Evidence,
    point: &PlannedPoint,
    identity: &BootIdentity,
) -> Result<(), RunError> {
    let plan = &evidence.plan;
    same_kernel(plan, point, identity)?;
    if plan.boots == Boots::Same {
        return Ok(());
    }
    let boot = identity.boot_id.clone().unwrap_or_default();
    let used_by = evidence.points.iter().find_map(|known| {
        let attempt = known
            .attempts
            .iter()
            .find(|attempt| attempt.identity.boot_id.as_deref() == Some(boot.as_str()))?;
        let end = if attempt.finished {
            ""
        } else {
            " (unfinished)"
        };
        Some(format!(
            "attempt {} at {}{end}",
            attempt.number, known.label
        ))
    });
    match used_by {
        None => Ok(()),
        Some(used_by) => Err(RunError::BootUsed {
            point: point.label.clone(),
            boot,
            used_by,
            kernel: wanted_kernel(plan, point),
        }),
    }
}

/// Starts programs as processes of this machine.
struct Here {
    cpu: usize,
}

impl Launcher for Here {
    fn launch(
        &mut self,
        program: &Program,
        workload: &str,
        implementation: Implementation,
        warmup: u32,
    ) -> Result<Worker<'_>, StreamError> {
        let command = process::command(program, self.cpu, warmup);
        process::start(command, workload, implementation)
    }
}
