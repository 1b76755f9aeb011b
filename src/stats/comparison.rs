//! Comparisons: the rows that count become points, the points a sandwich with its
//! boot-level interval, for every workload and implementation.

use super::figure::Measure;
use super::interval::{Boot, boot_interval};
use super::location::{drop_first_mean, mean, sample_sd};
use super::sandwich::sandwich;
use super::selection::{Floors, Selection, segments_of, select};
use crate::model::analysis::{Comparison, PointStatistics, Verdict};
use crate::model::case::{GateSection, Implementation};
use crate::model::evidence::{Evidence, Point, Summary};
use crate::model::plan::{PlannedWorkload, Role};
use crate::model::protocol::Clock;
use crate::model::row::Metric;
use crate::model::units::text_resolution;

/// Compares child and parents for every workload and implementation, targets first.
///
/// The verdict of each is left to the judge.
#[must_use]
pub fn compare_all(evidence: &Evidence, floors: &Floors) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for workload in &evidence.plan.workloads {
        for implementation in &workload.implementations {
            let comparison = compare_rows(evidence, floors, workload, *implementation)
                .or_else(|| compare_summary(evidence, workload, *implementation));
            comparisons.extend(comparison);
        }
    }
    comparisons.sort_by_key(|comparison| comparison.role);
    comparisons
}

fn compare_rows(
    evidence: &Evidence,
    floors: &Floors,
    workload: &PlannedWorkload,
    implementation: Implementation,
) -> Option<Comparison> {
    let plan = &evidence.plan;
    let mut points = Vec::with_capacity(evidence.points.len());
    let mut boots = Vec::with_capacity(evidence.points.len());
    let mut clock = None;
    let mut per_op_only = false;
    for point in &evidence.points {
        let attempt = point.counted()?;
        let selection = select(
            attempt,
            &workload.name,
            implementation,
            floors,
            plan.thresholds.canary_pct,
            usize::try_from(plan.rounds).unwrap_or(usize::MAX),
        );
        // Mixed clocks make no figure at all; the gate `clocks-equal` names them.
        for (_, segment) in segments_of(attempt, &workload.name, implementation) {
            if *clock.get_or_insert(segment.clock) != segment.clock {
                return None;
            }
        }
        per_op_only |= selection
            .counted
            .iter()
            .any(|placed| matches!(placed.row.metric, Metric::PerOp { .. }));
        let measure = Measure::new(&workload.name, clock?);
        let statistics = point_statistics(point, &selection, measure)?;
        boots.push(Boot {
            location: statistics.mean,
            sd: statistics.sd.unwrap_or(0.0),
            n: statistics.n,
            resolution: selection
                .counted
                .first()
                .map_or(0.0, |placed| measure.step(placed.row)),
        });
        points.push(statistics);
    }
    let comparison = comparison(
        workload,
        implementation,
        clock?,
        points,
        &boots,
        plan.thresholds,
        false,
    )?;
    Some(Comparison {
        per_op_only,
        ..comparison
    })
}

fn point_statistics(
    point: &Point,
    selection: &Selection<'_>,
    measure: Measure,
) -> Option<PointStatistics> {
    let values: Vec<f64> = selection
        .counted
        .iter()
        .map(|placed| measure.value(placed.row))
        .collect();
    Some(PointStatistics {
        position: point.position,
        label: point.label.clone(),
        role: point.role,
        n: values.len(),
        mean: mean(&values)?,
        sd: sample_sd(&values),
        drop_first_mean: drop_first_mean(&values),
    })
}

fn compare_summary(
    evidence: &Evidence,
    workload: &PlannedWorkload,
    implementation: Implementation,
) -> Option<Comparison> {
    let summary: &Summary = evidence.summaries.iter().find(|summary| {
        summary.workload == workload.name && summary.implementation == implementation
    })?;
    let mut points = Vec::new();
    let mut boots = Vec::new();
    for point in &evidence.points {
        let cell = summary.means.get(&point.label)?;
        points.push(PointStatistics {
            position: point.position,
            label: point.label.clone(),
            role: point.role,
            n: 0,
            mean: cell.value,
            sd: None,
            drop_first_mean: None,
        });
        boots.push(Boot {
            location: cell.value,
            sd: 0.0,
            n: 0,
            resolution: text_resolution(&cell.text),
        });
    }
    comparison(
        workload,
        implementation,
        Clock::Ns,
        points,
        &boots,
        evidence.plan.thresholds,
        true,
    )
}

fn comparison(
    workload: &PlannedWorkload,
    implementation: Implementation,
    clock: Clock,
    points: Vec<PointStatistics>,
    boots: &[Boot],
    thresholds: GateSection,
    summary_only: bool,
) -> Option<Comparison> {
    let figures = sandwich(&points)?;
    let of_role = |role| -> Vec<Boot> {
        points
            .iter()
            .zip(boots)
            .filter(|(point, _)| point.role == role)
            .map(|(_, boot)| *boot)
            .collect()
    };
    let interval = boot_interval(
        &of_role(Role::Parent),
        &of_role(Role::Child),
        thresholds.margin_pct,
    );
    let measure = Measure::new(&workload.name, clock);
    let cvs: Option<Vec<f64>> = points.iter().map(PointStatistics::cv_pct).collect();
    Some(Comparison {
        workload: workload.name.clone(),
        implementation,
        role: workload.role,
        unit: measure.unit(),
        clock,
        summary_only,
        per_op_only: false,
        higher_is_better: measure.higher_is_better(),
        is_ratio: measure.is_ratio(),
        midpoint: figures.midpoint,
        child_mean: figures.child_mean,
        delta_pct: figures.delta_pct,
        drop_first_pct: figures.drop_first_pct,
        drift_pct: figures.drift_pct,
        drift_max_pct: figures.drift_max_pct,
        cv_max_pct: cvs.and_then(|cvs| cvs.into_iter().reduce(f64::max)),
        pair_min_pct: figures.pair_min_pct,
        pair_max_pct: figures.pair_max_pct,
        interval,
        points,
        verdict: Verdict::Inconclusive,
    })
}
