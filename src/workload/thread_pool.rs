//! `thread-pool`: pools, threads of one process, that create threads which end at once,
//! and join them.

#![expect(
    unsafe_code,
    reason = "threads on stacks of our own are raw interfaces of the C library"
)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_void};

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::parameters::Parameters;
use super::task_board::{Go, Slot, add};
use super::tasks::{Assignment, Job, OVERSUBSCRIBE, TaskKind, Team, columns, count, size};
use super::{Place, Prepared, RoundOutcome, Workload};

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: "thread-pool",
    op: "one thread created on a stack that is there already, ended at once and joined",
    op_word: "thread",
    window: "from the release of the pools to the end of the last one",
    figure: Figure::OpsPerSecond,
    parameters: &[
        Parameter {
            name: "pools",
            default: 2,
            min: 1,
            max: 64,
            meaning: "threads of one process that create and join threads",
        },
        Parameter {
            name: "threads",
            default: 8,
            min: 1,
            max: 128,
            meaning: "threads a pool creates before it joins them",
        },
        Parameter {
            name: "cycles",
            default: 16,
            min: 1,
            max: 100_000,
            meaning: "times each pool does so in one round, in one window",
        },
        Parameter {
            name: "stack_kib",
            // With the C library's 8 MiB stacks, 64 at once exceed its cache of them and
            // half of the time measured is mmap and munmap.
            default: 16,
            min: 16,
            max: 8192,
            meaning: "KiB of the stack of each thread, populated before",
        },
        OVERSUBSCRIBE,
    ],
    counters: &[
        Counter {
            name: "threads_ok",
            expect: Expect::Ops,
            meaning: "threads that marked the flag of their place once",
        },
        Counter {
            name: "not_run",
            expect: Expect::Zero,
            meaning: "marks too few or too many, summed over the places",
        },
        Counter {
            name: "failed_calls",
            expect: Expect::Zero,
            meaning: "pthread_create or pthread_join that failed",
        },
    ],
    needs: &[],
    functions: &[
        "copy_process",
        "kernel_clone",
        "release_task",
        "sched_mm_cid_fork",
        "do_exit",
    ],
    hits: &[
        Hit::new("task:task_newtask", &[], Wanted::PerOp(1)),
        Hit::new("sched:sched_process_exit", &[], Wanted::PerOp(1)),
    ],
    trace_shape: &[("cycles", 2)],
    scope: "pthread_create and pthread_join of threads that end at once, by several threads of one process, on stacks mapped before: a synthetic micro-benchmark of the kernel and the C library",
    not_shown: &[
        "the slowdown of any application",
        "processes, and threads that work or live long",
        "stacks that the C library maps for a thread",
        "how the time divides into creating, running, ending and joining",
    ],
    control: None,
};

/// What a created thread runs; a test puts one that does not run in its place.
type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// A place for a thread: the flag it marks, on lines no other thread writes.
#[repr(align(128))]
#[derive(Default)]
struct Mark(AtomicU64);

/// Marks the flag of its place.
extern "C" fn mark(place: *mut c_void) -> *mut c_void {
    // SAFETY: the pool passes a mark that outlives the thread, which it joins.
    let mark = unsafe { &*place.cast_const().cast::<Mark>() };
    mark.0.fetch_add(1, Ordering::Relaxed);
    std::ptr::null_mut()
}

/// The attributes of a thread and the stack they name.
struct Stack {
    address: *mut c_void,
    length: usize,
    attributes: Box<MaybeUninit<libc::pthread_attr_t>>,
}

// SAFETY: the mapping and the attributes are used by the one thread that owns them, and
// by the threads it creates and joins.
unsafe impl Send for Stack {}

impl Stack {
    fn new(length: usize) -> Result<Self, (&'static str, io::Error)> {
        // SAFETY: a new mapping at an address the kernel chooses overlaps nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(("mmap of a stack", io::Error::last_os_error()));
        }
        let mut attributes = Box::new(MaybeUninit::uninit());
        // SAFETY: the pointer is to attributes of the right size, which init fills.
        let initialised = unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
        let mut stack = Self {
            address,
            length,
            attributes,
        };
        let refused = match initialised {
            // SAFETY: the attributes are initialised, and the memory is a mapping that
            // nothing else uses.
            0 => unsafe {
                libc::pthread_attr_setstack(stack.attributes.as_mut_ptr(), address, length)
            },
            error => error,
        };
        match refused {
            0 => Ok(stack),
            error => Err((
                "pthread_attr_setstack (a larger stack_kib may do)",
                io::Error::from_raw_os_error(error),
            )),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // The attributes own no memory in the C libraries there are once the stack is
        // the caller's; they are not destroyed, because init may have failed.
        // SAFETY: every thread on this stack has been joined.
        unsafe { libc::munmap(self.address, self.length) };
    }
}

