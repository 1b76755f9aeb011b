//! The mail as an `.eml` file: headers by RFC 5322 and RFC 2047, body 8bit UTF-8, LF.
//!
//! Input: the report's body and the case. Output: the whole file. A fact without
//! which the mail cannot be sent stops the rendering, with the list of what is
//! missing. Never emits Bcc; never sends.

use thiserror::Error;

use super::mail_kind::MailKind;
use super::number::{fixed, signed_pct};
use crate::model::analysis::{Analysis, Comparison};
use crate::model::case::{Case, WorkloadRole};

/// Recommended line length of headers (RFC 5322 section 2.1.1).
const HEADER_WIDTH: usize = 78;
/// Longest encoded word (RFC 2047 section 2).
const ENCODED_WORD: usize = 75;
/// Longest line of a header with an encoded word (RFC 2047 section 2).
const ENCODED_LINE: usize = 76;
/// Copied on every report to a list, as the kernel's documents ask.
pub const REGRESSIONS_LIST: &str = "regressions@lists.linux.dev";
/// What the texts of a new case begin with until somebody fills them in.
pub const PLACEHOLDER: &str = "FILL IN:";
/// Where a demonstration goes: a name that cannot exist (RFC 2606).
pub const NOBODY: &str = "nobody@example.invalid";

/// Why a mail was not rendered.
#[derive(Debug, Error)]
pub enum MailError {
    /// Facts are missing.
    #[error("case.toml: the mail needs what is missing: {}; add it and render again", missing.join(", "))]
    Missing {
        /// Keys and what they are for.
        missing: Vec<String>,
    },
    /// The evidence is not a report.
    #[error(
        "{sentence}; evidence with a failing validity gate is not sent: mend what the gate names, or look at `regbundle check`"
    )]
    Invalid {
        /// The verdict's sentence.
        sentence: String,
    },
}

/// What a mail is made of.
#[derive(Debug, Clone, Copy)]
pub struct MailSources<'a> {
    /// The case.
    pub case: &'a Case,
    /// The analysis.
    pub analysis: &'a Analysis,
    /// Kind of mail.
    pub kind: MailKind,
    /// Body, folded.
    pub body: &'a str,
    /// Bundle-Id: the Message-ID follows from it.
    pub bundle_id: &'a str,
    /// Seconds since 1970 for Date and Message-ID.
    pub seconds: i64,
    /// Version of the program.
    pub version: &'a str,
}

/// Renders the mail.
///
/// # Errors
///
/// When the sender or the recipients are missing, or a validity gate fails.
pub fn mail(sources: &MailSources<'_>) -> Result<String, MailError> {
    let case = sources.case;
    let demo = sources.kind == MailKind::Demo;
    if sources.kind == MailKind::Invalid {
        return Err(MailError::Invalid {
            sentence: sources.analysis.sentence.clone(),
        });
    }
    let mut missing = Vec::new();
    if !demo && case.report.from.is_none() {
        missing.push("report.from (who sends it)".to_owned());
    }
    if !demo && case.report.to.is_empty() {
        missing.push("report.to (who it is for)".to_owned());
    }
    if !demo && case.change.is_none() {
        missing.push("[change] (parent, child and subject of the commit)".to_owned());
    }
    for (key, text) in [
        ("title", &case.title),
        ("scope.statement", &case.scope.statement),
    ] {
        if text.starts_with(PLACEHOLDER) {
            missing.push(format!("{key} (it still has the text of a new case)"));
        }
    }
    if !missing.is_empty() {
        return Err(MailError::Missing { missing });
    }
    let demo_sender = format!("regbundle demonstration <{NOBODY}>");
    let from = match &case.report.from {
        Some(from) if !demo => from.clone(),
        _ => demo_sender,
    };
    let to = if demo {
        vec![NOBODY.to_owned()]
    } else {
        case.report.to.clone()
    };
    let mut out = String::new();
    push_addresses(&mut out, "From", std::slice::from_ref(&from));
    push_addresses(&mut out, "To", &to);
    if !demo {
        push_addresses(&mut out, "Cc", &copies(case));
    }
    push_unstructured(&mut out, "Subject", &subject(sources));
    push_plain(&mut out, "Date", &date(sources.seconds));
    push_plain(&mut out, "Message-ID", &message_id(sources, &from));
    if let Some(parent) = case.report.in_reply_to.as_ref().filter(|_| !demo) {
        push_plain(&mut out, "In-Reply-To", parent);
        push_plain(&mut out, "References", parent);
    }
    push_plain(&mut out, "MIME-Version", "1.0");
    push_plain(&mut out, "Content-Type", "text/plain; charset=UTF-8");
    push_plain(&mut out, "Content-Transfer-Encoding", "8bit");
    push_plain(&mut out, "X-Regbundle-Version", sources.version);
    out.push('\n');
    out.push_str(sources.body);
    Ok(out)
}

