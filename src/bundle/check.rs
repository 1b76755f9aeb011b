//! Whether a tree still is a bundle of our format, byte for byte.
//!
//! Purpose: find every changed, missing, added or smuggled file and name it. Input: a
//! tree. Output: findings in a fixed order; none means intact. Everything is judged,
//! nothing stops at the first fault. It does not look at what the evidence says, and
//! it judges by our profile, which is stricter than RFC 8493.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::{self, IntegrityFinding, Kind, Line, RESTORE};
use super::name::{ATTRIBUTES, collisions, profile_fault, shown};
use super::{
    ATTRIBUTES_TEXT, DECLARATION, DECLARATION_TEXT, FETCH, INFO, MANIFEST, OXUM, TAG_MANIFEST, oxum,
};
use crate::model::digest::sha256_hex;
use crate::model::tree::Tree;

/// What a message says when a checkout has converted LF into CR LF.
const LINE_ENDINGS: &str = "differs only in line endings (LF became CR LF): clone again with `git -c core.autocrlf=false clone`";

/// Judges a tree by the profile of our own bundles; empty when it is intact.
#[must_use]
pub fn check(tree: &Tree) -> Vec<IntegrityFinding> {
    let mut findings = Vec::new();
    names(tree, &mut findings);
    repositories(tree, &mut findings);
    exact(tree, DECLARATION, DECLARATION_TEXT, &mut findings);
    exact(tree, ATTRIBUTES, ATTRIBUTES_TEXT, &mut findings);
    algorithms(tree, &mut findings);
    listing(tree, Kind::Tag, &mut findings);
    information(tree, &mut findings);
    listing(tree, Kind::Payload, &mut findings);
    findings
}

fn finding(
    code: &'static str,
    path: &str,
    line: Option<usize>,
    message: String,
) -> IntegrityFinding {
    IntegrityFinding {
        code,
        path: path.to_owned(),
        line,
        message,
    }
}

fn names(tree: &Tree, findings: &mut Vec<IntegrityFinding>) {
    for path in tree.keys() {
        let at = shown(path);
        if let Some(fault) = profile_fault(path) {
            let message = format!("`{at}` {}; take it out of the tree", fault.why);
            findings.push(finding(fault.code, path, None, message));
        }
        if path.eq_ignore_ascii_case(FETCH) {
            let message =
                format!("{at} names files to download, a bundle holds all its files; {RESTORE}");
            findings.push(finding("E-FETCH", path, None, message));
        }
    }
    for (path, other, why) in collisions(tree.keys().map(String::as_str)) {
        let message = format!("`{}` and `{}` {why}; rename one", shown(path), shown(other));
        findings.push(finding("E-COLLIDE", path, None, message));
    }
}

/// Finds bare repositories: git runs their configuration for whoever steps into the folder.
fn repositories(tree: &Tree, findings: &mut Vec<IntegrityFinding>) {
    for path in tree.keys() {
        let Some(folder) = path.strip_suffix("HEAD") else {
            continue;
        };
        if !(folder.is_empty() || folder.ends_with('/')) {
            continue;
        }
        let objects = format!("{folder}objects/");
        let next = tree.range(objects.clone()..).next();
        if next.is_some_and(|(other, _)| other.starts_with(&objects)) {
            let message = format!(
                "`{}` and `{}` make a git repository inside the tree; take it out",
                shown(path),
                shown(&objects)
            );
            findings.push(finding("E-GITDIR", path, None, message));
        }
    }
}

/// Compares a file whose content the format fixes.
fn exact(tree: &Tree, path: &str, wanted: &str, findings: &mut Vec<IntegrityFinding>) {
    let Some(entry) = tree.get(path) else {
        let message = format!("{path} is missing, every bundle has it; {RESTORE}");
        findings.push(finding("E-MISSING", path, None, message));
        return;
    };
    if entry.bytes == wanted.as_bytes() {
        return;
    }
    let default = if path == ATTRIBUTES {
        "E-ATTR"
    } else {
        "E-DECL"
    };
    let found = String::from_utf8_lossy(&entry.bytes);
    let mut pairs = found.split('\n').zip(wanted.split('\n'));
    let line = pairs
        .position(|(is, should)| is != should)
        .map_or(1, |index| index.saturating_add(1));
    let is = found.split('\n').nth(line.saturating_sub(1)).unwrap_or("");
    let should = wanted.split('\n').nth(line.saturating_sub(1)).unwrap_or("");
    let message = if converted(&entry.bytes, |text| text == wanted.as_bytes()) {
        format!("{path} {LINE_ENDINGS}")
    } else {
        format!(
            "{path} line {line} is `{}`, wanted `{should}`; {RESTORE}",
            shown(&is.chars().take(100).collect::<String>())
        )
    };
    let label = "Tag-File-Character-Encoding: ";
    let code = match is.strip_prefix(label) {
        Some(encoding) if path == DECLARATION && encoding.trim() != "UTF-8" => "E-ENCODING",
        _ => default,
    };
    findings.push(finding(code, path, Some(line), message));
}

/// Whether the bytes are right once CR LF is LF again.
fn converted(bytes: &[u8], right: impl Fn(&[u8]) -> bool) -> bool {
    manifest::without_carriage_returns(bytes).is_some_and(|text| right(&text))
}

