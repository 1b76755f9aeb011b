//! Verification: a tree against what follows from its own inputs.

use super::assemble::{AssembleError, Derived, derive, is_input};
use crate::model::tree::Tree;
use crate::render::template::TEMPLATE_FORMAT;

/// Tag files that every bag has and no input gives.
const BAG_FILES: [&str; 5] = [
    ".gitattributes",
    "bag-info.txt",
    "bagit.txt",
    "manifest-sha256.txt",
    "tagmanifest-sha256.txt",
];

/// What verification found beyond digests.
#[derive(Debug)]
pub struct Verification {
    /// What the tree says, computed anew.
    pub derived: Derived,
    /// Derived files that are the same byte for byte.
    pub same: usize,
    /// Files that do not follow, with the reason.
    pub differing: Vec<String>,
    /// Files of an older template format, not compared.
    pub not_checked: Vec<String>,
}

/// Computes the derived files again and compares them.
///
/// # Errors
///
/// When an input is missing, damaged or not understood.
pub fn verify(tree: &Tree) -> Result<Verification, AssembleError> {
    let derived = derive(tree)?;
    let mut same = 0;
    let mut differing = Vec::new();
    let mut not_checked = Vec::new();
    for (path, wanted) in &derived.files {
        let is_text = !path.starts_with("data/") && path != "claims.json";
        match tree.get(path) {
            Some(found) if found.bytes == wanted.bytes => same += 1,
            _ if is_text && derived.tool.template_format != TEMPLATE_FORMAT => {
                not_checked.push(format!(
                    "{path}: rendered by format {}",
                    derived.tool.template_format
                ))
            }
            Some(_) => differing.push(format!("{path}: does not follow from plan and journal")),
            None => differing.push(format!("{path}: missing, it follows from plan and journal")),
        }
    }
    for path in tree.keys() {
        let known = is_input(path)
            || derived.files.contains_key(path)
            || BAG_FILES.contains(&path.as_str());
        if !known {
            differing.push(format!("{path}: follows from nothing in this tree"));
        }
    }
    Ok(Verification {
        derived,
        same,
        differing,
        not_checked,
    })
}
