//! Numbers become text in one place: correctly rounded from the binary value, half
//! to even, as `printf` does; never `-0.00`.

use serde_json::{Number, Value};

/// Formats with a fixed number of decimals.
#[must_use]
pub fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    match text.strip_prefix('-') {
        Some(rest) if is_zero => rest.to_owned(),
        _ => text,
    }
}

/// Formats a percentage with its sign, such as `+8.091%`; zero has a plus sign.
#[must_use]
pub fn signed_pct(value: f64, digits: usize) -> String {
    let text = fixed(value, digits);
    if text.starts_with('-') {
        format!("{text}%")
    } else {
        format!("+{text}%")
    }
}

/// Formats a percentage without sign, such as `0.28%`.
#[must_use]
pub fn pct(value: f64, digits: usize) -> String {
    format!("{}%", fixed(value, digits))
}

/// Decimals of figures in derived files: what the published practice prints, and few
/// enough that no mathematics library changes the text.
pub const FILE_DIGITS: usize = 6;

/// Returns a JSON number rounded to six decimals; `null` when it is not finite.
#[must_use]
pub fn json(value: f64) -> Value {
    fixed(value, FILE_DIGITS)
        .parse::<f64>()
        .ok()
        .and_then(Number::from_f64)
        .map_or(Value::Null, Value::Number)
}

/// Returns a JSON number or `null`.
#[must_use]
pub fn json_option(value: Option<f64>) -> Value {
    value.map_or(Value::Null, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_round_half_to_even_on_the_binary_value() {
        // 484768 / 4096 is an exact tie at six decimals; published as 118.351562.
        assert_eq!(fixed(484_768.0 / 4096.0, 6), "118.351562");
        assert_eq!(fixed(0.125, 2), "0.12");
        assert_eq!(fixed(0.375, 2), "0.38");
        // 2.675 is below the tie in binary.
        assert_eq!(fixed(2.675, 2), "2.67");
    }

    #[test]
    fn there_is_no_negative_zero() {
        assert_eq!(fixed(-0.0001, 2), "0.00");
        assert_eq!(signed_pct(-0.0001, 2), "+0.00%");
        assert_eq!(signed_pct(-0.554_606, 2), "-0.55%");
    }

    #[test]
    fn json_numbers_have_at_most_six_decimals() {
        assert_eq!(json(8.090_514_474_268_073).to_string(), "8.090514");
        assert_eq!(json(-0.000_000_04).to_string(), "0.0");
        assert_eq!(json(f64::INFINITY), Value::Null);
    }
}
