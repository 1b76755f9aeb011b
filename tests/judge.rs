//! The verdict, from evidence to its word.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

mod evidence;

use evidence::{BOTH, PCP, attempt, each_row, evidence, flat, stream};
use proptest::prelude::{ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, proptest};
use regbundle::judge::analyze;
use regbundle::model::analysis::{Comparison, Verdict};
use regbundle::model::case::{Boots, Implementation};
use regbundle::model::evidence::Evidence;
use regbundle::model::plan::Role;
use regbundle::model::row::Metric;

#[test]
fn a_child_above_every_parent_boot_is_a_regression_and_one_below_an_improvement() {
    assert_eq!(
        analyze(&flat(100_000, 110_000, 100_100)).verdict,
        Verdict::Regression
    );
    assert_eq!(
        analyze(&flat(100_000, 90_000, 100_100)).verdict,
        Verdict::Improvement
    );
}

#[test]
fn boots_that_agree_within_the_margin_are_no_material_change() {
    assert_eq!(
        analyze(&flat(100_000, 100_010, 100_010)).verdict,
        Verdict::NoMaterialChange
    );
}

#[test]
fn boots_that_scatter_more_than_the_change_are_inconclusive() {
    // Drift 1.9 %: within its bound, so only the interval keeps the 7 % from a verdict.
    let analysis = analyze(&flat(100_000, 109_000, 101_900));
    assert_eq!(analysis.verdict, Verdict::Inconclusive);
    assert!(analysis.comparisons[0].interval.unwrap().low95_pct < 0.0);
}

#[test]
fn drift_or_scatter_above_its_bound_keeps_from_a_regression() {
    let drifting = flat(100_000, 300_000, 103_000);
    assert!(
        analyze(&drifting).comparisons[0]
            .interval
            .unwrap()
            .low95_pct
            > 0.0
    );
    assert_eq!(analyze(&drifting).verdict, Verdict::Inconclusive);
    let rounds = |middle: u64, step: u64| vec![middle - step, middle, middle + step];
    let scattered = evidence(
        &PCP,
        &[
            rounds(100_000, 100),
            rounds(200_000, 7000),
            rounds(100_010, 100),
        ],
        &[Implementation::Formal],
    );
    assert_eq!(analyze(&scattered).verdict, Verdict::Inconclusive);
}

#[test]
fn without_a_second_boot_of_one_kernel_nothing_is_decided() {
    let rounds = |elapsed| vec![elapsed; 4];
    let two = evidence(
        &[Role::Parent, Role::Child],
        &[rounds(100_000), rounds(200_000)],
        &[Implementation::Formal],
    );
    assert_eq!(analyze(&two).verdict, Verdict::Inconclusive);
}

#[test]
fn a_failing_validity_gate_is_invalid_and_boots_distinct_is_shown_apart() {
    let mut shared = flat(100_000, 110_000, 100_100);
    attempt(&mut shared, 1).identity.boot_id = Some("boot-1".to_owned());
    let analysis = analyze(&shared);
    assert_eq!(analysis.verdict, Verdict::Invalid);
    assert!(analysis.sentence.contains("boots-distinct"));
    assert_eq!(analysis.without_boots_distinct, None);
    assert_eq!(analysis.comparisons[0].verdict, Verdict::Invalid);
    assert!(!analysis.null_run);
    // Only a plan that declares a null run says what the figures alone would be.
    shared.plan.boots = Boots::Same;
    assert_eq!(
        analyze(&shared).without_boots_distinct,
        Some(Verdict::Regression)
    );
    // Another failing gate beside it: still INVALID without this one.
    stream(&mut shared, 1).announced = None;
    assert_eq!(
        analyze(&shared).without_boots_distinct,
        Some(Verdict::Invalid)
    );
    assert_eq!(
        analyze(&flat(100_000, 110_000, 100_100)).without_boots_distinct,
        None
    );
}

