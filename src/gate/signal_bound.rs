//! `signal-bound`: every child boot differs from every parent boot by the plan's
//! threshold or more, in one direction.

use super::{Context, finding, listed, name_of, targets};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "signal-bound";

/// Checks the weakest pair of a child and a parent boot, every target.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let bound = context.evidence.plan.thresholds.signal_pct;
    let mut below = Vec::new();
    let mut texts = Vec::new();
    for comparison in targets(context) {
        let (low, high) = (comparison.pair_min_pct, comparison.pair_max_pct);
        let text = format!("{}: {low:+.3} to {high:+.3} %", name_of(comparison));
        if low < bound && high > -bound {
            below.push(text);
        } else {
            texts.push(text);
        }
    }
    let (outcome, reason) = if !below.is_empty() {
        (
            Outcome::Fail,
            format!(
                "not {bound} % against every parent boot: {}",
                listed(&below)
            ),
        )
    } else if texts.is_empty() {
        (Outcome::NotChecked, "nothing to compare".to_owned())
    } else {
        (Outcome::Pass, listed(&texts))
    };
    vec![finding(GATE, Stage::Screen, outcome, reason)]
}
