//! The evidence tree: what makes a set of files a bundle, and whether one still is.
//!
//! Purpose: a bundle is a valid BagIt 1.0 bag (RFC 8493) under a stricter profile.
//! `seal` adds the files that make it one, `check` says what is not as it should be.
//! Inputs and outputs are `Tree` values; reading and writing them is done in `edge`.
//! It knows nothing of the meaning of the files it covers.

pub mod assemble;
mod check;
pub mod claims;
pub mod compare;
pub mod limits;
pub mod manifest;
pub mod name;
pub mod points;

pub use check::check;
pub use manifest::IntegrityFinding;

use crate::model::digest::sha256_hex;
use crate::model::tree::{Entry, Tree};
use name::{collisions, profile_fault, shown};

/// The bag declaration (RFC 8493, section 2.1.1).
pub const DECLARATION: &str = "bagit.txt";
/// The declaration's only content; validators want exactly this spelling.
pub const DECLARATION_TEXT: &str = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
/// Metadata of the bag.
pub const INFO: &str = "bag-info.txt";
/// Digests of the files below `data/`.
pub const MANIFEST: &str = "manifest-sha256.txt";
/// Digests of all other files.
pub const TAG_MANIFEST: &str = "tagmanifest-sha256.txt";
/// A list of files to download, which this format does not have.
pub const FETCH: &str = "fetch.txt";
/// What every payload path begins with.
pub const PAYLOAD: &str = "data/";
/// The label of the payload's size, `<bytes>.<files>`.
pub const OXUM: &str = "Payload-Oxum";
/// The attributes that keep a clone with line-ending conversion byte-identical.
pub const ATTRIBUTES_TEXT: &str =
    "* -text -ident -filter -export-subst -export-ignore -working-tree-encoding\n";

/// Why a set of files cannot become a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A path outside of the grammar.
    #[error("path `{path}` {why}: rename the file")]
    Path {
        /// The path, escaped.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two paths that cannot live together on every system.
    #[error("paths `{path}` and `{other}` {why}: rename one")]
    Collision {
        /// The later path, escaped.
        path: String,
        /// The earlier one, escaped.
        other: String,
        /// In what they collide.
        why: &'static str,
    },
    /// A file that sealing itself makes, or that no bundle has.
    #[error("`{path}` is among the content, but sealing writes it or forbids it: leave it out")]
    Reserved {
        /// The path, escaped.
        path: String,
    },
    /// Nothing below `data/`.
    #[error("no file below `data/` in the content, a bundle holds at least one: add the evidence")]
    NoPayload,
    /// A metadata pair that cannot stand on one line.
    #[error("metadata label `{label}` {why}: change the pair")]
    Info {
        /// The label, escaped.
        label: String,
        /// What is wrong with it or its value.
        why: &'static str,
    },
}

/// Turns payload (`data/...`) and tag files into a bundle.
///
/// `info` are the pairs of `bag-info.txt` in order; the payload's size is added last.
///
/// # Errors
///
/// When a path breaks the grammar, two collide, a file is one that sealing writes,
/// there is no payload, or a pair does not fit on one line.
pub fn seal(content: &Tree, info: &[(String, String)]) -> Result<Tree, ManifestError> {
    accept_paths(content)?;
    let mut sealed = content.clone();
    let mut bag_info = String::new();
    for (label, value) in info {
        accept_pair(label, value)?;
        bag_info.push_str(&format!("{label}: {value}\n"));
    }
    bag_info.push_str(&format!("{OXUM}: {}\n", oxum(content)));
    let manifest = manifest::render(listed(content, manifest::Kind::Payload));
    for (path, text) in [
        (DECLARATION, DECLARATION_TEXT.to_owned()),
        (INFO, bag_info),
        (name::ATTRIBUTES, ATTRIBUTES_TEXT.to_owned()),
        (MANIFEST, manifest),
    ] {
        sealed.insert(path.to_owned(), Entry::text(text));
    }
    let tag_manifest = manifest::render(listed(&sealed, manifest::Kind::Tag));
    sealed.insert(TAG_MANIFEST.to_owned(), Entry::text(tag_manifest));
    Ok(sealed)
}

/// The identity of a bundle: SHA-256 of its tag manifest, 64 hex digits; `None` without one.
#[must_use]
pub fn bundle_id(tree: &Tree) -> Option<String> {
    tree.get(TAG_MANIFEST).map(|entry| sha256_hex(&entry.bytes))
}

/// Size of the payload as `<bytes>.<files>`.
fn oxum(tree: &Tree) -> String {
    let mut bytes = 0_usize;
    let mut files = 0_usize;
    for (_, content) in listed(tree, manifest::Kind::Payload) {
        bytes = bytes.saturating_add(content.len());
        files = files.saturating_add(1);
    }
    format!("{bytes}.{files}")
}