/// Returns the copies: those of the case and, once, the regressions list.
fn copies(case: &Case) -> Vec<String> {
    let mut copies = case.report.cc.clone();
    if !copies.iter().any(|copy| copy.contains(REGRESSIONS_LIST)) {
        copies.push(REGRESSIONS_LIST.to_owned());
    }
    copies
}

fn subject(sources: &MailSources<'_>) -> String {
    let case = sources.case;
    let area = case
        .report
        .area
        .as_ref()
        .map_or_else(String::new, |area| format!("{area}: "));
    let title = &case.title;
    match sources.kind {
        MailKind::Demo => return format!("[DEMO, do not send] {title}"),
        MailKind::Invalid => return format!("[INVALID, do not send] {title}"),
        _ => {}
    }
    let change = case.change.as_ref();
    if case.report.in_reply_to.is_some() && sources.kind == MailKind::Regression {
        let posting = case.report.reply_subject.as_deref();
        let posting = posting.or(change.map(|change| change.subject.as_str()));
        return format!("Re: {}", without_re(posting.unwrap_or(title)));
    }
    let primary: Vec<&Comparison> = sources
        .analysis
        .comparisons
        .iter()
        .filter(|comparison| {
            comparison.workload == case.plan.primary && comparison.role == WorkloadRole::Target
        })
        .collect();
    // With two implementations the smaller change is named: never more than both show.
    let weakest = primary
        .iter()
        .min_by(|one, other| one.delta_pct.abs().total_cmp(&other.delta_pct.abs()));
    let figure = weakest.map_or_else(String::new, |comparison| {
        format!(
            " {} {}",
            signed_pct(comparison.delta_pct, 1),
            comparison.unit
        )
    });
    let since = change.map_or_else(String::new, |change| {
        format!(
            " since {}",
            change.child.chars().take(12).collect::<String>()
        )
    });
    let tag = match sources.kind {
        MailKind::Regression => "[REGRESSION] ",
        MailKind::Question => "[RFC] ",
        _ => "",
    };
    format!("{tag}{area}{title}{figure}{since}")
}

/// Takes every `Re:` off the start of a subject, in any case.
fn without_re(subject: &str) -> &str {
    let mut bare = subject.trim_start();
    while let Some((_, rest)) = bare
        .split_once(':')
        .filter(|(word, _)| word.eq_ignore_ascii_case("re"))
    {
        bare = rest.trim_start();
    }
    bare
}

fn message_id(sources: &MailSources<'_>, from: &str) -> String {
    let address = address_of(from);
    let domain = address
        .split_once('@')
        .map_or("example.invalid", |(_, domain)| domain);
    let stamp = jiff::Timestamp::from_second(sources.seconds)
        .unwrap_or_default()
        .strftime("%Y%m%d%H%M%S")
        .to_string();
    let digest: String = sources.bundle_id.chars().take(12).collect();
    format!(
        "<{stamp}.regbundle.{digest}.{}@{domain}>",
        sources.case.report.send_counter
    )
}

