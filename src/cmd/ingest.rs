//! `regbundle ingest`: raw timing logs made elsewhere.

use serde_json::json;

use super::{load, plan_text};
use crate::cli::IngestArgs;
use crate::engine::ingest::ingest;
use crate::error::CommandError;
use crate::model::case::Implementation;
use crate::ui::Ui;

/// Ingests one file.
///
/// # Errors
///
/// When the file does not fit the case; nothing is written then.
pub fn run(args: &IngestArgs, ui: &Ui) -> Result<u8, CommandError> {
    let implementation = match args.implementation.as_deref() {
        None => None,
        Some(text) => {
            Some(
                Implementation::from_word(text).ok_or_else(|| CommandError::Argument {
                    found: text.to_owned(),
                    wanted: "--implementation formal or --implementation standalone",
                })?,
            )
        }
    };
    let loaded = load(&args.case)?;
    let _lock = loaded.folder.lock()?;
    let report = ingest(
        &loaded.folder,
        &loaded.case,
        &plan_text(&loaded)?,
        &args.file,
        args.point.as_deref(),
        implementation,
    )?;
    let mut text = format!("kept as {}\n", report.path);
    for item in &report.items {
        text.push_str(&format!("  {item}\n"));
    }
    if report.per_op_only > 0 {
        text.push_str(&format!(
            "  {} rows give only a per-op figure: no integer elapsed time and ops, which every output says\n",
            report.per_op_only
        ));
    }
    if report.planned {
        text.push_str(
            "plan.json written: points, workloads, parameters and thresholds of case.toml are fixed from now on\n",
        );
    }
    ui.answer(
        &text,
        &json!({
            "format": 1,
            "tool": crate::TOOL,
            "path": report.path,
            "items": report.items,
            "per_op_only": report.per_op_only,
            "plan_written": report.planned,
        }),
    );
    Ok(0)
}
