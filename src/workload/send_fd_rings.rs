//! The two rings of `io-uring-msg-ring-send-fd`: one that sends files, one with the
//! table they are installed in; and the checks of what they did.
//!
//! Inputs are sizes; outputs are completions judged by the ledger. It reads no clock:
//! what is timed stands in the workload's own file.
#![expect(
    unsafe_code,
    reason = "pushing a request and owning a descriptor from a completion are unsafe"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use io_uring::squeue::Entry;
use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, opcode};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::error::WorkloadError;
use super::io_uring_support::setup_error;
use super::send_fd_ledger::{Ledger, Tally, number};

/// Name of the workload, without a scenario.
pub const NAME: &str = "io-uring-msg-ring-send-fd";

/// Slots whose files are looked at with one enter. Also bounds the descriptors that
/// the check holds at one time.
const CHECK_BATCH: usize = 64;

/// Descriptors of the process besides sources and rings: what it was started with,
/// those of the worker and of one batch of the check.
const OTHER_FILES: u64 = 256;

/// Tells the numbers of checks from those of installs.
const CHECK_BIT: u64 = 1 << 63;

/// Sizes of everything.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Slots of the table.
    pub slots: usize,
    /// Installs submitted with one enter.
    pub batch: usize,
    /// Different files.
    pub sources: usize,
    /// Room for completions of a target ring.
    pub target_completions: usize,
    /// Target rings open at one time.
    pub targets: usize,
}

impl Shape {
    /// Open files the process must be allowed. The kernel refuses a table of more
    /// slots than that, whatever it holds.
    fn open_files(&self) -> u64 {
        let open = self.sources.saturating_add(self.targets);
        count(open)
            .saturating_add(OTHER_FILES)
            .max(count(self.slots))
    }

    /// Raises the soft limit of open files where it is too low.
    fn allow_open_files(&self) -> Result<(), WorkloadError> {
        let limit = getrlimit(Resource::Nofile);
        if let Some(raised) = raised(&limit, self.open_files())? {
            setrlimit(Resource::Nofile, raised)
                .map_err(|error| system("setrlimit(RLIMIT_NOFILE)")(error.into()))?;
        }
        Ok(())
    }
}

/// The limit to set for `wanted` open files; `None` when it suffices as it is.
fn raised(limit: &Rlimit, wanted: u64) -> Result<Option<Rlimit>, WorkloadError> {
    if limit.current.is_none_or(|soft| soft >= wanted) {
        return Ok(None);
    }
    match limit.maximum {
        Some(found) if found < wanted => Err(WorkloadError::OpenFilesLimit { found, wanted }),
        maximum => Ok(Some(Rlimit {
            current: Some(wanted),
            maximum,
        })),
    }
}

/// What tells one file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: impl AsFd) -> Result<Self, WorkloadError> {
        let found = fstat(file).map_err(|error| system("fstat")(error.into()))?;
        Ok(Self {
            device: found.st_dev,
            inode: found.st_ino,
        })
    }
}

/// The ring that sends, its files, and what it asked for last.
pub struct Source {
    // The ring is the first field, so that it is closed before its files are.
    ring: IoUring,
    _files: Vec<OwnedFd>,
    identities: Vec<Identity>,
    ledger: Ledger,
    batch: usize,
    serial: u64,
    completions: Vec<(u64, i32)>,
}

/// What the request for one slot is made of.
#[derive(Debug, Clone, Copy)]
pub struct Install {
    /// The ring it goes to.
    pub target: Fd,
    /// The slot it goes to.
    pub slot: u32,
    /// The slot of the source ring whose file it sends.
    pub source: u32,
    /// The number both completions carry.
    pub number: u64,
}

impl Install {
    /// The request; `None` for a slot that no table has.
    #[inline]
    pub fn request(self) -> Option<Entry> {
        let slot = DestinationSlot::try_from_slot_target(self.slot).ok()?;
        let request =
            opcode::MsgRingSendFd::new(self.target, Fixed(self.source), slot, self.number);
        Some(request.build().user_data(self.number))
    }
}

