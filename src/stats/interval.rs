//! The boot-level interval: the boot is the unit of evidence.
//!
//! Log locations of boots, variance pooled over the arms with a floor from the
//! spread within boots, Student's t. With one child boot its boots are assumed to
//! vary as the parent's do.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::model::analysis::Interval;
use crate::model::units::len_f64;

/// One boot as the interval sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boot {
    /// Location, metric units; above 0.
    pub location: f64,
    /// Sample sd of the rounds; 0 when not known.
    pub sd: f64,
    /// Rounds; 0 when not known.
    pub n: usize,
    /// Smallest step of the metric; 0 when not known.
    pub resolution: f64,
}

impl Boot {
    /// Returns the variance of the log location that comes from within the boot.
    fn within_variance(&self) -> f64 {
        let step = (self.resolution / self.location).powi(2) / 12.0;
        if self.n == 0 {
            // A published mean: only the rounding of its text is known.
            return step;
        }
        let n = len_f64(self.n);
        let rounds = (self.sd / self.location).powi(2) / n;
        // A spread below half a step cannot average the rounding error away.
        let shrink = if self.sd < self.resolution / 2.0 {
            1.0
        } else {
            1.0 / n
        };
        rounds + step * shrink
    }
}

/// Computes the interval of child boots against parent boots.
///
/// `margin_pct` is the equivalence margin, percent. `None` without two boots of
/// one kernel, or when a location is not above 0.
#[must_use]
pub fn boot_interval(parents: &[Boot], children: &[Boot], margin_pct: f64) -> Option<Interval> {
    if parents.is_empty() || children.is_empty() {
        return None;
    }
    let all = || parents.iter().chain(children);
    if !all().all(|boot| boot.location > 0.0 && boot.location.is_finite()) {
        return None;
    }
    let df = parents.len() + children.len() - 2;
    if df == 0 {
        return None;
    }
    let (parent_mean, parent_squares) = arm(parents);
    let (child_mean, child_squares) = arm(children);
    let d = child_mean - parent_mean;
    let raw = (parent_squares + child_squares) / len_f64(df);
    let floor =
        all().map(Boot::within_variance).sum::<f64>() / len_f64(parents.len() + children.len());
    let s = raw.max(floor).sqrt();
    // Without any spread there is nothing to say how far boots differ.
    if s <= 0.0 {
        return None;
    }
    let h = (1.0 / len_f64(parents.len()) + 1.0 / len_f64(children.len())).sqrt();
    let se = s * h;
    let t = StudentsT::new(0.0, 1.0, len_f64(df)).ok()?;
    let ends = |level: f64| {
        let q = t.inverse_cdf(level);
        (100.0 * (d - q * se).exp_m1(), 100.0 * (d + q * se).exp_m1())
    };
    let (low95_pct, high95_pct) = ends(0.975);
    let (low90_pct, high90_pct) = ends(0.95);
    // Boots so far apart that an end has no number: nothing is stated.
    if !(low95_pct.is_finite() && high95_pct.is_finite()) {
        return None;
    }
    let theta = (margin_pct / 100.0).ln_1p();
    let tail = |distance: f64| t.cdf(distance / se);
    Some(Interval {
        df,
        s,
        floor_binds: floor > raw,
        low95_pct,
        high95_pct,
        low90_pct,
        high90_pct,
        p: (2.0 * tail(-d.abs())).min(1.0),
        p_equivalence: tail(-(d + theta)).max(tail(d - theta)),
    })
}

/// Returns mean and sum of squared deviations of the log locations.
fn arm(boots: &[Boot]) -> (f64, f64) {
    let logs: Vec<f64> = boots.iter().map(|boot| boot.location.ln()).collect();
    let mean = logs.iter().sum::<f64>() / len_f64(logs.len());
    (mean, logs.iter().map(|y| (y - mean).powi(2)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(location: f64) -> Boot {
        Boot {
            location,
            sd: 0.0,
            n: 0,
            resolution: 0.0,
        }
    }

    #[test]
    fn one_child_boot_gives_a_half_width_of_eleven_drifts() {
        // t(0.975, 1) * sqrt(1.5) / sqrt(2) = 12.7062 * 0.866 = 11.004 (docs/statistics.md).
        let (a, b) = (100.0_f64, 100.3_f64);
        let interval = boot_interval(&[boot(a), boot(b)], &[boot(108.0)], 1.0).unwrap();
        let width =
            (1.0 + interval.high95_pct / 100.0).ln() - (1.0 + interval.low95_pct / 100.0).ln();
        let expected = 12.706_204_736_432_095 * 1.5_f64.sqrt() / 2.0_f64.sqrt() * (b / a).ln();
        assert!((width / 2.0 - expected).abs() < 1e-9);
    }

    #[test]
    fn swapping_parent_and_child_mirrors_the_interval() {
        let parents = [boot(100.0), boot(101.0)];
        let children = [boot(105.0), boot(104.0)];
        let there = boot_interval(&parents, &children, 1.0).unwrap();
        let back = boot_interval(&children, &parents, 1.0).unwrap();
        let log = |pct: f64| (1.0 + pct / 100.0).ln();
        assert!((log(there.low95_pct) + log(back.high95_pct)).abs() < 1e-12);
        assert!((there.p - back.p).abs() < 1e-12);
    }

    #[test]
    fn without_two_boots_of_one_kernel_there_is_no_interval() {
        assert_eq!(boot_interval(&[boot(1.0)], &[boot(1.1)], 1.0), None);
        assert_eq!(boot_interval(&[], &[boot(1.1), boot(1.2)], 1.0), None);
        assert_eq!(
            boot_interval(&[boot(0.0), boot(1.0)], &[boot(1.1)], 1.0),
            None
        );
    }

    #[test]
    fn without_any_spread_nothing_is_said_of_boots() {
        assert_eq!(
            boot_interval(&[boot(100.0), boot(100.0)], &[boot(110.0)], 1.0),
            None
        );
        // The rounding of a published text is a spread.
        let rounded = |location| Boot {
            resolution: 1.0,
            ..boot(location)
        };
        let interval =
            boot_interval(&[rounded(100.0), rounded(100.0)], &[rounded(110.0)], 1.0).unwrap();
        assert!(interval.high95_pct > interval.low95_pct);
    }

    #[test]
    fn the_floor_keeps_a_lucky_drift_from_giving_a_zero_width() {
        let noisy = |location| Boot {
            location,
            sd: 1.0,
            n: 16,
            resolution: 0.0,
        };
        let interval = boot_interval(&[noisy(100.0), noisy(100.0)], &[noisy(100.0)], 1.0).unwrap();
        assert!(interval.floor_binds);
        // Floor: sd of the mean 0.25 of 100, so s = 0.0025.
        assert!((interval.s - 0.0025).abs() < 1e-12);
    }
}
