//! `regbundle bundle`: the evidence tree.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::load_evidence;
use crate::bundle::assemble::{Derived, bag_info, derive, inputs};
use crate::bundle::{bundle_id, seal};
use crate::cli::BundleArgs;
use crate::edge::host::private_names;
use crate::edge::tree::write_directory;
use crate::error::CommandError;
use crate::model::case::Case;
use crate::model::redact::Redactor;
use crate::model::tree::Tree;
use crate::ui::Ui;

/// A sealed tree and what it says.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) tree: Tree,
    pub(crate) id: String,
    pub(crate) derived: Derived,
}

/// Assembles the tree of a case in memory.
pub(crate) fn assemble(case: &Path) -> Result<Assembled, CommandError> {
    let (loaded, evidence) = load_evidence(case)?;
    // Same inputs, same bytes: never the time of assembling.
    let seconds = source_date_epoch()?.unwrap_or(evidence.last_seconds);
    let mut case = loaded.case.clone();
    redact(&mut case);
    let mut content = inputs(&case, &evidence, &loaded.files, crate::TOOL, seconds)?;
    let derived = derive(&content)?;
    content.extend(derived.files.clone());
    let tree = seal(&content, &bag_info(&derived))?;
    let id = bundle_id(&tree).unwrap_or_default();
    Ok(Assembled { tree, id, derived })
}

/// Reads the date that the environment asks for, seconds since 1970.
fn source_date_epoch() -> Result<Option<i64>, CommandError> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let seconds = value.to_str().and_then(|text| text.parse().ok());
    let is_date = |seconds: &i64| *seconds >= 0 && jiff::Timestamp::from_second(*seconds).is_ok();
    match seconds.filter(is_date) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(CommandError::Argument {
            found: format!("SOURCE_DATE_EPOCH=\"{}\"", value.display()),
            wanted: "seconds since 1970, such as 1700000000; set it so, or unset it",
        }),
    }
}

/// Replaces private names in what the reporter says of the machine. Title, scope and
/// addresses are his public words, and a login name may be an ordinary word in them;
/// journals hold no private name and must stay as chained.
fn redact(case: &mut Case) {
    let redactor = Redactor::new(private_names(Path::new("/")));
    if let Some(description) = case.machine.description.as_mut() {
        *description = redactor.redact(description);
    }
}

/// Writes the tree of a case.
///
/// # Errors
///
/// When the evidence is damaged or the target exists.
pub fn run(args: &BundleArgs, ui: &Ui) -> Result<u8, CommandError> {
    let assembled = assemble(&args.case)?;
    let target = args
        .out
        .clone()
        .unwrap_or_else(|| default_target(&args.case, &assembled));
    write(&target, &assembled.tree)?;
    let verdict = assembled.derived.analysis.verdict.word();
    ui.answer(
        &format!(
            "{}\nBundle-Id {}\n{} files; {verdict}",
            target.display(),
            assembled.id,
            assembled.tree.len()
        ),
        &json!({
            "format": 1,
            "tool": crate::TOOL,
            "path": target.display().to_string(),
            "bundle_id": assembled.id,
            "files": assembled.tree.len(),
            "verdict": verdict,
        }),
    );
    Ok(0)
}

/// Writes a tree as a new folder, and the folders above it where they are missing.
pub(super) fn write(target: &Path, tree: &Tree) -> Result<(), CommandError> {
    if let Some(parent) = target
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        std::fs::create_dir_all(parent).map_err(|source| CommandError::Io {
            path: parent.display().to_string(),
            action: "create the folder",
            source,
        })?;
    }
    Ok(write_directory(target, tree)?)
}

/// Returns `CASE/bundle/ID`.
pub(super) fn default_target(case: &Path, assembled: &Assembled) -> PathBuf {
    case.join("bundle").join(&assembled.derived.case.id)
}
