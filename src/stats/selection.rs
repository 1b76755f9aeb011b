//! Which rows count: the first N clean measured ones, chosen on the canaries and
//! never on the measured value.
//!
//! A round is clean when every canary before and after it is within the plan's
//! tolerance of its floor, above or below. The floor of the arithmetic canary is one
//! for all points of that implementation in the case (one machine); the floor of the
//! system call canary is one per kernel, because a change may well make every system
//! call dearer and must not be hidden by the canary. A round of one task that waited for
//! its CPU longer than [`PREEMPTED_NS`] was preempted and is not clean either: the canaries
//! stand around the round and do not see what came between. Aborted attempts count for the
//! floors: the machine was the same. Rows without canaries are taken as they are, and
//! the gate `clean-rounds` says so.
//!
//! A floor is the lowest level that many readings share, not the smallest reading: a
//! processor may run a few milliseconds above its usual frequency (seen: 14 of 40,000
//! readings 6.5 % below all others), and a floor made of such a reading leaves no
//! round clean for ever after. Rounds measured in such a spell are not clean either.

use std::collections::BTreeMap;

use crate::model::case::Implementation;
use crate::model::evidence::{Attempt, Evidence, Segment};
use crate::model::identity::BootIdentity;
use crate::model::row::{Canary, Phase, Row};
use crate::model::units::to_f64;
use crate::workload::declaration::TASKS;

/// Kernel as the floors see it: release and build id.
type KernelKey = (Option<String>, Option<String>);

/// Readings that must share a level: one in twenty, and at least eight.
const SUPPORT_SHARE: usize = 20;
/// See `SUPPORT_SHARE`; below this many readings the smallest one is the floor.
const SUPPORT_LEAST: usize = 8;
/// Width of a level, percent: quiet readings of one canary lie within about 1 %.
const LEVEL_PCT: u128 = 1;

/// Longest wait for the CPU in a clean round of one task, nanoseconds. A tick or an interrupt
/// takes some microseconds; a process that got the CPU keeps it for a slice, 1 ms or more.
pub const PREEMPTED_NS: u64 = 50_000;

/// Says whether something else ran on the CPU in a round; tasks of one round that share
/// CPUs wait for each other, which is their work.
fn was_preempted(row: &Row) -> bool {
    let alone = row
        .counters
        .iter()
        .all(|(name, value)| name != TASKS || *value <= 1);
    let delay = row.usage.map_or(0, |usage| usage.run_delay_ns);
    alone && delay > PREEMPTED_NS
}

/// Readings of one canary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Readings {
    sorted: Vec<u64>,
    /// Kept, because it is asked for once per row and changes once per reading.
    floor: Option<u64>,
}

impl Readings {
    /// Takes many readings at once: sorting once is not quadratic in their number.
    fn extend(&mut self, readings: impl IntoIterator<Item = u64>) {
        self.sorted.extend(readings);
        self.sorted.sort_unstable();
        self.floor = self.lowest_level();
    }

    fn add(&mut self, reading: u64) {
        let place = self.sorted.partition_point(|known| *known < reading);
        self.sorted.insert(place, reading);
        self.floor = self.lowest_level();
    }

    /// Returns the lowest reading from which enough others are within a level's width.
    fn lowest_level(&self) -> Option<u64> {
        let needed = self.sorted.len().div_ceil(SUPPORT_SHARE).max(SUPPORT_LEAST);
        let upper = self.sorted.iter().skip(needed - 1);
        let supported =
            self.sorted.iter().zip(upper).find(|(low, high)| {
                u128::from(**high) * 100 <= u128::from(**low) * (100 + LEVEL_PCT)
            });
        supported
            .map(|(low, _)| *low)
            .or_else(|| self.sorted.first().copied())
    }
}

/// Levels of the canaries when nothing disturbs them, nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Floors {
    alu: BTreeMap<Implementation, Readings>,
    syscall: BTreeMap<(Implementation, KernelKey), Readings>,
}

fn kernel_key(identity: &BootIdentity) -> KernelKey {
    (
        identity.kernel.release.clone(),
        identity.kernel.build_id.clone(),
    )
}

