//! Which installs of one fill are right: completions of both rings against what was asked.
//!
//! Input are completions by number and the files found in slots; output are counts.
//! Pure: no ring, no kernel. Completions are matched by number, never by order.

use std::fmt;

/// Bits of a request's number that hold its slot; above them is the fill it belongs
/// to. Enough for the largest table, 16,384 slots.
const SLOT_BITS: u32 = 14;

/// The number of the request that installs into `slot` in the fill `serial`.
#[inline]
#[must_use]
pub const fn number(serial: u64, slot: usize) -> u64 {
    (serial << SLOT_BITS) + slot as u64
}

/// What of a round was wrong, in the order of the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Completions of this fill with another result than 0.
    pub bad_result: u64,
    /// Completions that nobody asked for, or a second time.
    pub stray: u64,
    /// Slots whose completion did not reach the target ring exactly once.
    pub missing: u64,
    /// Slots that hold another file than theirs.
    pub wrong_file: u64,
    /// Overflow flags found set, and completions the kernel dropped.
    pub overflow: u64,
}

impl Tally {
    /// Adds what was wrong in another fill.
    pub const fn add(&mut self, other: Self) {
        self.bad_result += other.bad_result;
        self.stray += other.stray;
        self.missing += other.missing;
        self.wrong_file += other.wrong_file;
        self.overflow += other.overflow;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "bad_result {}, stray {}, missing {}, wrong_file {}, overflow {}",
            self.bad_result, self.stray, self.missing, self.wrong_file, self.overflow
        )
    }
}

/// What is known of one slot in this fill.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    sent: bool,
    sent_right: bool,
    arrived: bool,
    arrived_right: bool,
    repeated: bool,
    wrong_file: bool,
}

/// The slots of one fill.
#[derive(Debug)]
pub struct Ledger {
    serial: u64,
    marks: Vec<Marks>,
}

