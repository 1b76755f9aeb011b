//! What can go wrong between a workload's name and a finished round.

use std::io;

/// Whether an error is the caller's, the kernel's or the measurement's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The work failed.
    Failed,
    /// This kernel cannot or may not run the workload.
    Skipped,
    /// The request makes no sense.
    Usage,
}

impl Kind {
    /// The worker's exit code: 1, 4 or 64, the same as those of the C programs.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Skipped => 4,
            Self::Usage => 64,
        }
    }
}

/// An error of a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("workload '{name}' is not in the catalogue; known: {known}")]
    UnknownWorkload {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The workload has no such parameter.
    #[error("parameter '{name}' is not one of {workload}; known: {known}")]
    UnknownParameter {
        /// The workload.
        workload: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A parameter is outside its limits.
    #[error("parameter '{name}' of {workload} is {found}; wanted {min} to {max}")]
    OutOfLimits {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        name: &'static str,
        /// The value given.
        found: u64,
        /// Smallest value accepted.
        min: u64,
        /// Largest value accepted.
        max: u64,
    },
    /// The element to wake does not exist in the vectors.
    #[error("parameter 'wake' is {wake}; wanted less than 'words', which is {words}")]
    WakeBeyondWords {
        /// Index of the element to wake.
        wake: u64,
        /// Words in one vector.
        words: u64,
    },
    /// More installs than the table has slots.
    #[error("parameter 'installs' is {installs}; wanted at most 'slots', which is {slots}")]
    InstallsBeyondSlots {
        /// Installs in a batch.
        installs: u64,
        /// Slots of the table.
        slots: u64,
    },
    /// The process may not have as many open files as a workload needs.
    #[error(
        "the hard limit of open files (RLIMIT_NOFILE) is {found}, wanted {wanted} or more; raise it as root with: ulimit -Hn {wanted}"
    )]
    OpenFilesLimit {
        /// The hard limit.
        found: u64,
        /// What the workload needs.
        wanted: u64,
    },
    /// Pages here are of another size than the one the workload is defined for.
    #[error("pages of this kernel are of {found} bytes, wanted {wanted}; use a kernel with such")]
    PageSize {
        /// Size of a page, bytes.
        found: usize,
        /// Size wanted, bytes.
        wanted: usize,
    },
    /// The kernel lacks an operation.
    #[error("not on this kernel: {operation}; it needs Linux {since} or newer")]
    NotOnThisKernel {
        /// The operation's name in the kernel's headers.
        operation: &'static str,
        /// First release that has it.
        since: &'static str,
    },
    /// The kernel has `io_uring` but refuses it here.
    #[error(
        "io_uring_setup is not permitted (EPERM), sysctl kernel.io_uring_disabled is {sysctl}; {hint}"
    )]
    IoUringNotPermitted {
        /// Value of the sysctl, or why it could not be read.
        sysctl: String,
        /// What to try.
        hint: &'static str,
    },
    /// The memory of a ring is charged against a limit that is too low.
    #[error(
        "io_uring_setup has no memory for its ring (ENOMEM), locked memory is limited to {found} (RLIMIT_MEMLOCK), which counts for whoever is not root; wanted 64 MiB to be safe: ulimit -l 65536, or run as root"
    )]
    MemlockTooLow {
        /// The soft limit, in words.
        found: String,
    },
    /// The kernel has no `io_uring` at all, or a filter hides it.
    #[error(
        "io_uring_setup does not exist here (ENOSYS); build the kernel with CONFIG_IO_URING=y or lift the seccomp filter that hides it"
    )]
    IoUringAbsent,
    /// No tmpfs here keeps the attributes a workload sets.
    #[error(
        "not on this kernel: no tmpfs that takes user.* attributes, which needs Linux 6.6 (CONFIG_TMPFS_XATTR); looked at {looked}; set TMPDIR to a directory on one"
    )]
    NoTmpfsAttributes {
        /// Each place with what was wrong there.
        looked: String,
    },
    /// More tasks than CPUs, and nobody said that this is meant.
    #[error(
        "parameter '{name}' of {workload} is {tasks}, but this process may use {cpus} CPUs; wanted at most {cpus}, or also 'oversubscribe' 1 (oversubscribe 1 lets tasks share CPUs in turn)"
    )]
    Oversubscribed {
        /// The workload.
        workload: &'static str,
        /// The parameter that says how many tasks.
        name: &'static str,
        /// Tasks asked for.
        tasks: usize,
        /// CPUs this process may use.
        cpus: usize,
    },
    /// A limit of the system is too low.
    #[error(
        "not on this machine: {workload} needs {wanted} of what sysctl {sysctl} limits, which is {found}; raise it (sysctl -w {sysctl}=N) or ask for less"
    )]
    LimitTooLow {
        /// The workload.
        workload: &'static str,
        /// The sysctl.
        sysctl: &'static str,
        /// Its value, or what the call that met the limit answered.
        found: String,
        /// What is needed.
        wanted: u64,
    },
    /// A task could not be started.
    #[error("{call} failed for task {task} of {workload}")]
    Task {
        /// The workload.
        workload: &'static str,
        /// The task, from 0.
        task: usize,
        /// The call.
        call: &'static str,
        /// Its error.
        #[source]
        source: io::Error,
    },
    /// A task ended before it was told to.
    #[error(
        "task {task} of {workload} ended during a round (wait status {status}), wanted it asleep until the next; look for the OOM killer in the kernel's log"
    )]
    TaskEnded {
        /// The workload.
        workload: &'static str,
        /// The task, from 0.
        task: usize,
        /// What `waitpid` says of it; -1 when nothing.
        status: i32,
    },
    /// An op of the preflight did not do what it claims.
    #[error("preflight of {workload}: {what} is {found}, wanted {wanted}")]
    PreflightOp {
        /// The workload.
        workload: &'static str,
        /// What was looked at.
        what: &'static str,
        /// What was found.
        found: u64,
        /// What must be.
        wanted: u64,
    },
    /// A system call failed that has no reason to.
    #[error("{call} failed in {workload}")]
    System {
        /// The workload.
        workload: &'static str,
        /// The call.
        call: &'static str,
        /// Its error.
        #[source]
        source: io::Error,
    },
    /// The submission queue took fewer requests than the ring was built for.
    #[error("the submission queue is full in cycle {cycle}; a submission before it was cut short")]
    QueueFull {
        /// Number of the cycle, from 0 at the start of the process.
        cycle: u64,
    },
    /// A wait for completions ended early.
    #[error(
        "{found} completions instead of {wanted} in cycle {cycle}; a signal or a debugger cut the wait short: run again without it"
    )]
    Short {
        /// Number of the cycle, from 0 at the start of the process.
        cycle: u64,
        /// Completions found.
        found: usize,
        /// Completions wanted.
        wanted: usize,
    },
    /// A request of the preflight did not do what it claims.
    #[error(
        "preflight of {workload}: vector {vector}, word {word}: {what} completed with {found}, wanted {wanted}"
    )]
    Preflight {
        /// The workload.
        workload: &'static str,
        /// The vector.
        vector: usize,
        /// The word in it that was woken.
        word: usize,
        /// The request: `wait` or `wake`.
        what: &'static str,
        /// Its result.
        found: i32,
        /// The result it must have.
        wanted: i32,
    },
    /// Something the preflight tried gave another answer than the only right one.
    #[error(
        "preflight of {workload}: {what}: {found}, wanted {wanted}; nothing was measured, as rows would not say what they claim"
    )]
    PreflightCheck {
        /// The workload.
        workload: &'static str,
        /// What was tried.
        what: &'static str,
        /// What came of it.
        found: String,
        /// What must come of it.
        wanted: String,
    },
    /// The list of the preflight does not hold what was put there.
    #[error(
        "preflight of {workload}: a list of {found} bytes, wanted {wanted}, with {wrong} names missing or unexpected"
    )]
    PreflightList {
        /// The workload.
        workload: &'static str,
        /// Length of the list, bytes.
        found: usize,
        /// Length it must have, bytes.
        wanted: usize,
        /// Names missing, double or unexpected.
        wrong: u64,
    },
}

impl WorkloadError {
    /// Whose error it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::UnknownWorkload { .. }
            | Self::UnknownParameter { .. }
            | Self::OutOfLimits { .. }
            | Self::WakeBeyondWords { .. }
            | Self::Oversubscribed { .. }
            | Self::InstallsBeyondSlots { .. } => Kind::Usage,
            Self::NotOnThisKernel { .. }
            | Self::IoUringNotPermitted { .. }
            | Self::IoUringAbsent
            | Self::MemlockTooLow { .. }
            | Self::NoTmpfsAttributes { .. }
            | Self::LimitTooLow { .. }
            | Self::OpenFilesLimit { .. }
            | Self::PageSize { .. } => Kind::Skipped,
            Self::System { .. }
            | Self::Task { .. }
            | Self::TaskEnded { .. }
            | Self::PreflightOp { .. }
            | Self::QueueFull { .. }
            | Self::Short { .. }
            | Self::Preflight { .. }
            | Self::PreflightCheck { .. }
            | Self::PreflightList { .. } => Kind::Failed,
        }
    }
}
