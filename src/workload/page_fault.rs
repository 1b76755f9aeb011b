//! `page-fault`: tasks that write pages of private anonymous memory for the first time.

#![expect(
    unsafe_code,
    reason = "mapped memory is written page by page, and getrusage of one task has no safe wrapper"
)]

use std::io;
use std::mem::MaybeUninit;

use libc::c_int;

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::parameters::Parameters;
use super::task_board::{Go, Slot, add};
use super::task_window::{FAILED_CALLS, OFF_CPU, OPS_OK, STUCK, TASKS, THREADS, TaskWindow};
use super::tasks::{Job, OVERSUBSCRIBE, columns, count, page_size, size};
use super::{Place, Prepared, RoundOutcome, Workload};

/// Bytes of a page, as the op says it.
const PAGE: usize = 4096;
/// Pages of the lap that warms a task, and of the preflight's mapping.
const TRIAL_PAGES: usize = 64;
/// Where a kernel that has transparent huge pages says so; others refuse the advice
/// against them (EINVAL) and need none.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: "page-fault",
    op: "the first write to a page of 4 KiB of private anonymous memory",
    op_word: "fault",
    window: "window_ms in which all tasks run; the sampler reads clock and counters at its ends",
    figure: Figure::OpsPerSecondOfTask,
    parameters: &[
        TASKS,
        THREADS,
        Parameter {
            name: "mib",
            default: 128,
            min: 1,
            max: 4096,
            meaning: "MiB each task maps, writes and unmaps in a lap",
        },
        Parameter {
            name: "window_ms",
            // A disturbance inside a long round is invisible to the canaries.
            default: 20,
            min: 1,
            max: 10_000,
            meaning: "length of the common window, ms",
        },
        OVERSUBSCRIBE,
    ],
    counters: &[
        OPS_OK,
        FAILED_CALLS,
        Counter {
            name: "faults_off",
            expect: Expect::Zero,
            meaning: "minor faults too many or too few for the pages written, summed over the laps that ended in the round",
        },
        STUCK,
        OFF_CPU,
    ],
    needs: &["pages of 4 KiB"],
    // The handlers of a fault are inlined or not traceable; the tracepoint
    // exceptions:page_fault_user counts them.
    functions: &[],
    hits: &[Hit::new(
        "exceptions:page_fault_user",
        &[],
        Wanted::AtLeastPerOp(1),
    )],
    // In a shorter window one of several tasks on a CPU may have no turn.
    trace_shape: &[("mib", 4), ("window_ms", 20)],
    scope: "first writes to private anonymous memory in pages of 4 KiB, with the mmap and munmap of every lap between them, by tasks that do nothing else, as the mean rate of one task: a synthetic micro-benchmark",
    not_shown: &[
        "the slowdown of any application",
        "huge pages, file mappings, copies on write and pages that were swapped out",
        "how a fault's time divides into entry, allocation, clearing and page tables",
        "other numbers of tasks than the one recorded",
    ],
    control: None,
};

/// The workload.
pub struct PageFault;

impl PageFault {
    fn start(
        parameters: &Parameters,
        place: &Place,
        flags: c_int,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        let pages = size(parameters, "mib")?.saturating_mul((1 << 20) / PAGE);
        let advise = std::path::Path::new(HUGE_PAGES).exists();
        let laps = |pages| Laps {
            pages,
            flags,
            advise,
        };
        Ok(Box::new(Faults {
            trial: laps(TRIAL_PAGES),
            window: TaskWindow::start(DECLARATION.name, parameters, place, || Ok(laps(pages)))?,
        }))
    }
}

impl Workload for PageFault {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    fn support(&self) -> Result<(), WorkloadError> {
        match page_size() {
            PAGE => Ok(()),
            found => Err(WorkloadError::PageSize {
                found,
                wanted: 4096,
            }),
        }
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        Self::start(parameters, place, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }

