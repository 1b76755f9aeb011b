//! The analysis as JSON, as tables in files, and as one screen of text.

use serde_json::{Map, Value, json};

use super::facts::thresholds;
use super::number::{fixed, json as number, json_option, pct, signed_pct};
use super::sentence::{boots_known, control_sentence, result_sentence, screen_sentence};
use super::table::{Align, layout};
use super::tsv::push_line;
use super::wrap::hang;
use crate::model::analysis::{Analysis, Comparison};
use crate::model::case::WorkloadRole;
use crate::model::finding::{Finding, Outcome};
use crate::model::plan::Plan;
use crate::render::number::FILE_DIGITS;
use crate::workload::declaration::split_scenario;

/// Number of the JSON format.
pub const ANALYSIS_FORMAT: u32 = 1;

/// Returns the analysis as JSON; figures rounded to six decimals.
#[must_use]
pub fn to_json(analysis: &Analysis, tool: &str) -> Value {
    json!({
        "format": ANALYSIS_FORMAT,
        "tool": tool,
        "verdict": analysis.verdict.word(),
        "sentence": analysis.sentence,
        "verdict_without_boots_distinct":
            analysis.without_boots_distinct.map(|verdict| verdict.word()),
        "environment": analysis.environment,
        "canary_floors": analysis
            .canary_floors
            .iter()
            .map(|(canary, floor)| json!({"canary": canary, "floor": floor}))
            .collect::<Vec<_>>(),
        "comparisons": analysis.comparisons.iter().map(comparison_json).collect::<Vec<_>>(),
        "gates": analysis.findings,
    })
}

fn comparison_json(comparison: &Comparison) -> Value {
    let points: Vec<Value> = comparison
        .points
        .iter()
        .map(|point| {
            json!({
                "label": point.label,
                "role": point.role.word(),
                "n": point.n,
                "mean": number(point.mean),
                "sd": json_option(point.sd),
                "cv_pct": json_option(point.cv_pct()),
                "drop_first_mean": json_option(point.drop_first_mean),
            })
        })
        .collect();
    let interval = comparison.interval.as_ref();
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    let (workload, scenario) = split_scenario(&comparison.workload);
    put("workload", json!(workload));
    put("scenario", json!(scenario.unwrap_or("default")));
    put("implementation", json!(comparison.implementation.word()));
    put("role", json!(comparison.role.word()));
    put("unit", json!(comparison.unit));
    put("clock", json!(comparison.clock.word()));
    put("summary_only", json!(comparison.summary_only));
    put("per_op_only", json!(comparison.per_op_only));
    put("points", Value::Array(points));
    put("midpoint", number(comparison.midpoint));
    put("child_mean", number(comparison.child_mean));
    put("delta_pct", number(comparison.delta_pct));
    put("drop_first_pct", json_option(comparison.drop_first_pct));
    put("drift_pct", json_option(comparison.drift_pct));
    put("drift_max_pct", json_option(comparison.drift_max_pct));
    put("cv_max_pct", json_option(comparison.cv_max_pct));
    put("pair_min_pct", number(comparison.pair_min_pct));
    put("pair_max_pct", number(comparison.pair_max_pct));
    put("ci95_low_pct", json_option(interval.map(|i| i.low95_pct)));
    put("ci95_high_pct", json_option(interval.map(|i| i.high95_pct)));
    put("ci90_low_pct", json_option(interval.map(|i| i.low90_pct)));
    put("ci90_high_pct", json_option(interval.map(|i| i.high90_pct)));
    put("p", json_option(interval.map(|i| i.p)));
    put(
        "p_equivalence",
        json_option(interval.map(|i| i.p_equivalence)),
    );
    put("df", json!(interval.map(|i| i.df)));
    put("floor_binds", json!(interval.map(|i| i.floor_binds)));
    put("verdict", json!(comparison.verdict.word()));
    Value::Object(object)
}

/// Returns `analysis/points.tsv`.
#[must_use]
pub fn points_tsv(analysis: &Analysis) -> String {
    let mut text = String::new();
    push_line(
        &mut text,
        [
            "order",
            "point",
            "role",
            "workload",
            "implementation",
            "unit",
            "n",
            "mean",
            "sd",
            "cv_pct",
            "drop_first_mean",
        ],
    );
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| fixed(v, FILE_DIGITS));
    for comparison in &analysis.comparisons {
        for point in &comparison.points {
            push_line(
                &mut text,
                [
                    point.position.to_string(),
                    point.label.clone(),
                    point.role.word().to_owned(),
                    comparison.workload.clone(),
                    comparison.implementation.word().to_owned(),
                    comparison.unit.clone(),
                    point.n.to_string(),
                    fixed(point.mean, FILE_DIGITS),
                    cell(point.sd),
                    cell(point.cv_pct()),
                    cell(point.drop_first_mean),
                ],
            );
        }
    }
    text
}

/// Returns `analysis/comparison.tsv`.
#[must_use]
pub fn comparison_tsv(analysis: &Analysis) -> String {
    let mut text = String::new();
    push_line(
        &mut text,
        [
            "workload",
            "implementation",
            "role",
            "unit",
            "parent_midpoint",
            "child_mean",
            "child_vs_parent_midpoint_pct",
            "drop_first_pct",
            "parent_drift_pct",
            "max_cv_pct",
            "ci95_low_pct",
            "ci95_high_pct",
            "df",
            "verdict",
        ],
    );
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| fixed(v, FILE_DIGITS));
    for comparison in &analysis.comparisons {
        let interval = comparison.interval.as_ref();
        push_line(
            &mut text,
            [
                comparison.workload.clone(),
                comparison.implementation.word().to_owned(),
                comparison.role.word().to_owned(),
                comparison.unit.clone(),
                fixed(comparison.midpoint, FILE_DIGITS),
                fixed(comparison.child_mean, FILE_DIGITS),
                fixed(comparison.delta_pct, FILE_DIGITS),
                cell(comparison.drop_first_pct),
                cell(comparison.drift_pct),
                cell(comparison.cv_max_pct),
                cell(interval.map(|i| i.low95_pct)),
                cell(interval.map(|i| i.high95_pct)),
                interval.map_or_else(|| "-".to_owned(), |i| i.df.to_string()),
                comparison.verdict.word().to_owned(),
            ],
        );
    }
    text
}

