//! Verification: a tree against what follows from its own inputs.

use super::assemble::{AssembleError, Derived, bag_info, derive, is_input};
use super::{INFO, OXUM};
use crate::model::digest::sha256_hex;
use crate::model::shown::printable;
use crate::model::tree::Tree;
use crate::render::template::TEMPLATE_FORMAT;
use crate::workload::declaration::split_scenario;

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

/// Compares the C files with the digests that the rows carry: what is shipped as the
/// reproducer must be what was measured.
#[must_use]
pub fn reproducer_faults(tree: &Tree, derived: &Derived) -> Vec<String> {
    let mut faults = Vec::new();
    let points = &derived.evidence.points;
    for segment in points
        .iter()
        .flat_map(|point| &point.attempts)
        .flat_map(|attempt| &attempt.segments)
    {
        let Some(wanted) = &segment.source_sha256 else {
            continue;
        };
        let (name, _) = split_scenario(&segment.workload);
        let path = format!("data/reproducer/{name}.c");
        let found = tree
            .get(&path)
            .map_or_else(|| "no file".to_owned(), |entry| sha256_hex(&entry.bytes));
        if found != *wanted {
            faults.push(format!(
                "{path}: found {found}, the rows were measured with the source {wanted}"
            ));
        }
    }
    if is_own_version(derived) {
        for (path, wanted) in &derived.reproducer {
            if tree.get(path).map(|entry| &entry.bytes) != Some(&wanted.bytes) {
                faults.push(format!(
                    "{path}: is not the file that {} writes",
                    crate::TOOL
                ));
            }
        }
    }
    faults.sort();
    faults.dedup();
    // One fault a file: the digest of the journal says more than "another file".
    faults.dedup_by(|later, kept| later.split(':').next() == kept.split(':').next());
    faults
}

/// Returns the files of the reproducer that only the version that wrote them can make again,
/// and that no row was measured with.
#[must_use]
pub fn reproducer_unchecked(derived: &Derived) -> Vec<String> {
    if is_own_version(derived) {
        return Vec::new();
    }
    let measured: Vec<&str> = derived
        .evidence
        .points
        .iter()
        .flat_map(|point| &point.attempts)
        .flat_map(|attempt| &attempt.segments)
        .filter(|segment| segment.source_sha256.is_some())
        .map(|segment| split_scenario(&segment.workload).0)
        .collect();
    derived
        .reproducer
        .keys()
        .filter(|path| {
            let name = path
                .strip_prefix("data/reproducer/")
                .and_then(|name| name.strip_suffix(".c"));
            !name.is_some_and(|name| measured.contains(&name))
        })
        .map(|path| format!("{path}: written by {}", derived.tool.tool))
        .collect()
}

fn is_own_version(derived: &Derived) -> bool {
    derived.tool.tool == crate::TOOL && derived.tool.template_format == TEMPLATE_FORMAT
}

/// Returns the files of a tree that nothing in it accounts for.
#[must_use]
pub fn unknown_files(tree: &Tree, derived: &Derived) -> Vec<String> {
    tree.keys()
        .filter(|path| {
            !(is_input(path, &derived.evidence)
                || derived.files.contains_key(*path)
                || derived.reproducer.contains_key(*path)
                || BAG_FILES.contains(&path.as_str()))
        })
        .map(|path| {
            let path = printable(path, 240);
            format!("{path}: follows from nothing in this tree")
        })
        .collect()
}

/// Compares `bag-info.txt` and the modes of files with what bundling writes.
#[must_use]
pub fn tag_faults(tree: &Tree, derived: &Derived) -> Vec<String> {
    let mut faults = Vec::new();
    let text = tree
        .get(INFO)
        .map(|entry| String::from_utf8_lossy(&entry.bytes));
    let found: Vec<&str> = text
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.starts_with(OXUM))
        .collect();
    let wanted = bag_info(derived).map(|(label, value)| format!("{label}: {value}"));
    if found != wanted {
        faults.push(format!(
            "{INFO}: found `{}`, wanted `{}` as follows from data/tool.json and data/case.toml",
            printable(&found.join("; "), 200),
            wanted.join("; ")
        ));
    }
    // On a file system without modes every file looks executable: that says nothing.
    let modes = tree.values().any(|entry| !entry.executable);
    for (path, _) in tree.iter().filter(|(_, entry)| modes && entry.executable) {
        faults.push(format!("{path}: is executable, no file of a bundle is"));
    }
    faults
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
    differing.extend(reproducer_faults(tree, &derived));
    differing.extend(tag_faults(tree, &derived));
    differing.extend(unknown_files(tree, &derived));
    not_checked.extend(reproducer_unchecked(&derived));
    Ok(Verification {
        derived,
        same,
        differing,
        not_checked,
    })
}
