//! The two manifests: writing their lines, and reading them without believing them.
//!
//! Purpose: a manifest is 64 lower-case hex digits, two spaces, a path and LF per line,
//! sorted bytewise by path, so that `sha256sum --strict -c` and any BagIt tool accept
//! it. Inputs: bytes. Outputs: lines, and one finding for each thing that is not so.
//! It does not look at the files named (`check` does) and reads no other algorithm.

use std::collections::BTreeSet;

use super::name::{profile_fault, shown};
use crate::model::digest::sha256_hex;

/// One thing that is not as the format wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityFinding {
    /// Kind, as `E-DIGEST`.
    pub code: &'static str,
    /// The file, from the root of the tree; as found, so escape it before showing.
    pub path: String,
    /// Line, from 1: of `path` when the finding is about its text, of the manifest named in
    /// the message when it is about a listed file.
    pub line: Option<usize>,
    /// What was found, what was wanted, where, what to do; safe to show.
    pub message: String,
}

impl std::fmt::Display for IntegrityFinding {
    /// Writes the code and the message; the message names the place.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = shown(&self.path);
        if self.message.contains(&path) {
            write!(formatter, "{} {}", self.code, self.message)
        } else {
            write!(formatter, "{} {path}: {}", self.code, self.message)
        }
    }
}

/// Longest line that is read, in bytes without its LF.
pub const LINE_BYTES: usize = 4096;
/// Largest manifest that is read, in bytes: 65,536 lines of 128 bytes.
pub const MANIFEST_BYTES: usize = 8 << 20;
/// Hex digits of a SHA-256.
const DIGEST_DIGITS: usize = 64;
/// What every finding on a damaged file ends with.
pub(super) const RESTORE: &str = "take a fresh copy of the tree";

/// Which of the two manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `manifest-sha256.txt`, of the files below `data/`.
    Payload,
    /// `tagmanifest-sha256.txt`, of all other files but itself.
    Tag,
}

impl Kind {
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Payload => super::MANIFEST,
            Self::Tag => super::TAG_MANIFEST,
        }
    }

    /// Whether this manifest is the one that lists `path`.
    pub(super) fn lists(self, path: &str) -> bool {
        match self {
            Self::Payload => path.starts_with(super::PAYLOAD),
            Self::Tag => !path.starts_with(super::PAYLOAD) && path != super::TAG_MANIFEST,
        }
    }
}

/// A line that could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) digest: &'a str,
    pub(super) path: &'a str,
}

/// Renders a manifest; `files` must be sorted by path, as a `Tree` is.
pub(super) fn render<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut text = String::new();
    for (path, bytes) in files {
        text.push_str(&sha256_hex(bytes));
        text.push_str("  ");
        text.push_str(path);
        text.push('\n');
    }
    text
}

/// The same bytes with each CR LF as LF; `None` when there is no CR LF.
pub(super) fn without_carriage_returns(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\r' || rest.peek() != Some(&b'\n') {
            out.push(byte);
        }
    }
    (out.len() < bytes.len()).then_some(out)
}

/// Reads every line that can be read and reports the others.
pub(super) fn parse(kind: Kind, text: &[u8]) -> (Vec<Line<'_>>, Vec<IntegrityFinding>) {
    let mut reader = Reader {
        kind,
        lines: Vec::new(),
        findings: Vec::new(),
        seen: BTreeSet::new(),
        folded: BTreeSet::new(),
    };
    if text.len() > MANIFEST_BYTES {
        let size = text.len();
        reader.syntax(
            "E-LIMIT",
            None,
            &format!("has {size} bytes, at most {MANIFEST_BYTES} are read"),
        );
        return (reader.lines, reader.findings);
    }
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    if !text.is_empty() {
        for (index, line) in body.split(|&byte| byte == b'\n').enumerate() {
            reader.line(index.saturating_add(1), line);
        }
    }
    if body.len() == text.len() && !text.is_empty() {
        let last = text.split(|&byte| byte == b'\n').count();
        reader.syntax(
            "E-SYNTAX",
            Some(last),
            "has no line feed after its last line",
        );
    }
    (reader.lines, reader.findings)
}

struct Reader<'a> {
    kind: Kind,
    lines: Vec<Line<'a>>,
    findings: Vec<IntegrityFinding>,
    seen: BTreeSet<&'a str>,
    folded: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, number: usize, bytes: &'a [u8]) {
        match split(bytes) {
            Err(what) => self.syntax("E-SYNTAX", Some(number), what),
            Ok((digest, path)) => {
                if self.accepts(number, path) {
                    self.lines.push(Line {
                        number,
                        digest,
                        path,
                    });
                }
            }
        }
    }

    /// Judges the path of a line; a line that is merely out of order is still used.
    fn accepts(&mut self, number: usize, path: &'a str) -> bool {
        if let Some(found) = profile_fault(path) {
            let what = format!("lists `{}`, which {}", shown(path), found.why);
            self.syntax(found.code, Some(number), &what);
            return false;
        }
        if !self.kind.lists(path) {
            let what = format!("lists {path}, which belongs into the other manifest or into none");
            self.syntax("E-PATH", Some(number), &what);
            return false;
        }
        if !self.seen.insert(path) {
            self.syntax("E-DUP", Some(number), &format!("lists {path} twice"));
            return false;
        }
        if !self.folded.insert(path.to_ascii_lowercase()) {
            let what = format!("lists {path} and a name that differs only in case");
            self.syntax("E-COLLIDE", Some(number), &what);
        }
        if self.lines.last().is_some_and(|last| last.path > path) {
            let what = format!("lists {path} out of order, paths are sorted bytewise");
            self.syntax("E-SYNTAX", Some(number), &what);
        }
        true
    }

    fn syntax(&mut self, code: &'static str, line: Option<usize>, what: &str) {
        let file = self.kind.file();
        let place = line.map_or_else(|| file.to_owned(), |number| format!("{file} line {number}"));
        self.findings.push(IntegrityFinding {
            code,
            path: file.to_owned(),
            line,
            message: format!("{place} {what}; {RESTORE}"),
        });
    }
}

