//! What the templates see: every figure and sentence as finished text.

use serde::Serialize;

use super::analysis::comparison_table;
use super::facts::{facts, facts_text, gates_open, thresholds};
use super::mail_kind::{MailKind, mail_kind, primary};
use super::number::{fixed, pct, signed_pct};
use super::sentence::{
    boots_known, change_words, control_sentence, result_sentence, screen_sentence,
};
use crate::judge::ENVIRONMENT_NOT_RECORDED;
use crate::model::analysis::{Analysis, Comparison, Verdict};
use crate::model::case::{Boots, Case, WorkloadRole};
use crate::model::claim::Claim;
use crate::model::evidence::{Evidence, Point};
use crate::model::finding::Outcome;
use crate::model::plan::PlannedWorkload;
use crate::model::row::Metric;
use crate::workload::registry;

/// Links into the published tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Links {
    /// The evidence tree.
    pub evidence: String,
    /// The reproducer folder.
    pub reproducer: String,
}

#[derive(Debug, Serialize)]
struct ChangeView {
    parent: String,
    child: String,
    parent_short: String,
    child_short: String,
    subject: String,
    summary: String,
}

#[derive(Debug, Serialize)]
struct WorkloadView {
    name: String,
    unit: String,
    direction: &'static str,
    op: String,
    parameters: String,
    table: String,
    sentences: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Regzbot {
    introduced: String,
    title: String,
}

#[derive(Debug, Serialize)]
struct CellView {
    name: String,
    value: String,
    claim: String,
}

#[derive(Debug, Serialize)]
struct FigureView {
    workload: String,
    implementation: String,
    unit: String,
    role: &'static str,
    cells: Vec<CellView>,
}

#[derive(Debug, Serialize)]
struct GateView {
    gate: String,
    outcome: &'static str,
    reason: String,
}

/// Context of the report and of the README.
#[derive(Debug, Serialize)]
pub struct Context {
    tool: String,
    case_id: String,
    title: String,
    kind: &'static str,
    verdict: String,
    sentence: String,
    without_boots_distinct: Option<String>,
    null_run: bool,
    opening: String,
    change: Option<ChangeView>,
    scope: String,
    workload_scopes: Vec<String>,
    not_claimed: Vec<String>,
    regzbot: Option<Regzbot>,
    targets: Vec<WorkloadView>,
    controls: Vec<WorkloadView>,
    boots: String,
    rows: String,
    thresholds: String,
    gates_open: String,
    facts_heading: &'static str,
    facts: String,
    question: Option<String>,
    links: Option<Links>,
    figures: Vec<FigureView>,
    gates: Vec<GateView>,
    reproducers: Vec<String>,
    own_reproducer_measured: bool,
    environment: String,
}

/// What a context is made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The case.
    pub case: &'a Case,
    /// Plan and rows.
    pub evidence: &'a Evidence,
    /// What follows from them.
    pub analysis: &'a Analysis,
    /// Claims, for their ids.
    pub claims: &'a [Claim],
    /// Name and version of the program.
    pub tool: &'a str,
}

