//! `clocks-equal`: what `elapsed` counts is the same at all points of a workload.

use std::collections::BTreeMap;

use super::{Context, finding, listed};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "clocks-equal";

/// Checks that nanoseconds are compared with nanoseconds and instructions with instructions.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut clocks: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for point in &context.evidence.points {
        for segment in point
            .counted()
            .into_iter()
            .flat_map(|attempt| &attempt.segments)
        {
            let name = (segment.workload.as_str(), segment.implementation.word());
            clocks.entry(name).or_default().push(segment.clock.word());
        }
    }
    let mut mixed = Vec::new();
    for ((workload, implementation), found) in &mut clocks {
        found.sort_unstable();
        found.dedup();
        if found.len() > 1 {
            mixed.push(format!(
                "{workload}, {implementation}: {}",
                found.join(" and ")
            ));
        }
    }
    let (outcome, reason) = if !mixed.is_empty() {
        (Outcome::Fail, listed(&mixed))
    } else if clocks.is_empty() {
        (Outcome::NotChecked, "no rows".to_owned())
    } else {
        (
            Outcome::Pass,
            "one clock per workload and implementation".to_owned(),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