impl Ledger {
    /// A ledger for fills of `slots` slots.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            serial: 0,
            marks: vec![Marks::default(); slots],
        }
    }

    /// Opens the ledger of the fill `serial`: no slot has anything yet.
    pub fn open(&mut self, serial: u64) {
        self.serial = serial;
        self.marks.fill(Marks::default());
    }

    /// The marks of the slot that a completion of this fill is about.
    fn marks(&mut self, user_data: u64) -> Option<&mut Marks> {
        let offset = user_data.checked_sub(number(self.serial, 0))?;
        self.marks.get_mut(usize::try_from(offset).ok()?)
    }

    /// Takes a completion of the source ring.
    pub fn take_sent(&mut self, (user_data, result): (u64, i32), tally: &mut Tally) {
        match self.marks(user_data) {
            Some(marks) if !marks.sent => {
                marks.sent = true;
                marks.sent_right = result == 0;
                tally.bad_result += u64::from(result != 0);
            }
            _ => tally.stray += 1,
        }
    }

    /// Takes a completion of the target ring.
    pub fn take_arrived(&mut self, (user_data, result): (u64, i32), tally: &mut Tally) {
        match self.marks(user_data) {
            Some(marks) if !marks.arrived => {
                marks.arrived = true;
                marks.arrived_right = result == 0;
                tally.bad_result += u64::from(result != 0);
            }
            Some(marks) => {
                marks.repeated = true;
                tally.stray += 1;
            }
            None => tally.stray += 1,
        }
    }

    /// Takes note that a slot holds another file than its own.
    pub fn take_wrong_file(&mut self, slot: usize, tally: &mut Tally) {
        tally.wrong_file += 1;
        if let Some(marks) = self.marks.get_mut(slot) {
            marks.wrong_file = true;
        }
    }

    /// Counts what never came, among the first `count` slots; returns how many of
    /// them were wholly right.
    pub fn close(&self, count: usize, tally: &mut Tally) -> u64 {
        let mut right = 0;
        for marks in self.marks.iter().take(count) {
            let arrived_once = marks.arrived && !marks.repeated;
            tally.missing += u64::from(!arrived_once);
            right += u64::from(
                arrived_once && marks.arrived_right && marks.sent_right && !marks.wrong_file,
            );
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIAL: u64 = 5;

    /// A ledger of two slots in which everything that is asked for has come.
    fn settled() -> (Ledger, Tally) {
        let (mut ledger, mut tally) = (Ledger::new(2), Tally::default());
        ledger.open(SERIAL);
        for slot in [1, 0] {
            ledger.take_sent((number(SERIAL, slot), 0), &mut tally);
            ledger.take_arrived((number(SERIAL, slot), 0), &mut tally);
        }
        (ledger, tally)
    }

    #[test]
    fn completions_in_any_order_are_right_once_each() {
        let (ledger, mut tally) = settled();
        assert_eq!(ledger.close(2, &mut tally), 2);
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn a_completion_with_another_result_is_a_bad_result_on_either_ring() {
        for result in [-9, 1, -22] {
            for sent_is_wrong in [true, false] {
                let (mut ledger, mut tally) = (Ledger::new(1), Tally::default());
                ledger.open(SERIAL);
                let (sent, arrived) = if sent_is_wrong {
                    (result, 0)
                } else {
                    (0, result)
                };
                ledger.take_sent((number(SERIAL, 0), sent), &mut tally);
                ledger.take_arrived((number(SERIAL, 0), arrived), &mut tally);
                assert_eq!(ledger.close(1, &mut tally), 0);
                let wanted = Tally {
                    bad_result: 1,
                    ..Tally::default()
                };
                assert_eq!(tally, wanted);
            }
        }
    }

    #[test]
    fn a_number_that_is_old_unknown_or_repeated_is_stray_on_either_ring() {
        for user_data in [
            number(SERIAL - 1, 0),
            number(SERIAL + 1, 0),
            number(SERIAL, 2),
            u64::MAX,
            0,
        ] {
            let (mut ledger, mut tally) = settled();
            ledger.take_sent((user_data, 0), &mut tally);
            ledger.take_arrived((user_data, 0), &mut tally);
            assert_eq!(tally.stray, 2, "{user_data:#x}");
            assert_eq!(ledger.close(2, &mut tally), 2);
        }
        let (mut ledger, mut tally) = settled();
        ledger.take_sent((number(SERIAL, 1), 0), &mut tally);
        assert_eq!(tally.stray, 1);
        ledger.take_arrived((number(SERIAL, 1), 0), &mut tally);
        assert_eq!(tally.stray, 2);
        // Twice is not exactly once.
        assert_eq!(ledger.close(2, &mut tally), 1);
        assert_eq!(tally.missing, 1);
    }

    #[test]
    fn a_slot_without_its_completion_is_missing_and_one_of_a_wrong_file_is_not_right() {
        let (mut ledger, mut tally) = (Ledger::new(3), Tally::default());
        ledger.open(SERIAL);
        for slot in 0..3 {
            ledger.take_sent((number(SERIAL, slot), 0), &mut tally);
        }
        ledger.take_arrived((number(SERIAL, 0), 0), &mut tally);
        ledger.take_arrived((number(SERIAL, 2), 0), &mut tally);
        ledger.take_wrong_file(2, &mut tally);
        assert_eq!(ledger.close(3, &mut tally), 1);
        let wanted = Tally {
            missing: 1,
            wrong_file: 1,
            ..Tally::default()
        };
        assert_eq!(tally, wanted);
    }

    #[test]
    fn an_install_whose_source_never_answered_is_not_right() {
        let (mut ledger, mut tally) = (Ledger::new(1), Tally::default());
        ledger.open(SERIAL);
        ledger.take_arrived((number(SERIAL, 0), 0), &mut tally);
        assert_eq!(ledger.close(1, &mut tally), 0);
    }

    #[test]
    fn numbers_of_the_largest_table_do_not_reach_into_the_next_fill() {
        assert!(number(7, 16_383) < number(8, 0));
    }
}