/// Makes the context; `links` only for a mail whose tree is published.
#[must_use]
pub fn context(sources: &Sources<'_>, links: Option<Links>) -> Context {
    let Sources {
        case,
        evidence,
        analysis,
        ..
    } = sources;
    let kind = mail_kind(case, analysis);
    let change = case.change.as_ref().map(|change| ChangeView {
        parent: change.parent.clone(),
        child: change.child.clone(),
        parent_short: short(&change.parent),
        child_short: short(&change.child),
        subject: inert(&change.subject),
        summary: change
            .summary
            .as_deref()
            .map_or_else(|| "not recorded".to_owned(), inert),
    });
    Context {
        tool: sources.tool.to_owned(),
        case_id: case.id.clone(),
        title: inert(&case.title),
        kind: match kind {
            MailKind::Demo => "demo",
            MailKind::Regression => "regression",
            MailKind::Question => "question",
            MailKind::Comparison => "comparison",
            MailKind::Invalid => "invalid",
        },
        verdict: analysis.verdict.word().to_owned(),
        sentence: analysis.sentence.clone(),
        null_run: analysis.null_run,
        without_boots_distinct: analysis
            .without_boots_distinct
            .map(|verdict| verdict.word().to_owned()),
        opening: opening(sources),
        scope: inert(&case.scope.statement),
        workload_scopes: evidence
            .plan
            .workloads
            .iter()
            .filter_map(|workload| registry::declaration(&workload.name))
            .map(|declaration| format!("{}: {}", declaration.name, declaration.scope))
            .collect(),
        not_claimed: case
            .scope
            .not_claimed
            .iter()
            .map(|text| inert(text))
            .collect(),
        regzbot: (kind == MailKind::Regression)
            .then_some(())
            .and(case.change.as_ref())
            .map(|change| Regzbot {
                introduced: change.child.clone(),
                title: inert(case.report.regzbot_title.as_deref().unwrap_or(&case.title)),
            }),
        targets: workload_views(sources, WorkloadRole::Target),
        controls: workload_views(sources, WorkloadRole::Control),
        boots: boots_sentence(sources),
        rows: rows_sentence(sources),
        thresholds: thresholds(&evidence.plan),
        gates_open: gates_open(analysis),
        facts_heading: if evidence.plan_before_rows {
            "Change, machine and settings; readings are those of each point"
        } else {
            "Change, machine and settings, from case.toml and the ingested tables"
        },
        facts: facts_text(&facts(sources)),
        question: case
            .question
            .as_deref()
            .map(|text| inert_start(&inert(text))),
        links,
        figures: analysis
            .comparisons
            .iter()
            .map(|comparison| figure_view(comparison, sources.claims))
            .collect(),
        gates: analysis
            .findings
            .iter()
            .map(|finding| GateView {
                gate: finding.gate.clone(),
                outcome: finding.outcome.word(),
                reason: inert(&finding.reason),
            })
            .collect(),
        reproducers: evidence
            .plan
            .workloads
            .iter()
            .map(|workload| workload.name.clone())
            .collect(),
        own_reproducer_measured: evidence.plan_before_rows,
        environment: environment_text(case, analysis),
        change,
    }
}

fn short(commit: &str) -> String {
    commit.chars().take(12).collect()
}

/// Makes a text of the user inert: no controls, one line.
pub(super) fn inert(text: &str) -> String {
    crate::model::shown::printable(text, 1000)
}

/// Quotes a text that a paragraph would begin with and a mail tool would act on.
fn inert_start(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    let acts = text.starts_with(['#', '|', '>', ' ', '-', '+', '@'])
        || text.starts_with("http")
        || word.ends_with(':')
        || word == "From"
        || word == "diff";
    if acts {
        format!("\"{text}\"")
    } else {
        text.to_owned()
    }
}

pub(super) fn environment_text(case: &Case, analysis: &Analysis) -> String {
    let words = |class: &str| class.replace('-', " ");
    if analysis.environment != ENVIRONMENT_NOT_RECORDED {
        return words(&analysis.environment);
    }
    match &case.machine.environment {
        Some(class) => format!("{} (stated by the reporter, not recorded)", words(class)),
        None => "not recorded".to_owned(),
    }
}

