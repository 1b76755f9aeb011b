//! `regbundle report`: the mail.

use serde_json::json;

use super::bundle::{Assembled, assemble};
use crate::bundle::assemble::mail_body;
use crate::cli::ReportArgs;
use crate::edge::case_folder::create_whole;
use crate::error::CommandError;
use crate::render::context::Links;
use crate::render::mail::{MailSources, mail};
use crate::render::mail_kind::{mail_kind, without_regzbot};
use crate::ui::Ui;

/// Renders the mail of an assembled tree.
pub(super) fn render_mail(
    assembled: &Assembled,
    links: Option<Links>,
) -> Result<String, CommandError> {
    let derived = &assembled.derived;
    let body = mail_body(derived, links)?;
    Ok(mail(&MailSources {
        case: &derived.case,
        analysis: &derived.analysis,
        kind: mail_kind(&derived.case, &derived.analysis),
        body: &body,
        bundle_id: &assembled.id,
        seconds: derived.tool.date_seconds,
        version: env!("CARGO_PKG_VERSION"),
    })?)
}

/// Prints the mail, or writes it to a new file.
///
/// # Errors
///
/// When facts are missing, a validity gate fails or the file exists.
pub fn run(args: &ReportArgs, ui: &Ui) -> Result<u8, CommandError> {
    let assembled = assemble(&args.case)?;
    let text = render_mail(&assembled, None)?;
    match &args.out {
        None => ui.answer(
            &text,
            &json!({"format": 1, "tool": crate::TOOL, "mail": text}),
        ),
        Some(path) => {
            create_whole(path, text.as_bytes())?;
            ui.say(&format!("{}: written, not sent", path.display()));
        }
    }
    let derived = &assembled.derived;
    if let Some(reason) = without_regzbot(&derived.case, &derived.analysis) {
        ui.say(&format!("the mail has no #regzbot lines: {reason}"));
    }
    ui.say("the evidence is not published yet, so the mail has no link to it; `regbundle publish` writes the final one");
    Ok(0)
}
