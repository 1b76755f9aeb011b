//! The row protocol, version 1: the words every producer and reader of rows share.
//!
//! A stream is `#regbundle-rows 1 <workload> <implementation> <clock>`, one header
//! line, one line per round, and `#end <rows>`; cells are separated by tabs. A
//! stream without its last line is torn.

/// First word of a stream.
pub const MAGIC: &str = "#regbundle-rows";
/// Version of the protocol, the second word of a stream.
pub const VERSION: &str = "1";
/// First word of the last line.
pub const END: &str = "#end";
/// Environment variable that asks a C implementation to wait for one byte after each line.
pub const STEP_VARIABLE: &str = "REGBUNDLE_STEP";
/// Environment variable whose word a C implementation writes as the clock of its stream.
pub const CLOCK_VARIABLE: &str = "REGBUNDLE_CLOCK";
/// The byte that asks a stepping worker to write `#end` and stop early.
pub const STEP_QUIT: u8 = b'q';

/// The columns every stream begins with, in this order.
///
/// The two `canary_syscall` columns may be absent in streams of others; the
/// columns between them and `status` are the workload's semantic counters.
pub const FIXED_COLUMNS: [&str; 12] = [
    "phase",
    "round",
    "ops",
    "elapsed",
    "cpu_begin",
    "cpu_end",
    "nvcsw",
    "nivcsw",
    "minflt",
    "run_delay_ns",
    "canary_before",
    "canary_after",
];

/// The `getppid` canary, readings before and after the round, directly after the fixed columns.
pub const SYSCALL_CANARY_COLUMNS: [&str; 2] = ["canary_syscall_before", "canary_syscall_after"];
/// The last column: `pass` or `fail`.
pub const STATUS_COLUMN: &str = "status";
/// The value of `status` in a row whose work was done.
pub const STATUS_PASS: &str = "pass";
/// The value of `status` in a row whose work was not done as specified.
pub const STATUS_FAIL: &str = "fail";

/// What `elapsed` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Clock {
    /// Nanoseconds of `CLOCK_MONOTONIC_RAW`.
    #[default]
    Ns,
    /// Guest instructions in an emulator; never printed as time.
    Instructions,
}

impl Clock {
    /// The word in the first line of a stream.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Instructions => "instructions",
        }
    }

    /// Reads the word; `None` when it is another one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "ns" => Some(Self::Ns),
            "instructions" => Some(Self::Instructions),
            _ => None,
        }
    }
}