/// First sentences: what was measured and what came out, by implementation.
fn opening(sources: &Sources<'_>) -> String {
    let primary = primary(sources.analysis, &sources.case.plan.primary);
    let scope = inert(&sources.case.scope.statement);
    let environment = environment_text(sources.case, sources.analysis);
    let Some(first) = primary.first() else {
        return format!("No complete sandwich was measured. Scope: {scope}.");
    };
    // A screen that fails leaves the verdict open: then no word says that it was slower.
    let decided = matches!(
        sources.analysis.verdict,
        Verdict::Regression | Verdict::Improvement | Verdict::NoMaterialChange
    );
    let resolved = decided
        && primary.iter().all(|comparison| {
            comparison
                .interval
                .as_ref()
                .is_some_and(|interval| interval.low95_pct > 0.0 || interval.high95_pct < 0.0)
        });
    let results: Vec<String> = primary
        .iter()
        .map(|comparison| {
            let change = if resolved {
                change_words(comparison, 2)
            } else {
                signed_pct(comparison.delta_pct, 2)
            };
            format!(
                "{change} ({} implementation)",
                comparison.implementation.word()
            )
        })
        .collect();
    let source = if sources.evidence.plan_before_rows {
        "I measured"
    } else {
        "With rows measured elsewhere and ingested I compared"
    };
    let subject = match &sources.case.change {
        Some(change) => format!(
            "{source} {} (\"{}\") {} its parent {}",
            short(&change.child),
            inert(&change.subject),
            if sources.evidence.plan_before_rows {
                "against"
            } else {
                "with"
            },
            short(&change.parent)
        ),
        None if sources.evidence.plan.boots == Boots::Same => {
            "One kernel was measured against itself".to_owned()
        }
        None => {
            "A child kernel was compared with a parent kernel; the case names no commit".to_owned()
        }
    };
    let open = sources
        .analysis
        .findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::NotChecked)
        .count();
    let gates = format!(
        "{open} of {} gates were NOT-CHECKED (listed below).",
        sources.analysis.findings.len()
    );
    let results = results.join(" and ");
    let result = if resolved {
        format!("the child was {results}, in {}.", first.unit)
    } else if sources.analysis.verdict == Verdict::Invalid {
        format!(
            "the child's mean differs from the parent midpoint by {results}, in {}. A validity gate fails, so this is no evidence of a change.",
            first.unit
        )
    } else if decided {
        format!(
            "the child's mean differs from the parent midpoint by {results}, in {}. These boots do not resolve a change from boot noise.",
            first.unit
        )
    } else {
        format!(
            "the child's mean differs from the parent midpoint by {results}, in {}. That decides nothing: {}.",
            first.unit, sources.analysis.reason
        )
    };
    format!("{subject}. Environment: {environment}. In {scope}, {result} {gates}")
}

fn workload_views(sources: &Sources<'_>, role: WorkloadRole) -> Vec<WorkloadView> {
    let mut views = Vec::new();
    for workload in &sources.evidence.plan.workloads {
        let comparisons: Vec<&Comparison> = sources
            .analysis
            .comparisons
            .iter()
            .filter(|comparison| comparison.workload == workload.name && comparison.role == role)
            .collect();
        let Some(first) = comparisons.first() else {
            continue;
        };
        let margin = sources.evidence.plan.thresholds.margin_pct;
        let known = boots_known(&sources.analysis.findings);
        let mut sentences = Vec::new();
        for comparison in &comparisons {
            let name = comparison.implementation.word();
            sentences.push(format!("{name}: {}.", screen_sentence(comparison)));
            sentences.push(match role {
                WorkloadRole::Target => {
                    format!("{name}: {}", result_sentence(comparison, known))
                }
                WorkloadRole::Control => {
                    format!("{name}: {}", control_sentence(comparison, margin, known))
                }
            });
        }
        views.push(WorkloadView {
            name: workload.name.clone(),
            unit: first.unit.clone(),
            direction: if first.higher_is_better {
                "higher is better"
            } else {
                "lower is better"
            },
            op: registry::declaration(&workload.name).map_or_else(
                || "what the reporter's own program counts".to_owned(),
                |known| known.op.to_owned(),
            ),
            parameters: parameters_text(workload),
            table: comparison_table(&comparisons, false, "  "),
            sentences,
        });
    }
    views
}

