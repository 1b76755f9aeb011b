//! Text of others, made fit for a terminal, a header or a table.
//!
//! Input: any text. Output: the same without controls and direction marks, shortened.
//! It does not escape for any format.

/// Returns the first `limit` characters with every control character replaced by `?`.
#[must_use]
pub fn printable(text: &str, limit: usize) -> String {
    text.chars()
        .take(limit)
        .map(|c| if is_shown(c) { c } else { '?' })
        .collect()
}

/// Says whether a character may reach a terminal: no controls, no direction marks, nothing
/// that is drawn as nothing (Unicode's default ignorable characters).
#[must_use]
pub fn is_shown(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_or_turns_a_line_is_replaced() {
        assert_eq!(printable("a\u{1b}[2J\u{202e}b\u{feff}", 60), "a?[2J?b?");
        assert_eq!(printable("größe, 7 µs", 5), "größe");
        for hidden in [
            '\u{ad}',
            '\u{61c}',
            '\u{2060}',
            '\u{2064}',
            '\u{fe0f}',
            '\u{e0100}',
        ] {
            assert!(!is_shown(hidden), "U+{:04X}", u32::from(hidden));
        }
    }
}
