//! `kernel-expected`: each point ran the kernel the plan names for its role.

use super::{Context, finding, listed};
use crate::model::case::Boots;
use crate::model::evidence::{Evidence, Point};
use crate::model::finding::{Finding, Outcome, Stage};

const GATE: &str = "kernel-expected";

/// Compares what the points recorded of their kernels with each other: one build per role,
/// and not one build for both, unless the plan declares a null run.
fn recorded_faults(evidence: &Evidence) -> Vec<String> {
    let builds: Vec<(&Point, &str)> = evidence
        .points
        .iter()
        .filter_map(|point| {
            let build = point.counted()?.identity.kernel.build_id.as_deref()?;
            Some((point, build))
        })
        .collect();
    let mut faults = Vec::new();
    for (index, (one, build)) in builds.iter().enumerate() {
        for (other, other_build) in builds.iter().skip(index + 1) {
            let same = build == other_build;
            if one.role == other.role && !same {
                faults.push(format!(
                    "{} and {} ran different builds: {build}, {other_build}",
                    one.label, other.label
                ));
            } else if one.role != other.role && same && evidence.plan.boots == Boots::Distinct {
                faults.push(format!(
                    "{} and {} ran one build: {build}",
                    one.label, other.label
                ));
            }
        }
    }
    faults
}

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
    faults.extend(recorded_faults(context.evidence));
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