    fn task_columns(&self, parameters: &Parameters) -> Vec<String> {
        columns(parameters.get(TASKS.name).unwrap_or(0), "ops")
    }
}

/// What one task writes.
struct Laps {
    pages: usize,
    /// Of the mapping; a test adds one that does not belong there.
    flags: c_int,
    /// Whether huge pages must be advised against.
    advise: bool,
}

/// Memory nobody else refers to, unmapped by hand so that a failure is counted.
struct Memory {
    address: *mut u8,
    length: usize,
}

impl Memory {
    fn map(pages: usize, flags: c_int, advise: bool) -> io::Result<Self> {
        let length = pages.saturating_mul(PAGE);
        // SAFETY: a new mapping at an address the kernel chooses overlaps nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Self {
            address: address.cast(),
            length,
        };
        // SAFETY: the whole range was mapped just now.
        let refused =
            advise && unsafe { libc::madvise(address, length, libc::MADV_NOHUGEPAGE) } != 0;
        if refused {
            let error = io::Error::last_os_error();
            let _ = memory.unmap();
            return Err(error);
        }
        Ok(memory)
    }

    /// Writes a page; `page` must be less than the pages mapped.
    #[inline]
    fn write(&self, page: usize) {
        debug_assert!(page * PAGE < self.length);
        // SAFETY: the page lies in the mapping, which is writable and nobody else's.
        unsafe { self.address.add(page * PAGE).write_volatile(1) };
    }

