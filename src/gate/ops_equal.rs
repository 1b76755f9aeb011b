//! `ops-equal`: a round of one workload and implementation has the same ops at all points.
//!
//! Where a round is a window of time and its ops are what came of it, the tasks are
//! compared instead.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, finding, listed};
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::row::Metric;
use crate::workload::declaration::{Figure, TASKS};
use crate::workload::registry;

const GATE: &str = "ops-equal";

/// Checks that every round did the same amount of work: other parameters show here.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut ops: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    let mut without = 0_usize;
    let segments = context
        .evidence
        .points
        .iter()
        .filter_map(|point| point.counted())
        .flat_map(|attempt| &attempt.segments);
    for segment in segments {
        let name = (segment.workload.as_str(), segment.implementation.word());
        let windowed = registry::declaration(&segment.workload)
            .is_some_and(|known| known.figure == Figure::OpsPerSecondOfTask);
        for row in &segment.rows {
            if windowed {
                let tasks = row.counters.iter().find(|(known, _)| known == TASKS);
                match tasks {
                    Some((_, tasks)) => {
                        ops.entry(name).or_default().insert(*tasks);
                    }
                    None => without += 1,
                }
                continue;
            }
            match row.metric {
                Metric::Elapsed { ops: count, .. }
                | Metric::PerOp {
                    ops: Some(count), ..
                } => {
                    ops.entry(name).or_default().insert(count);
                }
                Metric::PerOp { ops: None, .. } => without += 1,
            }
        }
    }
    let mixed: Vec<String> = ops
        .iter()
        .filter(|(_, counts)| counts.len() > 1)
        .map(|((workload, implementation), counts)| {
            let counts: Vec<String> = counts.iter().take(4).map(u64::to_string).collect();
            format!("{workload}, {implementation}: {}", counts.join(", "))
        })
        .collect();
    let (outcome, reason) = if !mixed.is_empty() {
        (
            Outcome::Fail,
            format!("the work of a round differs: {}", listed(&mixed)),
        )
    } else if without > 0 {
        (Outcome::NotChecked, format!("no ops in {without} rows"))
    } else if ops.is_empty() {
        (Outcome::NotChecked, "no rows".to_owned())
    } else {
        (
            Outcome::Pass,
            "the same ops in every round of a workload and implementation".to_owned(),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
