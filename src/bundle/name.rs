//! Which names may stand in a tree.
//!
//! Purpose: one grammar for writing and for judging (`profile_fault`), one weaker rule
//! for reading what others wrote (`hostile_fault`), and the display form of any name.
//! The grammar is so narrow that neither percent-encoding nor the escaping of
//! `sha256sum` is ever needed. It compares strings only and touches no file.

use std::collections::BTreeMap;

use super::limits::{Limits, path_within};

/// The one name that may begin with a dot, at the root only.
pub const ATTRIBUTES: &str = ".gitattributes";

/// Why a path is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Finding code.
    pub code: &'static str,
    /// What is wrong with the path, a clause that follows the path.
    pub why: &'static str,
}

const fn fault(code: &'static str, why: &'static str) -> Option<Fault> {
    Some(Fault { code, why })
}

/// Judges a path from the root of a tree by the rules of our own format.
#[must_use]
pub fn profile_fault(path: &str) -> Option<Fault> {
    if let Some(found) = hostile_fault(path) {
        return Some(found);
    }
    if path.starts_with('~') || path.contains('\\') || has_drive_letter(path) {
        return fault("E-PATH", "does not stay inside the tree on every system");
    }
    for (depth, component) in path.split('/').enumerate() {
        if component == ATTRIBUTES {
            if depth == 0 && path == ATTRIBUTES {
                continue;
            }
            return fault("E-ATTR", "is an attributes file below the root");
        }
        if component.starts_with(['-', '.']) {
            return fault("E-NAME", "has a component that begins with `-` or `.`");
        }
        if !component.bytes().all(is_name_byte) {
            return fault("E-NAME", "has a byte outside of `A-Za-z0-9._+@=-`");
        }
    }
    if path_within(path, &Limits::DEFAULT).is_err() {
        return fault(
            "E-LIMIT",
            "is longer than 240 bytes, deeper than 16, or has a name over 128 bytes",
        );
    }
    None
}

/// Judges a path of a tree of any make: would it leave the tree, be run by git, or lie on a screen.
#[must_use]
pub fn hostile_fault(path: &str) -> Option<Fault> {
    if path
        .split('/')
        .any(|component| matches!(component, "" | "." | ".."))
    {
        return fault(
            "E-PATH",
            "has an empty component, `.` or `..`, or an outer `/`",
        );
    }
    if path.chars().any(is_hidden) {
        return fault("E-NAME", "has a control, direction or invisible character");
    }
    if path.split('/').any(is_git_name) {
        return fault("E-GITDIR", "has a name that git acts on");
    }
    None
}

/// Two paths of `paths` that one folder cannot hold on every system, with the reason.
pub fn collisions<'a>(
    paths: impl Iterator<Item = &'a str>,
) -> Vec<(&'a str, &'a str, &'static str)> {
    let mut seen: BTreeMap<String, (&'a str, bool)> = BTreeMap::new();
    let mut found = Vec::new();
    for path in paths {
        for (prefix, is_file) in prefixes(path) {
            match seen.get(&prefix.to_lowercase()) {
                Some(&(other, _)) if other != prefix => {
                    found.push((path, other, "differ only in case"));
                    break;
                }
                Some(&(other, other_is_file)) if is_file || other_is_file => {
                    found.push((path, other, "are a file and a folder of one name"));
                    break;
                }
                Some(_) => {}
                None => {
                    seen.insert(prefix.to_lowercase(), (prefix, is_file));
                }
            }
        }
    }
    found
}

/// The same text with every character that is not printable ASCII written as `\u{...}`.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == ' ' || character.is_ascii_graphic() {
            out.push(character);
        } else {
            out.extend(character.escape_unicode());
        }
    }
    out
}

/// Every folder of a path and the path itself, with whether it is the file.
fn prefixes(path: &str) -> impl Iterator<Item = (&str, bool)> {
    path.match_indices('/')
        .filter_map(|(at, _)| path.get(..at))
        .map(|folder| (folder, false))
        .chain(std::iter::once((path, true)))
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'+' | b'@' | b'=' | b'-')
}

fn has_drive_letter(path: &str) -> bool {
    let mut bytes = path.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic()) && bytes.next() == Some(b':')
}

/// Names that git takes for a repository or a module list, also by way of a folding file system.
fn is_git_name(component: &str) -> bool {
    let folded = component.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    matches!(folded.as_str(), ".git" | "git~1" | ".gitmodules")
}

/// Control characters, direction marks, zero-width characters and tag characters (Unicode Cf).
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str) -> &'static str {
        profile_fault(path).map_or("", |found| found.code)
    }

    #[test]
    fn names_of_the_format_are_accepted() {
        for path in [
            "README.md",
            ".gitattributes",
            "data/points/1-parent-a/rows.tsv",
            "data/a+b@c=d_e-f.1",
        ] {
            assert_eq!(code(path), "", "{path}");
        }
    }

    #[test]
    fn every_listed_way_out_of_the_tree_is_a_path_fault() {
        for path in [
            "../x",
            "/etc/x",
            "~root/x",
            "~/x",
            "data/../x",
            "data//a",
            "C:\\x",
            "C:/x",
            "data/",
            "",
            "./x",
            "a\\..\\b",
        ] {
            assert_eq!(code(path), "E-PATH", "{path}");
        }
    }

    #[test]
    fn names_that_lie_on_a_screen_are_refused_also_in_foreign_trees() {
        for path in [
            "a\u{1b}[2J",
            "a\rb",
            "a\nb",
            "a\tb",
            "a\u{9b}b",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{feff}b",
            "a\u{e0041}b",
            "a\u{7f}",
        ] {
            assert_eq!(hostile_fault(path).map(|found| found.code), Some("E-NAME"));
            assert!(shown(path).bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        }
    }

    #[test]
    fn names_that_git_acts_on_are_refused() {
        for path in [
            "data/.git/config",
            ".GIT/x",
            "a/.gitmodules",
            "GIT~1",
            ".git./x",
        ] {
            assert_eq!(code(path), "E-GITDIR", "{path}");
        }
        assert_eq!(code("data/.gitattributes"), "E-ATTR");
    }

    #[test]
    fn other_names_outside_of_the_grammar_are_name_faults() {
        for path in [
            "a b",
            "-rf",
            "data/.hidden",
            "caf\u{e9}",
            "a%20b",
            "a*b",
            "a'b",
        ] {
            assert_eq!(code(path), "E-NAME", "{path}");
        }
        assert_eq!(hostile_fault("a b/caf\u{e9}"), None);
    }

    #[test]
    fn length_and_depth_stop_at_their_limits() {
        assert_eq!(code(&"a".repeat(128)), "");
        assert_eq!(code(&"a".repeat(129)), "E-LIMIT");
        assert_eq!(code(&["a"; 16].join("/")), "");
        assert_eq!(code(&["a"; 17].join("/")), "E-LIMIT");
    }

    #[test]
    fn twins_collide_in_folders_too() {
        assert_eq!(collisions(["a/x", "a/y", "b"].into_iter()), []);
        assert_eq!(collisions(["A/x", "a/y"].into_iter()).len(), 1);
        assert_eq!(collisions(["x", "X"].into_iter()).len(), 1);
        assert_eq!(collisions(["a", "a/b"].into_iter()).len(), 1);
    }
}
