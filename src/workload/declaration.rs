//! What a workload says about itself: metric, parameters, semantic counters, limits.
//!
//! Pure data, read by the catalogue, the gates, the report and the reproducer.

/// The column that says how many tasks a row's ops were shared by.
pub const TASKS: &str = "tasks";

/// The column that says how many CPUs those tasks had.
pub const TASK_CPUS: &str = "task_cpus";

/// The parameter that asks for more tasks than CPUs.
pub const OVERSUBSCRIBE: &str = "oversubscribe";

/// What a semantic counter of one row must be for the work to count as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Exactly zero.
    Zero,
    /// Equal to the row's `ops`.
    Ops,
    /// This many per op.
    PerOp(u64),
    /// Whatever it is: a part of the window or what a task did; kept, not judged.
    Recorded,
}

impl Expect {
    /// The value a counter must have in a row of this many ops; `None` when any will do.
    #[must_use]
    pub const fn wanted(self, ops: u64) -> Option<u64> {
        match self {
            Self::Zero => Some(0),
            Self::Ops => Some(ops),
            Self::PerOp(count) => Some(ops.saturating_mul(count)),
            Self::Recorded => None,
        }
    }
}

/// How often an event must be seen in the rounds of an untimed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This many per op.
    PerOp(u64),
    /// One per op, and up to this many more in each round, outside of its window.
    PerOpAndInRound(u64),
    /// As many per op as a parameter says, and this many more.
    PerOpOf(&'static str, u64),
    /// This many for each unit of a parameter in every round: two calls in each of the
    /// `cycles`, whatever the number of ops.
    PerRoundTimes(u64, &'static str),
    /// At least this many per op: the workload does the same outside of its windows too,
    /// for a time that nothing fixes.
    AtLeastPerOp(u64),
    /// Whatever it is: it depends on the kernel or on chance.
    Recorded,
}

/// An event of the kernel that shows that a workload does what it says: a direct hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Static tracepoint, `group:name`.
    pub event: &'static str,
    /// Fields with the value each must have; of a `call_site`, its function.
    pub select: &'static [(&'static str, &'static str)],
    /// How often it must be seen.
    pub wanted: Wanted,
    /// Fields whose values are told.
    pub shows: &'static [&'static str],
}

impl Hit {
    /// An event of which no field is told.
    #[must_use]
    pub const fn new(
        event: &'static str,
        select: &'static [(&'static str, &'static str)],
        wanted: Wanted,
    ) -> Self {
        Self {
            event,
            select,
            wanted,
            shows: &[],
        }
    }

    /// An allocation by the function of `select`, with what was asked for and who pays.
    #[must_use]
    pub const fn allocation(
        event: &'static str,
        select: &'static [(&'static str, &'static str)],
        wanted: Wanted,
    ) -> Self {
        Self {
            event,
            select,
            wanted,
            shows: &["gfp_flags", "bytes_req", "bytes_alloc", "accounted"],
        }
    }
}

/// A semantic counter of a row.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Column name in the row protocol.
    pub name: &'static str,
    /// What it must be.
    pub expect: Expect,
    /// What it counts, one clause.
    pub meaning: &'static str,
}

/// A parameter with its limits (inclusive).
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name in `case.toml` (`params`) and, with `--` before it, in the C program.
    pub name: &'static str,
    /// Value when the case names none.
    pub default: u64,
    /// Smallest value accepted.
    pub min: u64,
    /// Largest value accepted.
    pub max: u64,
    /// What it sets, one clause.
    pub meaning: &'static str,
}

/// What is computed from the `elapsed` and `ops` of a row (and its column `tasks`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// `elapsed / ops`, as in `ns/pair`.
    TimePerOp,
    /// `elapsed / ops` in microseconds, as in `us/batch`.
    MicrosecondsPerOp,
    /// `elapsed / (ops / tasks)`: the time one of the tasks took for an op.
    TimePerOpOfTask,
    /// `ops / elapsed`, as in `threads/s`.
    OpsPerSecond,
    /// `ops / tasks / elapsed`: the mean rate of a task.
    OpsPerSecondOfTask,
    /// `part_shared / part_distinct`: two scenarios measured in one row, a number without unit.
    SharedToDistinct,
}

impl Figure {
    /// Whether a larger one is better.
    #[must_use]
    pub const fn higher_is_better(self) -> bool {
        matches!(self, Self::OpsPerSecond | Self::OpsPerSecondOfTask)
    }
}

/// Everything a workload declares.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// Name, with `/` and the scenario behind it where the workload has scenarios:
    /// part of the interface.
    pub name: &'static str,
    /// One sentence: what one op is.
    pub op: &'static str,
    /// The word for one op in a unit, as in `ns/pair`.
    pub op_word: &'static str,
    /// What one timed window holds.
    pub window: &'static str,
    /// What is computed from a row, and so which way is better.
    pub figure: Figure,
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Semantic counters in column order.
    pub counters: &'static [Counter],
    /// Kernel features it needs, as words for a message.
    pub needs: &'static [&'static str],
    /// Kernel functions a direct hit must show.
    pub functions: &'static [&'static str],
    /// Events that show the direct hit, and what must not be hit.
    pub hits: &'static [Hit],
    /// Parameters of an untimed run: at most these values, whatever the case says.
    pub trace_shape: &'static [(&'static str, u64)],
    /// What a report may say of its scope, one sentence.
    pub scope: &'static str,
    /// What it does not show.
    pub not_shown: &'static [&'static str],
    /// Name of the matched control, when there is one.
    pub control: Option<&'static str>,
}

impl Declaration {
    /// Says whether rows carry the columns `tasks` and `task_cpus`.
    #[must_use]
    pub fn has_tasks(&self) -> bool {
        self.parameters
            .iter()
            .any(|parameter| parameter.name == OVERSUBSCRIBE)
    }
}

/// Splits `name/scenario`; `None` for a workload that has one scenario only.
#[must_use]
pub fn split_scenario(workload: &str) -> (&str, Option<&str>) {
    match workload.split_once('/') {
        Some((name, scenario)) => (name, Some(scenario)),
        None => (workload, None),
    }
}