impl Source {
    /// Makes the files and the ring that has them registered.
    pub fn new(shape: &Shape) -> Result<Self, WorkloadError> {
        shape.allow_open_files()?;
        let files = (0..shape.sources)
            .map(|_| memfd_create("regbundle-source", MemfdFlags::CLOEXEC))
            .collect::<Result<Vec<OwnedFd>, _>>()
            .map_err(|error| system("memfd_create")(error.into()))?;
        let identities = files.iter().map(Identity::of).collect::<Result<_, _>>()?;
        let ring = IoUring::new(entries(shape.batch)).map_err(setup_error(NAME))?;
        let numbers: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter()
            .register_files(&numbers)
            .map_err(system("io_uring_register(IORING_REGISTER_FILES)"))?;
        // More than can be taken in one fill unless requests complete twice.
        let room = shape.slots + usize::try_from(ring.params().cq_entries()).unwrap_or(0);
        Ok(Self {
            ring,
            _files: files,
            identities,
            ledger: Ledger::new(shape.slots),
            batch: shape.batch,
            serial: 0,
            completions: touched(room),
        })
    }

    /// Opens the next fill; untimed. The ledger, one entry per slot, is cleared after the
    /// window instead: here it would push the table just freed out of the nearest cache,
    /// and registering the next one took 0.3 of 2.5 us longer.
    pub fn begin(&mut self) {
        self.serial += 1;
        self.completions.clear();
    }

    /// Fills the first `slots` slots of the table, batch by batch.
    ///
    /// Slot i gets the file i modulo the number of files; `request` makes the request.
    #[inline]
    pub fn fill(
        &mut self,
        target: &Target,
        slots: usize,
        request: impl Fn(Install) -> Option<Entry>,
    ) -> Result<(), WorkloadError> {
        let sources = self.identities.len();
        let (mut slot, mut source) = (0, 0);
        while slot < slots {
            let end = slots.min(slot + self.batch);
            let size = end - slot;
            let mut queue = self.ring.submission();
            while slot < end {
                let install = Install {
                    target: target.number,
                    slot: index(slot),
                    source: index(source),
                    number: number(self.serial, slot),
                };
                // SAFETY: the request points to no memory; descriptors are not pointers.
                let pushed = request(install).map(|entry| unsafe { queue.push(&entry) });
                if !matches!(pushed, Some(Ok(()))) {
                    return Err(WorkloadError::QueueFull { cycle: self.serial });
                }
                slot += 1;
                source = if source + 1 == sources { 0 } else { source + 1 };
            }
            drop(queue);
            self.enter_and_reap(size)?;
        }
        Ok(())
    }

    /// Submits what is queued, waits for that many completions, and takes them.
    #[inline]
    fn enter_and_reap(&mut self, wanted: usize) -> Result<(), WorkloadError> {
        self.ring
            .submit_and_wait(wanted)
            .map_err(system("io_uring_enter"))?;
        let before = self.completions.len();
        self.completions.extend(
            self.ring
                .completion()
                .map(|completion| (completion.user_data(), completion.result())),
        );
        let found = self.completions.len() - before;
        if found >= wanted {
            return Ok(());
        }
        Err(WorkloadError::Short {
            cycle: self.serial,
            found,
            wanted,
        })
    }

