//! Which rows count: the first N clean measured ones, chosen on the canaries and
//! never on the measured value.
//!
//! A round is clean when every canary before and after it is within the plan's
//! tolerance of its floor. The floor of the arithmetic canary is the smallest
//! reading of that implementation in the case (one machine); the floor of the
//! system call canary is the smallest on that kernel, because a change may well
//! make every system call dearer and must not be hidden by the canary. Aborted
//! attempts count for the floors: the machine was the same. Rows without canaries
//! are taken as they are, and the gate `clean-rounds` says so.

use std::collections::BTreeMap;

use crate::model::case::Implementation;
use crate::model::evidence::{Attempt, Evidence, Segment};
use crate::model::identity::BootIdentity;
use crate::model::row::{Canary, Phase, Row};
use crate::model::units::to_f64;

/// Kernel as the floors see it: release and build id.
type KernelKey = (Option<String>, Option<String>);

/// Smallest canary readings, nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Floors {
    alu: BTreeMap<Implementation, u64>,
    syscall: BTreeMap<(Implementation, KernelKey), u64>,
}

fn kernel_key(identity: &BootIdentity) -> KernelKey {
    (
        identity.kernel.release.clone(),
        identity.kernel.build_id.clone(),
    )
}

impl Floors {
    /// Collects the floors of all rows, also those of aborted attempts.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let mut floors = Self::default();
        for attempt in evidence.points.iter().flat_map(|point| &point.attempts) {
            for segment in &attempt.segments {
                for row in &segment.rows {
                    floors.lower(segment.implementation, &attempt.identity, row);
                }
            }
        }
        floors
    }

    /// Takes the readings of one more row into account.
    pub fn lower(&mut self, implementation: Implementation, identity: &BootIdentity, row: &Row) {
        let Some(canary) = row.canary else {
            return;
        };
        let alu = canary.alu_before.min(canary.alu_after);
        let floor = self.alu.entry(implementation).or_insert(alu);
        *floor = alu.min(*floor);
        if let Some((before, after)) = canary.syscall {
            let syscall = before.min(after);
            let key = (implementation, kernel_key(identity));
            let floor = self.syscall.entry(key).or_insert(syscall);
            *floor = syscall.min(*floor);
        }
    }

    /// Returns the floor of the arithmetic canary, nanoseconds.
    #[must_use]
    pub fn alu(&self, implementation: Implementation) -> Option<u64> {
        self.alu.get(&implementation).copied()
    }

    /// Returns the floor of the system call canary on a kernel, nanoseconds.
    #[must_use]
    pub fn syscall(&self, implementation: Implementation, identity: &BootIdentity) -> Option<u64> {
        self.syscall
            .get(&(implementation, kernel_key(identity)))
            .copied()
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
            to_f64(reading) * 100.0 <= to_f64(floor) * (100.0 + tolerance_pct)
        };
        let alu = self.alu(implementation)?;
        let mut clean = within(alu_before, alu) && within(alu_after, alu);
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

impl Selection<'_> {
    /// Returns the per-op figures of the counted rows.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.counted
            .iter()
            .map(|placed| placed.row.metric.per_op())
            .collect()
    }
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
    let mut selection = Selection {
        has_canary: true,
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
            selection.has_canary &= clean.is_some();
            if clean == Some(false) {
                continue;
            }
            selection.clean += usize::from(clean == Some(true));
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
