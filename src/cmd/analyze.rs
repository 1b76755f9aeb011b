//! `regbundle analyze`: gates, statistics and verdict.

use super::load_evidence;
use crate::cli::CaseArgs;
use crate::error::{CommandError, exit};
use crate::judge::analyze;
use crate::model::analysis::Verdict;
use crate::render::analysis::{to_json, to_text};
use crate::ui::Ui;

/// Analyzes a case.
///
/// # Errors
///
/// When the case has no rows or its evidence is damaged.
pub fn run(args: &CaseArgs, ui: &Ui) -> Result<u8, CommandError> {
    let (_, evidence) = load_evidence(&args.case)?;
    let analysis = analyze(&evidence);
    ui.answer(
        &to_text(&analysis, &evidence.plan),
        &to_json(&analysis, crate::TOOL),
    );
    for torn in &evidence.torn {
        ui.say(&format!("a write was cut off and is not counted: {torn}"));
    }
    Ok(match analysis.verdict {
        Verdict::Invalid => exit::NO,
        Verdict::Inconclusive => exit::NO_ANSWER,
        _ => exit::YES,
    })
}