    /// Judges the fill of the first `filled` slots; returns how many of them are
    /// wholly right.
    ///
    /// Also looks at the files of the first `checked` slots, of which those from
    /// `filled` on must be empty.
    pub fn judge(
        &mut self,
        target: &mut Target,
        filled: usize,
        checked: usize,
        tally: &mut Tally,
    ) -> Result<u64, WorkloadError> {
        self.ledger.open(self.serial);
        // Before the queues are emptied: the kernel clears the flag once it has
        // delivered what did not fit.
        tally.overflow += overflows(&mut self.ring) + overflows(&mut target.ring);
        let late = self
            .ring
            .completion()
            .map(|late| (late.user_data(), late.result()));
        self.completions.extend(late);
        for sent in self.completions.drain(..) {
            self.ledger.take_sent(sent, tally);
        }
        for arrived in target.ring.completion() {
            let arrived = (arrived.user_data(), arrived.result());
            self.ledger.take_arrived(arrived, tally);
        }
        let mut slot = 0;
        while slot < checked {
            let end = checked.min(slot + CHECK_BATCH);
            let found = target.identities(slot..end, tally)?;
            for (slot, found) in (slot..end).zip(found) {
                let wanted = self.identities.get(slot % self.identities.len()).copied();
                if found != wanted.filter(|_| slot < filled) {
                    self.ledger.take_wrong_file(slot, tally);
                }
            }
            slot = end;
        }
        Ok(self.ledger.close(filled, tally))
    }
}

/// A ring with, once registered, a table of slots.
pub struct Target {
    ring: IoUring,
    number: Fd,
    empty: Vec<RawFd>,
    checks: u64,
}

impl Target {
    /// Makes the ring, without its table.
    pub fn new(shape: &Shape) -> Result<Self, WorkloadError> {
        let ring = IoUring::builder()
            .setup_cqsize(index(shape.target_completions))
            .build(entries(CHECK_BATCH))
            .map_err(setup_error(NAME))?;
        Ok(Self {
            number: Fd(ring.as_raw_fd()),
            ring,
            empty: vec![-1; shape.slots],
            checks: 0,
        })
    }

    /// Makes the ring and registers its table.
    pub fn with_table(shape: &Shape) -> Result<Self, WorkloadError> {
        let target = Self::new(shape)?;
        target.register()?;
        Ok(target)
    }

    /// Registers a table of empty slots.
    #[inline]
    pub fn register(&self) -> Result<(), WorkloadError> {
        self.ring
            .submitter()
            .register_files_sparse(index(self.empty.len()))
            .map_err(system("io_uring_register(IORING_REGISTER_FILES2)"))
    }

    /// Gives the table back.
    pub fn unregister(&self) -> Result<(), WorkloadError> {
        self.ring
            .submitter()
            .unregister_files()
            .map_err(system("io_uring_register(IORING_UNREGISTER_FILES)"))
    }

    /// Empties every slot; returns how many the kernel says it did.
    #[inline]
    pub fn remove(&self) -> Result<usize, WorkloadError> {
        self.ring
            .submitter()
            .register_files_update(0, &self.empty)
            .map_err(system("io_uring_register(IORING_REGISTER_FILES_UPDATE)"))
    }

    /// The files of some slots, at most `CHECK_BATCH`; `None` for an empty one.
    fn identities(
        &mut self,
        slots: std::ops::Range<usize>,
        tally: &mut Tally,
    ) -> Result<Vec<Option<Identity>>, WorkloadError> {
        self.checks += 1;
        let base = CHECK_BIT | number(self.checks, 0);
        for slot in slots.clone() {
            let entry = opcode::FixedFdInstall::new(Fixed(index(slot)), 0)
                .build()
                .user_data(base + count(slot));
            // SAFETY: the request points to no memory.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(|_full| WorkloadError::QueueFull { cycle: self.checks })?;
        }
        self.ring
            .submit_and_wait(slots.len())
            .map_err(system("io_uring_enter"))?;
        let mut found = vec![None; slots.len()];
        let mut taken = 0;
        loop {
            for completion in self.ring.completion() {
                let offset = completion
                    .user_data()
                    .checked_sub(base + count(slots.start));
                let place = offset.and_then(|offset| usize::try_from(offset).ok());
                match place.and_then(|place| found.get_mut(place)) {
                    Some(place) => {
                        *place = identity_of(completion.result())?;
                        taken += 1;
                    }
                    None => tally.stray += 1,
                }
            }
            // Only completions that did not fit keep the answers back: an enter brings them.
            if taken >= slots.len() || !self.ring.submission().cq_overflow() {
                break;
            }
            self.ring
                .submit_and_wait(0)
                .map_err(system("io_uring_enter"))?;
        }
        if taken == slots.len() {
            return Ok(found);
        }
        Err(WorkloadError::Short {
            cycle: self.checks,
            found: taken,
            wanted: slots.len(),
        })
    }
}

