//! Fixed-width tables for terminals and mails.

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Lays out rows in columns two spaces apart; every line begins with `indent`.
///
/// Rows may be shorter than `aligns`; trailing blanks are cut.
#[must_use]
pub fn layout(rows: &[Vec<String>], aligns: &[Align], indent: &str) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..aligns.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = indent.to_owned();
        for ((cell, align), width) in row.iter().zip(aligns).zip(&widths) {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
                Align::Right => {
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_text_left() {
        let rows = [
            vec!["point".to_owned(), "mean".to_owned()],
            vec!["a".to_owned(), "10.5".to_owned()],
            vec!["child".to_owned(), "9.25".to_owned()],
        ];
        assert_eq!(
            layout(&rows, &[Align::Left, Align::Right], "  "),
            "  point  mean\n  a      10.5\n  child  9.25\n"
        );
    }
}