    fn unmap(self) -> io::Result<()> {
        // SAFETY: the mapping was made by `map`, and nothing refers to it.
        match unsafe { libc::munmap(self.address.cast(), self.length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Pages that are present.
    fn resident(&self) -> io::Result<u64> {
        let mut pages = vec![0_u8; self.length / PAGE];
        // SAFETY: the vector has a byte for each page of the mapping.
        match unsafe { libc::mincore(self.address.cast(), self.length, pages.as_mut_ptr()) } {
            0 => Ok(count(pages.iter().filter(|page| **page & 1 == 1).count())),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Laps {
    fn map(&self, pages: usize) -> io::Result<Memory> {
        Memory::map(pages, self.flags, self.advise)
    }

    /// Maps, writes every page until it is stopped, and unmaps.
    fn lap(&self, pages: usize, slot: &Slot, go: &Go<'_>) {
        let Ok(memory) = self.map(pages) else {
            add(&slot.failed_calls, 1);
            return;
        };
        // Read directly around the writes: the faults of a mapping that mmap populates
        // are also this task's, and would make up for those that writes do not cause.
        let before = minor_faults();
        let mut written = 0;
        while written < pages && go.on() {
            memory.write(written);
            written += 1;
            slot.count(true);
        }
        let faults = minor_faults().saturating_sub(before);
        let off = faults.abs_diff(count(written));
        if off != 0 {
            add(&slot.faults_off, off);
            add(&slot.pages_off, count(written));
        }
        if memory.unmap().is_err() {
            add(&slot.failed_calls, 1);
        }
    }
}

impl Job for Laps {
    fn warm(&mut self, slot: &Slot, go: &Go<'_>) {
        self.lap(TRIAL_PAGES, slot, go);
    }

    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        while go.on() {
            self.lap(self.pages, slot, go);
        }
    }
}

/// Minor faults of the calling task so far.
fn minor_faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole rusage, which the call fills; zeroed is a valid
    // one, and differs from any earlier reading should the call ever fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_minflt).unwrap_or(0)
}

struct Faults {
    window: TaskWindow,
    trial: Laps,
}

impl Prepared for Faults {
    fn requests(&self) -> u64 {
        self.window.requests()
    }

    /// Each write must make exactly one more page present.
    fn preflight(&mut self) -> Result<(), WorkloadError> {
        let failed = |call| {
            move |source| WorkloadError::System {
                workload: DECLARATION.name,
                call,
                source,
            }
        };
        let memory = self
            .trial
            .map(TRIAL_PAGES)
            .map_err(failed("mmap or madvise(MADV_NOHUGEPAGE)"))?;
        let mut proven = Ok(());
        for written in 0..=TRIAL_PAGES {
            let found = memory.resident().map_err(failed("mincore"))?;
            if found != count(written) && proven.is_ok() {
                proven = Err(WorkloadError::PreflightOp {
                    workload: DECLARATION.name,
                    what: "the number of pages present",
                    found,
                    wanted: count(written),
                });
            }
            if written < TRIAL_PAGES {
                memory.write(written);
            }
        }
        memory.unmap().map_err(failed("munmap"))?;
        proven
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let sample = self.window.sample()?;
        let off = self.window.team.sum(|slot| &slot.faults_off);
        let pages_off = self.window.team.sum(|slot| &slot.pages_off);
        let right: u64 = sample.right.iter().sum();
        Ok(self
            .window
            .outcome(&sample, right.saturating_sub(pages_off), off))
    }

    fn cpus(&self) -> &[usize] {
        self.window.cpus()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{named, place, resolve, was_run_alone};

    const RIGHT: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

    fn prepared(flags: c_int, more: &[(&str, u64)]) -> Box<dyn Prepared> {
        let mut given = vec![("mib", 1), ("window_ms", 20), ("oversubscribe", 1)];
        given.extend(more);
        PageFault::start(&resolve(&DECLARATION, &given), &place(), flags).unwrap()
    }

    #[test]
    fn one_and_two_tasks_fault_once_a_page_as_processes_and_threads() {
        // The fork of another test write-protects this process: faults of its threads.
        if was_run_alone(
            "workload::page_fault::tests::one_and_two_tasks_fault_once_a_page_as_processes_and_threads",
        ) {
            return;
        }
        for (tasks, threads) in [(1, 0), (2, 0), (1, 1), (2, 1)] {
            let more = [("tasks", tasks), ("threads", threads)];
            let mut prepared = prepared(RIGHT, &more);
            prepared.preflight().unwrap();
            // A busy machine may keep a task from its CPU for a whole window.
            let unstuck = (0..50).any(|_| {
                let outcome = prepared.round().unwrap();
                let counters = named(&DECLARATION, &columns(tasks, "ops"), &outcome);
                assert_eq!(counters["ops_ok"], outcome.ops);
                for name in ["failed_calls", "faults_off", "off_cpu"] {
                    assert_eq!(counters[name], 0, "{name} {more:?}");
                }
                assert_eq!(counters["tasks"], tasks);
                let of_tasks: u64 = (0..tasks)
                    .map(|task| counters[&format!("task{task}_ops")])
                    .sum();
                assert_eq!(of_tasks, outcome.ops);
                counters["stuck"] == 0
            });
            assert!(unstuck, "{more:?}");
        }
    }

    #[test]
    fn more_tasks_than_cpus_are_refused_unless_asked_for() {
        let tasks = count(place().cpus.len()) + 1;
        let refused = resolve(&DECLARATION, &[("tasks", tasks)]);
        let error = PageFault.prepare(&refused, &place()).err().unwrap();
        assert_eq!(error.kind().exit_code(), 64);
        assert!(error.to_string().contains("oversubscribe 1"), "{error}");
        let outcome = prepared(RIGHT, &[("tasks", tasks)]).round().unwrap();
        let counters = named(&DECLARATION, &columns(tasks, "ops"), &outcome);
        assert_eq!(counters["tasks"], tasks);
        assert_eq!(counters["task_cpus"], tasks - 1);
        assert_eq!(counters["faults_off"], 0);
    }

    #[test]
    fn pages_populated_by_mmap_are_counted_in_faults_off_and_are_no_right_ops() {
        for threads in [0, 1] {
            let mut prepared = prepared(RIGHT | libc::MAP_POPULATE, &[("threads", threads)]);
            let outcome = (0..50)
                .map(|_| prepared.round().unwrap())
                .find(|outcome| outcome.ops > 0)
                .unwrap();
            let counters = named(&DECLARATION, &columns(1, "ops"), &outcome);
            assert!(counters["faults_off"] >= outcome.ops);
            assert_eq!(counters["ops_ok"], 0);
            assert_eq!(counters["failed_calls"], 0);
            let message = prepared.preflight().unwrap_err().to_string();
            assert!(message.contains("present is 64, wanted 0"), "{message}");
        }
    }

    #[test]
    fn a_mapping_that_cannot_be_made_is_counted_in_failed_calls() {
        // Neither private nor shared: EINVAL.
        let outcome = prepared(libc::MAP_ANONYMOUS, &[]).round().unwrap();
        let counters = named(&DECLARATION, &columns(1, "ops"), &outcome);
        assert!(counters["failed_calls"] > 0);
        assert_eq!(outcome.ops, 0);
        assert_eq!(counters["stuck"], 1);
        assert!(prepared(libc::MAP_ANONYMOUS, &[]).preflight().is_err());
    }
}
