//! `cv-bound`: the rounds of every point scatter less than the plan's bound.

use super::{Context, finding, listed, name_of, targets};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "cv-bound";

/// Checks the largest CV of every target. A tight CV proves nothing by itself: a
/// disturbance may be constant over a point.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let bound = context.evidence.plan.thresholds.cv_pct;
    let mut over = Vec::new();
    let mut unknown = Vec::new();
    let mut largest: f64 = 0.0;
    for comparison in targets(context) {
        match comparison.cv_max_pct {
            Some(cv) => {
                largest = largest.max(cv);
                if cv > bound {
                    over.push(format!("{}: {cv:.3} %", name_of(comparison)));
                }
            }
            None => unknown.push(name_of(comparison)),
        }
    }
    let (outcome, reason) = if !over.is_empty() {
        (Outcome::Fail, format!("above {bound} %: {}", listed(&over)))
    } else if !unknown.is_empty() {
        (
            Outcome::NotChecked,
            format!("no spread known for {}", listed(&unknown)),
        )
    } else if targets(context).next().is_none() {
        (Outcome::NotChecked, "nothing to compare".to_owned())
    } else {
        (
            Outcome::Pass,
            format!("largest CV {largest:.3} % (divisor n-1), bound {bound} %"),
        )
    };
    vec![finding(GATE, Stage::Screen, outcome, reason)]
}