/// The files one manifest lists, sorted by path.
fn listed(tree: &Tree, kind: manifest::Kind) -> impl Iterator<Item = (&str, &[u8])> {
    tree.iter()
        .filter(move |(path, _)| kind.lists(path))
        .map(|(path, entry)| (path.as_str(), entry.bytes.as_slice()))
}

fn accept_paths(content: &Tree) -> Result<(), ManifestError> {
    for path in content.keys() {
        let lower = path.to_ascii_lowercase();
        let is_manifest = |prefix: &str| lower.starts_with(prefix) && !lower.contains('/');
        if [DECLARATION, INFO, FETCH, name::ATTRIBUTES].contains(&lower.as_str())
            || is_manifest("manifest-")
            || is_manifest("tagmanifest-")
        {
            return Err(ManifestError::Reserved { path: shown(path) });
        }
        if let Some(fault) = profile_fault(path) {
            return Err(ManifestError::Path {
                path: shown(path),
                why: fault.why,
            });
        }
    }
    if let Some((path, other, why)) = collisions(content.keys().map(String::as_str)).first() {
        return Err(ManifestError::Collision {
            path: shown(path),
            other: shown(other),
            why,
        });
    }
    if !content.keys().any(|path| path.starts_with(PAYLOAD)) {
        return Err(ManifestError::NoPayload);
    }
    Ok(())
}

fn accept_pair(label: &str, value: &str) -> Result<(), ManifestError> {
    let refuse = |why| {
        Err(ManifestError::Info {
            label: shown(label),
            why,
        })
    };
    if label.is_empty()
        || !label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return refuse("is not made of letters, digits and `-`");
    }
    if label.eq_ignore_ascii_case(OXUM) {
        return refuse("is computed while sealing");
    }
    if value.is_empty() || value.trim() != value || name::shown(value) != value {
        return refuse("has a value that is empty, padded, or not printable ASCII");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(files: &[(&str, &str)]) -> Tree {
        files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Entry::text(*text)))
            .collect()
    }

    fn pair(label: &str, value: &str) -> (String, String) {
        (label.to_owned(), value.to_owned())
    }

    #[test]
    fn sealing_adds_exactly_the_files_of_the_format() {
        let sealed = seal(
            &content(&[("README.md", "hi\n"), ("data/b", "22"), ("data/a", "1")]),
            &[
                pair("Source-Organization", "someone"),
                pair("Bag-Group-Identifier", "x"),
            ],
        )
        .unwrap();
        assert_eq!(
            sealed.keys().collect::<Vec<_>>(),
            [
                ".gitattributes",
                "README.md",
                "bag-info.txt",
                "bagit.txt",
                "data/a",
                "data/b",
                "manifest-sha256.txt",
                "tagmanifest-sha256.txt",
            ]
        );
        let text = |path: &str| String::from_utf8(sealed[path].bytes.clone()).unwrap();
        assert_eq!(
            text(INFO),
            "Source-Organization: someone\nBag-Group-Identifier: x\nPayload-Oxum: 3.2\n"
        );
        // Digests by sha256sum of coreutils 9.1.
        assert_eq!(
            text(MANIFEST),
            "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b  data/a\n\
             785f3ec7eb32f30b90cd0fcf3657d388b5ff4297f2f9716ff66e9b69c05ddd09  data/b\n"
        );
        assert_eq!(text(TAG_MANIFEST).lines().count(), 5);
        assert_eq!(check(&sealed), []);
        assert_eq!(
            bundle_id(&sealed),
            Some(sha256_hex(text(TAG_MANIFEST).as_bytes()))
        );
    }

    #[test]
    fn content_that_cannot_be_sealed_is_named() {
        for files in [
            [("data/a", ""), ("data/A", "")],
            [("data/a", ""), ("data/a/b", "")],
            [("data/a", ""), ("data/..", "")],
            [("data/a", ""), ("a b", "")],
            [("data/a", ""), ("bagit.txt", "")],
            [("data/a", ""), ("Manifest-md5.txt", "")],
            [("data/a", ""), ("fetch.txt", "")],
            [("data/a", ""), (".gitattributes", ATTRIBUTES_TEXT)],
        ] {
            let message = seal(&content(&files), &[]).unwrap_err().to_string();
            assert!(message.contains(files[1].0), "{message}");
        }
        assert_eq!(
            seal(&content(&[("README.md", "")]), &[]),
            Err(ManifestError::NoPayload)
        );
    }

    #[test]
    fn metadata_stays_on_its_line() {
        let files = content(&[("data/a", "")]);
        for (label, value) in [
            ("A b", "x"),
            ("", "x"),
            ("A", "x\nPayload-Oxum: 1.1"),
            ("A", ""),
            ("A", " x"),
            ("payload-oxum", "1.1"),
        ] {
            assert!(
                seal(&files, &[pair(label, value)]).is_err(),
                "{label}: {value}"
            );
        }
    }
}