/// Splits a line into digest and path, or says what is wrong with it.
fn split(bytes: &[u8]) -> Result<(&str, &str), &'static str> {
    if bytes.len() > LINE_BYTES {
        return Err("is longer than 4096 bytes");
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("begins with a byte order mark, wanted 64 hex digits");
    }
    if bytes.contains(&b'\r') {
        return Err("has a carriage return, wanted LF alone");
    }
    if bytes.contains(&0) {
        return Err("has a NUL byte");
    }
    let text = str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    match text.bytes().next() {
        None => return Err("is empty"),
        Some(b'#') => return Err("is a comment, wanted 64 hex digits"),
        Some(b'\\') => return Err("has an escaped name, wanted 64 hex digits"),
        Some(_) => {}
    }
    let (digest, rest) = text
        .split_at_checked(DIGEST_DIGITS)
        .ok_or("is too short for 64 hex digits, two spaces and a path")?;
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !digest.bytes().all(is_lower_hex) {
        return Err("does not begin with 64 lower-case hex digits");
    }
    let path = rest
        .strip_prefix("  ")
        .ok_or("has something else than two spaces after its digest")?;
    if path.is_empty() {
        return Err("names no file");
    }
    Ok((digest, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    fn codes(text: &[u8]) -> Vec<(&'static str, Option<usize>)> {
        let (_, findings) = parse(Kind::Payload, text);
        findings
            .iter()
            .map(|found| (found.code, found.line))
            .collect()
    }

    #[test]
    fn the_digest_of_the_standards_example_is_right() {
        // FIPS 180-2, appendix B.1: the message "abc".
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn what_is_rendered_is_read_back() {
        let files: [(&str, &[u8]); 2] = [("data/a", b"1"), ("data/b", b"2")];
        let text = render(files.into_iter());
        let (lines, findings) = parse(Kind::Payload, text.as_bytes());
        assert_eq!(findings, []);
        assert_eq!(
            lines.iter().map(|line| line.path).collect::<Vec<_>>(),
            ["data/a", "data/b"]
        );
        assert_eq!(lines[1].digest, sha256_hex(b"2"));
    }

    #[test]
    fn each_damaged_line_is_reported_with_its_number() {
        let good = format!("{ZEROS}  data/a\n");
        for (bad, code) in [
            ("# comment\n".to_owned(), "E-SYNTAX"),
            ("\n".to_owned(), "E-SYNTAX"),
            (format!("{ZEROS}\n"), "E-SYNTAX"),
            (format!("{ZEROS} data/b\n"), "E-SYNTAX"),
            (format!("{ZEROS} *data/b\n"), "E-SYNTAX"),
            (format!("{ZEROS}  \n"), "E-SYNTAX"),
            (format!("\\{ZEROS}  data/b\n"), "E-SYNTAX"),
            (format!("{}  data/b\n", ZEROS.replace('0', "A")), "E-SYNTAX"),
            (format!("{ZEROS}  data/b\0\n"), "E-SYNTAX"),
            (format!("{ZEROS}  data/b\r\n"), "E-SYNTAX"),
            (format!("\u{feff}{ZEROS}  data/b\n"), "E-SYNTAX"),
            (format!("{ZEROS}  data/b"), "E-SYNTAX"),
            (format!("{ZEROS}  data/{}\n", "b".repeat(5000)), "E-SYNTAX"),
            (format!("{ZEROS}  data/A\n"), "E-COLLIDE"),
            (format!("{ZEROS}  data/a\n"), "E-DUP"),
            (format!("{ZEROS}  data/../b\n"), "E-PATH"),
            (format!("{ZEROS}  /etc/passwd\n"), "E-PATH"),
            (format!("{ZEROS}  README.md\n"), "E-PATH"),
            (format!("{ZEROS}  data/b c\n"), "E-NAME"),
        ] {
            let found = codes(format!("{good}{bad}").as_bytes());
            assert!(found.contains(&(code, Some(2))), "{bad:?}: {found:?}");
        }
    }

    #[test]
    fn lines_out_of_order_are_reported() {
        let text = format!("{ZEROS}  data/b\n{ZEROS}  data/a\n");
        assert_eq!(codes(text.as_bytes()), [("E-SYNTAX", Some(2))]);
    }

    #[test]
    fn an_empty_manifest_has_no_line_to_complain_about() {
        assert_eq!(codes(b""), []);
    }
}
