//! `inotify-watch`: workers that add and remove watches, on files of their own or on
//! files they share.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering;

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use super::declaration::Declaration;
use super::error::WorkloadError;
use super::inotify_declarations::{DISTINCT, PAIR, SHARED};
use super::parameters::Parameters;
use super::task_board::{Go, Slot, add};
use super::tasks::{Assignment, Job, TaskKind, Team, columns, count, size};
use super::{Place, Prepared, RoundOutcome, Workload};

/// A task's steps: watches of its own files, watches of the shared ones, and reading
/// what the removals left in its queue.
const STEP_DISTINCT: u32 = 0;
const STEP_SHARED: u32 = 1;
const STEP_DRAIN: u32 = 2;

/// Bytes for one reading of the queue: 4,096 events without a name.
const EVENT_BYTES: usize = 64 << 10;

/// How many watches, and inotify instances, one user may have.
const MAX_WATCHES: &str = "fs.inotify.max_user_watches";
const MAX_INSTANCES: &str = "fs.inotify.max_user_instances";
/// How many events a queue holds; a cycle leaves one for each watch.
const MAX_EVENTS: &str = "fs.inotify.max_queued_events";

/// Which files a window's watches are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Distinct,
    Shared,
    Pair,
}

/// The workload, in one of its scenarios.
pub struct InotifyWatch {
    declaration: &'static Declaration,
    scenario: Scenario,
}

impl InotifyWatch {
    /// The scenario `distinct`.
    pub const DISTINCT: Self = Self {
        declaration: &DISTINCT,
        scenario: Scenario::Distinct,
    };
    /// The scenario `shared`.
    pub const SHARED: Self = Self {
        declaration: &SHARED,
        scenario: Scenario::Shared,
    };
    /// The scenario `pair`.
    pub const PAIR: Self = Self {
        declaration: &PAIR,
        scenario: Scenario::Pair,
    };

    fn start(
        &self,
        parameters: &Parameters,
        place: &Place,
        spoil: fn(&mut Worker),
    ) -> Result<Watches, WorkloadError> {
        let workload = self.declaration.name;
        let assignment = Assignment::new(workload, "workers", parameters, place)?;
        let watches = size(parameters, "watches")?;
        check_limit(workload, MAX_WATCHES, count(assignment.tasks * watches))?;
        check_limit(workload, MAX_INSTANCES, count(assignment.tasks))?;
        check_limit(workload, MAX_EVENTS, count(watches))?;
        let files = Files::new(workload)?;
        let shared = files.create("shared", watches)?;
        let refusal = Arc::new(AtomicI32::new(0));
        let mut workers = Vec::with_capacity(assignment.tasks);
        for index in 0..assignment.tasks {
            let own = files.create(&format!("worker{index}"), watches)?;
            let queue = open_queue(workload, count(assignment.tasks))?;
            let mut worker = Worker::new(queue, own, Arc::clone(&shared), &refusal);
            spoil(&mut worker);
            workers.push(worker);
        }
        let pinned = assignment.pinned();
        Ok(Watches {
            workload,
            scenario: self.scenario,
            team: Team::start(workload, TaskKind::Thread, workers, &pinned)?,
            assignment,
            watches: count(watches),
            cycles: parameters.get("cycles")?,
            rounds: 0,
            refusal,
            _files: files,
        })
    }
}

impl Workload for InotifyWatch {
    fn declaration(&self) -> &'static Declaration {
        self.declaration
    }

    fn support(&self) -> Result<(), WorkloadError> {
        open_queue(self.declaration.name, 1).map(drop)
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        Ok(Box::new(self.start(parameters, place, |_| {})?))
    }

    fn task_columns(&self, parameters: &Parameters) -> Vec<String> {
        columns(parameters.get("workers").unwrap_or(0), "elapsed")
    }
}

fn open_queue(workload: &'static str, wanted: u64) -> Result<OwnedFd, WorkloadError> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| match error {
        Errno::MFILE => WorkloadError::LimitTooLow {
            workload,
            sysctl: MAX_INSTANCES,
            found: "used up (inotify_init1: EMFILE, which a low `ulimit -n` also causes)"
                .to_owned(),
            wanted,
        },
        Errno::NOSYS => WorkloadError::NotOnThisKernel {
            operation: "inotify_init1 (CONFIG_INOTIFY_USER)",
            since: "2.6.27",
        },
        error => WorkloadError::System {
            workload,
            call: "inotify_init1",
            source: error.into(),
        },
    })
}

/// Refuses a limit below what is needed; one that cannot be read is met or not later.
fn check_limit(
    workload: &'static str,
    sysctl: &'static str,
    wanted: u64,
) -> Result<(), WorkloadError> {
    let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    match text.trim().parse::<u64>() {
        Ok(found) if found < wanted => Err(WorkloadError::LimitTooLow {
            workload,
            sysctl,
            found: found.to_string(),
            wanted,
        }),
        _ => Ok(()),
    }
}

/// Paths of files, as the kernel takes them.
type Paths = Arc<[CString]>;

