//! The sentences of a result: they never say more than the interval and the
//! environment class allow.

use super::number::{fixed, pct, signed_pct};
use crate::gate::boots_distinct;
use crate::model::analysis::{Comparison, Interval};
use crate::model::finding::{Finding, Outcome};
use crate::model::plan::Role;
use crate::model::protocol::Clock;

/// Says how the child differs, such as `8.09% slower`; zero is `unchanged in the digits shown`.
#[must_use]
pub fn change_words(comparison: &Comparison, digits: usize) -> String {
    let size = pct(comparison.delta_pct.abs(), digits);
    if fixed(comparison.delta_pct, digits)
        .trim_start_matches(['0', '.'])
        .is_empty()
    {
        return "unchanged in the digits shown".to_owned();
    }
    let rose = comparison.delta_pct > 0.0;
    if comparison.is_ratio {
        return format!("{size} {}", if rose { "higher" } else { "lower" });
    }
    match (comparison.clock, comparison.higher_is_better, rose) {
        (Clock::Instructions, _, true) => format!("{size} more instructions"),
        (Clock::Instructions, _, false) => format!("{size} fewer instructions"),
        (Clock::Ns, false, true) | (Clock::Ns, true, false) => format!("{size} slower"),
        (Clock::Ns, false, false) | (Clock::Ns, true, true) => format!("{size} faster"),
    }
}

/// What may be said of boots: each point had its own, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootsKnown {
    /// No boot is known to stand for two points.
    Apart,
    /// One boot stands for several points: no sentence may speak of boots.
    Shared,
}

/// What is said in place of an interval when the points share a boot.
const SHARED: &str = "the points share a boot, so no interval between boots is stated";

/// Counts boots as the reader counts them: `3 boots, 1 df`.
fn boots(comparison: &Comparison, interval: &Interval) -> String {
    format!("{} boots, {} df", comparison.points.len(), interval.df)
}

/// Says whether the sentences of an analysis may speak of boots.
#[must_use]
pub fn boots_known(findings: &[Finding]) -> BootsKnown {
    let shared = findings
        .iter()
        .any(|finding| finding.gate == boots_distinct::GATE && finding.outcome == Outcome::Fail);
    if shared {
        BootsKnown::Shared
    } else {
        BootsKnown::Apart
    }
}

/// Says the change of one comparison with drift and interval.
#[must_use]
pub fn result_sentence(comparison: &Comparison, known: BootsKnown) -> String {
    let delta = signed_pct(comparison.delta_pct, 2);
    if known == BootsKnown::Shared {
        return format!("child {delta} vs the parent midpoint; {SHARED}.");
    }
    let Some(interval) = &comparison.interval else {
        return format!(
            "child {delta} vs the parent midpoint; without two boots of one kernel there is no boot-level interval."
        );
    };
    let drift = comparison
        .drift_max_pct
        .map_or_else(|| "an unknown amount".to_owned(), |drift| pct(drift, 2));
    let ends = format!(
        "95% CI {} to {}",
        signed_pct(interval.low95_pct, 2),
        signed_pct(interval.high95_pct, 2)
    );
    let parents = comparison
        .points
        .iter()
        .filter(|point| point.role == Role::Parent)
        .count();
    let differ = if parents == 2 && comparison.points.len() == 3 {
        "the two parent boots differ by"
    } else {
        "boots of one kernel differ by up to"
    };
    let floor = if interval.floor_binds {
        " and the scatter of the rounds within the boots sets the interval"
    } else {
        ""
    };
    if interval.low95_pct > 0.0 || interval.high95_pct < 0.0 {
        format!(
            "child {delta} vs the parent midpoint; {differ} {drift}{floor}; {ends} with the boot as the unit ({}).",
            boots(comparison, interval)
        )
    } else {
        format!(
            "child {delta} vs the parent midpoint, but {differ} {drift}{floor}: {} boots cannot separate this from boot noise ({ends}, {} df).",
            comparison.points.len(),
            interval.df
        )
    }
}

/// Says what a control shows: equivalence only by its test.
#[must_use]
pub fn control_sentence(comparison: &Comparison, margin_pct: f64, known: BootsKnown) -> String {
    let delta = signed_pct(comparison.delta_pct, 2);
    if known == BootsKnown::Shared {
        return format!("{delta}; {SHARED}.");
    }
    let margin = pct(margin_pct, margin_digits(margin_pct));
    let Some(interval) = &comparison.interval else {
        return format!("{delta}; without two boots of one kernel there is no interval.");
    };
    let ends = format!(
        "90% CI {} to {}",
        signed_pct(interval.low90_pct, 2),
        signed_pct(interval.high90_pct, 2)
    );
    if interval.p_equivalence < 0.05 {
        return format!("{delta} ({ends}): equivalent within +/-{margin}.");
    }
    if interval.low95_pct > 0.0 || interval.high95_pct < 0.0 {
        return format!("{delta} ({ends}): the control moved.");
    }
    format!(
        "{delta} ({ends}): no change seen, but {} boots do not establish +/-{margin}.",
        comparison.points.len()
    )
}

