//! The catalogue of workloads: one file per workload (the formal implementation),
//! the registry, and the worker process that runs one of them and writes rows.
//!
//! Inputs are a name and parameters; output is a stream of the row protocol. It
//! derives nothing from rows and selects none: that is for whoever reads them.

pub mod canary;
pub mod declaration;
pub mod emit;
pub mod error;
pub mod flistxattr;
mod futex_memory;
mod futex_ring;
pub mod harness;
mod inotify_declarations;
pub mod inotify_watch;
pub mod io_uring_futex_scalar;
pub mod io_uring_futex_waitv;
pub mod io_uring_msg_ring_send_fd;
pub mod io_uring_nop;
mod io_uring_support;
pub mod mmap_munmap;
pub mod mprotect_shared_dirty;
pub mod page_fault;
pub mod parameters;
pub mod registry;
mod row;
mod send_fd_declarations;
mod send_fd_ledger;
mod send_fd_rings;
mod settle;
pub mod syscall_getpid;
mod task_board;
mod task_window;
mod tasks;
#[cfg(test)]
mod testing;
pub mod thread_pool;
mod watchdog;
pub mod worker;

use declaration::Declaration;
use error::WorkloadError;
use parameters::Parameters;

/// A program that can be measured.
pub trait Workload: Sync {
    /// What the workload says about itself.
    fn declaration(&self) -> &'static Declaration;

    /// Checks what single limits cannot say about resolved parameters.
    ///
    /// # Errors
    ///
    /// When two parameters contradict each other.
    fn check(&self, _parameters: &Parameters) -> Result<(), WorkloadError> {
        Ok(())
    }

    /// Asks the running kernel for what the workload needs.
    ///
    /// # Errors
    ///
    /// When the kernel lacks it or does not permit it, with the cause.
    fn support(&self) -> Result<(), WorkloadError>;

    /// Allocates and touches everything a round uses.
    ///
    /// # Errors
    ///
    /// When a parameter is missing or contradicts another, or a resource is refused.
    fn prepare(
        &self,
        parameters: &Parameters,
        place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError>;

    /// Names of the columns behind the declared counters, which depend on the number of
    /// tasks; their values are recorded and never judged.
    fn task_columns(&self, _parameters: &Parameters) -> Vec<String> {
        Vec::new()
    }
}

/// Where a workload may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The worker's own CPU, then the others it was allowed at its start, ascending.
    pub cpus: Vec<usize>,
}

/// A workload ready to run rounds.
pub trait Prepared {
    /// Upper bound of kernel requests in one round or in the preflight; sizes the watchdog.
    fn requests(&self) -> u64;

    /// Proves, untimed, that requests do what they claim before anything is measured.
    ///
    /// # Errors
    ///
    /// When one of them does not.
    fn preflight(&mut self) -> Result<(), WorkloadError>;

    /// Runs one round.
    ///
    /// # Errors
    ///
    /// When the round could not be finished; wrong results are counters, not errors.
    fn round(&mut self) -> Result<RoundOutcome, WorkloadError>;

    /// The CPUs its tasks run on, whose canaries describe a round; empty when that is
    /// the worker's own CPU only.
    fn cpus(&self) -> &[usize] {
        &[]
    }
}

/// What one round gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundOutcome {
    /// Ops asked for inside the timed windows.
    pub ops: u64,
    /// Sum of the timed windows, ns.
    pub elapsed_ns: u64,
    /// Semantic counters in the order of the declaration, then the task columns.
    pub counters: Vec<u64>,
}
