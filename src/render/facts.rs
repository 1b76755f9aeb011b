//! The facts of a report: gates that are open, machine, settings, boots; what was not
//! recorded or not tested is said, never left out.

use super::context::{Sources, environment_text, inert};
use crate::model::analysis::Analysis;
use crate::model::evidence::{Evidence, Point};
use crate::model::finding::Outcome;
use crate::model::identity::{Reading, SETTING_KEYS};
use crate::model::plan::Plan;

/// Width of lines of facts, characters.
const FACT_WIDTH: usize = 76;

/// Says the thresholds of the plan.
pub(super) fn thresholds(plan: &Plan) -> String {
    let plan = plan.thresholds;
    format!(
        "signal {} %, drift {} %, CV {} %, margin {} %, canary {} %",
        plan.signal_pct, plan.drift_pct, plan.cv_pct, plan.margin_pct, plan.canary_pct
    )
}

/// Says which gates fail or were not checked, one line per reason.
pub(super) fn gates_open(analysis: &Analysis) -> String {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for outcome in [Outcome::Fail, Outcome::NotChecked] {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for finding in analysis
            .findings
            .iter()
            .filter(|finding| finding.outcome == outcome)
        {
            let reason = inert(&finding.reason);
            match groups.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, gates)) => gates.push(&finding.gate),
                None => groups.push((reason, vec![&finding.gate])),
            }
        }
        for (reason, gates) in groups {
            pairs.push((format!("{} {}", outcome.word(), gates.join(", ")), reason));
        }
    }
    facts_text(&pairs)
}

/// Facts a report must state or say are not recorded (docs/report.md).
pub(super) fn facts(sources: &Sources<'_>) -> Vec<(String, String)> {
    let case = sources.case;
    let missing = |text: &str| text.to_owned();
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: String| facts.push((key.to_owned(), value));
    if let Some(change) = &case.change {
        put("parent", change.parent.clone());
        put("child", change.child.clone());
    }
    for point in &sources.evidence.points {
        let boot = point.counted().map(|attempt| &attempt.identity);
        let id = boot
            .and_then(|identity| identity.boot_id.as_deref())
            .unwrap_or("not recorded");
        let build = boot
            .and_then(|identity| identity.kernel.build_id.as_deref())
            .map_or_else(
                || "build id not recorded".to_owned(),
                |build| format!("build id {build}"),
            );
        put(
            &format!("boot of {}", point.label),
            format!("{id}, {build}"),
        );
    }
    put("environment", environment_text(case, sources.analysis));
    if let Some(description) = &case.machine.description {
        put("machine, as the reporter states it", inert(description));
    }
    put(
        "compiler of the kernel",
        common(sources.evidence, |point| {
            point
                .counted()
                .and_then(|attempt| attempt.identity.kernel.compiler.clone())
        }),
    );
    for key in SETTING_KEYS {
        if *key == "environment" {
            continue;
        }
        put(
            key,
            common(sources.evidence, |point| {
                match point
                    .counted()
                    .and_then(|attempt| attempt.identity.settings.get(*key))
                {
                    Some(Reading::Known(value)) => Some(value.clone()),
                    Some(Reading::Unknown(reason)) => Some(format!("not recorded ({reason})")),
                    None => None,
                }
            }),
        );
    }
    put("kernel configuration", missing("not recorded"));
    put("dmesg", missing("not recorded"));
    put(
        "direct hit of the changed functions",
        missing("not recorded"),
    );
    put("revert on top of the latest kernel", missing("not tested"));
    put("latest mainline and linux-next", missing("not tested"));
    put("other machines", missing("not tested"));
    group_absent(facts)
}

/// Moves what was not recorded or not tested into one line each, at the end.
fn group_absent(facts: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut grouped = Vec::new();
    let mut absent: [(&str, Vec<String>); 2] =
        [("not recorded", Vec::new()), ("not tested", Vec::new())];
    for (key, value) in facts {
        match absent.iter_mut().find(|(word, _)| *word == value) {
            Some((_, keys)) => keys.push(key),
            None => grouped.push((key, value)),
        }
    }
    for (word, keys) in absent {
        if !keys.is_empty() {
            grouped.push((word.to_owned(), keys.join(", ")));
        }
    }
    grouped
}

/// Returns what all points share, or each point's own value.
fn common(evidence: &Evidence, value: impl Fn(&Point) -> Option<String>) -> String {
    let values: Vec<(String, String)> = evidence
        .points
        .iter()
        .map(|point| {
            let text = value(point).unwrap_or_else(|| "not recorded".to_owned());
            (point.label.clone(), inert(&text))
        })
        .collect();
    match values.split_first() {
        Some(((_, first), rest)) if rest.iter().all(|(_, other)| other == first) => first.clone(),
        _ => values
            .iter()
            .map(|(label, text)| format!("{label}: {text}"))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Lays facts out as indented lines with hanging indent.
pub(super) fn facts_text(facts: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in facts {
        let folded = super::wrap::fold_prose(&format!("{key}: {value}"), FACT_WIDTH - 4);
        for (index, line) in folded.lines().enumerate() {
            text.push_str(if index == 0 { "  " } else { "    " });
            text.push_str(line.trim_start());
            text.push('\n');
        }
    }
    text
}