fn address_of(text: &str) -> &str {
    text.split_once('<')
        .map_or(text, |(_, rest)| rest.trim_end_matches('>'))
}

/// Formats a date as RFC 5322 wants it, in UTC.
fn date(seconds: i64) -> String {
    // The offset is written out: a bare timestamp's own would be -0000, "unknown zone".
    jiff::Timestamp::from_second(seconds)
        .unwrap_or_default()
        .strftime("%a, %d %b %Y %H:%M:%S +0000")
        .to_string()
}

fn push_plain(out: &mut String, name: &str, value: &str) {
    out.push_str(&format!("{name}: {value}\n"));
}

/// Writes an unstructured header, folded at blanks, encoded when it is not ASCII.
fn push_unstructured(out: &mut String, name: &str, value: &str) {
    let value: String = value
        .chars()
        .map(|c| {
            if crate::model::shown::is_shown(c) {
                c
            } else {
                ' '
            }
        })
        .collect();
    // An ASCII text that looks encoded would be decoded by the reader: it is encoded whole.
    if value.is_ascii() && !value.contains("=?") {
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        push_folded(out, name, &words, HEADER_WIDTH);
    } else {
        let words = encoded_words(&value, name.len() + 2);
        push_folded(out, name, &words, ENCODED_LINE);
    }
}

/// Writes an address header: one address per line, names encoded or quoted.
fn push_addresses(out: &mut String, name: &str, addresses: &[String]) {
    let last = addresses.len().saturating_sub(1);
    out.push_str(&format!("{name}:"));
    for (index, text) in addresses.iter().enumerate() {
        let comma = if index == last { "" } else { "," };
        let used = if index == 0 { name.len() + 2 } else { 1 };
        out.push(' ');
        out.push_str(&address(text, used));
        out.push_str(comma);
        out.push('\n');
    }
}

/// Writes one address; `used` characters of its line are taken already.
fn address(text: &str, used: usize) -> String {
    let Some((name, rest)) = text.split_once('<') else {
        return text.trim().to_owned();
    };
    let name = name.trim().trim_matches('"').trim();
    if name.is_empty() {
        return rest.trim_end_matches('>').to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " !#$%&'*+-/=?^_`{|}~".contains(c);
    if !name.is_ascii() || name.contains("=?") {
        let words = encoded_words(name, used);
        let line = words.last().map_or(0, String::len) + if words.len() > 1 { 1 } else { used };
        // The comma that may follow is counted, too.
        let gap = if line + " <,".len() + rest.len() > ENCODED_LINE {
            "\n "
        } else {
            " "
        };
        return format!("{}{gap}<{rest}", words.join("\n "));
    }
    let shown = if name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    };
    format!("{shown} <{rest}")
}

/// Encodes a text as RFC 2047 Q words, none over 75 characters, no character split.
///
/// The first word leaves room for the `used` characters before it in its line.
fn encoded_words(text: &str, used: usize) -> Vec<String> {
    const HEAD: &str = "=?UTF-8?q?";
    const TAIL: &str = "?=";
    let mut words = Vec::new();
    let mut word = HEAD.to_owned();
    let mut longest = ENCODED_LINE.saturating_sub(used).min(ENCODED_WORD);
    for c in text.chars() {
        let mut buffer = [0; 4];
        let encoded: String = match c {
            ' ' => "_".to_owned(),
            // Only these stand raw in a phrase (RFC 2047 section 5).
            _ if c.is_ascii_alphanumeric() || "!*+-/".contains(c) => c.to_string(),
            _ => c
                .encode_utf8(&mut buffer)
                .bytes()
                .map(|byte| format!("={byte:02X}"))
                .collect(),
        };
        if word.len() + encoded.len() + TAIL.len() > longest {
            longest = ENCODED_WORD;
            word.push_str(TAIL);
            words.push(std::mem::replace(&mut word, HEAD.to_owned()));
        }
        word.push_str(&encoded);
    }
    word.push_str(TAIL);
    words.push(word);
    words
}

