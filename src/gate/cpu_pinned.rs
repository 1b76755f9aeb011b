//! `cpu-pinned`: every row began and ended on one CPU, the same at all points.

use std::collections::BTreeSet;

use super::{Context, finding, listed};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "cpu-pinned";

/// Checks the CPU of every row.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut cpus = BTreeSet::new();
    let mut faults = Vec::new();
    let mut rows = 0_usize;
    let mut without = 0_usize;
    for point in &context.evidence.points {
        let Some(attempt) = point.counted() else {
            continue;
        };
        for segment in &attempt.segments {
            let place = format!("{}, {}", point.label, segment.implementation.word());
            for row in &segment.rows {
                let Some(usage) = row.usage else {
                    without += 1;
                    continue;
                };
                rows += 1;
                cpus.insert(usage.cpu_begin);
                if usage.cpu_begin != usage.cpu_end {
                    faults.push(format!(
                        "{place}, {} {}: began on CPU {} and ended on CPU {}",
                        row.phase.word(),
                        row.round,
                        usage.cpu_begin,
                        usage.cpu_end
                    ));
                }
            }
        }
    }
    let list = cpus
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let (outcome, reason) = if !faults.is_empty() {
        (Outcome::Fail, listed(&faults))
    } else if cpus.len() > 1 {
        (Outcome::Fail, format!("rows on several CPUs: {list}"))
    } else if without > 0 {
        (
            Outcome::NotChecked,
            format!("no CPU in {without} of {} rows", rows + without),
        )
    } else if rows == 0 {
        (Outcome::NotChecked, "no rows".to_owned())
    } else {
        (Outcome::Pass, format!("{rows} rows on CPU {list}"))
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
