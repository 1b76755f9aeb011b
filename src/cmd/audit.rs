//! `regbundle audit`: every claim of a tree.

use std::path::Path;

use serde_json::json;

use crate::audit::own_tree::audit_tree;
use crate::audit::{Answer, Audit, ClaimVerdict};
use crate::bundle::check;
use crate::cli::AuditArgs;
use crate::edge::git::read_commit;
use crate::edge::tree::read_directory;
use crate::error::{CommandError, exit};
use crate::model::tree::Tree;
use crate::render::wrap::hang;
use crate::ui::Ui;

/// Reads the tree that an argument names: a folder, or REPO@COMMIT[:PATH].
fn read(argument: &str) -> Result<Tree, CommandError> {
    let path = Path::new(argument);
    if path.is_dir() {
        return Ok(read_directory(path)?);
    }
    if path.is_file() {
        return Err(CommandError::Argument {
            found: format!("the file {argument}"),
            wanted: "the folder of a regbundle tree, or REPO@COMMIT[:PATH]; this version audits no other input",
        });
    }
    if let Some((repo, rest)) = argument.rsplit_once('@') {
        let (commit, inner) = match rest.split_once(':') {
            Some((commit, inner)) => (commit, Some(inner)),
            None => (rest, None),
        };
        return Ok(read_commit(Path::new(repo), commit, inner)?);
    }
    Err(CommandError::Argument {
        found: argument.to_owned(),
        wanted: "a folder that exists, or REPO@COMMIT[:PATH] with a full commit id",
    })
}

/// Audits a tree.
///
/// # Errors
///
/// When the tree cannot be read, or what the claims rest on is damaged.
pub fn run(args: &AuditArgs, ui: &Ui) -> Result<u8, CommandError> {
    let tree = read(&args.tree)?;
    super::verify::is_tree(&tree, &args.tree)?;
    let findings = check(&tree);
    if !findings.is_empty() {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        ui.answer(
            &format!(
                "REJECTED: the tree is not intact, so no claim was checked\n{}",
                lines.join("\n")
            ),
            &json!({
                "format": 1, "tool": crate::TOOL, "answer": "REJECTED", "findings": lines,
                "summary": {"confirmed": 0, "contradicted": 0, "not_checkable": 0}, "claims": [],
            }),
        );
        return Ok(exit::REJECTED);
    }
    let audit = audit_tree(&tree)?;
    ui.answer(&text(&audit), &to_json(&audit));
    if args.strict && audit.exit_code() == exit::YES && audit.count(ClaimVerdict::NotCheckable) > 0
    {
        return Ok(exit::NO_ANSWER);
    }
    Ok(audit.exit_code())
}

/// Returns the audit as JSON.
pub(super) fn to_json(audit: &Audit) -> serde_json::Value {
    json!({
        "format": 1,
        "tool": crate::TOOL,
        "summary": {
            "confirmed": audit.count(ClaimVerdict::Confirmed),
            "contradicted": audit.count(ClaimVerdict::Contradicted),
            "not_checkable": audit.count(ClaimVerdict::NotCheckable),
        },
        "claims": audit.answers,
        "remarks": audit.remarks,
    })
}

fn line(answer: &Answer) -> String {
    let mut text = format!(
        "{} {} {}: {} = {}",
        answer.verdict.word(),
        answer.place,
        answer.id,
        answer.quote,
        answer.claimed
    );
    if answer.verdict == ClaimVerdict::Contradicted
        && let Some(recomputed) = &answer.recomputed
    {
        text.push_str(&format!("; the evidence gives {recomputed}"));
    }
    text.push_str(&format!(" [{}]", answer.definition));
    if let Some(missing) = &answer.missing {
        text.push_str(&format!("; {missing}"));
    }
    text
}

fn text(audit: &Audit) -> String {
    let mut text = String::new();
    for answer in &audit.answers {
        text.push_str(&hang(&line(answer), "", "    "));
    }
    for remark in &audit.remarks {
        text.push_str(&hang(&format!("remark: {remark}"), "", "    "));
    }
    let counts = format!(
        "{} CONFIRMED, {} CONTRADICTED, {} NOT-CHECKABLE (claims, figures quoted in the README, derived files)",
        audit.count(ClaimVerdict::Confirmed),
        audit.count(ClaimVerdict::Contradicted),
        audit.count(ClaimVerdict::NotCheckable)
    );
    text.push_str(&hang(&counts, "", "    "));
    text
}
