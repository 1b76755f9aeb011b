//! `tasks-within-cpus`: no row had more tasks than CPUs, unless the plan asks for it.

use super::{Context, finding, listed};
use crate::model::evidence::Segment;
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::row::Row;
use crate::workload::declaration::{OVERSUBSCRIBE, TASK_CPUS, TASKS};
use crate::workload::registry;

const GATE: &str = "tasks-within-cpus";

/// Checks the columns `tasks` and `task_cpus` of every row that has them.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let evidence = context.evidence;
    let mut faults = Vec::new();
    let mut asked = Vec::new();
    let (mut streams, mut unknown) = (0, 0);
    let mut rows = 0;
    for point in &evidence.points {
        for segment in point.counted().iter().flat_map(|attempt| &attempt.segments) {
            rows += segment.rows.len();
            streams += 1;
            let place = format!(
                "{}, {}, {}",
                point.label,
                segment.workload,
                segment.implementation.word()
            );
            let wanted = evidence.plan.workloads.iter().any(|known| {
                known.name == segment.workload && known.params.get(OVERSUBSCRIBE) == Some(&1)
            });
            match crowding(segment) {
                Crowding::Unknown => unknown += 1,
                Crowding::None => {}
                Crowding::Tasks { tasks, cpus } => {
                    let said = format!("{place}: {tasks} tasks on {cpus} CPUs");
                    if wanted {
                        asked.push(said);
                    } else {
                        faults.push(said);
                    }
                }
            }
        }
    }
    let (outcome, reason) = if !faults.is_empty() {
        (Outcome::Fail, listed(&faults))
    } else if rows == 0 {
        (Outcome::NotChecked, "no rows".to_owned())
    } else if unknown > 0 {
        (
            Outcome::NotChecked,
            format!("tasks not recorded in {unknown} of {streams} streams of rows"),
        )
    } else if asked.is_empty() {
        (
            Outcome::Pass,
            format!("{rows} rows, none with more tasks than CPUs"),
        )
    } else {
        (
            Outcome::Pass,
            format!("asked for by the plan: {}", listed(&asked)),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}

enum Crowding {
    None,
    Unknown,
    Tasks { tasks: u64, cpus: u64 },
}

/// Returns the first row of a stream with more tasks than CPUs.
fn crowding(segment: &Segment) -> Crowding {
    let single = registry::declaration(&segment.workload).is_some_and(|known| !known.has_tasks());
    let column = |row: &Row, name: &str| {
        let found = row.counters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    };
    for row in &segment.rows {
        match (column(row, TASKS), column(row, TASK_CPUS)) {
            (Some(tasks), Some(cpus)) if tasks > cpus => return Crowding::Tasks { tasks, cpus },
            (Some(_), Some(_)) => {}
            // A program of ours with counters and no such column has one task.
            _ if single && !segment.counters.is_empty() => {}
            _ => return Crowding::Unknown,
        }
    }
    Crowding::None
}