/// The file that `FIXED_FD_INSTALL` gave a descriptor for, which is closed again.
fn identity_of(result: i32) -> Result<Option<Identity>, WorkloadError> {
    if result == -libc::EBADF {
        return Ok(None);
    }
    if result < 0 {
        let error = io::Error::from_raw_os_error(-result);
        return Err(system("IORING_OP_FIXED_FD_INSTALL")(error));
    }
    // SAFETY: the kernel made this descriptor for this request; nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(result) };
    Identity::of(&file).map(Some)
}

fn overflows(ring: &mut IoUring) -> u64 {
    let flagged = ring.submission().cq_overflow();
    u64::from(flagged) + u64::from(ring.completion().overflow())
}

/// An error of a call that has no reason to fail.
pub fn system(call: &'static str) -> impl Fn(io::Error) -> WorkloadError {
    move |source| WorkloadError::System {
        workload: NAME,
        call,
        source,
    }
}

/// An empty list whose room has been written, so that no window meets a new page.
fn touched(room: usize) -> Vec<(u64, i32)> {
    let mut list = vec![(u64::MAX, i32::MAX); room];
    list.clear();
    list
}

fn entries(size: usize) -> u32 {
    index(size.next_power_of_two())
}

/// A number of this workload as the kernel takes it; all are below 2^15 by the limits.
#[inline]
fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: u64, maximum: Option<u64>) -> Rlimit {
        Rlimit {
            current: Some(current),
            maximum,
        }
    }

    #[test]
    fn the_soft_limit_is_raised_only_where_needed_and_only_to_the_hard_one() {
        let unlimited = Rlimit {
            current: None,
            maximum: None,
        };
        for enough in [limit(4_096, Some(4_096)), limit(5_000, None), unlimited] {
            assert!(raised(&enough, 4_096).unwrap().is_none());
        }
        for maximum in [Some(4_096), Some(1 << 20), None] {
            let set = raised(&limit(1_024, maximum), 4_096).unwrap().unwrap();
            assert_eq!((set.current, set.maximum), (Some(4_096), maximum));
        }
    }

    #[test]
    fn a_hard_limit_one_too_low_is_a_skip_that_says_found_and_wanted() {
        let error = raised(&limit(1_024, Some(4_095)), 4_096).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("is 4095, wanted 4096 or more"),
            "{message}"
        );
        assert_eq!(error.kind().exit_code(), 4);
    }

    #[test]
    fn the_table_or_the_open_files_decide_what_limit_is_wanted() {
        let shape = |slots, sources, targets| Shape {
            slots,
            batch: 1,
            sources,
            target_completions: 128,
            targets,
        };
        assert_eq!(shape(4_096, 64, 8).open_files(), 4_096);
        assert_eq!(shape(64, 1_024, 8).open_files(), 1_024 + 8 + OTHER_FILES);
        assert_eq!(
            shape(64, 64, 100_000).open_files(),
            64 + 100_000 + OTHER_FILES
        );
    }

    #[test]
    fn a_descriptor_that_could_not_be_made_is_an_error_and_not_an_empty_slot() {
        assert!(identity_of(-libc::EBADF).unwrap().is_none());
        let error = identity_of(-libc::EMFILE).unwrap_err();
        assert_eq!(error.kind().exit_code(), 1);
    }
}