fn push_folded(out: &mut String, name: &str, words: &[String], width: usize) {
    let mut line = format!("{name}:");
    for (index, word) in words.iter().enumerate() {
        if index > 0 && line.len() + 1 + word.len() > width {
            out.push_str(&line);
            out.push('\n');
            line = String::new();
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// Formats a share for a progress line; here because numbers become text in one place.
#[must_use]
pub fn seconds_text(seconds: f64) -> String {
    format!("{} s", fixed(seconds, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_one_re_however_the_posting_wrote_its_own() {
        for subject in ["x: y", "Re: x: y", "RE: re:Re:  x: y"] {
            assert_eq!(without_re(subject), "x: y");
        }
    }

    #[test]
    fn a_date_is_that_of_rfc_5322() {
        assert_eq!(date(1_788_256_800), "Tue, 01 Sep 2026 10:00:00 +0000");
    }

    #[test]
    fn names_are_quoted_or_encoded() {
        assert_eq!(address("A B <a@example.org>", 1), "A B <a@example.org>");
        assert_eq!(
            address("Foo (Arm) <a@example.org>", 1),
            "\"Foo (Arm)\" <a@example.org>"
        );
        // RFC 2047 Q encoding of UTF-8 C3 B6.
        assert_eq!(
            address("J\u{f6}rg <j@example.org>", 1),
            "=?UTF-8?q?J=C3=B6rg?= <j@example.org>"
        );
        assert_eq!(address("<j@example.org>", 1), "j@example.org");
    }

    #[test]
    fn encoded_words_are_short_and_split_no_character() {
        let text = "\u{20ac}".repeat(60);
        let words = encoded_words(&text, 1);
        assert!(words.len() > 1);
        for word in words {
            assert!(word.len() <= ENCODED_WORD, "{word}");
            let inner = word
                .strip_prefix("=?UTF-8?q?")
                .unwrap()
                .strip_suffix("?=")
                .unwrap();
            // Each euro sign is nine characters of three bytes.
            assert_eq!(inner.len() % 9, 0, "{word}");
        }
    }

    #[test]
    fn no_line_with_an_encoded_word_is_over_76_characters() {
        let title = "\u{e4} word ".repeat(30);
        for name in ["Subject", "X"] {
            let mut out = String::new();
            push_unstructured(&mut out, name, &title);
            assert!(out.lines().all(|line| line.len() <= ENCODED_LINE), "{out}");
        }
        for length in 1..80 {
            let name = "\u{e4}".to_owned() + &"n".repeat(length);
            let both = [
                format!("{name} <first@example.org>"),
                format!("{name} <second@example.org>"),
            ];
            let mut out = String::new();
            push_addresses(&mut out, "From", &both);
            assert!(out.lines().all(|line| line.len() <= ENCODED_LINE), "{out}");
            assert!(
                out.lines().skip(1).all(|line| line.starts_with(' ')),
                "{out}"
            );
        }
    }

    #[test]
    fn a_line_folds_after_a_word_that_ends_with_a_colon() {
        let mut out = String::new();
        let subject = format!("{} area: {}", "w".repeat(50), "v".repeat(40));
        push_unstructured(&mut out, "Subject", &subject);
        assert!(out.lines().all(|line| line.len() <= HEADER_WIDTH), "{out}");
    }

    #[test]
    fn a_long_subject_folds_at_blanks_only() {
        let mut out = String::new();
        push_unstructured(&mut out, "Subject", &"word ".repeat(40));
        assert!(out.lines().all(|line| line.len() <= HEADER_WIDTH));
        assert!(out.lines().skip(1).all(|line| line.starts_with(" word")));
    }
}
