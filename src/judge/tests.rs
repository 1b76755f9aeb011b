//! One comparison's verdict at its borders, where no rows can be made to lie exactly.

use super::*;
use crate::model::analysis::Interval;
use crate::model::case::Implementation;
use crate::model::protocol::Clock;

/// A resolved change of `sign` * 8 %, every figure in order.
fn resolved(sign: f64) -> Comparison {
    let pct = |low: f64, high: f64| {
        if sign > 0.0 {
            (low, high)
        } else {
            (-high, -low)
        }
    };
    let (pair_min_pct, pair_max_pct) = pct(7.0, 9.0);
    let (low95_pct, high95_pct) = pct(4.0, 12.0);
    let (low90_pct, high90_pct) = pct(6.0, 10.0);
    Comparison {
        workload: "syscall-getpid".to_owned(),
        implementation: Implementation::Formal,
        role: WorkloadRole::Target,
        unit: "ns/call".to_owned(),
        clock: Clock::Ns,
        summary_only: false,
        per_op_only: false,
        higher_is_better: false,
        is_ratio: false,
        points: Vec::new(),
        midpoint: 100.0,
        child_mean: 100.0 + 8.0 * sign,
        delta_pct: 8.0 * sign,
        drop_first_pct: Some(8.0 * sign),
        drift_pct: Some(0.5),
        drift_max_pct: Some(0.5),
        cv_max_pct: Some(0.5),
        pair_min_pct,
        pair_max_pct,
        interval: Some(Interval {
            df: 1,
            s: 0.003,
            floor_binds: false,
            low95_pct,
            high95_pct,
            low90_pct,
            high90_pct,
            p: 0.01,
            p_equivalence: 0.99,
        }),
        verdict: Verdict::Inconclusive,
    }
}

fn verdict(sign: f64, change: impl Fn(&mut Comparison)) -> Verdict {
    let mut comparison = resolved(sign);
    change(&mut comparison);
    verdict_of(&comparison, &GateSection::default())
}

#[test]
fn a_resolved_change_has_the_verdict_of_its_direction() {
    assert_eq!(verdict(1.0, |_| {}), Verdict::Regression);
    assert_eq!(verdict(-1.0, |_| {}), Verdict::Improvement);
    // Where more is better, the same figures mean the opposite.
    let higher = |comparison: &mut Comparison| comparison.higher_is_better = true;
    assert_eq!(verdict(1.0, higher), Verdict::Improvement);
    assert_eq!(verdict(-1.0, higher), Verdict::Regression);
}

#[test]
fn each_bound_is_inclusive_and_one_step_beyond_decides_nothing() {
    type Set = fn(&mut Comparison, f64);
    let bounds: [(Set, f64, f64); 3] = [
        (|c, drift| c.drift_max_pct = Some(drift), 2.0, 2.000_001),
        (|c, cv| c.cv_max_pct = Some(cv), 3.0, 3.000_001),
        (|c, least| c.pair_min_pct = least, 5.0, 4.999_999),
    ];
    for (set, border, beyond) in bounds {
        assert_eq!(verdict(1.0, |c| set(c, border)), Verdict::Regression);
        assert_eq!(verdict(1.0, |c| set(c, beyond)), Verdict::Inconclusive);
    }
    assert_eq!(
        verdict(-1.0, |c| c.pair_max_pct = -5.0),
        Verdict::Improvement
    );
    assert_eq!(
        verdict(-1.0, |c| c.pair_max_pct = -4.999_999),
        Verdict::Inconclusive
    );
}

#[test]
fn an_interval_that_touches_0_decides_nothing() {
    let low = |c: &mut Comparison| c.interval.as_mut().unwrap().low95_pct = 0.0;
    assert_eq!(verdict(1.0, low), Verdict::Inconclusive);
    let high = |c: &mut Comparison| c.interval.as_mut().unwrap().high95_pct = 0.0;
    assert_eq!(verdict(-1.0, high), Verdict::Inconclusive);
    assert_eq!(verdict(1.0, |c| c.interval = None), Verdict::Inconclusive);
}

#[test]
fn drop_first_of_the_other_sign_or_none_decides_nothing() {
    for drop_first in [Some(-0.1), Some(0.0), None] {
        assert_eq!(
            verdict(1.0, |c| c.drop_first_pct = drop_first),
            Verdict::Inconclusive
        );
    }
    assert_eq!(
        verdict(-1.0, |c| c.drop_first_pct = Some(0.1)),
        Verdict::Inconclusive
    );
}

#[test]
fn what_is_not_known_screens_as_what_is_too_large() {
    assert_eq!(verdict(1.0, |c| c.cv_max_pct = None), Verdict::Inconclusive);
    assert_eq!(
        verdict(1.0, |c| c.drift_max_pct = None),
        Verdict::Inconclusive
    );
}

#[test]
fn equivalence_needs_five_percent_on_each_side() {
    let with = |p| {
        verdict(1.0, |c| {
            c.pair_min_pct = -0.1;
            c.interval.as_mut().unwrap().p_equivalence = p;
        })
    };
    assert_eq!(with(0.049_999), Verdict::NoMaterialChange);
    assert_eq!(with(0.05), Verdict::Inconclusive);
}
