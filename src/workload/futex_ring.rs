//! One `io_uring`, its futex words, and the checks both futex workloads share.
//!
//! A cycle is: a timed window (in the workload's own file) that submits one wait per
//! vector, then one wake per vector, and takes all completions; then, untimed, every
//! completion is matched by its number, and a wake on the other words must find
//! nobody. Requests carry numbers and are never matched by order, because all wake
//! completions arrive before all wait completions.
#![expect(
    unsafe_code,
    reason = "a pushed request points to memory the kernel reads later"
)]

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode};

use super::error::WorkloadError;
use super::futex_memory::{ANY_BIT, FUTEX_FLAGS, FutexMemory};
use super::io_uring_support::setup_error;
use super::parameters::Parameters;
use super::{Prepared, RoundOutcome};

/// Bits of a request's number that count requests inside a cycle; above them is the
/// cycle. Enough for the largest parameters: 2 x 64 requests and 64 x 128 checks.
const POSITION_BITS: u32 = 14;

/// What distinguishes one futex workload from another.
pub struct Form {
    /// Name of the workload.
    pub workload: &'static str,
    /// Makes the wait of one vector on one of its words.
    pub wait: fn(&FutexMemory, usize, usize) -> Entry,
    /// The result of such a wait when that word was woken.
    pub woken: fn(usize) -> i32,
    /// The timed part: one cycle; returns ns.
    pub window: fn(&mut FutexRing) -> Result<u64, WorkloadError>,
    /// Whether the word that was woken is checked for waiters after the window too.
    pub check_woken_word: bool,
}

/// The semantic counters of both workloads, in the order of their declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    waits_ok: u64,
    wakes_ok: u64,
    bad_result: u64,
    stray: u64,
    overflow: u64,
    residual: u64,
}

/// The ring and everything its requests point to.
pub struct FutexRing {
    // The ring is the first field, so that it is closed before the memory goes.
    ring: IoUring,
    memory: FutexMemory,
    workload: &'static str,
    cycle: u64,
    pending: Vec<bool>,
    completions: Vec<(u64, i32)>,
}

impl FutexRing {
    fn new(workload: &'static str, parameters: &Parameters) -> Result<Self, WorkloadError> {
        let memory = FutexMemory::new(parameters)?;
        let (vectors, total) = (memory.vector_count(), memory.word_count());
        // One check of every word fits in one submission; the completion queue is
        // twice that, so it holds both completions of every vector.
        let entries = u32::try_from(total.next_power_of_two()).unwrap_or(u32::MAX);
        let ring = IoUring::new(entries).map_err(setup_error(workload))?;
        let room = usize::try_from(ring.params().cq_entries()).unwrap_or(0);
        Ok(Self {
            ring,
            memory,
            workload,
            cycle: 0,
            pending: vec![false; 2 * vectors + total],
            completions: touched(room),
        })
    }

    /// Number of vectors: waits, and wakes, in one cycle.
    #[inline]
    pub const fn vector_count(&self) -> usize {
        self.memory.vector_count()
    }

    /// Queues one wait per vector, to be woken on the element `wake`.
    #[inline]
    pub fn queue_waits(
        &mut self,
        wait: impl Fn(&FutexMemory, usize, usize) -> Entry,
    ) -> Result<(), WorkloadError> {
        self.queue(0, wait)
    }

    /// Queues one wake per vector, on the element `wake`.
    #[inline]
    pub fn queue_wakes(&mut self) -> Result<(), WorkloadError> {
        self.queue(self.vector_count(), wake)
    }

    #[inline]
    fn queue(
        &mut self,
        first: usize,
        request: impl Fn(&FutexMemory, usize, usize) -> Entry,
    ) -> Result<(), WorkloadError> {
        let memory = &self.memory;
        let mut queue = self.ring.submission();
        for vector in 0..memory.vector_count() {
            let entry = request(memory, vector, memory.wake())
                .user_data(number(self.cycle, first + vector));
            // SAFETY: the entry points into `memory`, which is never resized and
            // outlives the ring; the kernel only reads it.
            let pushed = unsafe { queue.push(&entry) };
            pushed.map_err(|_full| WorkloadError::QueueFull { cycle: self.cycle })?;
        }
        Ok(())
    }

