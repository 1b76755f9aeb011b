//! Tab-separated text, written: a field with a tab or line end cannot be.

/// Writes one line; tabs and line ends in a field become spaces.
pub fn push_line<I, S>(text: &mut String, fields: I)
where
    I: IntoIterator<Item = S>,
    S: AsRef<str>,
{
    let mut first = true;
    for field in fields {
        if !first {
            text.push('\t');
        }
        first = false;
        text.extend(field.as_ref().chars().map(|c| {
            if matches!(c, '\t' | '\n' | '\r') {
                ' '
            } else {
                c
            }
        }));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cannot_end_a_line_or_a_cell() {
        let mut text = String::new();
        push_line(&mut text, ["a\tb", "c\nd"]);
        assert_eq!(text, "a b\tc d\n");
    }
}
