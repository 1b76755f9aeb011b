//! Findings, comparisons and policy become a verdict. Pure.

use crate::gate::{Context, boots_distinct, check_all};
use crate::model::analysis::{Analysis, Comparison, PointStatistics, Verdict};
use crate::model::case::{GateSection, Implementation, WorkloadRole};
use crate::model::evidence::{Evidence, Point, Summary};
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::identity::Reading;
use crate::model::plan::{PlannedWorkload, Role};
use crate::model::protocol::Clock;
use crate::model::row::Metric;
use crate::model::units::to_f64;
use crate::stats::interval::{Boot, boot_interval};
use crate::stats::location::{drop_first_mean, mean, sample_sd};
use crate::stats::sandwich::sandwich;
use crate::stats::selection::{Floors, Selection, select};
use crate::workload::declaration::Direction;
use crate::workload::registry;

/// Environment class of evidence that does not record one.
pub const ENVIRONMENT_NOT_RECORDED: &str = "not recorded";

/// Computes everything that follows from the evidence.
#[must_use]
pub fn analyze(evidence: &Evidence) -> Analysis {
    let floors = Floors::of(evidence);
    let mut comparisons = compare_all(evidence, &floors);
    comparisons.sort_by_key(|comparison| comparison.role);
    let findings = check_all(&Context {
        evidence,
        floors: &floors,
        comparisons: &comparisons,
    });
    let measured = measured_verdict(&comparisons, &evidence.plan.primary);
    let verdict = gated(&findings, measured, None);
    let boots_fail = findings
        .iter()
        .any(|finding| finding.gate == boots_distinct::GATE && finding.outcome == Outcome::Fail);
    Analysis {
        sentence: sentence(verdict, &findings, &comparisons, &evidence.plan.primary),
        without_boots_distinct: boots_fail
            .then(|| gated(&findings, measured, Some(boots_distinct::GATE))),
        environment: environment(evidence),
        comparisons,
        findings,
        verdict,
    }
}

/// Returns the class all counted points share, or says that it is not recorded.
fn environment(evidence: &Evidence) -> String {
    let mut classes: Vec<&str> = evidence
        .points
        .iter()
        .map(|point| {
            match point
                .counted()
                .and_then(|attempt| attempt.identity.settings.get("environment"))
            {
                Some(Reading::Known(class)) => class.as_str(),
                _ => ENVIRONMENT_NOT_RECORDED,
            }
        })
        .collect();
    classes.dedup();
    match classes.as_slice() {
        [class] => (*class).to_owned(),
        _ => ENVIRONMENT_NOT_RECORDED.to_owned(),
    }
}

fn compare_all(evidence: &Evidence, floors: &Floors) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for workload in &evidence.plan.workloads {
        for implementation in &workload.implementations {
            let comparison = compare_rows(evidence, floors, workload, *implementation)
                .or_else(|| compare_summary(evidence, workload, *implementation));
            comparisons.extend(comparison);
        }
    }
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
        clock = clock.or_else(|| {
            attempt
                .segments
                .iter()
                .find(|segment| {
                    segment.workload == workload.name && segment.implementation == implementation
                })
                .map(|segment| segment.clock)
        });
        let statistics = point_statistics(point, &selection)?;
        boots.push(Boot {
            location: statistics.mean,
            sd: statistics.sd.unwrap_or(0.0),
            n: statistics.n,
            resolution: resolution(&selection),
        });
        points.push(statistics);
    }
    comparison(
        workload,
        implementation,
        clock?,
        points,
        &boots,
        plan.thresholds,
        false,
    )
}

