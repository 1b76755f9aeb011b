//! Tasks that do a round together: processes or threads on CPUs of their own, which
//! sleep between rounds.
//!
//! Input is a job for each task; outputs are the counters each task keeps on a cache
//! line of its own, and clock readings. The thread that owns a `Team` samples: it keeps
//! its CPU and scheduler, tasks are `SCHED_OTHER`. What a job counts is not judged here.
#![expect(
    unsafe_code,
    reason = "fork and the scheduler of a task are raw system interfaces"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::{CpuSet, futex, sched_setaffinity};
use rustix::time::Timespec;

use super::Place;
use super::declaration::{Parameter, TASKS};
use super::error::WorkloadError;
use super::harness::{current_cpu, monotonic_raw_ns};
use super::parameters::Parameters;
use super::task_board::{Board, Go, MOST_TASKS, SharedBoard, Slot};

/// The phase that ends a task; odd, as every phase in which tasks are awake.
const QUIT: u32 = u32::MAX;
/// How often the sampler looks whether every task has begun: far below a window, and
/// asleep in between, because a task may share its CPU.
const POLL: Duration = Duration::from_micros(100);
/// Polls, and seconds of a longer wait, after which it looks for tasks that died.
const POLLS_UNTIL_CHECK: u32 = 10_000;
const CHECK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The parameter every workload of several tasks has.
pub const OVERSUBSCRIBE: Parameter = Parameter {
    name: "oversubscribe",
    default: 0,
    min: 0,
    max: 1,
    meaning: "1 permits more tasks than CPUs; they share them in turn",
};

/// What one task does. In a forked child it must neither allocate nor panic: another
/// thread of the parent may have held the allocator's lock at the fork.
pub trait Job: Send + 'static {
    /// Runs once in the new task, with a slot nobody reads and a round that never stops,
    /// so that a round touches no page and no code for the first time.
    fn warm(&mut self, _slot: &Slot, _go: &Go<'_>) {}

    /// Runs a round, to its own end or until it is stopped.
    fn round(&mut self, slot: &Slot, go: &Go<'_>);
}

/// What the tasks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Children by `fork`, each with an address space of its own.
    Process,
    /// Threads of one process.
    Thread,
}

/// Which CPUs the tasks of a workload use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Number of tasks.
    pub tasks: usize,
    /// The CPUs used; task `i` is on the `i` modulo their number.
    pub cpus: Vec<usize>,
}

impl Assignment {
    /// Assigns as many tasks as the parameter `name` says.
    ///
    /// # Errors
    ///
    /// When they are more than the CPUs and `oversubscribe` is not 1.
    pub fn new(
        workload: &'static str,
        name: &'static str,
        parameters: &Parameters,
        place: &Place,
    ) -> Result<Self, WorkloadError> {
        let tasks = size(parameters, name)?;
        let cpus = place.cpus.len();
        if tasks > cpus && parameters.get(OVERSUBSCRIBE.name)? != 1 {
            return Err(WorkloadError::Oversubscribed {
                workload,
                name,
                tasks,
                cpus,
            });
        }
        Ok(Self {
            tasks,
            cpus: place.cpus.iter().copied().take(tasks).collect(),
        })
    }

    /// For each task the one CPU it is pinned to.
    pub fn pinned(&self) -> Vec<Vec<usize>> {
        let turns = self.cpus.iter().cycle().take(self.tasks);
        turns.map(|cpu| vec![*cpu]).collect()
    }

    /// For each task all the CPUs used.
    pub fn spread(&self) -> Vec<Vec<usize>> {
        vec![self.cpus.clone(); self.tasks]
    }

    /// The values of the columns `tasks` and `task_cpus`.
    pub fn columns(&self) -> [u64; 2] {
        [count(self.tasks), count(self.cpus.len())]
    }
}

/// The names of the columns of `tasks` tasks that each report one `value`.
pub fn columns(tasks: u64, value: &str) -> Vec<String> {
    let mut columns = vec![TASKS.to_owned(), "task_cpus".to_owned()];
    columns.extend((0..tasks).map(|task| format!("task{task}_{value}")));
    columns
}

