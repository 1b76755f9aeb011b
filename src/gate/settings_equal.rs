//! `<setting>-equal`: machine and settings are the same at all points, and what the
//! plan asks for. One finding per setting: `machine-equal`, `microcode-equal`,
//! `governor-equal`, `epp-equal`, `turbo-equal`, `preempt-equal`, `smt-equal`,
//! `thp-equal`, `mitigations-equal`, `clocksource-equal`, `cgroup-equal`,
//! `taint-equal` and so on, one for each key of `SETTING_KEYS`.

use super::{Context, finding, listed};
use crate::model::evidence::Evidence;
use crate::model::finding::{Finding, Outcome, Stage};
use crate::model::identity::{Reading, SETTING_KEYS};

/// Settings that may differ between the kernels compared, because the boot loader
/// and the build put names and ids there; they are recorded, not gated.
const NOT_GATED: [&str; 1] = ["cmdline"];

/// Checks every setting.
#[must_use]
pub fn check(context: &Context<'_>) -> Vec<Finding> {
    SETTING_KEYS
        .iter()
        .filter(|key| !NOT_GATED.contains(key))
        .map(|key| check_one(context.evidence, key))
        .collect()
}

fn wanted_by_plan<'a>(evidence: &'a Evidence, key: &str) -> Option<&'a str> {
    match key {
        "preempt" => evidence.plan.preempt.as_deref(),
        "cgroup" => evidence.plan.cgroup.as_deref(),
        _ => None,
    }
}

fn check_one(evidence: &Evidence, key: &str) -> Finding {
    let mut known: Vec<(&str, &str)> = Vec::new();
    let mut unknown = Vec::new();
    for point in &evidence.points {
        let reading = point
            .counted()
            .and_then(|attempt| attempt.identity.settings.get(key));
        match reading {
            Some(Reading::Known(value)) => known.push((&point.label, value)),
            Some(Reading::Unknown(reason)) => unknown.push(format!("{}: {reason}", point.label)),
            None if point.counted().is_none() => {
                unknown.push(format!("{}: not measured", point.label));
            }
            None => unknown.push(format!("{}: not recorded", point.label)),
        }
    }
    let wanted = wanted_by_plan(evidence, key);
    let first = known.first().map(|(_, value)| *value);
    let differs = known.iter().any(|(_, value)| Some(*value) != first);
    // `child (v2)` satisfies a plan that asks for `child`.
    let refused = wanted.is_some_and(|wanted| {
        known
            .iter()
            .any(|(_, value)| value.split(' ').next() != Some(wanted))
    });
    let values = || {
        let texts: Vec<String> = known
            .iter()
            .map(|(label, value)| format!("{label} {value}"))
            .collect();
        listed(&texts)
    };
    let (outcome, reason) = if differs {
        (Outcome::Fail, format!("differs: {}", values()))
    } else if refused {
        let wanted = wanted.unwrap_or_default();
        (
            Outcome::Fail,
            format!("the plan asks for {wanted}: {}", values()),
        )
    } else if unknown.is_empty() {
        (Outcome::Pass, first.unwrap_or("").to_owned())
    } else {
        (Outcome::NotChecked, same_reason(&unknown))
    };
    finding(&format!("{key}-equal"), Stage::Validity, outcome, reason)
}

/// Says one reason once when every point has the same.
fn same_reason(unknown: &[String]) -> String {
    let bare: Vec<&str> = unknown
        .iter()
        .filter_map(|text| text.split_once(": ").map(|(_, reason)| reason))
        .collect();
    match bare.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other == first) && bare.len() > 1 => {
            (*first).to_owned()
        }
        _ => listed(unknown),
    }
}