fn point_statistics(point: &Point, selection: &Selection<'_>) -> Option<PointStatistics> {
    let values = selection.values();
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

/// Returns one clock unit per op, the step of the metric; 0 where only per-op figures are known.
fn resolution(selection: &Selection<'_>) -> f64 {
    match selection.counted.first().map(|placed| &placed.row.metric) {
        Some(Metric::Elapsed { ops, .. }) => 1.0 / to_f64(*ops),
        _ => 0.0,
    }
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
            resolution: 0.0,
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
    let declaration = registry::declaration(&workload.name);
    let op_word = declaration.map_or("op", |declaration| declaration.op_word);
    let cvs: Option<Vec<f64>> = points.iter().map(PointStatistics::cv_pct).collect();
    let mut comparison = Comparison {
        workload: workload.name.clone(),
        scenario: "default".to_owned(),
        implementation,
        role: workload.role,
        unit: format!("{}/{op_word}", clock.word()),
        clock,
        summary_only,
        higher_is_better: declaration
            .is_some_and(|declaration| declaration.direction == Direction::HigherIsBetter),
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
    };
    comparison.verdict = verdict_of(&comparison, &thresholds);
    Some(comparison)
}

/// Says what one comparison shows, validity gates apart.
fn verdict_of(comparison: &Comparison, thresholds: &GateSection) -> Verdict {
    let Some(interval) = comparison.interval else {
        return Verdict::Inconclusive;
    };
    let screened = comparison
        .drift_max_pct
        .is_some_and(|drift| drift <= thresholds.drift_pct)
        && comparison
            .cv_max_pct
            .is_some_and(|cv| cv <= thresholds.cv_pct);
    let signal = thresholds.signal_pct;
    let rose = comparison.pair_min_pct >= signal
        && interval.low95_pct > 0.0
        && comparison.drop_first_pct.is_some_and(|drop| drop > 0.0);
    let fell = comparison.pair_max_pct <= -signal
        && interval.high95_pct < 0.0
        && comparison.drop_first_pct.is_some_and(|drop| drop < 0.0);
    if screened && (rose || fell) {
        return if rose == comparison.higher_is_better {
            Verdict::Improvement
        } else {
            Verdict::Regression
        };
    }
    // 5 % on each side: the 90 % interval inside the margin.
    if interval.p_equivalence < 0.05 {
        return Verdict::NoMaterialChange;
    }
    Verdict::Inconclusive
}

/// Combines the implementations of the primary workload: the weakest decides.
fn measured_verdict(comparisons: &[Comparison], primary: &str) -> Verdict {
    let mut verdicts = comparisons
        .iter()
        .filter(|comparison| {
            comparison.workload == primary && comparison.role == WorkloadRole::Target
        })
        .map(|comparison| comparison.verdict);
    let Some(first) = verdicts.next() else {
        return Verdict::Inconclusive;
    };
    if verdicts.all(|verdict| verdict == first) {
        first
    } else {
        Verdict::Inconclusive
    }
}

fn failing<'a>(
    findings: &'a [Finding],
    without: Option<&'a str>,
) -> impl Iterator<Item = &'a Finding> {
    findings.iter().filter(move |finding| {
        finding.stage == Stage::Validity
            && finding.outcome == Outcome::Fail
            && Some(finding.gate.as_str()) != without
    })
}

fn gated(findings: &[Finding], measured: Verdict, without: Option<&str>) -> Verdict {
    if failing(findings, without).next().is_some() {
        Verdict::Invalid
    } else {
        measured
    }
}

/// The verdict's sentence: what decided, and how many gates were not checked.
fn sentence(
    verdict: Verdict,
    findings: &[Finding],
    comparisons: &[Comparison],
    primary: &str,
) -> String {
    let because = match verdict {
        Verdict::Invalid => {
            let gates: Vec<&str> = failing(findings, None)
                .map(|finding| finding.gate.as_str())
                .collect();
            format!("validity gates fail: {}", gates.join(", "))
        }
        Verdict::Regression => {
            "the child is worse than every parent boot by the threshold or more, and the 95 % boot-level interval excludes 0".to_owned()
        }
        Verdict::Improvement => {
            "the child is better than every parent boot by the threshold or more, and the 95 % boot-level interval excludes 0".to_owned()
        }
        Verdict::NoMaterialChange => "the 90 % boot-level interval lies inside the margin".to_owned(),
        Verdict::Inconclusive => inconclusive(comparisons, primary),
    };
    let open = findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::NotChecked)
        .count();
    let gates = match open {
        0 => "every gate was checked".to_owned(),
        1 => format!("1 of {} gates was NOT-CHECKED", findings.len()),
        _ => format!("{open} of {} gates were NOT-CHECKED", findings.len()),
    };
    format!("{}: {because}; {gates}", verdict.word())
}

fn inconclusive(comparisons: &[Comparison], primary: &str) -> String {
    let primary: Vec<&Comparison> = comparisons
        .iter()
        .filter(|comparison| comparison.workload == primary)
        .collect();
    if primary.is_empty() {
        return "the primary workload has no complete sandwich; measure or ingest the missing points"
            .to_owned();
    }
    if primary
        .iter()
        .any(|comparison| comparison.interval.is_none())
    {
        return "without two boots of one kernel there is no boot-level interval; add boots to the order"
            .to_owned();
    }
    "these boots do not decide between a change and boot noise; more boots of each kernel would narrow the interval"
        .to_owned()
}

#[cfg(test)]
mod tests;