    /// Submits what is queued and waits until the queue holds `completions`; one
    /// `io_uring_enter`.
    #[inline]
    pub fn enter(&mut self, completions: usize) -> Result<(), WorkloadError> {
        match self.ring.submit_and_wait(completions) {
            Ok(_) => Ok(()),
            Err(source) => Err(WorkloadError::System {
                workload: self.workload,
                call: "io_uring_enter",
                source,
            }),
        }
    }

    /// Takes every completion there is, in addition to those already taken.
    #[inline]
    pub fn reap(&mut self) {
        self.completions.extend(
            self.ring
                .completion()
                .map(|completion| (completion.user_data(), completion.result())),
        );
    }

    fn push(&mut self, entry: Entry, position: usize) -> Result<(), WorkloadError> {
        let entry = entry.user_data(number(self.cycle, position));
        // SAFETY: as in `queue`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_full| WorkloadError::QueueFull { cycle: self.cycle })
    }

    fn begin_cycle(&mut self) {
        self.cycle += 1;
        self.pending.fill(true);
        self.completions.clear();
    }

    /// Whether a completion's number is one of this cycle's and seen the first time;
    /// then its position.
    fn claim(&mut self, user_data: u64) -> Option<usize> {
        let offset = user_data.checked_sub(number(self.cycle, 0))?;
        let position = usize::try_from(offset).ok()?;
        let pending = self.pending.get_mut(position)?;
        std::mem::take(pending).then_some(position)
    }

    /// Matches the completions of a window by number; `woken` is what waits return.
    fn judge_window(&mut self, woken: i32, tally: &mut Tally) -> Result<(), WorkloadError> {
        self.reap();
        self.want(2 * self.vector_count())?;
        let taken = std::mem::take(&mut self.completions);
        for (user_data, result) in taken.iter().copied() {
            match self.claim(user_data) {
                Some(at) if at < self.vector_count() && result == woken => tally.waits_ok += 1,
                Some(at)
                    if (self.vector_count()..2 * self.vector_count()).contains(&at)
                        && result == 1 =>
                {
                    tally.wakes_ok += 1;
                }
                Some(at) if at < 2 * self.vector_count() => tally.bad_result += 1,
                _ => tally.stray += 1,
            }
        }
        self.keep_room(taken);
        Ok(())
    }

    /// Wakes the other words (and the woken ones too, when asked); each must find nobody.
    ///
    /// A submission of its own: a wake submitted together with the one that claimed
    /// the vector finds it still queued and reports a waiter that is none.
    fn check_residual(&mut self, with_woken: bool, tally: &mut Tally) -> Result<(), WorkloadError> {
        let first = 2 * self.vector_count();
        let mut queued = 0;
        for vector in 0..self.vector_count() {
            for element in 0..self.memory.words_per_vector() {
                if with_woken || element != self.memory.wake() {
                    self.push(wake(&self.memory, vector, element), first + queued)?;
                    queued += 1;
                }
            }
        }
        self.enter(queued)?;
        self.reap();
        self.want(queued)?;
        let taken = std::mem::take(&mut self.completions);
        for (user_data, result) in taken.iter().copied() {
            match self.claim(user_data) {
                Some(at) if at >= first && result == 0 => {}
                Some(at) if at >= first && result > 0 => tally.residual += 1,
                Some(at) if at >= first => tally.bad_result += 1,
                _ => tally.stray += 1,
            }
        }
        self.keep_room(taken);
        let flagged = self.ring.submission().cq_overflow();
        tally.overflow += u64::from(flagged) + u64::from(self.ring.completion().overflow());
        Ok(())
    }

    /// Gives the list back, empty, with the room it has.
    fn keep_room(&mut self, mut taken: Vec<(u64, i32)>) {
        taken.clear();
        self.completions = taken;
    }

    const fn want(&self, wanted: usize) -> Result<(), WorkloadError> {
        let found = self.completions.len();
        if found >= wanted {
            return Ok(());
        }
        Err(WorkloadError::Short {
            cycle: self.cycle,
            found,
            wanted,
        })
    }

