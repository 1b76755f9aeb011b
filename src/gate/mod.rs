//! Gates: rules that must hold before numbers are believed. One gate, one file.
//!
//! Each answers PASS, FAIL or NOT-CHECKED with its reason; none is skipped. What a
//! machine does not expose is NOT-CHECKED, never PASS. Pure: no input or output.

pub mod attempts_fresh;
pub mod boots_distinct;
pub mod clean_rounds;
pub mod clocks_equal;
pub mod cpu_pinned;
pub mod cv_bound;
pub mod drift_bound;
pub mod kernel_expected;
pub mod ops_equal;
pub mod plan_before_rows;
pub mod program_equal;
pub mod rows_complete;
pub mod semantics_clean;
pub mod settings_equal;
pub mod signal_bound;
pub mod tasks_within_cpus;

use crate::model::analysis::Comparison;
use crate::model::case::{Implementation, WorkloadRole};
use crate::model::evidence::{Attempt, Evidence, Point};
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::plan::PlannedWorkload;
use crate::stats::selection::Floors;

/// What a gate looks at.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Plan and rows.
    pub evidence: &'a Evidence,
    /// Canary floors of the whole case.
    pub floors: &'a Floors,
    /// Comparisons computed from the counted rows.
    pub comparisons: &'a [Comparison],
}

/// A gate.
type Gate = fn(&Context<'_>) -> Vec<Finding>;

/// Every gate, in the order of the output.
const GATES: [Gate; 16] = [
    rows_complete::check,
    clean_rounds::check,
    clocks_equal::check,
    ops_equal::check,
    semantics_clean::check,
    cpu_pinned::check,
    tasks_within_cpus::check,
    boots_distinct::check,
    attempts_fresh::check,
    kernel_expected::check,
    settings_equal::check,
    program_equal::check,
    plan_before_rows::check,
    cv_bound::check,
    drift_bound::check,
    signal_bound::check,
];

/// Asks every gate.
#[must_use]
pub fn check_all(context: &Context<'_>) -> Vec<Finding> {
    GATES.iter().flat_map(|gate| gate(context)).collect()
}

/// Most places a reason lists before it counts the rest.
const MOST_PLACES: usize = 4;

/// Joins the first places and counts the rest.
fn listed(places: &[String]) -> String {
    let mut text = places
        .iter()
        .take(MOST_PLACES)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if places.len() > MOST_PLACES {
        text.push_str(&format!("; and {} more", places.len() - MOST_PLACES));
    }
    text
}

fn finding(gate: &str, stage: Stage, outcome: Outcome, reason: impl Into<String>) -> Finding {
    Finding {
        gate: gate.to_owned(),
        stage,
        outcome,
        reason: reason.into(),
    }
}

/// A planned measurement: point, workload and implementation.
struct Planned<'a> {
    point: &'a Point,
    attempt: Option<&'a Attempt>,
    workload: &'a PlannedWorkload,
    implementation: Implementation,
    summary_only: bool,
}

impl Planned<'_> {
    fn place(&self) -> String {
        format!(
            "{}, {}, {}",
            self.point.label,
            self.workload.name,
            self.implementation.word()
        )
    }
}

/// Returns every planned measurement in order.
fn planned<'a>(evidence: &'a Evidence) -> impl Iterator<Item = Planned<'a>> {
    evidence.points.iter().flat_map(move |point| {
        evidence.plan.workloads.iter().flat_map(move |workload| {
            workload
                .implementations
                .iter()
                .map(move |implementation| Planned {
                    point,
                    attempt: point.counted(),
                    workload,
                    implementation: *implementation,
                    summary_only: evidence.summaries.iter().any(|summary| {
                        summary.workload == workload.name
                            && summary.implementation == *implementation
                    }),
                })
        })
    })
}

/// Returns the comparisons a screen gate looks at: the targets.
fn targets<'a>(context: &'a Context<'a>) -> impl Iterator<Item = &'a Comparison> {
    context
        .comparisons
        .iter()
        .filter(|comparison| comparison.role == WorkloadRole::Target)
}

fn name_of(comparison: &Comparison) -> String {
    format!(
        "{}, {}",
        comparison.workload,
        comparison.implementation.word()
    )
}
