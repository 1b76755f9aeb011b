//! `attempts-fresh`: a point that was begun again was measured in a boot nothing was
//! measured in before.

use super::{Context, finding, listed};
use crate::model::evidence::{Attempt, Point};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "attempts-fresh";

/// Checks the boots of attempts that did not finish against those that count.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut stale = Vec::new();
    let mut again = Vec::new();
    let mut unknown = Vec::new();
    let mut ingested = Vec::new();
    for point in &context.evidence.points {
        let Some(counted) = point.counted() else {
            unknown.push(format!("{}: not measured", point.label));
            continue;
        };
        if counted.ingested {
            ingested.push(point.label.clone());
            continue;
        }
        let earlier: Vec<&Attempt> = unfinished(point).collect();
        if earlier.is_empty() {
            continue;
        }
        let rows: usize = earlier
            .iter()
            .flat_map(|attempt| &attempt.segments)
            .map(|segment| segment.rows.len())
            .sum();
        let said = format!(
            "{}: attempt {} counts; the {rows} rows of {} before it are kept, uncounted",
            point.label,
            counted.number,
            match earlier.len() {
                1 => "the attempt".to_owned(),
                n => format!("the {n} attempts"),
            }
        );
        let boot = counted.identity.boot_id.as_deref();
        if boot.is_none() {
            unknown.push(format!("{said}, no boot id"));
        } else if earlier
            .iter()
            .any(|attempt| attempt.identity.boot_id.as_deref() == boot)
        {
            stale.push(format!("{said}, in the same boot"));
        } else {
            again.push(said);
        }
    }
    if !ingested.is_empty() {
        unknown.push(format!(
            "ingested rows do not say of attempts: {}",
            ingested.join(", ")
        ));
    }
    let (outcome, reason) = if !stale.is_empty() {
        (Outcome::Fail, listed(&stale))
    } else if !unknown.is_empty() {
        (Outcome::NotChecked, listed(&unknown))
    } else if again.is_empty() {
        (
            Outcome::Pass,
            "every point was measured at its first attempt".to_owned(),
        )
    } else {
        (
            Outcome::Pass,
            format!("{}, in a fresh boot", listed(&again)),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}

/// Returns the attempts before the last.
fn unfinished(point: &Point) -> impl Iterator<Item = &Attempt> {
    point
        .attempts
        .split_last()
        .into_iter()
        .flat_map(|(_, earlier)| earlier)
}