impl Floors {
    /// Collects the readings of all rows, also those of aborted attempts.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let mut floors = Self::default();
        let mut alu: BTreeMap<Implementation, Vec<u64>> = BTreeMap::new();
        let mut syscall: BTreeMap<(Implementation, KernelKey), Vec<u64>> = BTreeMap::new();
        for attempt in evidence.points.iter().flat_map(|point| &point.attempts) {
            let kernel = kernel_key(&attempt.identity);
            for segment in &attempt.segments {
                for canary in segment.rows.iter().filter_map(|row| row.canary) {
                    alu.entry(segment.implementation)
                        .or_default()
                        .extend([canary.alu_before, canary.alu_after]);
                    if let Some((before, after)) = canary.syscall {
                        syscall
                            .entry((segment.implementation, kernel.clone()))
                            .or_default()
                            .extend([before, after]);
                    }
                }
            }
        }
        for (key, readings) in alu {
            floors.alu.entry(key).or_default().extend(readings);
        }
        for (key, readings) in syscall {
            floors.syscall.entry(key).or_default().extend(readings);
        }
        floors
    }

    /// Takes the readings of one more row into account.
    pub fn add(&mut self, implementation: Implementation, identity: &BootIdentity, row: &Row) {
        let Some(canary) = row.canary else {
            return;
        };
        let alu = self.alu.entry(implementation).or_default();
        alu.add(canary.alu_before);
        alu.add(canary.alu_after);
        if let Some((before, after)) = canary.syscall {
            let key = (implementation, kernel_key(identity));
            let syscall = self.syscall.entry(key).or_default();
            syscall.add(before);
            syscall.add(after);
        }
    }

    /// Returns the floor of the arithmetic canary, nanoseconds.
    #[must_use]
    pub fn alu(&self, implementation: Implementation) -> Option<u64> {
        self.alu.get(&implementation)?.floor
    }

    /// Returns the floor of the system call canary on a kernel, nanoseconds.
    #[must_use]
    pub fn syscall(&self, implementation: Implementation, identity: &BootIdentity) -> Option<u64> {
        self.syscall
            .get(&(implementation, kernel_key(identity)))?
            .floor
    }

    /// Lists every floor: which canary, nanoseconds.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, u64)> {
        let alu = self.alu.iter().filter_map(|(implementation, readings)| {
            let name = format!("{}, arithmetic", implementation.word());
            Some((name, readings.floor?))
        });
        let syscall = self
            .syscall
            .iter()
            .filter_map(|((implementation, kernel), readings)| {
                let release = kernel.0.as_deref().unwrap_or("unknown kernel");
                let name = format!("{}, getppid on {release}", implementation.word());
                Some((name, readings.floor?))
            });
        alu.chain(syscall).collect()
    }

    /// Says whether a round is clean; `None` when its row has no canary.
    #[must_use]
    pub fn is_clean(
        &self,
        implementation: Implementation,
        identity: &BootIdentity,
        row: &Row,
        tolerance_pct: f64,
    ) -> Option<bool> {
        let Canary {
            alu_before,
            alu_after,
            syscall,
        } = row.canary?;
        let within = |reading: u64, floor: u64| {
            // Multiplied out: 1 + 3/100 is not exact, and a reading at the border is clean.
            let (reading, floor) = (to_f64(reading) * 100.0, to_f64(floor));
            reading >= floor * (100.0 - tolerance_pct) && reading <= floor * (100.0 + tolerance_pct)
        };
        let alu = self.alu(implementation)?;
        let mut clean = !was_preempted(row) && within(alu_before, alu) && within(alu_after, alu);
        if let Some((before, after)) = syscall {
            let floor = self.syscall(implementation, identity)?;
            clean = clean && within(before, floor) && within(after, floor);
        }
        Some(clean)
    }
}

/// One row in an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// Number of the segment in its attempt, from 0.
    pub segment: usize,
    /// Number of the row in its segment, from 0.
    pub index: usize,
    /// The row.
    pub row: &'a Row,
}

/// What was selected of one point, workload and implementation.
#[derive(Debug, Clone, Default)]
pub struct Selection<'a> {
    /// Rows that count, in order.
    pub counted: Vec<Placed<'a>>,
    /// Measured rows in all.
    pub measured: usize,
    /// Measured rows that are clean.
    pub clean: usize,
    /// Whether every measured row carries canary readings.
    pub has_canary: bool,
}