#[test]
fn a_null_run_is_one_boot_of_one_recorded_build_at_every_point() {
    let mut one = flat(100_000, 100_100, 100_000);
    for index in 0..3 {
        let identity = &mut attempt(&mut one, index).identity;
        identity.boot_id = Some("boot-1".to_owned());
        identity.kernel.release = Some("6.1".to_owned());
        identity.kernel.build_id = Some("id".to_owned());
    }
    assert!(analyze(&one).null_run);
    attempt(&mut one, 1).identity.kernel.build_id = Some("another".to_owned());
    assert!(!analyze(&one).null_run);
    attempt(&mut one, 1).identity.kernel.build_id = None;
    assert!(!analyze(&one).null_run);
}

#[test]
fn an_inconclusive_sentence_names_what_hindered_and_nothing_else() {
    let reason = |evidence: &Evidence| {
        let analysis = analyze(evidence);
        assert_eq!(analysis.verdict, Verdict::Inconclusive);
        analysis.reason
    };
    let drifting = reason(&flat(100_000, 200_000, 103_000));
    assert!(drifting.contains("drift bound"), "{drifting}");
    assert!(!drifting.contains("includes 0"), "{drifting}");
    let rounds = |elapsed| vec![elapsed; 4];
    let mut two = evidence(
        &PCP,
        &[rounds(100_000), rounds(110_000), rounds(100_100)],
        &BOTH,
    );
    for row in &mut attempt(&mut two, 1).segments[1].rows {
        if let Metric::Elapsed { elapsed, .. } = &mut row.metric {
            *elapsed = 102_000;
        }
    }
    let disagree = reason(&two);
    assert!(
        disagree.contains("formal: REGRESSION by itself"),
        "{disagree}"
    );
    assert!(disagree.contains("standalone: "), "{disagree}");
    assert!(disagree.contains("less than the signal"), "{disagree}");
}

#[test]
fn two_implementations_that_disagree_are_inconclusive() {
    let rounds = |elapsed| vec![elapsed; 4];
    let agreeing = evidence(
        &PCP,
        &[rounds(100_000), rounds(110_000), rounds(100_100)],
        &BOTH,
    );
    assert_eq!(analyze(&agreeing).verdict, Verdict::Regression);
    let mut disagreeing = agreeing;
    for row in &mut attempt(&mut disagreeing, 1).segments[1].rows {
        row.metric = Metric::Elapsed {
            elapsed: 100_050,
            ops: 1000,
        };
    }
    let analysis = analyze(&disagreeing);
    assert_eq!(analysis.comparisons[0].verdict, Verdict::Regression);
    assert_eq!(analysis.comparisons[1].verdict, Verdict::NoMaterialChange);
    assert_eq!(analysis.verdict, Verdict::Inconclusive);
}

#[test]
fn the_sentence_counts_the_gates_that_were_not_checked() {
    let mut open = flat(100_000, 110_000, 100_100);
    open.plan_before_rows = false;
    let analysis = analyze(&open);
    assert_eq!(analysis.verdict, Verdict::Regression);
    assert!(
        analysis.sentence.contains("REGRESSION")
            && analysis.sentence.contains("NOT-CHECKED")
            && analysis.sentence.contains('1'),
        "{}",
        analysis.sentence
    );
}

/// Parent, child and parent rounds of one level each with a little noise.
fn rounds() -> impl Strategy<Value = [Vec<u64>; 3]> {
    let level = 50_000_u64..200_000;
    (level.clone(), level.clone(), level, 3_usize..9).prop_flat_map(|(a, c, b, n)| {
        let noisy =
            move |level: u64| prop::collection::vec(level - level / 200..=level + level / 200, n);
        [noisy(a), noisy(c), noisy(b)]
    })
}

fn of(rounds: &[Vec<u64>]) -> Evidence {
    evidence(&PCP, rounds, &[Implementation::Formal])
}

fn only(evidence: &Evidence) -> Comparison {
    analyze(evidence).comparisons.remove(0)
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * (1.0 + one.abs().max(other.abs()))
}