/// One pool.
struct Pool {
    stacks: Vec<Stack>,
    marks: Arc<[Mark]>,
    /// Of the threads that were created and not joined yet; `None` when creating failed.
    threads: Vec<Option<libc::pthread_t>>,
    cycles: u64,
    body: Body,
}

impl Pool {
    /// Creates a thread for each place, then joins them; returns the calls that failed.
    fn cycle(&mut self) -> u64 {
        let mut failed = 0;
        let places = self.stacks.iter().zip(self.marks.iter());
        for ((stack, mark), thread) in places.zip(&mut self.threads) {
            let mut created = MaybeUninit::uninit();
            // SAFETY: the attributes are initialised; their stack is not in use, as the
            // thread of the cycle before was joined; the mark outlives the thread.
            let result = unsafe {
                libc::pthread_create(
                    created.as_mut_ptr(),
                    stack.attributes.as_ptr(),
                    self.body,
                    std::ptr::from_ref(mark).cast_mut().cast(),
                )
            };
            // SAFETY: a call that succeeded filled it.
            *thread = (result == 0).then(|| unsafe { created.assume_init() });
            failed += u64::from(result != 0);
        }
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            // SAFETY: the thread was created above and is joined once.
            let result: c_int = unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
            failed += u64::from(result != 0);
        }
        failed
    }
}

impl Job for Pool {
    fn warm(&mut self, _slot: &Slot, _go: &Go<'_>) {
        self.cycle();
    }

    fn round(&mut self, slot: &Slot, _go: &Go<'_>) {
        for _ in 0..self.cycles {
            let failed = self.cycle();
            if failed != 0 {
                add(&slot.failed_calls, failed);
            }
        }
    }
}

/// The workload.
pub struct ThreadPool;

impl ThreadPool {
    fn start(parameters: &Parameters, place: &Place, body: Body) -> Result<Pools, WorkloadError> {
        let assignment = Assignment::new(DECLARATION.name, "pools", parameters, place)?;
        let threads = size(parameters, "threads")?;
        let length = size(parameters, "stack_kib")?.saturating_mul(1024);
        let cycles = parameters.get("cycles")?;
        let marks: Vec<Arc<[Mark]>> = (0..assignment.tasks)
            .map(|_| (0..threads).map(|_| Mark::default()).collect())
            .collect();
        let pool = |marks: &Arc<[Mark]>| {
            let stacks = (0..threads).map(|_| Stack::new(length)).collect();
            let stacks: Result<Vec<Stack>, _> = stacks;
            Ok(Pool {
                stacks: stacks.map_err(|(call, source)| WorkloadError::System {
                    workload: DECLARATION.name,
                    call,
                    source,
                })?,
                marks: Arc::clone(marks),
                threads: vec![None; threads],
                cycles,
                body,
            })
        };
        let pools: Result<Vec<Pool>, WorkloadError> = marks.iter().map(pool).collect();
        let spread = assignment.spread();
        Ok(Pools {
            team: Team::start(DECLARATION.name, TaskKind::Thread, pools?, &spread)?,
            assignment,
            marks,
            cycles,
        })
    }
}

impl Workload for ThreadPool {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    fn support(&self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        Ok(Box::new(Self::start(parameters, place, mark)?))
    }

    fn task_columns(&self, parameters: &Parameters) -> Vec<String> {
        columns(parameters.get("pools").unwrap_or(0), "elapsed")
    }
}

struct Pools {
    team: Team,
    assignment: Assignment,
    marks: Vec<Arc<[Mark]>>,
    cycles: u64,
}

impl Pools {
    fn marks(&self) -> impl Iterator<Item = &AtomicU64> {
        self.marks
            .iter()
            .flat_map(|pool| pool.iter())
            .map(|mark| &mark.0)
    }
}

impl Prepared for Pools {
    fn requests(&self) -> u64 {
        // Each thread is created, ended and joined.
        self.cycles
            .saturating_mul(count(self.marks().count()))
            .saturating_mul(3)
    }

    /// Every place marked once by the cycle that warmed the pools.
    fn preflight(&mut self) -> Result<(), WorkloadError> {
        let found = self
            .marks()
            .filter(|mark| mark.load(Ordering::Relaxed) == 1);
        let (found, wanted) = (count(found.count()), count(self.marks().count()));
        if found == wanted {
            return Ok(());
        }
        Err(WorkloadError::PreflightOp {
            workload: DECLARATION.name,
            what: "the number of threads that ran once in the first cycle",
            found,
            wanted,
        })
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        self.marks()
            .for_each(|mark| mark.store(0, Ordering::Relaxed));
        let begin = self.team.run(0)?;
        let slots = self.team.slots().iter();
        let elapsed: Vec<u64> = slots
            .map(|slot| slot.end_ns().saturating_sub(begin))
            .collect();
        let (mut threads_ok, mut not_run) = (0, 0);
        for mark in self.marks() {
            let marked = mark.load(Ordering::Relaxed);
            threads_ok += marked.min(self.cycles);
            not_run += marked.abs_diff(self.cycles);
        }
        let failed = self.team.sum(|slot| &slot.failed_calls);
        let mut counters = vec![threads_ok, not_run, failed];
        counters.extend(self.assignment.columns());
        counters.extend(&elapsed);
        Ok(RoundOutcome {
            ops: self.cycles.saturating_mul(count(self.marks().count())),
            elapsed_ns: elapsed.into_iter().max().unwrap_or(0),
            counters,
        })
    }

