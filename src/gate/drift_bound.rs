//! `drift-bound`: boots of one kernel differ by less than the plan's bound.

use super::{Context, finding, listed, name_of, targets};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "drift-bound";

/// Checks the largest difference between two points of one kernel, every target.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let bound = context.evidence.plan.thresholds.drift_pct;
    let mut over = Vec::new();
    let mut unknown = Vec::new();
    let mut largest: f64 = 0.0;
    for comparison in targets(context) {
        match comparison.drift_max_pct {
            Some(drift) => {
                largest = largest.max(drift);
                if drift > bound {
                    over.push(format!("{}: {drift:.3} %", name_of(comparison)));
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
            format!("only one boot of each kernel for {}", listed(&unknown)),
        )
    } else if targets(context).next().is_none() {
        (Outcome::NotChecked, "nothing to compare".to_owned())
    } else {
        (
            Outcome::Pass,
            format!(
                "largest difference between two points of one kernel {largest:.3} %, bound {bound} %"
            ),
        )
    };
    vec![finding(GATE, Stage::Screen, outcome, reason)]
}
