//! `plan-before-rows`: thresholds were fixed before the data, by the journal's chain.

use super::{Context, finding};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "plan-before-rows";

/// Checks that no row was made before the plan.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let has_rows = context
        .evidence
        .points
        .iter()
        .any(|point| point.counted().is_some());
    let (outcome, reason) = if !context.evidence.plan_before_rows {
        (
            Outcome::NotChecked,
            "rows were ingested: the journal cannot tell when they were measured",
        )
    } else if has_rows {
        (
            Outcome::Pass,
            "the journal's chain begins with the digest of the plan",
        )
    } else {
        (Outcome::NotChecked, "no rows")
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