    fn cpus(&self) -> &[usize] {
        &self.assignment.cpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{Named, named, place, resolve};

    fn pools(body: Body, more: &[(&str, u64)]) -> Pools {
        let mut given = vec![("threads", 3), ("cycles", 4), ("oversubscribe", 1)];
        given.extend(more);
        ThreadPool::start(&resolve(&DECLARATION, &given), &place(), body).unwrap()
    }

    fn round(pools: &mut Pools) -> (RoundOutcome, Named) {
        let outcome = pools.round().unwrap();
        let columns = columns(count(pools.assignment.tasks), "elapsed");
        let counters = named(&DECLARATION, &columns, &outcome);
        (outcome, counters)
    }

    #[test]
    fn every_thread_of_one_and_two_pools_runs_once_a_cycle() {
        for tasks in [1, 2] {
            let mut pools = pools(mark, &[("pools", tasks)]);
            pools.preflight().unwrap();
            for _ in 0..3 {
                let (outcome, counters) = round(&mut pools);
                assert_eq!(outcome.ops, tasks * 3 * 4);
                assert_eq!(counters["threads_ok"], outcome.ops);
                assert_eq!(counters["not_run"], 0);
                assert_eq!(counters["failed_calls"], 0);
                assert_eq!(counters["tasks"], tasks);
                let last = (0..tasks).map(|task| counters[&format!("task{task}_elapsed")]);
                assert_eq!(last.max(), Some(outcome.elapsed_ns));
                assert!(outcome.elapsed_ns > 0);
            }
        }
    }

    #[test]
    fn more_pools_than_cpus_are_refused_unless_asked_for() {
        let cpus = count(place().cpus.len());
        let refused = resolve(&DECLARATION, &[("pools", cpus + 1)]);
        let error = ThreadPool.prepare(&refused, &place()).err().unwrap();
        assert_eq!(error.kind().exit_code(), 64);
        let message = error.to_string();
        assert!(message.contains("'pools'"), "{message}");
        assert!(message.contains("oversubscribe 1"), "{message}");
        let (_, counters) = round(&mut pools(mark, &[("pools", cpus + 1)]));
        assert_eq!(counters["tasks"], cpus + 1);
        assert_eq!(counters["task_cpus"], cpus);
    }

    extern "C" fn does_nothing(_place: *mut c_void) -> *mut c_void {
        std::ptr::null_mut()
    }

    extern "C" fn marks_twice(place: *mut c_void) -> *mut c_void {
        mark(place);
        mark(place)
    }

    #[test]
    fn a_thread_that_does_not_run_or_runs_twice_is_counted_in_not_run() {
        for (body, threads_ok) in [(does_nothing as Body, 0), (marks_twice, 12)] {
            let mut pools = pools(body, &[("pools", 1)]);
            let (_, counters) = round(&mut pools);
            assert_eq!(counters["not_run"], 12);
            assert_eq!(counters["threads_ok"], threads_ok);
            assert_eq!(counters["failed_calls"], 0);
            let mut fresh = self::pools(body, &[("pools", 1)]);
            let message = fresh.preflight().unwrap_err().to_string();
            assert!(message.contains("is 0, wanted 3"), "{message}");
        }
    }

    #[test]
    fn a_thread_that_cannot_be_created_is_counted_in_failed_calls_and_not_run() {
        let mut stacks = vec![Stack::new(16 << 10).unwrap()];
        // SAFETY: the attributes are initialised and nobody else's.
        unsafe {
            let attributes = stacks[0].attributes.as_mut_ptr();
            libc::pthread_attr_setschedpolicy(attributes, libc::SCHED_FIFO);
            let explicit = libc::PTHREAD_EXPLICIT_SCHED;
            libc::pthread_attr_setinheritsched(attributes, explicit);
        }
        let mut pool = Pool {
            stacks,
            marks: [Mark::default()].into_iter().collect(),
            threads: vec![None],
            cycles: 1,
            body: mark,
        };
        // SCHED_FIFO at priority 0 is refused.
        assert_eq!(pool.cycle(), 1);
        assert_eq!(pool.marks[0].0.load(Ordering::Relaxed), 0);
    }
}
