//! Where tokens begin and end in a line. Knows nothing of what is private.

use super::Kind;

/// A part of a line, in bytes, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
    pub kind: Kind,
}

impl Span {
    pub(super) const fn new(start: usize, length: usize, kind: Kind) -> Self {
        Self {
            start,
            end: start + length,
            kind,
        }
    }
}

/// Whether a character can be part of a name. A dot cannot: `build7` in
/// `build7.example.org` is the whole name of a host.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Whether a token begins here. A hyphen joins only when a word is on its other side.
pub(super) fn starts_token(line: &str, start: usize) -> bool {
    let mut before = line.get(..start).unwrap_or_default().chars().rev();
    match (before.next(), before.next()) {
        (None, _) => true,
        (Some('-'), other) => !other.is_some_and(is_inside_word),
        // The escape of a line end or a tab inside a JSON string.
        (Some('n' | 'r' | 't'), Some('\\')) => true,
        (Some(c), _) => !is_word(c),
    }
}

/// Whether a token ends here.
pub(super) fn ends_token(line: &str, end: usize) -> bool {
    let mut after = line.get(end..).unwrap_or_default().chars();
    match (after.next(), after.next()) {
        (None, _) => true,
        (Some('-'), other) => !other.is_some_and(is_inside_word),
        (Some(c), _) => !is_word(c),
    }
}

/// Whether a character can only be inside a name, as a hyphen is not.
pub(super) fn is_inside_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The longest runs of characters of one class, with their byte offsets.
pub(super) fn runs(line: &str, belongs: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(skipped) = rest.find(&belongs) {
        let start = line.len() - rest.len() + skipped;
        let tail = rest.get(skipped..).unwrap_or_default();
        let length = tail.find(|c| !belongs(c)).unwrap_or(tail.len());
        let (run, remaining) = tail.split_at(length);
        found.push((start, run));
        rest = remaining;
    }
    found
}

/// Byte offsets of the UUIDs (8-4-4-4-12 hexadecimal digits, 36 bytes) that are whole words.
pub(super) fn uuids(line: &str) -> Vec<usize> {
    runs(line, is_word)
        .into_iter()
        .flat_map(|(offset, run)| {
            run.match_indices('-')
                .filter_map(|(hyphen, _)| hyphen.checked_sub(8))
                .filter(|start| run.get(*start..*start + 36).is_some_and(is_uuid))
                .filter(|start| {
                    !run.get(..*start)
                        .unwrap_or_default()
                        .ends_with(is_inside_word)
                })
                .filter(|start| {
                    let after = run.get(*start + 36..).unwrap_or_default();
                    !after.starts_with(is_inside_word)
                })
                .map(|start| offset + start)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a text is a UUID and nothing else.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(index, c)| match index {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}