/// Every figure in percent but drop-first.
fn percentages(comparison: &Comparison) -> Vec<f64> {
    let interval = comparison.interval.unwrap();
    vec![
        comparison.delta_pct,
        comparison.drift_pct.unwrap(),
        comparison.drift_max_pct.unwrap(),
        comparison.cv_max_pct.unwrap(),
        comparison.pair_min_pct,
        comparison.pair_max_pct,
        interval.low95_pct,
        interval.high95_pct,
        interval.low90_pct,
        interval.high90_pct,
    ]
}

fn all_near(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| near(*one, *other))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_rows_within_a_point_changes_no_figure_but_drop_first(
        rounds in rounds(), shift in 1_usize..8
    ) {
        let turned = rounds.clone().map(|mut point| {
            let by = shift % point.len();
            point.rotate_left(by);
            point.reverse();
            point
        });
        let (one, other) = (only(&of(&rounds)), only(&of(&turned)));
        prop_assert!(all_near(&percentages(&one), &percentages(&other)), "{one:?} {other:?}");
    }

    #[test]
    fn twice_the_elapsed_time_changes_no_percentage(rounds in rounds()) {
        let one = of(&rounds);
        let mut other = one.clone();
        each_row(&mut other, |row| {
            if let Metric::Elapsed { elapsed, .. } = &mut row.metric {
                *elapsed *= 2;
            }
        });
        let (one, other) = (analyze(&one), analyze(&other));
        prop_assert_eq!(one.verdict, other.verdict);
        let (one, other) = (&one.comparisons[0], &other.comparisons[0]);
        // The step of the clock stays 1 ns, so the interval's floor may move: it binds
        // only below what two boots differ by.
        if !one.interval.unwrap().floor_binds && !other.interval.unwrap().floor_binds {
            prop_assert!(all_near(&percentages(one), &percentages(other)), "{one:?} {other:?}");
        }
        prop_assert!(near(one.drop_first_pct.unwrap(), other.drop_first_pct.unwrap()));
        prop_assert!(near(2.0 * one.midpoint, other.midpoint));
        prop_assert!(near(2.0 * one.child_mean, other.child_mean));
    }

    #[test]
    fn parent_and_child_exchanged_mirror_the_sign(
        parent in 50_000_u64..200_000, child in 50_000_u64..200_000
    ) {
        let rounds = |elapsed| vec![elapsed, elapsed + 10, elapsed + 20, elapsed + 5];
        let points = [parent, child, child + 50, parent + 50].map(rounds);
        let order = [Role::Parent, Role::Child, Role::Child, Role::Parent];
        let swapped = [Role::Child, Role::Parent, Role::Parent, Role::Child];
        let formal = [Implementation::Formal];
        let one = evidence(&order, &points, &formal);
        let mut other = evidence(&swapped, &points, &formal);
        other.plan.primary.clone_from(&one.plan.primary);
        let mirror = match analyze(&one).verdict {
            Verdict::Regression => Verdict::Improvement,
            Verdict::Improvement => Verdict::Regression,
            same => same,
        };
        let (first, second) = (only(&one), only(&other));
        let factor = |pct: f64| 1.0 + pct / 100.0;
        // A change of factor f mirrored is 1/f: the sign turns, and the product is 1.
        prop_assert!(near(factor(first.delta_pct) * factor(second.delta_pct), 1.0));
        let (one_ci, other_ci) = (first.interval.unwrap(), second.interval.unwrap());
        prop_assert!(near(factor(one_ci.low95_pct) * factor(other_ci.high95_pct), 1.0));
        prop_assert!(near(factor(one_ci.high95_pct) * factor(other_ci.low95_pct), 1.0));
        // The bounds are in percent of the parent, so near 5 % a mirror may fall short.
        if first.delta_pct.abs() > 6.0 || first.delta_pct.abs() < 0.2 {
            prop_assert_eq!(analyze(&other).verdict, mirror);
        }
    }
}