/// Returns `analysis/gates.tsv`.
#[must_use]
pub fn gates_tsv(analysis: &Analysis) -> String {
    let mut text = String::new();
    push_line(&mut text, ["gate", "stage", "outcome", "reason"]);
    for finding in &analysis.findings {
        let stage = match finding.stage {
            crate::model::finding::Stage::Validity => "validity",
            crate::model::finding::Stage::Screen => "screen",
        };
        push_line(
            &mut text,
            [
                &finding.gate,
                stage,
                finding.outcome.word(),
                &finding.reason,
            ],
        );
    }
    text
}

/// Lays out the comparisons: one line each, points as columns.
#[must_use]
pub fn comparison_table(comparisons: &[&Comparison], with_workload: bool, indent: &str) -> String {
    let Some(first) = comparisons.first() else {
        return String::new();
    };
    let mut head: Vec<String> = Vec::new();
    let mut aligns = vec![Align::Left];
    if with_workload {
        head.push("workload".to_owned());
        aligns.push(Align::Left);
    }
    head.push("implementation".to_owned());
    for point in &first.points {
        head.push(point.label.clone());
        aligns.push(Align::Right);
    }
    head.push("child vs midpoint".to_owned());
    aligns.push(Align::Right);
    let mut rows = vec![head];
    for comparison in comparisons {
        let mut row = Vec::new();
        if with_workload {
            row.push(comparison.workload.clone());
        }
        row.push(comparison.implementation.word().to_owned());
        row.extend(comparison.points.iter().map(|point| fixed(point.mean, 3)));
        row.push(signed_pct(comparison.delta_pct, 3));
        rows.push(row);
    }
    layout(&rows, &aligns, indent)
}

/// Returns the gates as text: every FAIL and NOT-CHECKED, those of one reason together, and
/// the names of those that PASS.
#[must_use]
pub fn gates_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for outcome in [Outcome::Fail, Outcome::NotChecked] {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for finding in findings.iter().filter(|finding| finding.outcome == outcome) {
            match groups
                .iter_mut()
                .find(|(reason, _)| *reason == finding.reason)
            {
                Some((_, gates)) => gates.push(&finding.gate),
                None => groups.push((&finding.reason, vec![&finding.gate])),
            }
        }
        for (reason, gates) in groups {
            let line = format!("{} {}: {reason}", outcome.word(), gates.join(", "));
            text.push_str(&hang(&line, "", "    "));
        }
    }
    let passed: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::Pass)
        .map(|finding| finding.gate.as_str())
        .collect();
    let line = match passed.as_slice() {
        [] => "PASS no gate".to_owned(),
        [one] => format!("PASS 1 gate: {one}"),
        more => format!("PASS {} gates: {}", more.len(), more.join(", ")),
    };
    text.push_str(&hang(&line, "", "    "));
    text
}

/// Returns the analysis as text for a terminal.
#[must_use]
pub fn to_text(analysis: &Analysis, plan: &Plan) -> String {
    let mut text = String::new();
    let known = boots_known(&analysis.findings);
    for role in [WorkloadRole::Target, WorkloadRole::Control] {
        for comparison in analysis
            .comparisons
            .iter()
            .filter(|known| known.role == role)
        {
            text.push_str(&format!(
                "{} ({}), {}, {}\n",
                comparison.workload,
                comparison.implementation.word(),
                role.word(),
                comparison.unit
            ));
            let mut rows = Vec::new();
            for point in &comparison.points {
                let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
                rows.push(vec![
                    point.label.clone(),
                    fixed(point.mean, 3),
                    format!("n {}", point.n),
                    cell(point.sd.map(|sd| format!("sd {}", fixed(sd, 3)))),
                    cell(point.cv_pct().map(|cv| format!("CV {}", pct(cv, 3)))),
                ]);
            }
            text.push_str(&layout(
                &rows,
                &[
                    Align::Left,
                    Align::Right,
                    Align::Right,
                    Align::Right,
                    Align::Right,
                ],
                "  ",
            ));
            let screens = format!(
                "child vs midpoint {}, {}",
                signed_pct(comparison.delta_pct, 3),
                screen_sentence(comparison)
            );
            text.push_str(&hang(&screens, "  ", "    "));
            let sentence = match role {
                WorkloadRole::Target => result_sentence(comparison, known),
                WorkloadRole::Control => {
                    control_sentence(comparison, plan.thresholds.margin_pct, known)
                }
            };
            text.push_str(&hang(&sentence, "  ", "    "));
            text.push('\n');
        }
    }
    text.push_str(&gates_text(&analysis.findings));
    text.push_str(&format!("\nthresholds of the plan: {}\n", thresholds(plan)));
    text.push_str(&hang(&analysis.sentence, "", "    "));
    if let Some(verdict) = analysis.without_boots_distinct {
        text.push_str(&format!(
            "without the gate boots-distinct it would be {}\n",
            verdict.word()
        ));
    }
    text
}