/// A parameter as a size.
pub fn size(parameters: &Parameters, name: &str) -> Result<usize, WorkloadError> {
    Ok(usize::try_from(parameters.get(name)?).unwrap_or(usize::MAX))
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: sysconf takes a number and reads no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// A size as a counter.
pub fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

enum Task {
    Process(Pid),
    Thread(JoinHandle<()>),
    Ended,
}

/// What a window of fixed length saw.
pub struct Sample {
    /// Ops of each task.
    pub ops: Vec<u64>,
    /// The right ones among them.
    pub right: Vec<u64>,
    /// Length of the window, ns.
    pub elapsed_ns: u64,
}

/// Tasks, asleep but during rounds. They end with it, or with the process.
pub struct Team {
    workload: &'static str,
    board: Arc<SharedBoard>,
    tasks: Vec<Task>,
    phase: u32,
}

impl Team {
    /// Starts a task for each job on the CPUs `allowed` says, and waits until all sleep.
    ///
    /// # Errors
    ///
    /// When a task cannot be started, moved to its CPUs or given its scheduler.
    pub fn start<J: Job>(
        workload: &'static str,
        kind: TaskKind,
        jobs: Vec<J>,
        allowed: &[Vec<usize>],
    ) -> Result<Self, WorkloadError> {
        let board = SharedBoard::new().map_err(|source| WorkloadError::System {
            workload,
            call: "mmap of the tasks' counters",
            source,
        })?;
        let mut team = Self {
            workload,
            board: Arc::new(board),
            tasks: Vec::with_capacity(jobs.len()),
            phase: 0,
        };
        for (index, (job, cpus)) in jobs.into_iter().zip(allowed).enumerate() {
            let member = Member {
                board: Arc::clone(&team.board),
                index,
                own_cpu: match cpus.as_slice() {
                    [one] => Some(*one),
                    _ => None,
                },
                cpus: cpu_set(cpus),
                job,
            };
            let (task, call) = match kind {
                TaskKind::Process => (member.fork(), "fork"),
                TaskKind::Thread => (member.spawn(), "pthread_create"),
            };
            team.tasks.push(task.map_err(|source| WorkloadError::Task {
                workload,
                task: index,
                call,
                source,
            })?);
        }
        team.wait_until_asleep()?;
        team.check_refusals()?;
        Ok(team)
    }

    /// The slots of the tasks.
    pub fn slots(&self) -> &[Slot] {
        self.board.slots.get(..self.tasks.len()).unwrap_or_default()
    }

    /// A counter summed over the tasks.
    pub fn sum(&self, counter: impl Fn(&Slot) -> &AtomicU64) -> u64 {
        let read = |slot| counter(slot).load(Ordering::Relaxed);
        self.slots().iter().map(read).sum()
    }

    /// Tasks that were on another CPU than their own when the round began or ended.
    pub fn off_cpu(&self) -> u64 {
        self.sum(|slot| &slot.off_cpu)
    }

    /// Runs a round that tasks end by themselves; returns the clock before the release.
    ///
    /// # Errors
    ///
    /// When a task died.
    pub fn run(&mut self, command: u32) -> Result<u64, WorkloadError> {
        let begin = self.release(command);
        self.wait_until_asleep()?;
        self.set_phase();
        Ok(begin)
    }

    /// Runs a round of which a window of fixed length is sampled, from the moment every
    /// task has done an op.
    ///
    /// # Errors
    ///
    /// When a task died.
    pub fn sample(&mut self, length: Duration) -> Result<Sample, WorkloadError> {
        self.release(0);
        self.wait_until_begun()?;
        let mut tallies = [[(0, 0); MOST_TASKS]; 2];
        let [before, after] = &mut tallies;
        let elapsed_ns = window(self.slots(), before, after, length);
        self.set_phase();
        self.wait_until_asleep()?;
        let (ops, right) = before
            .iter()
            .zip(after.iter())
            .take(self.tasks.len())
            .map(|(before, after)| {
                let ops = after.0.saturating_sub(before.0);
                (ops, after.1.saturating_sub(before.1))
            })
            .unzip();
        Ok(Sample {
            ops,
            right,
            elapsed_ns,
        })
    }

    /// Begins a round; returns the clock just before.
    fn release(&mut self, command: u32) -> u64 {
        self.slots().iter().for_each(Slot::clear);
        self.board.asleep.0.store(0, Ordering::Relaxed);
        self.board.command.0.store(command, Ordering::Relaxed);
        let begin = monotonic_raw_ns();
        self.set_phase();
        wake_all(&self.board.phase.0);
        begin
    }

    fn set_phase(&mut self) {
        self.phase = self.phase.wrapping_add(1);
        self.board.phase.0.store(self.phase, Ordering::Release);
    }

    fn wait_until_begun(&mut self) -> Result<(), WorkloadError> {
        let mut polls = 0_u32;
        while !self.slots().iter().all(Slot::has_begun) {
            std::thread::sleep(POLL);
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_UNTIL_CHECK) {
                self.check_alive()?;
            }
        }
        Ok(())
    }

    fn wait_until_asleep(&mut self) -> Result<(), WorkloadError> {
        loop {
            let asleep = self.board.asleep.0.load(Ordering::Acquire);
            if usize::try_from(asleep) == Ok(self.tasks.len()) {
                return Ok(());
            }
            let word = &self.board.asleep.0;
            match futex::wait(word, futex::Flags::empty(), asleep, Some(&CHECK)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => self.check_alive()?,
                Err(error) => {
                    return Err(WorkloadError::System {
                        workload: self.workload,
                        call: "futex(FUTEX_WAIT)",
                        source: error.into(),
                    });
                }
            }
        }
    }

    /// Looks for children that ended though nobody told them to.
    fn check_alive(&mut self) -> Result<(), WorkloadError> {
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let ended = match task {
                Task::Process(pid) => rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG)
                    .map_or(Some(-1), |status| status.map(|(_, status)| status.as_raw())),
                Task::Thread(handle) => handle.is_finished().then_some(0),
                Task::Ended => Some(-1),
            };
            if let Some(status) = ended {
                if matches!(task, Task::Process(_)) {
                    // Reaped: its number may be another process's from now on.
                    *task = Task::Ended;
                }
                return Err(WorkloadError::TaskEnded {
                    workload: self.workload,
                    task: index,
                    status,
                });
            }
        }
        Ok(())
    }

    fn check_refusals(&self) -> Result<(), WorkloadError> {
        for (task, slot) in self.slots().iter().enumerate() {
            let refusal = slot.refusal.load(Ordering::Relaxed);
            if refusal != 0 {
                return Err(WorkloadError::Task {
                    workload: self.workload,
                    task,
                    call: "sched_setscheduler(SCHED_OTHER) or sched_setaffinity",
                    source: io::Error::from_raw_os_error(i32::try_from(refusal).unwrap_or(0)),
                });
            }
        }
        Ok(())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.board.phase.0.store(QUIT, Ordering::Release);
        wake_all(&self.board.phase.0);
        for task in self.tasks.drain(..) {
            match task {
                Task::Process(pid) => {
                    // A child has nothing to tidy up, and may hang.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    while matches!(
                        rustix::process::waitpid(Some(pid), WaitOptions::empty()),
                        Err(Errno::INTR)
                    ) {}
                }
                Task::Thread(handle) => {
                    let _ = handle.join();
                }
                Task::Ended => {}
            }
        }
    }
}

