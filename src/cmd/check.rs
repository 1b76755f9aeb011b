//! `regbundle check`: the gates alone.

use serde_json::json;

use super::load_evidence;
use crate::cli::CaseArgs;
use crate::error::{CommandError, exit};
use crate::judge::analyze;
use crate::model::finding::Outcome;
use crate::render::analysis::gates_text;
use crate::ui::Ui;

/// Asks every gate.
///
/// # Errors
///
/// When the case has no rows or its evidence is damaged.
pub fn run(args: &CaseArgs, ui: &Ui) -> Result<u8, CommandError> {
    let (_, evidence) = load_evidence(&args.case)?;
    let analysis = analyze(&evidence);
    ui.answer(
        &gates_text(&analysis.findings),
        &json!({"format": 1, "tool": crate::TOOL, "gates": analysis.findings}),
    );
    let fails = analysis
        .findings
        .iter()
        .any(|finding| finding.outcome == Outcome::Fail);
    Ok(if fails { exit::NO } else { exit::YES })
}
