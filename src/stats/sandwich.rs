//! The sandwich: midpoint, delta, drop-first, drift.

use crate::model::analysis::PointStatistics;
use crate::model::plan::Role;
use crate::model::units::{len_f64, percent_change};

/// Figures of a sandwich; all locations in metric units, changes in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sandwich {
    /// Mean of the parent locations.
    pub midpoint: f64,
    /// Mean of the child locations.
    pub child_mean: f64,
    /// 100 * (child / midpoint - 1).
    pub delta_pct: f64,
    /// The same after the first counted round of every point is dropped.
    pub drop_first_pct: Option<f64>,
    /// 100 * (last parent / first parent - 1), signed, base the first.
    pub drift_pct: Option<f64>,
    /// Largest absolute difference between two boots of one kernel, base the earlier.
    pub drift_max_pct: Option<f64>,
    /// Smallest change of a child boot against a parent boot, signed.
    pub pair_min_pct: f64,
    /// Largest change of a child boot against a parent boot, signed.
    pub pair_max_pct: f64,
}

/// Computes the sandwich of points in boot order; `None` without both roles.
#[must_use]
pub fn sandwich(points: &[PointStatistics]) -> Option<Sandwich> {
    let midpoint = mean_of(points, Role::Parent, |point| Some(point.mean))?;
    let child_mean = mean_of(points, Role::Child, |point| Some(point.mean))?;
    let dropped = |role| mean_of(points, role, |point| point.drop_first_mean);
    let drop_first_pct = dropped(Role::Child)
        .zip(dropped(Role::Parent))
        .map(|(child, parent)| percent_change(child, parent));
    let parents = of_role(points, Role::Parent);
    let drift_pct = match parents.as_slice() {
        [first, .., last] => Some(percent_change(last.mean, first.mean)),
        _ => None,
    };
    let (pair_min_pct, pair_max_pct) = pair_range(points)?;
    Some(Sandwich {
        midpoint,
        child_mean,
        delta_pct: percent_change(child_mean, midpoint),
        drop_first_pct,
        drift_pct,
        drift_max_pct: largest_drift(points),
        pair_min_pct,
        pair_max_pct,
    })
}

fn of_role(points: &[PointStatistics], role: Role) -> Vec<&PointStatistics> {
    points.iter().filter(|point| point.role == role).collect()
}

/// Mean over the points of a role; `None` when one of them has no such figure.
fn mean_of(
    points: &[PointStatistics],
    role: Role,
    figure: impl Fn(&PointStatistics) -> Option<f64>,
) -> Option<f64> {
    let values: Option<Vec<f64>> = of_role(points, role).into_iter().map(figure).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / len_f64(values.len()))
}

fn largest_drift(points: &[PointStatistics]) -> Option<f64> {
    let mut largest: Option<f64> = None;
    for role in [Role::Parent, Role::Child] {
        let boots = of_role(points, role);
        for (index, earlier) in boots.iter().enumerate() {
            for later in boots.iter().skip(index + 1) {
                let drift = percent_change(later.mean, earlier.mean).abs();
                largest = Some(largest.map_or(drift, |known| known.max(drift)));
            }
        }
    }
    largest
}

/// Smallest and largest change over every pair of a child and a parent boot.
fn pair_range(points: &[PointStatistics]) -> Option<(f64, f64)> {
    let parents = of_role(points, Role::Parent);
    let changes: Vec<f64> = of_role(points, Role::Child)
        .iter()
        .flat_map(|child| {
            parents
                .iter()
                .map(|parent| percent_change(child.mean, parent.mean))
        })
        .collect();
    let smallest = changes.iter().copied().reduce(f64::min)?;
    let largest = changes.iter().copied().reduce(f64::max)?;
    Some((smallest, largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(position: u32, role: Role, mean: f64) -> PointStatistics {
        PointStatistics {
            position,
            label: format!("p{position}"),
            role,
            n: 0,
            mean,
            sd: None,
            drop_first_mean: None,
        }
    }

    #[test]
    fn the_midpoint_is_arithmetic_and_the_drift_signed() {
        let points = [
            point(1, Role::Parent, 100.0),
            point(2, Role::Child, 110.0),
            point(3, Role::Parent, 90.0),
        ];
        let figures = sandwich(&points).unwrap();
        assert!((figures.midpoint - 95.0).abs() < 1e-12);
        assert!((figures.delta_pct - 100.0 * (110.0 / 95.0 - 1.0)).abs() < 1e-12);
        assert!((figures.drift_pct.unwrap() + 10.0).abs() < 1e-12);
        assert!((figures.drift_max_pct.unwrap() - 10.0).abs() < 1e-12);
        assert!((figures.pair_min_pct - 10.0).abs() < 1e-12);
        assert!((figures.pair_max_pct - 100.0 * (110.0 / 90.0 - 1.0)).abs() < 1e-12);
        assert_eq!(figures.drop_first_pct, None);
    }

    #[test]
    fn scaling_every_mean_changes_no_percentage() {
        let scaled = |factor: f64| {
            sandwich(&[
                point(1, Role::Parent, 100.0 * factor),
                point(2, Role::Child, 110.0 * factor),
                point(3, Role::Parent, 101.0 * factor),
            ])
            .unwrap()
        };
        assert!((scaled(1.0).delta_pct - scaled(1024.0).delta_pct).abs() < 1e-9);
    }

    #[test]
    fn one_role_alone_is_no_sandwich() {
        assert_eq!(sandwich(&[point(1, Role::Parent, 1.0)]), None);
    }
}