/// A private folder, deleted with it.
struct Files {
    workload: &'static str,
    folder: TempDir,
}

impl Files {
    /// In `/dev/shm`, else where temporary files go: not to measure a disk's file system
    /// where a tmpfs is to be had.
    fn new(workload: &'static str) -> Result<Self, WorkloadError> {
        let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let mut refused = None;
        for place in places {
            let folder = tempfile::Builder::new()
                .prefix("regbundle-")
                .tempdir_in(place);
            match folder {
                Ok(folder) => return Ok(Self { workload, folder }),
                Err(error) => refused = Some(error),
            }
        }
        Err(WorkloadError::System {
            workload,
            call: "mkdir of a private folder in /dev/shm or TMPDIR",
            source: refused.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()),
        })
    }

    fn create(&self, prefix: &str, files: usize) -> Result<Paths, WorkloadError> {
        let create = |number| {
            let path = self.folder.path().join(format!("{prefix}-{number:04}"));
            std::fs::File::create_new(&path)?;
            Ok(CString::new(path.as_os_str().as_bytes())?)
        };
        let paths: Result<Vec<CString>, std::io::Error> = (0..files).map(create).collect();
        paths
            .map(Into::into)
            .map_err(|source| WorkloadError::System {
                workload: self.workload,
                call: "creating a file to watch",
                source,
            })
    }
}

/// What one worker did in a window, or found after it.
struct Worker {
    queue: OwnedFd,
    own: Paths,
    shared: Paths,
    /// The number of each watch, negative where the watch was not added.
    added: Vec<i32>,
    /// Whether it was removed.
    removed: Vec<bool>,
    events: Vec<(i32, ReadFlags)>,
    buffer: Box<[MaybeUninit<u8>]>,
    /// The last error of a call that adds, for the preflight; 0 when there was none.
    refusal: Arc<AtomicI32>,
    /// Lets a test change what was read.
    spoil: fn(&mut Vec<(i32, ReadFlags)>),
}

impl Worker {
    fn new(queue: OwnedFd, own: Paths, shared: Paths, refusal: &Arc<AtomicI32>) -> Self {
        let watches = own.len();
        Self {
            queue,
            own,
            shared,
            added: vec![0; watches],
            removed: vec![false; watches],
            events: Vec::with_capacity(watches + 1),
            buffer: vec![MaybeUninit::zeroed(); EVENT_BYTES].into_boxed_slice(),
            refusal: Arc::clone(refusal),
            spoil: |_| {},
        }
    }

    /// The timed part of a worker: every watch added, then every watch removed.
    fn watch(&mut self, is_shared: bool) {
        let paths = if is_shared { &self.shared } else { &self.own };
        for (path, added) in paths.iter().zip(&mut self.added) {
            *added = match inotify::add_watch(&self.queue, path.as_c_str(), WatchFlags::MODIFY) {
                Ok(number) => number,
                Err(error) => -error.raw_os_error(),
            };
        }
        for (number, removed) in self.added.iter().zip(&mut self.removed) {
            *removed = inotify::remove_watch(&self.queue, *number).is_ok();
        }
    }

    /// Reads the queue until it is empty and judges the window before.
    fn drain(&mut self, slot: &Slot) {
        self.events.clear();
        let mut reader = Reader::new(&self.queue, &mut self.buffer);
        while let Ok(event) = reader.next() {
            self.events.push((event.wd(), event.events()));
        }
        (self.spoil)(&mut self.events);
        if let Some(refused) = self.added.iter().find(|number| **number < 0) {
            self.refusal.store(-refused, Ordering::Relaxed);
        }
        let verdict = judge(&self.added, &self.removed, &self.events);
        add(&slot.bad_wd, verdict.bad_wd);
        add(&slot.not_ignored, verdict.not_ignored);
        add(&slot.queue_overflow, verdict.queue_overflow);
        for _ in 0..verdict.right {
            slot.count(true);
        }
    }
}

impl Job for Worker {
    fn warm(&mut self, slot: &Slot, _go: &Go<'_>) {
        for is_shared in [false, true] {
            self.watch(is_shared);
            self.drain(slot);
        }
    }

    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        match go.command() {
            STEP_DISTINCT => self.watch(false),
            STEP_SHARED => self.watch(true),
            _ => self.drain(slot),
        }
    }
}

/// What became of the watches of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Verdict {
    right: u64,
    bad_wd: u64,
    not_ignored: u64,
    queue_overflow: u64,
}

/// Matches events to watches.
fn judge(added: &[i32], removed: &[bool], events: &[(i32, ReadFlags)]) -> Verdict {
    let mut verdict = Verdict::default();
    let known: BTreeSet<i32> = added.iter().copied().collect();
    let mut ignored = BTreeMap::new();
    for (number, flags) in events {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            verdict.queue_overflow += 1;
        } else if *flags == ReadFlags::IGNORED && known.contains(number) {
            *ignored.entry(*number).or_insert(0_u64) += 1;
        } else {
            verdict.not_ignored += 1;
        }
    }
    let mut seen = BTreeSet::new();
    for (number, removed) in added.iter().zip(removed) {
        // The kernel numbers watches from 1.
        if *number < 1 || !seen.insert(*number) || !removed {
            verdict.bad_wd += 1;
        }
        match ignored.get(number).copied().unwrap_or(0) {
            1 if *number >= 1 && *removed => verdict.right += 1,
            1 => {}
            // Never added: nothing is missing.
            0 if *number < 1 => {}
            times => verdict.not_ignored += 1_u64.abs_diff(times),
        }
    }
    verdict
}

