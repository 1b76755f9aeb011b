//! What the tasks of a round and their sampler share: a phase they sleep on, and for
//! each task a slot of counters on lines of its own.
#![expect(
    unsafe_code,
    reason = "a mapping shared with children is a raw system interface"
)]

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Most tasks of a round; the board has a line for each.
pub const MOST_TASKS: usize = 64;

/// What one task counts, written by it alone; on lines no other task writes (128 bytes:
/// x86 fetches lines in pairs).
#[repr(C, align(128))]
#[derive(Default)]
pub struct Slot {
    /// Ops in the upper half, the right ones among them in the lower: read at once, so
    /// that a sample never sees an op without its verdict.
    tally: AtomicU64,
    /// Calls that failed.
    pub failed_calls: AtomicU64,
    /// Addresses that cannot be.
    pub bad_address: AtomicU64,
    /// Differences between faults and pages written.
    pub faults_off: AtomicU64,
    /// Pages of laps with such a difference.
    pub pages_off: AtomicU64,
    /// Watches not added or removed as asked.
    pub bad_wd: AtomicU64,
    /// Ignored-events missing, repeated or unknown.
    pub not_ignored: AtomicU64,
    /// Overflows of the event queue.
    pub queue_overflow: AtomicU64,
    /// Whether it was on another CPU than its own.
    pub(super) off_cpu: AtomicU64,
    /// Clock when its part of the round was over, ns.
    pub(super) end_ns: AtomicU64,
    /// The error that kept it from starting, 0 when none did.
    pub(super) refusal: AtomicU64,
}

impl Slot {
    /// Counts an op.
    #[inline]
    pub fn count(&self, right: bool) {
        // A load and a store, not a locked add: nobody else writes it while tasks run.
        let tally = self.tally.load(Ordering::Relaxed);
        let more = (1 << 32) + u64::from(right);
        self.tally
            .store(tally.wrapping_add(more), Ordering::Relaxed);
    }

    /// Ops, and the right ones among them.
    #[inline]
    pub fn tally(&self) -> (u64, u64) {
        let tally = self.tally.load(Ordering::Relaxed);
        (tally >> 32, tally & u64::from(u32::MAX))
    }

    /// When its part of the round was over, ns.
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Forgets a round.
    pub(super) fn clear(&self) {
        for counter in [
            &self.tally,
            &self.failed_calls,
            &self.bad_address,
            &self.faults_off,
            &self.pages_off,
            &self.bad_wd,
            &self.not_ignored,
            &self.queue_overflow,
            &self.off_cpu,
            &self.end_ns,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it did anything yet, be it in vain.
    pub(super) fn has_begun(&self) -> bool {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.tally().0 > 0 || read(&self.failed_calls) > 0
    }
}

/// Adds to a counter of a slot.
#[inline]
pub fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// A word on a line of its own.
#[repr(C, align(128))]
#[derive(Default)]
pub(super) struct Word(pub(super) AtomicU32);

/// What the sampler and its tasks share. All zero is its first state.
#[repr(C)]
pub(super) struct Board {
    /// Even: tasks sleep; odd: a round; the word tasks sleep on.
    pub(super) phase: Word,
    /// What the round is to do, as the workload numbers it.
    pub(super) command: Word,
    /// Tasks that finished; the word the sampler sleeps on.
    pub(super) asleep: Word,
    /// A slot for each task.
    pub(super) slots: [Slot; MOST_TASKS],
}

/// The board in memory that forked children share.
pub(super) struct SharedBoard(NonNull<Board>);

// SAFETY: the board holds atomics only, and the mapping lives until the last owner drops it.
unsafe impl Send for SharedBoard {}
// SAFETY: as above.
unsafe impl Sync for SharedBoard {}

impl SharedBoard {
    /// Maps one.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a new anonymous mapping overlaps nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Board>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Deref for SharedBoard {
    type Target = Board;

    fn deref(&self) -> &Board {
        // SAFETY: the mapping is page aligned, as large as a Board, zeroed by the kernel
        // (a valid Board) and lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedBoard {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new`, and nobody refers to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Board>()) };
    }
}

/// The round a task is in.
pub struct Go<'a> {
    pub(super) phase: &'a AtomicU32,
    pub(super) round: u32,
    pub(super) command: u32,
}

impl Go<'_> {
    /// Whether the sampler has not stopped the round yet.
    #[inline]
    pub fn on(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == self.round
    }

    /// What the round is to do.
    pub const fn command(&self) -> u32 {
        self.command
    }
}
