//! Waiting until a machine that has just booted has become quiet.
//!
//! Inputs are seconds, a way to sleep and a way to read the canary; output is how the
//! canary was at the end. It drops no row: a machine that stays restless is measured as
//! it is, and the note says so.

use std::time::Duration;

/// Between two readings: long beside a reading (70 us), so that three of them span more
/// than one tick of every usual rate (`CONFIG_HZ` 100 to 1000).
const PAUSE: Duration = Duration::from_millis(100);

/// Pauses in a second.
const PAUSES_PER_SECOND: u64 = 10;

/// The canary is steady when the largest of three readings is at most this many
/// hundredths above the smallest: a busy machine shows 3 and more (the gate of clean rounds).
const STEADY_PERCENT: u64 = 1;

/// How the canary was when the wait was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Readings taken.
    pub readings: u64,
    /// The last three, oldest first.
    pub last: [u64; 3],
    /// Whether these three were steady.
    pub steady: bool,
}

/// Sleeps `seconds`, then reads the canary until three successive readings are steady, for
/// at most `seconds` more (not counting the readings, a thousandth of the pauses).
///
/// # Errors
///
/// When the canary cannot be read.
pub fn wait<E>(
    seconds: u32,
    mut sleep: impl FnMut(Duration),
    mut read: impl FnMut() -> Result<u64, E>,
) -> Result<Settled, E> {
    sleep(Duration::from_secs(u64::from(seconds)));
    let most = u64::from(seconds) * PAUSES_PER_SECOND + 1;
    let mut last = [
        read()?,
        pause_and_read(&mut sleep, &mut read)?,
        pause_and_read(&mut sleep, &mut read)?,
    ];
    let mut readings = 3;
    while !is_steady(last) && readings < most {
        last = [last[1], last[2], pause_and_read(&mut sleep, &mut read)?];
        readings += 1;
    }
    Ok(Settled {
        readings,
        last,
        steady: is_steady(last),
    })
}

fn pause_and_read<E>(
    sleep: &mut impl FnMut(Duration),
    read: &mut impl FnMut() -> Result<u64, E>,
) -> Result<u64, E> {
    sleep(PAUSE);
    read()
}

/// Whether three readings are within one per cent of their smallest; readings of a clock
/// that stands still are not.
fn is_steady(readings: [u64; 3]) -> bool {
    let [first, second, third] = readings;
    let smallest = first.min(second).min(third);
    let spread = first.max(second).max(third) - smallest;
    smallest > 0 && u128::from(spread) * 100 <= u128::from(smallest) * u128::from(STEADY_PERCENT)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Waits on these readings, the last of them for ever; the sum of the sleeps beside it.
    fn waited(seconds: u32, readings: &[u64]) -> (Settled, Duration) {
        let mut slept = Duration::ZERO;
        let mut next = readings.iter();
        let mut reading = 0;
        let settled = wait(
            seconds,
            |time| slept += time,
            || {
                reading = next.next().copied().unwrap_or(reading);
                Ok::<u64, Infallible>(reading)
            },
        );
        let Ok(settled) = settled;
        (settled, slept)
    }

    #[test]
    fn a_steady_canary_is_read_three_times_after_the_sleep() {
        let (settled, slept) = waited(20, &[1_000, 1_010, 1_005]);
        let last = [1_000, 1_010, 1_005];
        let steady = true;
        assert_eq!(
            settled,
            Settled {
                readings: 3,
                last,
                steady
            }
        );
        assert_eq!(slept, Duration::from_millis(20_200));
    }

    #[test]
    fn the_wait_goes_on_until_three_successive_readings_are_steady() {
        // Two alike are not three, and the restless one must have left the three.
        let (settled, slept) = waited(20, &[1_000, 1_000, 1_400, 1_000, 1_011, 1_010, 1_020]);
        let last = [1_011, 1_010, 1_020];
        let steady = true;
        assert_eq!(
            settled,
            Settled {
                readings: 7,
                last,
                steady
            }
        );
        assert_eq!(slept, Duration::from_millis(20_600));
    }

    #[test]
    fn a_restless_canary_ends_the_wait_after_as_many_seconds_again_and_is_not_called_steady() {
        let restless: Vec<u64> = (0..100).map(|at| 1_000 + 20 * (at % 2)).collect();
        let (settled, slept) = waited(2, &restless);
        assert!(!settled.steady);
        assert_eq!(settled.readings, 21);
        assert_eq!(slept, Duration::from_secs(4));
    }

    #[test]
    fn one_per_cent_is_steady_and_more_is_not_nor_is_a_clock_that_stands_still() {
        assert!(is_steady([1_010, 1_000, 1_000]));
        assert!(!is_steady([1_000, 1_011, 1_000]));
        assert!(!is_steady([0, 0, 0]));
        assert!(is_steady([u64::MAX; 3]));
    }

    #[test]
    fn a_canary_that_cannot_be_read_is_an_error() {
        let mut left = 2;
        let outcome = wait(
            1,
            |_| (),
            || {
                left -= 1;
                if left == 0 { Err("refused") } else { Ok(1) }
            },
        );
        assert_eq!(outcome, Err("refused"));
    }
}
