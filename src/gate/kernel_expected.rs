//! `kernel-expected`: each point ran the kernel the plan names for its role.

use super::{Context, finding, listed};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "kernel-expected";

/// Checks release and build id of every point.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    let plan = &context.evidence.plan;
    let mut faults = Vec::new();
    let mut open = Vec::new();
    for point in &context.evidence.points {
        let Some(expected) = plan.kernels.get(&point.role) else {
            open.push(format!(
                "the plan names no kernel for {}",
                point.role.word()
            ));
            continue;
        };
        let Some(attempt) = point.counted() else {
            open.push(format!("{}: not measured", point.label));
            continue;
        };
        let found = &attempt.identity.kernel;
        let Some(release) = &found.release else {
            open.push(format!("{}: release not recorded", point.label));
            continue;
        };
        if *release != expected.release {
            faults.push(format!(
                "{}: ran {}, the plan expects {}",
                point.label, release, expected.release
            ));
        } else {
            match (&expected.build_id, &found.build_id) {
                (Some(wanted), Some(build)) if wanted != build => faults.push(format!(
                    "{}: ran build id {build}, the plan expects {wanted}",
                    point.label
                )),
                (Some(_), None) => open.push(format!("{}: build id not recorded", point.label)),
                _ => {}
            }
        }
    }
    open.sort();
    open.dedup();
    let (outcome, reason) = if !faults.is_empty() {
        (Outcome::Fail, listed(&faults))
    } else if !open.is_empty() {
        (Outcome::NotChecked, listed(&open))
    } else {
        (
            Outcome::Pass,
            format!(
                "{} points ran the kernels of the plan",
                context.evidence.points.len()
            ),
        )
    };
    vec![finding(GATE, Stage::Validity, outcome, reason)]
}