    /// One wait and one wake on one word: both must say so.
    fn probe_word(
        &mut self,
        form: &Form,
        vector: usize,
        element: usize,
    ) -> Result<(), WorkloadError> {
        self.begin_cycle();
        self.push((form.wait)(&self.memory, vector, element), 0)?;
        self.enter(0)?;
        self.push(wake(&self.memory, vector, element), 1)?;
        // Only one completion is waited for: a wait that this word does not reach
        // would never give the second.
        self.enter(1)?;
        self.reap();
        self.expect_result(form, (vector, element), ("wake", 1), 1)?;
        if self.completions.len() < 2 {
            self.enter(1)?;
            self.reap();
        }
        self.expect_result(form, (vector, element), ("wait", 0), (form.woken)(element))
    }

    fn expect_result(
        &self,
        form: &Form,
        (vector, word): (usize, usize),
        (what, position): (&'static str, usize),
        wanted: i32,
    ) -> Result<(), WorkloadError> {
        let user_data = number(self.cycle, position);
        let result = self
            .completions
            .iter()
            .find(|(found, _)| *found == user_data);
        match result {
            Some((_, found)) if *found == wanted => Ok(()),
            Some((_, found)) => Err(WorkloadError::Preflight {
                workload: form.workload,
                vector,
                word,
                what,
                found: *found,
                wanted,
            }),
            None => Err(WorkloadError::Short {
                cycle: self.cycle,
                found: self.completions.len(),
                wanted: 2,
            }),
        }
    }
}

/// A futex workload ready to run.
pub struct FutexRounds {
    form: &'static Form,
    ring: FutexRing,
    cycles: u64,
}

impl FutexRounds {
    /// Makes the ring and its memory.
    pub fn new(form: &'static Form, parameters: &Parameters) -> Result<Self, WorkloadError> {
        Ok(Self {
            form,
            ring: FutexRing::new(form.workload, parameters)?,
            cycles: parameters.get("cycles")?,
        })
    }
}

impl Prepared for FutexRounds {
    fn requests(&self) -> u64 {
        let per_cycle = 2 * self.ring.vector_count() + self.ring.memory.word_count();
        let per_cycle = u64::try_from(per_cycle).unwrap_or(u64::MAX);
        per_cycle.saturating_mul(self.cycles)
    }

    fn preflight(&mut self) -> Result<(), WorkloadError> {
        for vector in 0..self.ring.vector_count() {
            for element in 0..self.ring.memory.words_per_vector() {
                self.ring.probe_word(self.form, vector, element)?;
            }
        }
        Ok(())
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let mut tally = Tally::default();
        let mut elapsed_ns = 0;
        let woken = (self.form.woken)(self.ring.memory.wake());
        for _ in 0..self.cycles {
            self.ring.begin_cycle();
            elapsed_ns += (self.form.window)(&mut self.ring)?;
            self.ring.judge_window(woken, &mut tally)?;
            self.ring
                .check_residual(self.form.check_woken_word, &mut tally)?;
        }
        let vectors = u64::try_from(self.ring.vector_count()).unwrap_or(u64::MAX);
        Ok(RoundOutcome {
            ops: self.cycles * vectors,
            elapsed_ns,
            counters: vec![
                tally.waits_ok,
                tally.wakes_ok,
                tally.bad_result,
                tally.stray,
                tally.overflow,
                tally.residual,
            ],
        })
    }
}

#[inline]
fn wake(memory: &FutexMemory, vector: usize, element: usize) -> Entry {
    opcode::FutexWake::new(memory.word(vector, element), 1, ANY_BIT, FUTEX_FLAGS).build()
}

#[inline]
fn number(cycle: u64, position: usize) -> u64 {
    (cycle << POSITION_BITS) + u64::try_from(position).unwrap_or(u64::MAX)
}

/// An empty list whose room has been written, so that no window meets a new page.
fn touched(room: usize) -> Vec<(u64, i32)> {
    let mut list = Vec::with_capacity(room);
    list.resize(room, (u64::MAX, i32::MAX));
    list.clear();
    list
}

#[cfg(test)]
#[path = "futex_ring_tests.rs"]
mod tests;
