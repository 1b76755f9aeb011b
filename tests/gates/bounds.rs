//! Gates on the spread and the size of what was measured.

use regbundle::model::case::{Implementation, WorkloadRole};
use regbundle::model::finding::Outcome;
use regbundle::model::finding::Outcome::{Fail, NotChecked, Pass};
use regbundle::model::plan::Role;
use regbundle::model::protocol::Clock;
use regbundle::model::row::Metric;
use regbundle::stats::figure::Measure;

use super::evidence::{PCP, each_row, evidence, flat, outcome};
use super::quiet;

#[test]
fn cv_and_drift_are_not_checked_when_only_a_control_has_rows() {
    let mut evidence = quiet();
    evidence.plan.workloads[0].role = WorkloadRole::Control;
    for gate in ["cv-bound", "drift-bound"] {
        assert_eq!(outcome(&evidence, gate), NotChecked, "{gate}");
    }
}

// cv-bound, drift-bound, signal-bound

/// Elapsed figures with mean 100,000 and sample sd `step`: sqrt((a² + 0 + a²) / 2) = a.
fn scattered(step: u64) -> Vec<u64> {
    vec![100_000 - step, 100_000, 100_000 + step]
}

#[test]
fn cv_bound_passes_exactly_at_three_percent_and_fails_above() {
    let with = |step| {
        let quiet = scattered(100);
        let rounds = [quiet.clone(), scattered(step), quiet];
        outcome(
            &evidence(&PCP, &rounds, &[Implementation::Formal]),
            "cv-bound",
        )
    };
    assert_eq!(with(3000), Pass);
    assert_eq!(with(3001), Fail);
}

#[test]
fn cv_bound_is_open_with_one_round() {
    let round = || vec![100_000];
    let evidence = evidence(
        &PCP,
        &[round(), round(), round()],
        &[Implementation::Formal],
    );
    assert_eq!(outcome(&evidence, "cv-bound"), NotChecked);
}

#[test]
fn drift_bound_passes_exactly_at_two_percent_in_either_direction_and_fails_above() {
    let with = |parent_b| outcome(&flat(100_000, 100_000, parent_b), "drift-bound");
    assert_eq!(with(102_000), Pass);
    assert_eq!(with(98_000), Pass);
    assert_eq!(with(102_001), Fail);
    assert_eq!(with(97_999), Fail);
}

#[test]
fn drift_bound_is_open_with_one_boot_of_each_kernel() {
    let rounds = || vec![100_000; 4];
    let evidence = evidence(
        &[Role::Parent, Role::Child],
        &[rounds(), rounds()],
        &[Implementation::Formal],
    );
    assert_eq!(outcome(&evidence, "drift-bound"), NotChecked);
}

#[test]
fn drift_bound_sees_two_boots_of_the_child_too() {
    let rounds = |elapsed| vec![elapsed; 4];
    let evidence = evidence(
        &[Role::Parent, Role::Child, Role::Child, Role::Parent],
        &[
            rounds(100_000),
            rounds(110_000),
            rounds(114_000),
            rounds(100_000),
        ],
        &[Implementation::Formal],
    );
    assert_eq!(outcome(&evidence, "drift-bound"), Fail);
}

#[test]
fn signal_bound_passes_exactly_at_five_percent_in_either_direction_and_fails_below() {
    let with = |child| outcome(&flat(100_000, child, 100_000), "signal-bound");
    assert_eq!(with(105_000), Pass);
    assert_eq!(with(95_000), Pass);
    assert_eq!(with(104_999), Fail);
    assert_eq!(with(95_001), Fail);
    // 5 % above one parent boot only is not enough.
    assert_eq!(
        outcome(&flat(100_000, 105_000, 100_001), "signal-bound"),
        Fail
    );
}

#[test]
fn a_per_op_figure_without_elapsed_time_counts_for_the_bounds() {
    let mut evidence = quiet();
    each_row(&mut evidence, |row| {
        let value = Measure::new("io-uring-futex-waitv", Clock::Ns).value(row);
        row.metric = Metric::PerOp {
            text: value.to_string(),
            value,
            ops: None,
        };
    });
    let answers: Vec<Outcome> = ["cv-bound", "drift-bound", "signal-bound"]
        .iter()
        .map(|gate| outcome(&evidence, gate))
        .collect();
    assert_eq!(answers, [Pass, Pass, Pass]);
}
