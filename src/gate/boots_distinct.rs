//! `boots-distinct`: each point was measured in a boot of its own.

use std::collections::BTreeMap;

use super::{Context, finding, listed};
use crate::model::finding::{Finding, Outcome, Stage};

/// The id, also used by the verdict.
pub const GATE: &str = "boots-distinct";

/// Checks that no boot id stands for two points.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut points_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for point in &context.evidence.points {
        match point
            .counted()
            .and_then(|attempt| attempt.identity.boot_id.as_deref())
        {
            Some(boot) => points_of.entry(boot).or_default().push(&point.label),
            None => unknown.push(point.label.clone()),
        }
    }
    let shared: Vec<String> = points_of
        .iter()
        .filter(|(_, points)| points.len() > 1)
        .map(|(boot, points)| format!("boot {boot} stands for {}", points.join(", ")))
        .collect();
    let (outcome, reason) = if !shared.is_empty() {
        (Outcome::Fail, listed(&shared))
    } else if !unknown.is_empty() {
        (
            Outcome::NotChecked,
            format!("no boot id for {}", listed(&unknown)),
        )
    } else {
        (
            Outcome::Pass,
            format!("{} points, {} boots", points_of.len(), points_of.len()),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
