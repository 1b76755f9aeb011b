//! `rows-complete`: every planned point has whole streams of rows in order.

use super::{Context, finding, listed, planned};
use crate::model::evidence::Segment;
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::row::Phase;
use crate::stats::selection::segments_of;

const GATE: &str = "rows-complete";

/// Checks that nothing is missing, torn, out of order or repeated.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let evidence = context.evidence;
    let mut faults = Vec::new();
    let mut without_rows = Vec::new();
    let mut rows = 0;
    for planned in planned(evidence) {
        let place = planned.place();
        let segments: Vec<&Segment> = planned
            .attempt
            .into_iter()
            .flat_map(|attempt| {
                segments_of(attempt, &planned.workload.name, planned.implementation)
            })
            .map(|(_, segment)| segment)
            .collect();
        if segments.is_empty() {
            if planned.attempt.is_none() && !planned.summary_only {
                faults.push(format!("{}: not measured", planned.point.label));
            } else if planned.summary_only {
                without_rows.push(format!(
                    "{}, {}",
                    planned.workload.name,
                    planned.implementation.word()
                ));
            } else {
                faults.push(format!("{place}: no rows"));
            }
            continue;
        }
        for segment in segments {
            rows += segment.rows.len();
            if let Some(fault) = fault_of(segment, evidence.plan.warmup_rounds) {
                faults.push(format!("{place}: {fault}"));
            }
        }
    }
    // A point that is not measured lacks every stream: said once.
    faults.dedup();
    without_rows.sort();
    without_rows.dedup();
    let (outcome, reason) = if !faults.is_empty() {
        (Outcome::Fail, listed(&faults))
    } else if rows == 0 {
        (
            Outcome::NotChecked,
            "no rows, only published means".to_owned(),
        )
    } else if !without_rows.is_empty() {
        (
            Outcome::NotChecked,
            format!(
                "{rows} rows complete and in order; only published means for {}",
                listed(&without_rows)
            ),
        )
    } else {
        (Outcome::Pass, format!("{rows} rows, complete and in order"))
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}

fn fault_of(segment: &Segment, warmup: u32) -> Option<String> {
    if let Some(reason) = &segment.aborted {
        return Some(format!("stream aborted: {reason}"));
    }
    match segment.announced {
        None => return Some("stream without its last line".to_owned()),
        Some(announced) if u64::try_from(segment.rows.len()) != Ok(announced) => {
            return Some(format!(
                "{} rows where the stream announces {announced}",
                segment.rows.len()
            ));
        }
        Some(_) => {}
    }
    let mut next = [0_u64; 2];
    let mut measuring = false;
    for row in &segment.rows {
        let [warmup, measured] = &mut next;
        let expected = match row.phase {
            Phase::Warmup if measuring => {
                return Some(format!("warm-up round {} after measured ones", row.round));
            }
            Phase::Warmup => warmup,
            Phase::Measured => {
                measuring = true;
                measured
            }
        };
        if row.round != *expected {
            return Some(format!(
                "{} round {} where {} follows",
                row.phase.word(),
                row.round,
                expected
            ));
        }
        *expected += 1;
    }
    // Streams of the row protocol carry their warm-up rounds; tables of others do not.
    let [warmups, _] = next;
    let is_stream = segment.rows.iter().any(|row| row.usage.is_some());
    (is_stream && warmups < u64::from(warmup))
        .then(|| format!("{warmups} warm-up rounds, the plan asks for {warmup}"))
}