/// Lists the parameters of the plan, such as `cycles 512, vectors 8`.
fn parameters_text(workload: &PlannedWorkload) -> String {
    workload
        .params
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn boots_sentence(sources: &Sources<'_>) -> String {
    let evidence = sources.evidence;
    let order: Vec<String> = evidence
        .points
        .iter()
        .map(|point| match release(point) {
            Some(release) => format!("{} ({release})", point.label),
            None => point.label.clone(),
        })
        .collect();
    let distinct = sources
        .analysis
        .findings
        .iter()
        .find(|finding| finding.gate == crate::gate::boots_distinct::GATE)
        .map(|finding| finding.outcome);
    let how = match (distinct, evidence.plan.boots) {
        (Some(Outcome::Pass), _) => "a boot of its own for each point",
        (_, Boots::Same) => "all points in one boot, which is no evidence about kernels",
        (Some(Outcome::Fail), _) => "one boot stands for several points",
        _ => "boot ids not recorded for every point",
    };
    format!("Order of the points: {}; {how}.", order.join(" -> "))
}

fn release(point: &Point) -> Option<&str> {
    point
        .counted()
        .and_then(|attempt| attempt.identity.kernel.release.as_deref())
}

fn rows_sentence(sources: &Sources<'_>) -> String {
    let plan = &sources.evidence.plan;
    let counted: usize = sources
        .analysis
        .comparisons
        .iter()
        .flat_map(|comparison| &comparison.points)
        .map(|point| point.n)
        .sum();
    let semantics = sources
        .analysis
        .findings
        .iter()
        .find(|finding| finding.gate == "semantics-clean");
    let checks = semantics.map_or_else(String::new, |finding| match finding.outcome {
        Outcome::Pass => "; every row passed the checks on its work".to_owned(),
        Outcome::Fail => format!("; rows FAIL the checks on their work: {}", finding.reason),
        Outcome::NotChecked => format!("; checks on the work: {}", finding.reason),
    });
    let rows = || {
        sources
            .evidence
            .points
            .iter()
            .filter_map(Point::counted)
            .flat_map(|attempt| &attempt.segments)
            .flat_map(|segment| &segment.rows)
    };
    let per_op = rows()
        .filter(|row| matches!(row.metric, Metric::PerOp { .. }))
        .count();
    let integers = match per_op {
        0 => String::new(),
        _ => format!(
            " {per_op} of {} rows give only a per-op figure, not integer elapsed time and ops.",
            rows().count()
        ),
    };
    format!(
        "The plan asks for {} warm-up and {} measured rounds per point, workload and implementation; {counted} rows are counted{checks}.{integers}",
        plan.warmup_rounds, plan.rounds
    )
}

fn figure_view(comparison: &Comparison, claims: &[Claim]) -> FigureView {
    let id = |formula: &str, point: Option<&str>| {
        claims
            .iter()
            .find(|claim| {
                claim.formula == formula
                    && claim.workload == comparison.workload
                    && claim.implementation == comparison.implementation.word()
                    && point.is_none_or(|label| {
                        claim
                            .inputs
                            .first()
                            .is_some_and(|input| input.point == label)
                    })
            })
            .map_or_else(String::new, |claim| claim.id.clone())
    };
    let mut cells = Vec::new();
    let mut put = |name: String, value: Option<String>, claim: String| {
        cells.push(CellView {
            name,
            value: value.unwrap_or_else(|| "not recorded".to_owned()),
            claim,
        });
    };
    for point in &comparison.points {
        put(
            point.label.clone(),
            Some(fixed(point.mean, 3)),
            id("mean", Some(&point.label)),
        );
    }
    let pct3 = |value: f64| signed_pct(value, 3);
    put(
        "parent midpoint".into(),
        Some(fixed(comparison.midpoint, 3)),
        id("midpoint", None),
    );
    put(
        "child vs midpoint".into(),
        Some(pct3(comparison.delta_pct)),
        id("delta", None),
    );
    put(
        "drop-first".into(),
        comparison.drop_first_pct.map(pct3),
        id("drop-first", None),
    );
    put(
        "parent drift".into(),
        comparison.drift_pct.map(pct3),
        id("drift", None),
    );
    put(
        "maximum CV".into(),
        comparison.cv_max_pct.map(|cv| pct(cv, 3)),
        id("cv-max", None),
    );
    let interval = comparison.interval.as_ref();
    let pct2 = |value: f64| signed_pct(value, 2);
    put(
        "95% interval, low".into(),
        interval.map(|i| pct2(i.low95_pct)),
        id("ci95-low", None),
    );
    put(
        "95% interval, high".into(),
        interval.map(|i| pct2(i.high95_pct)),
        id("ci95-high", None),
    );
    FigureView {
        workload: comparison.workload.clone(),
        implementation: comparison.implementation.word().to_owned(),
        unit: comparison.unit.clone(),
        role: comparison.role.word(),
        cells,
    }
}