/// Reports manifests that are not ours: a weak or second digest only adds ways to disagree.
fn algorithms(tree: &Tree, findings: &mut Vec<IntegrityFinding>) {
    for path in tree.keys() {
        let lower = path.to_ascii_lowercase();
        let Some(algorithm) = lower
            .strip_prefix("tagmanifest-")
            .or_else(|| lower.strip_prefix("manifest-"))
            .and_then(|rest| rest.strip_suffix(".txt"))
        else {
            continue;
        };
        if algorithm.contains('/') || path == MANIFEST || path == TAG_MANIFEST {
            continue;
        }
        let weak = matches!(
            algorithm,
            "md5" | "sha1" | "sha-1" | "md4" | "md2" | "crc32"
        );
        let (code, what) = if weak {
            ("E-WEAK", "a weak digest")
        } else {
            ("E-ALG", "another algorithm")
        };
        let message = format!(
            "{} is a manifest of {what}, a bundle has sha256 alone; take it out",
            shown(path)
        );
        findings.push(finding(code, path, None, message));
    }
}

fn information(tree: &Tree, findings: &mut Vec<IntegrityFinding>) {
    let Some(entry) = tree.get(INFO) else {
        let message = format!("{INFO} is missing, every bundle has it; {RESTORE}");
        findings.push(finding("E-MISSING", INFO, None, message));
        return;
    };
    let Ok(text) = str::from_utf8(&entry.bytes) else {
        let message = format!("{INFO} is not UTF-8, as {DECLARATION} says it is; {RESTORE}");
        findings.push(finding("E-ENCODING", INFO, None, message));
        return;
    };
    let mut sizes = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index.saturating_add(1);
        match line.split_once(": ") {
            Some((OXUM, value)) => sizes.push((number, value)),
            Some((label, value))
                if !label.is_empty() && !label.starts_with(' ') && shown(value) == value => {}
            _ => {
                let message =
                    format!("{INFO} line {number} is not `label: value` in one line; {RESTORE}");
                findings.push(finding("E-SYNTAX", INFO, Some(number), message));
            }
        }
    }
    let wanted = oxum(tree);
    match sizes.as_slice() {
        [(_, found)] if *found == wanted => {}
        [(number, found)] => {
            let found = shown(found);
            let message = format!(
                "{INFO} line {number} says {OXUM} {found}, the payload has {wanted} (bytes.files); {RESTORE}"
            );
            findings.push(finding("E-OXUM", INFO, Some(*number), message));
        }
        lines => {
            let count = lines.len();
            let message = format!("{INFO} has {count} lines {OXUM}, wanted one; {RESTORE}");
            findings.push(finding("E-OXUM", INFO, None, message));
        }
    }
}

/// Judges one manifest and the files it lists or should list.
fn listing(tree: &Tree, kind: Kind, findings: &mut Vec<IntegrityFinding>) {
    let file = kind.file();
    let Some(entry) = tree.get(file) else {
        let code = match kind {
            Kind::Tag => "E-NOTAG",
            Kind::Payload => "E-MISSING",
        };
        let message =
            format!("{file} is missing, without it nothing it lists is proven; {RESTORE}");
        findings.push(finding(code, file, None, message));
        return;
    };
    let (lines, faults) = manifest::parse(kind, &entry.bytes);
    // A converted manifest is damaged, but its digests still say which files are not.
    let repaired = manifest::without_carriage_returns(&entry.bytes)
        .filter(|text| !faults.is_empty() && manifest::parse(kind, text).1.is_empty());
    if let Some(text) = &repaired {
        findings.push(finding(
            "E-SYNTAX",
            file,
            None,
            format!("{file} {LINE_ENDINGS}"),
        ));
        compare(tree, kind, &manifest::parse(kind, text).0, findings);
    } else {
        findings.extend(faults);
        compare(tree, kind, &lines, findings);
    }
}

fn compare(tree: &Tree, kind: Kind, lines: &[Line<'_>], findings: &mut Vec<IntegrityFinding>) {
    let file = kind.file();
    let mut listed = BTreeSet::new();
    let mut missing = BTreeMap::new();
    for line in lines {
        let (path, number) = (line.path, line.number);
        listed.insert(path);
        let Some(entry) = tree.get(path) else {
            missing.insert(line.digest, path);
            let message = format!("{path} is missing, {file} line {number} lists it; {RESTORE}");
            findings.push(finding("E-MISSING", path, Some(number), message));
            continue;
        };
        let found = sha256_hex(&entry.bytes);
        if found == line.digest {
            continue;
        }
        let message = if converted(&entry.bytes, |text| sha256_hex(text) == line.digest) {
            format!("{path} {LINE_ENDINGS} ({file} line {number})")
        } else {
            format!(
                "{path} has sha256 {found}, {file} line {number} wants {}: one of the two changed; {RESTORE}",
                line.digest
            )
        };
        findings.push(finding("E-DIGEST", path, Some(number), message));
    }
    for (path, entry) in tree {
        if kind.lists(path) && !listed.contains(path.as_str()) {
            let at = shown(path);
            let hint = missing.get(sha256_hex(&entry.bytes).as_str()).map_or_else(
                || RESTORE.to_owned(),
                |old| format!("it has the content of {old}, rename it back"),
            );
            let message = format!("{at} is not listed in {file}, every file is; {hint}");
            findings.push(finding(unlisted_code(path), path, None, message));
        }
    }
}

/// A tag manifest without the files that carry the bag proves nothing at all.
fn unlisted_code(path: &str) -> &'static str {
    if [DECLARATION, INFO, MANIFEST, ATTRIBUTES].contains(&path) {
        "E-INCOMPLETE"
    } else {
        "E-UNLISTED"
    }
}

#[cfg(test)]
mod tests;