struct Watches {
    workload: &'static str,
    scenario: Scenario,
    team: Team,
    assignment: Assignment,
    /// Of one worker in one window.
    watches: u64,
    cycles: u64,
    rounds: u64,
    refusal: Arc<AtomicI32>,
    /// Deleted last, after the team.
    _files: Files,
}

/// What a round's windows added up to.
#[derive(Default)]
struct Sums {
    windows: u64,
    verdict: Verdict,
    distinct_ns: u64,
    shared_ns: u64,
    of_workers_ns: Vec<u64>,
}

impl Watches {
    /// The steps of a cycle that are timed.
    const fn steps(&self, cycle: u64) -> &'static [u32] {
        match self.scenario {
            Scenario::Distinct => &[STEP_DISTINCT],
            Scenario::Shared => &[STEP_SHARED],
            Scenario::Pair if (self.rounds + cycle).is_multiple_of(2) => {
                &[STEP_DISTINCT, STEP_SHARED]
            }
            Scenario::Pair => &[STEP_SHARED, STEP_DISTINCT],
        }
    }

    /// One window, and what the workers find in their queues after it.
    fn window(&mut self, step: u32, sums: &mut Sums) -> Result<(), WorkloadError> {
        let begin = self.team.run(step)?;
        let mut elapsed_ns = 0;
        for (slot, sum) in self.team.slots().iter().zip(&mut sums.of_workers_ns) {
            let worker_ns = slot.end_ns().saturating_sub(begin);
            *sum += worker_ns;
            elapsed_ns = worker_ns.max(elapsed_ns);
        }
        match step {
            STEP_SHARED => sums.shared_ns += elapsed_ns,
            _ => sums.distinct_ns += elapsed_ns,
        }
        self.team.run(STEP_DRAIN)?;
        let slots = self.team.slots().iter();
        sums.verdict.right += slots.map(|slot| slot.tally().1).sum::<u64>();
        sums.verdict.bad_wd += self.team.sum(|slot| &slot.bad_wd);
        sums.verdict.not_ignored += self.team.sum(|slot| &slot.not_ignored);
        sums.verdict.queue_overflow += self.team.sum(|slot| &slot.queue_overflow);
        sums.windows += 1;
        Ok(())
    }

    fn sums(&self) -> Sums {
        Sums {
            of_workers_ns: vec![0; self.assignment.tasks],
            ..Sums::default()
        }
    }

    /// Watches of one window, over all workers.
    fn in_window(&self) -> u64 {
        self.watches * count(self.assignment.tasks)
    }
}

impl Prepared for Watches {
    fn requests(&self) -> u64 {
        // A watch is added, removed and read; a pair has two windows a cycle.
        self.in_window()
            .saturating_mul(self.cycles)
            .saturating_mul(6)
    }

    /// One window of each kind; a limit that is met shows here.
    fn preflight(&mut self) -> Result<(), WorkloadError> {
        for step in [STEP_DISTINCT, STEP_SHARED] {
            let mut sums = self.sums();
            self.window(step, &mut sums)?;
            let wanted = self.in_window();
            if self.refusal.load(Ordering::Relaxed) == Errno::NOSPC.raw_os_error() {
                return Err(WorkloadError::LimitTooLow {
                    workload: self.workload,
                    sysctl: MAX_WATCHES,
                    found: "used up (inotify_add_watch: ENOSPC)".to_owned(),
                    wanted,
                });
            }
            if sums.verdict.right != wanted {
                return Err(WorkloadError::PreflightOp {
                    workload: self.workload,
                    what: "the number of watches added, removed and ignored once",
                    found: sums.verdict.right,
                    wanted,
                });
            }
        }
        Ok(())
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let mut sums = self.sums();
        for cycle in 0..self.cycles {
            for step in self.steps(cycle) {
                self.window(*step, &mut sums)?;
            }
        }
        self.rounds += 1;
        let verdict = sums.verdict;
        let mut counters = vec![
            verdict.right,
            verdict.bad_wd,
            verdict.not_ignored,
            verdict.queue_overflow,
        ];
        if self.scenario == Scenario::Pair {
            counters.extend([sums.distinct_ns, sums.shared_ns]);
        }
        counters.extend(self.assignment.columns());
        counters.extend(&sums.of_workers_ns);
        Ok(RoundOutcome {
            ops: sums.windows * self.in_window(),
            elapsed_ns: sums.distinct_ns + sums.shared_ns,
            counters,
        })
    }

    fn cpus(&self) -> &[usize] {
        &self.assignment.cpus
    }
}

#[cfg(test)]
#[path = "inotify_watch_tests.rs"]
mod tests;