/// Decimals of a threshold: none when it is whole.
fn margin_digits(value: f64) -> usize {
    usize::from(value.fract().abs() > 1e-9)
}

/// Says the screen figures: drop-first, drift, spread, rounds.
#[must_use]
pub fn screen_sentence(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    if let Some(drop_first) = comparison.drop_first_pct {
        parts.push(format!("drop-first {}", signed_pct(drop_first, 3)));
    }
    if let Some(drift) = comparison.drift_pct {
        parts.push(format!("parent drift {}", signed_pct(drift, 3)));
    }
    match comparison.cv_max_pct {
        Some(cv) => parts.push(format!("maximum CV {}", pct(cv, 3))),
        None => parts.push("spread not recorded".to_owned()),
    }
    let mut rounds: Vec<usize> = comparison.points.iter().map(|point| point.n).collect();
    rounds.dedup();
    match rounds.as_slice() {
        [0] => parts.push("published means only, no rows".to_owned()),
        [n] => parts.push(format!("{n} rounds per point")),
        _ => {
            let list: Vec<String> = comparison
                .points
                .iter()
                .map(|point| point.n.to_string())
                .collect();
            parts.push(format!("{} rounds at the points", list.join(", ")));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::analysis::Verdict;
    use crate::model::case::{Implementation, WorkloadRole};

    fn comparison(delta: f64, low: f64, high: f64) -> Comparison {
        Comparison {
            workload: "w".into(),
            implementation: Implementation::Formal,
            role: WorkloadRole::Target,
            unit: "ns/op".into(),
            clock: Clock::Ns,
            summary_only: false,
            per_op_only: false,
            higher_is_better: false,
            is_ratio: false,
            points: Vec::new(),
            midpoint: 100.0,
            child_mean: 100.0 + delta,
            delta_pct: delta,
            drop_first_pct: None,
            drift_pct: None,
            drift_max_pct: Some(0.28),
            cv_max_pct: None,
            pair_min_pct: delta,
            pair_max_pct: delta,
            interval: Some(Interval {
                df: 1,
                s: 0.002,
                floor_binds: false,
                low95_pct: low,
                high95_pct: high,
                low90_pct: low / 2.0,
                high90_pct: high / 2.0,
                p: 0.5,
                p_equivalence: 0.5,
            }),
            verdict: Verdict::Inconclusive,
        }
    }

    #[test]
    fn an_interval_over_zero_is_never_called_a_change() {
        let text = result_sentence(&comparison(6.2, -14.0, 32.0), BootsKnown::Apart);
        assert!(
            text.contains("cannot separate this from boot noise"),
            "{text}"
        );
        let text = result_sentence(&comparison(8.09, 4.8, 11.48), BootsKnown::Apart);
        assert!(!text.contains("cannot separate"), "{text}");
        assert!(text.contains("95% CI +4.80% to +11.48%"), "{text}");
    }

    #[test]
    fn points_that_share_a_boot_get_no_interval_and_no_word_of_boot_noise() {
        let one = comparison(8.09, 4.8, 11.48);
        for text in [
            result_sentence(&one, BootsKnown::Shared),
            control_sentence(&one, 1.0, BootsKnown::Shared),
        ] {
            assert!(
                text.contains("share a boot") && !text.contains("CI"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_floor_that_sets_the_interval_is_named() {
        let mut one = comparison(-0.41, -3.4, 2.67);
        assert!(!result_sentence(&one, BootsKnown::Apart).contains("scatter"));
        if let Some(interval) = one.interval.as_mut() {
            interval.floor_binds = true;
        }
        assert!(result_sentence(&one, BootsKnown::Apart).contains("scatter"));
    }

    #[test]
    fn a_control_is_equivalent_only_by_its_test() {
        let mut control = comparison(-0.55, -9.0, 8.0);
        assert!(
            control_sentence(&control, 1.0, BootsKnown::Apart).contains("do not establish +/-1%")
        );
        if let Some(interval) = control.interval.as_mut() {
            interval.p_equivalence = 0.04;
        }
        assert!(
            control_sentence(&control, 1.0, BootsKnown::Apart).contains("equivalent within +/-1%")
        );
    }

    #[test]
    fn instructions_are_never_called_slower() {
        let mut one = comparison(13.6, 1.0, 20.0);
        assert_eq!(change_words(&one, 2), "13.60% slower");
        one.clock = Clock::Instructions;
        assert_eq!(change_words(&one, 2), "13.60% more instructions");
        one.clock = Clock::Ns;
        one.higher_is_better = true;
        assert_eq!(change_words(&one, 2), "13.60% faster");
        one.is_ratio = true;
        assert_eq!(change_words(&one, 2), "13.60% higher");
        assert_eq!(
            change_words(&comparison(-0.001, -1.0, 1.0), 2),
            "unchanged in the digits shown"
        );
    }
}
