//! The grammar of one cell: integers and decimals, nothing else.
//!
//! `NaN`, `inf`, `1e9`, `0x10`, `1,5`, `+5`, empty cells and leading zeros are
//! refused: a number that can be read in two ways is not evidence.

use thiserror::Error;

use crate::model::shown::printable;

/// A cell that is not what its column wants.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}, column {column}: found `{found}`, wanted {wanted}")]
pub struct CellError {
    /// File and line.
    pub place: String,
    /// Column name.
    pub column: String,
    /// The text found, shortened.
    pub found: String,
    /// What the column wants.
    pub wanted: &'static str,
}

impl CellError {
    /// Makes an error; the text is shortened to 40 characters and stripped of controls.
    #[must_use]
    pub fn new(place: &str, column: &str, found: &str, wanted: &'static str) -> Self {
        Self {
            place: place.to_owned(),
            column: column.to_owned(),
            found: printable(found, 40),
            wanted,
        }
    }
}

/// Reads an unsigned integer of decimal digits.
///
/// # Errors
///
/// When the text is anything else, or above 2^64 - 1.
pub fn integer(text: &str, place: &str, column: &str) -> Result<u64, CellError> {
    let error = || CellError::new(place, column, text, "an integer of decimal digits");
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() || !plain || (text.len() > 1 && text.starts_with('0')) {
        return Err(error());
    }
    text.parse().map_err(|_| error())
}

/// Reads a decimal such as `12`, `12.5` or `-0.280`; no exponent.
///
/// # Errors
///
/// When the text is anything else.
pub fn decimal(text: &str, place: &str, column: &str) -> Result<f64, CellError> {
    let error = || CellError::new(place, column, text, "a decimal such as 1045.687");
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(error()),
        None => (unsigned, ""),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    // 2^53 has 16 digits: more could not be told apart afterwards.
    let padded = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty() || padded || !digits(whole) || !digits(fraction) || unsigned.len() > 30 {
        return Err(error());
    }
    text.parse().map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_above_two_to_the_53() {
        assert_eq!(
            integer("9007199254740993", "f:1", "ops"),
            Ok(9_007_199_254_740_993)
        );
        assert_eq!(integer("0", "f:1", "ops"), Ok(0));
        assert_eq!(integer("18446744073709551615", "f:1", "ops"), Ok(u64::MAX));
    }

    #[test]
    fn anything_but_digits_is_refused_with_its_place() {
        for bad in [
            "",
            "+5",
            "-5",
            "0x10",
            "1e3",
            "1,5",
            "1.0",
            "NaN",
            " 5",
            "05",
            "٣",
            "18446744073709551616",
        ] {
            let error = integer(bad, "f:7", "ops").unwrap_err();
            assert_eq!(error.place, "f:7", "{bad}");
        }
        for bad in [
            "", "NaN", "inf", "1e999", "0x10", "1,5", "+5", ".5", "5.", "--5", "1.2.3", "01.5",
        ] {
            assert!(decimal(bad, "f:7", "x").is_err(), "{bad}");
        }
    }

    #[test]
    fn decimals_are_read_as_written() {
        assert!((decimal("1045.686979", "f:1", "x").unwrap() - 1_045.686_979).abs() < 1e-12);
        assert!((decimal("-0.280", "f:1", "x").unwrap() + 0.28).abs() < 1e-12);
    }

    #[test]
    fn what_is_shown_holds_no_control_character() {
        let error = integer("1\u{1b}[31m\u{202e}", "f:1", "ops").unwrap_err();
        assert_eq!(error.found, "1?[31m?");
    }
}
