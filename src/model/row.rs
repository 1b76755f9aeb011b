//! Rows: one line of raw measurement each, nothing derived.

/// Whether a round was a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured rounds; never counted.
    Warmup,
    /// A measured round.
    Measured,
}

impl Phase {
    /// The word in a row.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measured => "measured",
        }
    }

    /// Reads the word; `None` when it is another one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "warmup" => Some(Self::Warmup),
            "measured" => Some(Self::Measured),
            _ => None,
        }
    }
}

/// What a row says of time or work.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// Integer `elapsed` (in the series' clock) over integer `ops`.
    Elapsed {
        /// Clock units between the two clock reads.
        elapsed: u64,
        /// Ops in the window.
        ops: u64,
    },
    /// Only a decimal per-op figure is known; its text is kept as it was.
    PerOp {
        /// The text of the cell.
        text: String,
        /// Its value.
        value: f64,
        /// Ops, where the table gives them.
        ops: Option<u64>,
    },
}

/// Canary readings around a round, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    /// The arithmetic loop, before the round.
    pub alu_before: u64,
    /// The arithmetic loop, after the round.
    pub alu_after: u64,
    /// The system call loop, before and after, where the stream has it.
    pub syscall: Option<(u64, u64)>,
}

/// What a row records of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU before the round.
    pub cpu_begin: u64,
    /// CPU after the round.
    pub cpu_end: u64,
    /// Voluntary context switches in the round.
    pub nvcsw: u64,
    /// Involuntary context switches in the round.
    pub nivcsw: u64,
    /// Minor page faults in the round.
    pub minflt: u64,
    /// Time runnable but not running, nanoseconds.
    pub run_delay_ns: u64,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Number of the round within its phase, from 0.
    pub round: u64,
    /// Time or work.
    pub metric: Metric,
    /// Scheduler facts, where the source has them.
    pub usage: Option<Usage>,
    /// Canary readings, where the source has them.
    pub canary: Option<Canary>,
    /// Semantic counters by name, in column order.
    pub counters: Vec<(String, u64)>,
    /// Whether the row says its work was done; `None` when the source has no such column.
    pub passed: Option<bool>,
}
