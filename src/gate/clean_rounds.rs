//! `clean-rounds`: every point has the planned number of rounds with quiet canaries.

use super::{Context, finding, listed, planned};
use crate::model::finding::{Finding, Outcome, Stage};
use crate::stats::selection::select;

const GATE: &str = "clean-rounds";

/// Checks the number of clean rounds.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let plan = &context.evidence.plan;
    let wanted = usize::try_from(plan.rounds).unwrap_or(usize::MAX);
    let mut few = Vec::new();
    let mut silent = Vec::new();
    let (mut clean, mut measured, mut streams, mut without) = (0, 0, 0_usize, 0_usize);
    for planned in planned(context.evidence) {
        streams += 1;
        let selection = planned.attempt.map(|attempt| {
            select(
                attempt,
                &planned.workload.name,
                planned.implementation,
                context.floors,
                plan.thresholds.canary_pct,
                wanted,
            )
        });
        // No measured row at all is the business of rows-complete.
        let Some(selection) = selection.filter(|selection| selection.measured > 0) else {
            without += 1;
            continue;
        };
        if !selection.has_canary {
            silent.push(planned.place());
            if selection.measured < wanted {
                few.push(format!(
                    "{}: {} of {wanted}",
                    planned.place(),
                    selection.measured
                ));
            }
            continue;
        }
        clean += selection.clean;
        measured += selection.measured;
        if selection.clean < wanted {
            few.push(format!(
                "{}: {} of {wanted}",
                planned.place(),
                selection.clean
            ));
        }
    }
    let tolerance = plan.thresholds.canary_pct;
    let counts = format!(
        "{clean} of {measured} measured rounds have every canary within {tolerance} % of its floor"
    );
    let (outcome, reason) = if !few.is_empty() {
        (Outcome::Fail, format!("too few: {}", listed(&few)))
    } else if measured == 0 && silent.is_empty() {
        (Outcome::NotChecked, "no measured row".to_owned())
    } else if !silent.is_empty() {
        (
            Outcome::NotChecked,
            if silent.len() + without == streams {
                "no row has canary readings: the canary cannot tell quiet rounds from disturbed ones"
                    .to_owned()
            } else {
                format!("no canary readings in the rows of {}", listed(&silent))
            },
        )
    } else if without > 0 {
        (
            Outcome::NotChecked,
            format!("{counts}; {without} of {streams} planned streams have no measured row"),
        )
    } else {
        (Outcome::Pass, counts)
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
