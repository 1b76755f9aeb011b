//! Which mail a result allows: a report to the bot, a question, or nothing to send.

use crate::judge::ENVIRONMENT_NOT_RECORDED;
use crate::model::analysis::{Analysis, Comparison, Verdict};
use crate::model::case::{Case, ReportKind, WorkloadRole};
use crate::model::protocol::Clock;

/// Least change that this program calls a regression in a subject and to a bot, percent.
///
/// Our choice. Documentation/admin-guide/reporting-regressions.rst says that five percent
/// in a micro-benchmark is unlikely to qualify by itself; less than that never goes out
/// as one, and the mail says that it is a micro-benchmark.
const REGRESSION_PCT: f64 = 5.0;

/// What kind of mail a result allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// A demonstration: never sent.
    Demo,
    /// A regression report with its `#regzbot` paragraph.
    Regression,
    /// A question to the list: below the threshold, unresolved or emulated.
    Question,
    /// A comparison without a regression.
    Comparison,
    /// Evidence with a failing validity gate: not a report.
    Invalid,
}

/// Decides the kind of mail.
#[must_use]
pub fn mail_kind(case: &Case, analysis: &Analysis) -> MailKind {
    if case.report.kind == ReportKind::Demo {
        return MailKind::Demo;
    }
    let class = environment_class(case, analysis);
    let real = class == "bare-metal" || class == "virtual-machine";
    let primary = primary(analysis, &case.plan.primary);
    // Instructions are not time: they never go out as a regression of a machine.
    let large = !primary.is_empty()
        && primary.iter().all(|comparison| {
            comparison.clock == Clock::Ns && comparison.delta_pct.abs() >= REGRESSION_PCT
        });
    match analysis.verdict {
        Verdict::Invalid => MailKind::Invalid,
        Verdict::Regression if real && large && case.change.is_some() => MailKind::Regression,
        Verdict::Regression | Verdict::Inconclusive => MailKind::Question,
        Verdict::Improvement | Verdict::NoMaterialChange => MailKind::Comparison,
    }
}

/// Says why a mail has no `#regzbot` lines; `None` when it has them.
#[must_use]
pub fn without_regzbot(case: &Case, analysis: &Analysis) -> Option<String> {
    let reason = match mail_kind(case, analysis) {
        MailKind::Regression => return None,
        MailKind::Demo => "it is a demonstration".to_owned(),
        MailKind::Invalid => "a validity gate fails".to_owned(),
        MailKind::Comparison => "the verdict is no regression".to_owned(),
        MailKind::Question if analysis.verdict != Verdict::Regression => {
            format!("the verdict is {}", analysis.verdict.word())
        }
        MailKind::Question => {
            let class = environment_class(case, analysis);
            let primary = primary(analysis, &case.plan.primary);
            if primary.iter().any(|known| known.clock != Clock::Ns) {
                "its figures are instructions in an emulator, not time".to_owned()
            } else if class != "bare-metal" && class != "virtual-machine" {
                format!(
                    "the environment is {class}: measure on a real machine, or state machine.environment in case.toml"
                )
            } else if case.change.is_none() {
                "case.toml names no [change]".to_owned()
            } else {
                format!("the primary workload changed by less than {REGRESSION_PCT} %")
            }
        }
    };
    Some(reason)
}

/// Returns the recorded class, else the one the reporter states.
fn environment_class<'a>(case: &'a Case, analysis: &'a Analysis) -> &'a str {
    if analysis.environment == ENVIRONMENT_NOT_RECORDED {
        case.machine
            .environment
            .as_deref()
            .unwrap_or(ENVIRONMENT_NOT_RECORDED)
    } else {
        &analysis.environment
    }
}

/// The comparisons of the primary workload.
pub(super) fn primary<'a>(analysis: &'a Analysis, name: &str) -> Vec<&'a Comparison> {
    analysis
        .comparisons
        .iter()
        .filter(|comparison| comparison.workload == name && comparison.role == WorkloadRole::Target)
        .collect()
}
