//! Counts become floating point in one place.

/// Converts a count to `f64`; exact below 2^53, which is 104 days in nanoseconds.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "the one place where integer rows become floating point; exact below 2^53"
)]
pub const fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Converts a length to `f64`.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "lengths of row lists are far below 2^53"
)]
pub const fn len_f64(length: usize) -> f64 {
    length as f64
}

/// Returns the step of the last decimal of a text, such as 0.001 of `12.345`; 1 without any.
#[must_use]
pub fn text_resolution(text: &str) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, part)| part.len());
    (0..decimals).fold(1.0, |step, _| step / 10.0)
}

/// Returns 100 * (value / base - 1), percent.
///
/// Computed from the difference, so that 102 against 100 is 2 and not a little more:
/// a bound of 2 % includes it.
#[must_use]
pub fn percent_change(value: f64, base: f64) -> f64 {
    100.0 * (value - base) / base
}
