//! `regbundle verify`: digests, then regeneration.

use serde_json::json;

use crate::bundle::compare::verify;
use crate::bundle::{DECLARATION, bundle_id, check};
use crate::cli::TreeArgs;
use crate::edge::tree::read_directory;
use crate::error::{CommandError, exit};
use crate::model::tree::Tree;
use crate::ui::Ui;

/// Says in one line when a folder is no tree at all, rather than what every file lacks.
pub(super) fn is_tree(tree: &Tree, path: &str) -> Result<(), CommandError> {
    if tree.contains_key(DECLARATION) {
        return Ok(());
    }
    Err(CommandError::NoTree {
        path: path.to_owned(),
    })
}

/// Verifies a tree.
///
/// # Errors
///
/// When the tree cannot be read, or its plan or journal is damaged.
pub fn run(args: &TreeArgs, ui: &Ui) -> Result<u8, CommandError> {
    let tree = read_directory(&args.tree)?;
    is_tree(&tree, &args.tree.display().to_string())?;
    let findings = check(&tree);
    if !findings.is_empty() {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        ui.answer(
            &format!("REJECTED: the tree is not intact\n{}", lines.join("\n")),
            &json!({
                "format": 1, "tool": crate::TOOL, "answer": "REJECTED",
                "findings": lines,
            }),
        );
        return Ok(exit::REJECTED);
    }
    let verification = verify(&tree)?;
    let id = bundle_id(&tree).unwrap_or_default();
    let good = verification.differing.is_empty();
    let verdict = verification.derived.analysis.verdict.word();
    let mut text = format!(
        "{} files intact, Bundle-Id {id}\n{} derived files computed again, the same byte for byte\n",
        tree.len(),
        verification.same
    );
    for line in &verification.differing {
        text.push_str(&format!("DIFFERS {line}\n"));
    }
    for line in &verification.not_checked {
        text.push_str(&format!("NOT-CHECKED {line}\n"));
    }
    text.push_str(&format!("{}\n", verification.derived.analysis.sentence));
    ui.answer(
        &text,
        &json!({
            "format": 1,
            "tool": crate::TOOL,
            "answer": if good { "INTACT" } else { "DIFFERS" },
            "bundle_id": id,
            "same": verification.same,
            "differing": verification.differing,
            "not_checked": verification.not_checked,
            "verdict": verdict,
        }),
    );
    Ok(if good { exit::YES } else { exit::NO })
}
