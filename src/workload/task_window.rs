//! What workloads of a common window share: tasks that repeat an op until the sampler,
//! which reads every counter before and after a sleep of fixed length, stops them.
//!
//! Inputs are jobs and parameters; output is the outcome of a round. It does not know
//! what an op is.

use std::time::Duration;

use super::declaration::{Counter, Expect, Parameter};
use super::error::WorkloadError;
use super::parameters::Parameters;
use super::task_board::MOST_TASKS;
use super::tasks::{Assignment, Job, Sample, TaskKind, Team, count};
use super::{Place, RoundOutcome};

/// Requests the watchdog allows time for, per millisecond of a window: ten times the
/// window at its 10,000 requests a second.
const REQUESTS_PER_MS: u64 = 100;

/// The parameter `tasks`.
pub const TASKS: Parameter = Parameter {
    name: "tasks",
    default: 1,
    min: 1,
    // As many as the board has lines for.
    max: 64,
    meaning: "tasks that do ops at the same time, each on a CPU of its own",
};
const _: () = assert!(MOST_TASKS == 64);

/// The parameter `threads`.
pub const THREADS: Parameter = Parameter {
    name: "threads",
    default: 0,
    min: 0,
    max: 1,
    meaning: "1 makes the tasks threads of one process, not processes",
};

/// The counter of ops that were right.
pub const OPS_OK: Counter = Counter {
    name: "ops_ok",
    expect: Expect::Ops,
    meaning: "ops of the window that were right",
};

/// The counter of calls that failed.
pub const FAILED_CALLS: Counter = Counter {
    name: "failed_calls",
    expect: Expect::Zero,
    meaning: "system calls of the whole round that failed",
};

/// The counter of tasks without an op.
pub const STUCK: Counter = Counter {
    name: "stuck",
    expect: Expect::Zero,
    meaning: "tasks that did no op in the window",
};

/// The counter of tasks on other CPUs.
pub const OFF_CPU: Counter = Counter {
    name: "off_cpu",
    expect: Expect::Zero,
    meaning: "tasks that were on another CPU than theirs when the round began or ended",
};

/// Tasks and the window they are sampled in.
pub struct TaskWindow {
    /// The tasks.
    pub team: Team,
    assignment: Assignment,
    length_ms: u64,
}

impl TaskWindow {
    /// Starts the tasks, one for each job that `job` makes.
    ///
    /// # Errors
    ///
    /// When there are more tasks than CPUs though nobody asked for it, or one cannot start.
    pub fn start<J: Job>(
        workload: &'static str,
        parameters: &Parameters,
        place: &Place,
        job: impl FnMut() -> Result<J, WorkloadError>,
    ) -> Result<Self, WorkloadError> {
        let assignment = Assignment::new(workload, TASKS.name, parameters, place)?;
        let kind = match parameters.get(THREADS.name)? {
            0 => TaskKind::Process,
            _ => TaskKind::Thread,
        };
        let jobs = std::iter::repeat_with(job)
            .take(assignment.tasks)
            .collect::<Result<Vec<J>, WorkloadError>>()?;
        Ok(Self {
            team: Team::start(workload, kind, jobs, &assignment.pinned())?,
            assignment,
            length_ms: parameters.get("window_ms")?,
        })
    }

    /// The CPUs of the tasks.
    pub fn cpus(&self) -> &[usize] {
        &self.assignment.cpus
    }

    /// Upper bound of what a round asks for, for the watchdog.
    pub const fn requests(&self) -> u64 {
        self.length_ms.saturating_mul(REQUESTS_PER_MS)
    }

    /// Runs a round and samples it.
    ///
    /// # Errors
    ///
    /// When a task died.
    pub fn sample(&mut self) -> Result<Sample, WorkloadError> {
        self.team.sample(Duration::from_millis(self.length_ms))
    }

    /// The outcome of a round: `wrong` is the counter the workload has between
    /// `failed_calls` and `stuck`.
    pub fn outcome(&self, sample: &Sample, ops_ok: u64, wrong: u64) -> RoundOutcome {
        let stuck = sample.ops.iter().filter(|ops| **ops == 0).count();
        let mut counters = vec![
            ops_ok,
            self.team.sum(|slot| &slot.failed_calls),
            wrong,
            count(stuck),
            self.team.off_cpu(),
        ];
        counters.extend(self.assignment.columns());
        counters.extend(&sample.ops);
        RoundOutcome {
            ops: sample.ops.iter().sum(),
            elapsed_ns: sample.elapsed_ns,
            counters,
        }
    }
}
