//! `semantics-clean`: the work was done in every row, by its counters and its status.

use super::{Context, finding, listed};
use crate::model::evidence::Segment;
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::row::{Metric, Row};
use crate::workload::declaration::{Declaration, TASK_CPUS, TASKS};
use crate::workload::registry;

const GATE: &str = "semantics-clean";

/// Checks status and semantic counters of every row, warm-up rounds included.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut unchecked = false;
    let (mut rows, mut passed, mut bare) = (0, 0, 0);
    for point in &context.evidence.points {
        let Some(attempt) = point.counted() else {
            continue;
        };
        for segment in &attempt.segments {
            let place = format!(
                "{}, {}, {}",
                point.label,
                segment.workload,
                segment.implementation.word()
            );
            rows += segment.rows.len();
            let declaration = registry::declaration(&segment.workload);
            let missing = missing_counter(segment, declaration);
            // A table may know of no counters. A stream of the row protocol has those of its
            // workload, and without them it is not what the program wrote.
            let is_stream = segment.rows.iter().any(|row| row.usage.is_some());
            if let Some(missing) = missing.filter(|_| is_stream || !segment.counters.is_empty()) {
                faults.push(format!("{place}: the counter `{missing}` is missing"));
            } else if segment.counters.is_empty() {
                bare += segment.rows.len();
                unchecked = true;
            }
            for row in &segment.rows {
                if let Some(fault) = fault_of(row, declaration) {
                    faults.push(format!(
                        "{place}, {} {}: {fault}",
                        row.phase.word(),
                        row.round
                    ));
                }
                passed += usize::from(row.passed == Some(true));
                unchecked |= row.passed.is_none();
            }
        }
    }
    let (outcome, reason) = if !faults.is_empty() {
        (Outcome::Fail, listed(&faults))
    } else if rows == 0 {
        (Outcome::NotChecked, "no rows".to_owned())
    } else if unchecked {
        (
            Outcome::NotChecked,
            format!(
                "{passed} of {rows} rows say that their checks passed, none that they failed; {bare} rows have no semantic counters"
            ),
        )
    } else {
        (
            Outcome::Pass,
            format!("{rows} rows passed every check of their work"),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}

fn missing_counter(
    segment: &Segment,
    declaration: Option<&'static Declaration>,
) -> Option<&'static str> {
    let declaration = declaration?;
    let of_tasks = [TASKS, TASK_CPUS].into_iter();
    declaration
        .counters
        .iter()
        .map(|counter| counter.name)
        .chain(of_tasks.filter(|_| declaration.has_tasks()))
        .find(|name| !segment.counters.iter().any(|known| known == name))
}

fn fault_of(row: &Row, declaration: Option<&Declaration>) -> Option<String> {
    if row.passed == Some(false) {
        return Some("status fail".to_owned());
    }
    let Metric::Elapsed { ops, .. } = row.metric else {
        return None;
    };
    for counter in declaration
        .map(|declaration| declaration.counters)
        .unwrap_or_default()
    {
        let Some((_, found)) = row.counters.iter().find(|(name, _)| name == counter.name) else {
            continue;
        };
        if let Some(wanted) = counter.expect.wanted(ops).filter(|wanted| wanted != found) {
            return Some(format!("{} is {found}, wanted {wanted}", counter.name));
        }
    }
    None
}
