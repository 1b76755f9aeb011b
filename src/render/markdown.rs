//! Text of others inside Markdown.
//!
//! Input: any text. Output: the same as words only, also in a table's cell. It does not
//! judge what the words say.

use super::context::inert;

/// Makes a text inert in Markdown: no markup, no HTML, no code, no link, no image.
#[must_use]
pub fn markdown(text: &str) -> String {
    let mut out = String::new();
    for c in inert(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '`' => out.push('\''),
            '\\' | '|' | '[' | '*' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup_and_ordinary_names_stay_as_they_are() {
        for (text, wanted) in [
            ("<img src=x>", "&lt;img src=x>"),
            (
                "![a](b) `c` **d** ~~e~~",
                "\\!\\[a](b) 'c' \\*\\*d\\*\\* \\~\\~e\\~\\~",
            ),
            ("a | b & c \\ d", "a \\| b &amp; c \\\\ d"),
            (
                "io_uring/futex: 8.09%, ns/pair #1",
                "io_uring/futex: 8.09%, ns/pair #1",
            ),
        ] {
            assert_eq!(markdown(text), wanted);
        }
    }
}
