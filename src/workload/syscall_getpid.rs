//! `syscall-getpid`: the `getpid` system call in a loop. The floor of every other
//! figure, and a control for changes to entry and exit of the kernel.
#![expect(
    unsafe_code,
    reason = "the C library's syscall(), as most programs enter the kernel"
)]

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::harness::monotonic_raw_ns;
use super::parameters::Parameters;
use super::{Place, Prepared, RoundOutcome, Workload};

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: "syscall-getpid",
    op: "one getpid system call",
    op_word: "call",
    window: "all calls of a round",
    figure: Figure::TimePerOp,
    parameters: &[Parameter {
        name: "calls",
        // About 7 ms: a disturbance inside a long round is invisible to the canaries.
        default: 65_536,
        min: 1_024,
        max: 10_000_000,
        meaning: "calls in one round, in one timed window",
    }],
    counters: &[Counter {
        name: "calls_ok",
        expect: Expect::Ops,
        meaning: "calls that returned the process's id",
    }],
    needs: &[],
    functions: &[],
    hits: &[Hit::new(
        "syscalls:sys_enter_getpid",
        &[],
        // The standalone program asks for the id to compare with once before each window.
        Wanted::PerOpAndInRound(1),
    )],
    trace_shape: &[("calls", 1_024)],
    scope: "the getpid system call of one thread, entry to exit: a synthetic micro-benchmark",
    not_shown: &[
        "the slowdown of any application",
        "system calls that do work in the kernel",
    ],
    control: None,
};

/// The timed part: every call of the round; returns ns and the calls that were right.
fn window(calls: u64, process: u32) -> (u64, u64) {
    let mut right = 0;
    let begin = monotonic_raw_ns();
    for _ in 0..calls {
        right += u64::from(getpid() == Ok(process));
    }
    (monotonic_raw_ns().saturating_sub(begin), right)
}

/// Through the C library, because an inlined instruction is 4 to 6 % cheaper than its
/// function: another quantity than what a program calls.
#[inline]
fn getpid() -> Result<u32, std::num::TryFromIntError> {
    // SAFETY: the call takes no argument and writes nothing.
    let answer = unsafe { libc::syscall(libc::SYS_getpid) };
    u32::try_from(answer)
}

/// The workload.
pub struct SyscallGetpid;

struct Calls {
    calls: u64,
    process: u32,
}

impl Workload for SyscallGetpid {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    fn support(&self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        _place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        Ok(Box::new(Calls {
            calls: parameters.get("calls")?,
            process: std::process::id(),
        }))
    }
}

impl Prepared for Calls {
    fn requests(&self) -> u64 {
        self.calls
    }

    fn preflight(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let (elapsed_ns, right) = window(self.calls, self.process);
        Ok(RoundOutcome {
            ops: self.calls,
            elapsed_ns,
            counters: vec![right],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_returns_another_id_is_not_counted() {
        let own = std::process::id();
        assert_eq!(window(1_024, own).1, 1_024);
        assert_eq!(window(1_024, own + 1).1, 0);
    }
}
