//! `program-equal`: every point was measured by the same program, byte for byte.

use std::collections::BTreeMap;

use super::{Context, finding, listed};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "program-equal";

/// Checks the digests of the measuring programs.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut digests: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    let (mut unknown, mut streams) = (0_usize, 0_usize);
    for point in &context.evidence.points {
        for segment in point
            .counted()
            .into_iter()
            .flat_map(|attempt| &attempt.segments)
        {
            let name = (segment.workload.clone(), segment.implementation.word());
            streams += 1;
            if segment.program_sha256.is_empty() {
                unknown += 1;
            } else {
                digests
                    .entry(name)
                    .or_default()
                    .push(&segment.program_sha256);
            }
        }
    }
    let mut differing = Vec::new();
    for ((workload, implementation), mut found) in digests {
        found.sort_unstable();
        found.dedup();
        if found.len() > 1 {
            differing.push(format!(
                "{workload}, {implementation}: {} programs",
                found.len()
            ));
        }
    }
    let has_rows = context
        .evidence
        .points
        .iter()
        .any(|point| point.counted().is_some());
    let (outcome, reason) = if !differing.is_empty() {
        (Outcome::Fail, listed(&differing))
    } else if unknown > 0 {
        (
            Outcome::NotChecked,
            format!(
                "no digest of the measuring program for {unknown} of {streams} streams of rows"
            ),
        )
    } else if has_rows {
        (
            Outcome::Pass,
            "one program per workload and implementation".to_owned(),
        )
    } else {
        (Outcome::NotChecked, "no rows".to_owned())
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
