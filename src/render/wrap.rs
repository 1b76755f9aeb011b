//! Prose is folded to a width; tables, tags and addresses are left alone.

/// Width of prose in a mail, characters.
pub const PROSE: usize = 72;

/// Width of lines on a terminal, characters.
const TERMINAL: usize = 80;

/// Folds one line for a terminal; `first` stands before its first line, `rest` before others.
#[must_use]
pub fn hang(text: &str, first: &str, rest: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > TERMINAL {
            out.push_str(line.trim_end());
            out.push('\n');
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// Folds every paragraph of prose in `text` to `width` characters.
///
/// A line that begins with a blank, `#`, `|`, `>` or `http` is kept as it is. A
/// folded line never begins with a word that a mail tool would take for a command,
/// tag, patch or separator: such a line is indented by two spaces.
#[must_use]
pub fn fold_prose(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            flush(&mut paragraph, &mut out, width);
            out.push('\n');
        } else if is_kept(line) {
            flush(&mut paragraph, &mut out, width);
            out.push_str(line.trim_end());
            out.push('\n');
        } else {
            paragraph.extend(line.split_whitespace());
        }
    }
    flush(&mut paragraph, &mut out, width);
    out
}

fn is_kept(line: &str) -> bool {
    line.starts_with([' ', '#', '|', '>']) || line.starts_with("http")
}

fn flush(words: &mut Vec<&str>, out: &mut String, width: usize) {
    let mut line = String::new();
    for word in words.drain(..) {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            push(out, &line);
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        push(out, &line);
    }
}

fn push(out: &mut String, line: &str) {
    if is_dangerous(line) {
        out.push_str("  ");
    }
    out.push_str(line);
    out.push('\n');
}

/// Says whether a mail tool would act on a line at the left margin.
fn is_dangerous(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    let is_tag = word.strip_suffix(':').is_some_and(|tag| {
        tag.eq_ignore_ascii_case("cc")
            || tag.eq_ignore_ascii_case("link")
            || tag.eq_ignore_ascii_case("closes")
            || tag.eq_ignore_ascii_case("fixes")
            || tag.to_ascii_lowercase().ends_with("-by")
    });
    is_tag
        || line.starts_with(['#', '>', '|'])
        || line.starts_with("From ")
        || line.starts_with("---")
        || line.starts_with("+++")
        || line.starts_with("@@")
        || line.starts_with("diff ")
        || line.starts_with("-- ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_a_terminal_hangs_within_80_columns_and_loses_no_word() {
        let text = "word ".repeat(40);
        let folded = hang(text.trim_end(), "", "    ");
        let lines: Vec<&str> = folded.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= TERMINAL), "{folded}");
        assert!(lines[1].starts_with("    word"), "{folded}");
        assert_eq!(folded.split_whitespace().count(), 40);
        // A word longer than the line stays whole.
        let long = "x".repeat(100);
        assert_eq!(
            hang(&format!("a {long}"), "", "  "),
            format!("a\n  {long}\n")
        );
    }

    #[test]
    fn prose_is_folded_and_tables_are_kept() {
        let text = "one two three four\n\n  a   b\n#regzbot introduced: x y z w v u\nhttps://example.org/a/b/c/d\n";
        assert_eq!(
            fold_prose(text, 9),
            "one two\nthree\nfour\n\n  a   b\n#regzbot introduced: x y z w v u\nhttps://example.org/a/b/c/d\n"
        );
    }

    #[test]
    fn a_fold_never_makes_a_command_or_a_tag() {
        for danger in [
            "From here",
            "#regzbot x",
            "Signed-off-by: A",
            "--- a",
            "diff --git",
            "Cc: a@b.c",
        ] {
            let folded = fold_prose(&format!("aaaa {danger}"), 4);
            assert!(folded.lines().all(|line| !is_dangerous(line)), "{folded}");
        }
    }
}