/// Selects the rows of one workload and implementation in an attempt.
///
/// `limit` is the planned number of rounds; `None` takes all (rows without canary).
#[must_use]
pub fn select<'a>(
    attempt: &'a Attempt,
    workload: &str,
    implementation: Implementation,
    floors: &Floors,
    tolerance_pct: f64,
    limit: usize,
) -> Selection<'a> {
    // One row with readings makes the readings of all others due: a row that lost its
    // own is not clean, or leaving them out would be a way around the selection.
    let has_canary = segments_of(attempt, workload, implementation)
        .flat_map(|(_, segment)| &segment.rows)
        .any(|row| row.canary.is_some());
    let mut selection = Selection {
        has_canary,
        ..Selection::default()
    };
    for (number, segment) in segments_of(attempt, workload, implementation) {
        // The rows of an aborted stream stay in the evidence and count for nothing.
        if segment.aborted.is_some() {
            continue;
        }
        for (index, row) in segment.rows.iter().enumerate() {
            if row.phase != Phase::Measured {
                continue;
            }
            selection.measured += 1;
            let clean = floors.is_clean(implementation, &attempt.identity, row, tolerance_pct);
            if has_canary && clean != Some(true) {
                continue;
            }
            selection.clean += usize::from(has_canary);
            if selection.counted.len() < limit {
                selection.counted.push(Placed {
                    segment: number,
                    index,
                    row,
                });
            }
        }
    }
    selection
}

/// Returns the segments of one workload and implementation with their numbers.
pub fn segments_of<'a>(
    attempt: &'a Attempt,
    workload: &str,
    implementation: Implementation,
) -> impl Iterator<Item = (usize, &'a Segment)> {
    attempt
        .segments
        .iter()
        .enumerate()
        .filter(move |(_, segment)| {
            segment.workload == workload && segment.implementation == implementation
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::row::{Metric, Usage};

    fn floor(readings: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut known = Readings::default();
        for reading in readings {
            known.add(reading);
        }
        known.floor
    }

    #[test]
    fn a_few_fast_readings_are_not_the_floor() {
        let usual = (0..1000).map(|n| 45_400 + n % 50);
        let fast = [42_611, 42_700];
        assert_eq!(floor(usual.chain(fast)), Some(45_400));
    }

    #[test]
    fn a_disturbed_majority_is_not_the_floor() {
        // A busy neighbour for nine tenths of the time, slower by a fixed factor of 1.385.
        let readings = (0..1000).map(|n| if n % 10 == 0 { 45_400 } else { 62_900 });
        assert_eq!(floor(readings), Some(45_400));
    }

    #[test]
    fn few_readings_have_their_smallest_as_floor() {
        assert_eq!(floor([3, 1, 2]), Some(1));
        assert_eq!(floor([]), None);
    }

    #[test]
    fn a_round_of_one_task_that_waited_for_its_cpu_is_not_clean() {
        let row = |delay, tasks: Option<u64>| Row {
            phase: Phase::Measured,
            round: 0,
            metric: Metric::Elapsed {
                elapsed: 1_000_000,
                ops: 10,
            },
            usage: Some(Usage {
                cpu_begin: 1,
                cpu_end: 1,
                nvcsw: 0,
                nivcsw: 1,
                minflt: 0,
                run_delay_ns: delay,
            }),
            canary: Some(Canary {
                alu_before: 1000,
                alu_after: 1000,
                syscall: None,
            }),
            counters: tasks
                .map(|tasks| (TASKS.to_owned(), tasks))
                .into_iter()
                .collect(),
            passed: Some(true),
        };
        let identity = BootIdentity::foreign("6.1");
        let mut floors = Floors::default();
        floors.add(Implementation::Formal, &identity, &row(0, None));
        for (delay, tasks, clean) in [
            (0, None, true),
            (50_000, None, true),
            (50_001, None, false),
            (50_001, Some(1), false),
            (4_000_000, Some(2), true),
        ] {
            let found = floors.is_clean(Implementation::Formal, &identity, &row(delay, tasks), 3.0);
            assert_eq!(found, Some(clean), "{delay} {tasks:?}");
        }
    }

    #[test]
    fn the_order_of_readings_does_not_matter() {
        let readings: Vec<u64> = (0..300).map(|n| 1000 + (n * 7919) % 97).collect();
        let mut reversed = readings.clone();
        reversed.reverse();
        assert_eq!(floor(readings), floor(reversed));
    }
}
