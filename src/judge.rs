//! Findings, comparisons and policy become a verdict. Pure.

use crate::gate::{Context, boots_distinct, check_all};
use crate::model::analysis::{Analysis, Comparison, Verdict};
use crate::model::case::{Boots, GateSection, WorkloadRole};
use crate::model::evidence::Evidence;
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::identity::Reading;
use crate::stats::comparison::compare_all;
use crate::stats::selection::Floors;

/// Environment class of evidence that does not record one.
pub const ENVIRONMENT_NOT_RECORDED: &str = "not recorded";

/// Computes everything that follows from the evidence.
#[must_use]
pub fn analyze(evidence: &Evidence) -> Analysis {
    let floors = Floors::of(evidence);
    let mut comparisons = compare_all(evidence, &floors);
    for comparison in &mut comparisons {
        comparison.verdict = verdict_of(comparison, &evidence.plan.thresholds);
    }
    let findings = check_all(&Context {
        evidence,
        floors: &floors,
        comparisons: &comparisons,
    });
    let measured = measured_verdict(&comparisons, &evidence.plan.primary);
    let verdict = gated(&findings, measured, None);
    let reason = reason(verdict, &findings, &comparisons, evidence);
    if verdict == Verdict::Invalid {
        // What a gate forbids to believe has no verdict of its own either.
        for comparison in &mut comparisons {
            comparison.verdict = Verdict::Invalid;
        }
    }
    let boots_fail = findings
        .iter()
        .any(|finding| finding.gate == boots_distinct::GATE && finding.outcome == Outcome::Fail);
    Analysis {
        sentence: sentence(verdict, &reason, &findings),
        reason,
        null_run: boots_fail && one_build(evidence),
        // Only a declared null run fails this gate by construction; elsewhere it is a fault
        // without which nothing "would be".
        without_boots_distinct: (boots_fail && evidence.plan.boots == Boots::Same)
            .then(|| gated(&findings, measured, Some(boots_distinct::GATE))),
        environment: environment(evidence),
        canary_floors: floors.listed(),
        comparisons,
        findings,
        verdict,
    }
}

/// Returns the class that points recorded; several, or one that not every point recorded,
/// are said as they are, so that no statement of the reporter stands in for them.
fn environment(evidence: &Evidence) -> String {
    let recorded: Vec<Option<&str>> = evidence
        .points
        .iter()
        .map(|point| {
            point
                .counted()
                .and_then(|attempt| attempt.identity.settings.get("environment"))
                .and_then(Reading::value)
        })
        .collect();
    let mut classes: Vec<&str> = recorded.iter().copied().flatten().collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.is_empty() {
        return ENVIRONMENT_NOT_RECORDED.to_owned();
    }
    let text = classes.join(" and ");
    if recorded.iter().all(Option::is_some) {
        text
    } else {
        format!("{text}, not recorded at every point")
    }
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

/// Says whether every point recorded the same boot of the same kernel build.
fn one_build(evidence: &Evidence) -> bool {
    let mut boots = evidence.points.iter().map(|point| {
        let identity = &point.counted()?.identity;
        let kernel = &identity.kernel;
        Some((
            identity.boot_id.as_deref()?,
            kernel.release.as_deref()?,
            kernel.build_id.as_deref()?,
        ))
    });
    let first = boots.next().flatten();
    first.is_some() && boots.all(|other| other == first)
}

/// The verdict's sentence: what decided, and how many gates were not checked.
fn sentence(verdict: Verdict, reason: &str, findings: &[Finding]) -> String {
    let open = findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::NotChecked)
        .count();
    let gates = match open {
        0 => "every gate was checked".to_owned(),
        1 => format!("1 of {} gates was NOT-CHECKED", findings.len()),
        _ => format!("{open} of {} gates were NOT-CHECKED", findings.len()),
    };
    format!("{}: {reason}; {gates}", verdict.word())
}

/// What decided.
fn reason(
    verdict: Verdict,
    findings: &[Finding],
    comparisons: &[Comparison],
    evidence: &Evidence,
) -> String {
    match verdict {
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
        Verdict::Inconclusive => inconclusive(comparisons, evidence),
    }
}

/// Why nothing is decided, by implementation, and what would help where that is known.
fn inconclusive(comparisons: &[Comparison], evidence: &Evidence) -> String {
    let primary: Vec<&Comparison> = comparisons
        .iter()
        .filter(|comparison| {
            comparison.workload == evidence.plan.primary && comparison.role == WorkloadRole::Target
        })
        .collect();
    if primary.is_empty() {
        return "the primary workload has no complete sandwich; measure or ingest the missing points"
            .to_owned();
    }
    if primary
        .iter()
        .any(|comparison| comparison.interval.is_none())
    {
        return "without two boots of one kernel, or without a spread, there is no boot-level interval; add boots to the order"
            .to_owned();
    }
    let thresholds = &evidence.plan.thresholds;
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    for comparison in &primary {
        let text = match comparison.verdict {
            Verdict::Inconclusive => hindrances(comparison, thresholds).join(", "),
            decided => format!("{} by itself", decided.word()),
        };
        let name = comparison.implementation.word();
        match said.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) => names.push(name),
            None => said.push((vec![name], text)),
        }
    }
    let parts: Vec<String> = said
        .iter()
        .map(|(names, text)| format!("{}: {text}", names.join(" and ")))
        .collect();
    parts.join("; ")
}

/// What keeps one comparison from each verdict that its figures come near to.
fn hindrances(comparison: &Comparison, thresholds: &GateSection) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    match comparison.drift_max_pct {
        None => reasons.push("the drift is not known"),
        Some(drift) if drift > thresholds.drift_pct => {
            reasons.push("boots of one kernel differ by more than the drift bound");
        }
        Some(_) => {}
    }
    match comparison.cv_max_pct {
        None => reasons.push("the spread of the rounds is not known"),
        Some(cv) if cv > thresholds.cv_pct => reasons.push("the CV is over its bound"),
        Some(_) => {}
    }
    let crosses = comparison
        .interval
        .is_none_or(|interval| interval.low95_pct <= 0.0 && interval.high95_pct >= 0.0);
    if crosses {
        reasons.push(
            "the 95 % boot-level interval includes 0 (more boots of each kernel would narrow it)",
        );
    }
    let signal = thresholds.signal_pct;
    let material = comparison.pair_min_pct >= signal || comparison.pair_max_pct <= -signal;
    if !material {
        reasons.push("a child boot differs from a parent boot by less than the signal");
    }
    match comparison.drop_first_pct {
        None => reasons.push("drop-first is not known"),
        Some(drop) if material && drop * comparison.delta_pct <= 0.0 => {
            reasons.push("drop-first has not the same sign");
        }
        Some(_) => {}
    }
    if !material && !crosses {
        reasons.push("the 90 % interval does not lie inside the margin");
    }
    reasons
}

#[cfg(test)]
mod tests;
