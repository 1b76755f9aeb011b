//! Location and spread of the rounds of one point.

use crate::model::units::len_f64;

/// Returns the arithmetic mean; `None` of an empty list.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / len_f64(values.len()))
}

/// Returns the sample standard deviation, divisor n-1; `None` below two values.
///
/// Two passes: the sum of squares less the square of the sum loses digits when
/// the spread is small against the mean.
#[must_use]
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let sum: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (sum / (len_f64(values.len()) - 1.0)).sqrt())
}

/// Returns the mean after the first value is dropped; `None` below two values.
#[must_use]
pub fn drop_first_mean(values: &[f64]) -> Option<f64> {
    values.split_first().and_then(|(_, rest)| mean(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sample_has_its_known_mean_and_deviation() {
        // Sum of squared deviations 32 over 8 values: population sd 2, sample sd sqrt(32/7).
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values).unwrap() - 5.0).abs() < 1e-15);
        assert!((sample_sd(&values).unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert!((drop_first_mean(&values).unwrap() - 38.0 / 7.0).abs() < 1e-15);
    }

    #[test]
    fn too_few_values_have_no_figure() {
        assert_eq!(mean(&[]), None);
        assert_eq!(sample_sd(&[1.0]), None);
        assert_eq!(drop_first_mean(&[1.0]), None);
    }

    #[test]
    fn a_large_offset_does_not_change_the_deviation() {
        let near: Vec<f64> = [0.0, 1.0, 2.0].to_vec();
        let far: Vec<f64> = near.iter().map(|value| value + 1e9).collect();
        assert!((sample_sd(&far).unwrap() - sample_sd(&near).unwrap()).abs() < 1e-6);
    }
}