/// The timed part of a sampled round: two readings of every tally and a sleep between.
fn window(
    slots: &[Slot],
    before: &mut [(u64, u64)],
    after: &mut [(u64, u64)],
    length: Duration,
) -> u64 {
    let begin = monotonic_raw_ns();
    read_tallies(slots, before);
    std::thread::sleep(length);
    read_tallies(slots, after);
    monotonic_raw_ns().saturating_sub(begin)
}

#[inline]
fn read_tallies(slots: &[Slot], into: &mut [(u64, u64)]) {
    for (slot, tally) in slots.iter().zip(into) {
        *tally = slot.tally();
    }
}

/// A task before it runs.
struct Member<J> {
    board: Arc<SharedBoard>,
    index: usize,
    own_cpu: Option<usize>,
    cpus: CpuSet,
    job: J,
}

impl<J: Job> Member<J> {
    fn spawn(mut self) -> io::Result<Task> {
        let thread = std::thread::Builder::new();
        thread.spawn(move || self.serve()).map(Task::Thread)
    }

    fn fork(mut self) -> io::Result<Task> {
        let parent = rustix::process::getpid();
        // SAFETY: the child calls nothing but `serve`, which does not allocate or take
        // locks, and `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let signal = Some(Signal::KILL);
                let bound = rustix::process::set_parent_process_death_signal(signal);
                // The parent may have died before it was bound.
                if bound.is_ok() && rustix::process::getppid() == Some(parent) {
                    self.serve();
                }
                // SAFETY: ends the child without what the parent registered for its exit.
                unsafe { libc::_exit(0) }
            }
            child => Pid::from_raw(child)
                .filter(|_| child > 0)
                .map(Task::Process)
                .ok_or_else(io::Error::last_os_error),
        }
    }

    /// The life of a task.
    fn serve(&mut self) {
        let board = Arc::clone(&self.board);
        let Some(slot) = board.slots.get(self.index) else {
            return;
        };
        if let Err(error) = settle(&self.cpus) {
            let refusal = u64::try_from(error.raw_os_error()).unwrap_or(u64::MAX);
            slot.refusal.store(refusal, Ordering::Relaxed);
            report_asleep(&board);
            return;
        }
        self.warm();
        slot.clear();
        report_asleep(&board);
        let mut last = 0;
        loop {
            let round = next_phase(&board.phase.0, last);
            if round == QUIT {
                return;
            }
            last = round;
            let go = Go {
                phase: &board.phase.0,
                round,
                command: board.command.0.load(Ordering::Relaxed),
            };
            let mut is_off = self.is_off_cpu();
            self.job.round(slot, &go);
            slot.end_ns.store(monotonic_raw_ns(), Ordering::Relaxed);
            is_off |= self.is_off_cpu();
            slot.off_cpu.store(u64::from(is_off), Ordering::Relaxed);
            report_asleep(&board);
        }
    }

    fn warm(&mut self) {
        let phase = AtomicU32::new(1);
        let go = Go {
            phase: &phase,
            round: 1,
            command: 0,
        };
        self.job.warm(&Slot::default(), &go);
    }

    fn is_off_cpu(&self) -> bool {
        self.own_cpu.is_some_and(|own| current_cpu() != own)
    }
}

/// Sleeps until a round other than `last` is on.
fn next_phase(phase: &AtomicU32, last: u32) -> u32 {
    loop {
        let now = phase.load(Ordering::Acquire);
        if now % 2 == 1 && now != last {
            return now;
        }
        // Whatever ended the wait, the phase decides.
        let _ = futex::wait(phase, futex::Flags::empty(), now, None);
    }
}

fn report_asleep(board: &Board) {
    board.asleep.0.fetch_add(1, Ordering::Release);
    wake_all(&board.asleep.0);
}

fn wake_all(word: &AtomicU32) {
    // Cannot fail on an aligned word of our own; not the private kind, for children.
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    set
}

/// Gives the calling task its scheduler and CPUs: it inherited those of the sampler.
fn settle(cpus: &CpuSet) -> Result<(), Errno> {
    let priority: libc::c_int = 0;
    // SAFETY: sched_param is one int, and the pointer is to one; pid 0 is this task.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const priority,
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::PERM));
    }
    sched_setaffinity(None, cpus)
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
