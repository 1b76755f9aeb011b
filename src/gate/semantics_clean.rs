//! `semantics-clean`: the work was done in every row, by its counters and its status.

use super::{Context, finding, listed};
use crate::model::evidence::Segment;
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::row::{Metric, Row};
use crate::workload::declaration::Declaration;
use crate::workload::registry;

const GATE: &str = "semantics-clean";

/// Checks status and semantic counters of every row, warm-up rounds included.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut unchecked = Vec::new();
    let mut rows = 0;
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
            if segment.counters.is_empty() {
                unchecked.push("no semantic counters".to_owned());
            } else if let Some(missing) = missing_counter(segment, declaration) {
                faults.push(format!("{place}: the counter `{missing}` is missing"));
            }
            for row in &segment.rows {
                if let Some(fault) = fault_of(row, declaration) {
                    faults.push(format!(
                        "{place}, {} {}: {fault}",
                        row.phase.word(),
                        row.round
                    ));
                }
                if row.passed.is_none() {
                    unchecked.push("no status".to_owned());
                }
            }
        }
    }
    unchecked.sort();
    unchecked.dedup();
    let (outcome, reason) = if !faults.is_empty() {
        (Outcome::Fail, listed(&faults))
    } else if rows == 0 {
        (Outcome::NotChecked, "no rows".to_owned())
    } else if !unchecked.is_empty() {
        (
            Outcome::NotChecked,
            format!(
                "none of {rows} rows says that its checks failed; some have {}",
                unchecked.join(" and ")
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
    declaration?
        .counters
        .iter()
        .map(|counter| counter.name)
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
        let wanted = counter.expect.wanted(ops);
        if *found != wanted {
            return Some(format!("{} is {found}, wanted {wanted}", counter.name));
        }
    }
    None
}
