//! The change a case is about: one commit and its parent, as its author described it.
//!
//! Inputs: the fields of a commit and the bytes of its message. Outputs: subject and
//! trailers. It knows neither git objects nor where the commit came from.

/// A moment with the offset it was recorded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Minutes east of UTC.
    pub offset_minutes: i32,
}

/// A commit with one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Full id of the commit, 40 hex digits.
    pub child: String,
    /// Full id of its only parent.
    pub parent: String,
    /// First paragraph of the message in one line.
    pub subject: String,
    /// Who wrote it.
    pub author_name: String,
    /// His address.
    pub author_email: String,
    /// When it was written.
    pub author_date: Moment,
    /// When it was committed.
    pub commit_date: Moment,
    /// Values of `Link:`, in order.
    pub links: Vec<String>,
    /// Values of `Fixes:`, in order.
    pub fixes: Vec<String>,
    /// Every trailer, in order, unfolded.
    pub trailers: Vec<(String, String)>,
    /// Whether a byte that is not UTF-8 was replaced by U+FFFD in any text above.
    pub lossy: bool,
}

/// The first paragraph of a commit message in one line, as git shows it.
#[must_use]
pub fn subject_of(message: &str) -> String {
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

/// The trailers of a commit message: `key: value` lines of its last paragraph.
///
/// Lines that begin with white space continue the value before them. Notes in square
/// brackets, as kernel maintainers add them, stand between trailers and are passed over. The
/// paragraph counts when all other lines are trailers, or one is a sign-off and at least a
/// quarter of the lines are trailers (git-interpret-trailers(1)).
#[must_use]
pub fn trailers_of(message: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = message.trim_end().lines().map(str::trim_end).collect();
    let Some(start) = lines.iter().rposition(|line| line.is_empty()) else {
        return Vec::new();
    };
    let mut trailers: Vec<(String, String)> = Vec::new();
    let mut others = 0_usize;
    let mut open = false;
    for line in lines.into_iter().skip(start.saturating_add(1)) {
        if line.starts_with([' ', '\t']) {
            match trailers.last_mut() {
                Some((_, value)) if open => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                _ => {}
            }
            continue;
        }
        let split = split_trailer(line);
        open = split.is_some();
        match split {
            Some((key, value)) => trailers.push((key.to_owned(), value.to_owned())),
            None if line.starts_with('[') => {}
            None => others = others.saturating_add(1),
        }
    }
    let signed = trailers
        .iter()
        .any(|(key, _)| key.eq_ignore_ascii_case("Signed-off-by"));
    let enough = others == 0 || (signed && trailers.len().saturating_mul(3) >= others);
    if enough { trailers } else { Vec::new() }
}

fn split_trailer(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim_end();
    let is_key = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    // `http://...` at the start of a line is an address, not a trailer.
    (is_key && !value.starts_with("//")).then(|| (key, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(message: &str) -> Vec<String> {
        trailers_of(message)
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    #[test]
    fn the_subject_is_the_first_paragraph_in_one_line() {
        assert_eq!(subject_of("a: b\n\nbody\n"), "a: b");
        assert_eq!(
            subject_of("\n\na: long\n  folded\n\nbody"),
            "a: long folded"
        );
        assert_eq!(subject_of(""), "");
    }

    #[test]
    fn trailers_keep_their_order_and_are_unfolded() {
        let message = "s\n\nbody: text\n\nLink: https://a/1\nFixes: 12ab (\"x:\n y\")\n[me: fixed]\nCc: a <a@b>\n\t# 6.1\nSigned-off-by : A <a@b>\nLink: https://a/2\n";
        assert_eq!(
            pairs(message),
            [
                "Link=https://a/1",
                "Fixes=12ab (\"x: y\")",
                "Cc=a <a@b> # 6.1",
                "Signed-off-by=A <a@b>",
                "Link=https://a/2",
            ]
        );
    }

    #[test]
    fn a_last_paragraph_of_prose_has_no_trailers() {
        assert_eq!(pairs("s: a\n"), [""; 0]);
        assert_eq!(pairs("s\n\nNote: one\nbut prose follows\n"), [""; 0]);
        assert_eq!(pairs("s\n\nhttp://x/y\n"), [""; 0]);
        assert_eq!(pairs("s\n\nprose\nSigned-off-by: A\n"), ["Signed-off-by=A"]);
        assert_eq!(pairs("s\n\n a\nb\nc\nd\ne\nSigned-off-by: A\n"), [""; 0]);
    }

    #[test]
    fn a_continuation_belongs_to_the_line_above_it_only() {
        let message = "s\n\nLink: a\n[note\n goes on]\nCc: b\n";
        assert_eq!(pairs(message), ["Link=a", "Cc=b"]);
    }
}
