//! `io-uring-nop`: one `IORING_OP_NOP` at a time. The floor of every figure of an
//! `io_uring` workload that enters the kernel once per request.
//!
//! One request per enter is part of the quantity: many in one enter cost a fraction.
#![expect(
    unsafe_code,
    reason = "pushing a request is unsafe, because most requests point to memory"
)]

use io_uring::{IoUring, opcode};

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::harness::monotonic_raw_ns;
use super::io_uring_support::setup_error;
use super::parameters::Parameters;
use super::{Place, Prepared, RoundOutcome, Workload};

/// Name of the workload.
pub const NAME: &str = "io-uring-nop";

/// Room for requests; the completion queue is twice that. One of each is used: the
/// rest lets a completion nobody asked for be seen and counted, not dropped.
const ENTRIES: u32 = 8;

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: NAME,
    op: "one IORING_OP_NOP request submitted, waited for and reaped with one io_uring_enter",
    op_word: "nop",
    window: "all round trips of a round",
    figure: Figure::TimePerOp,
    parameters: &[Parameter {
        name: "ops",
        // About 8 ms: a disturbance inside a long round is invisible to the canaries.
        default: 32_768,
        min: 64,
        max: 1_000_000,
        meaning: "requests in one round, one at a time, in one timed window",
    }],
    counters: &[
        Counter {
            name: "completions_ok",
            expect: Expect::Ops,
            meaning: "requests completed once, before the next was made, with result 0",
        },
        Counter {
            name: "stray",
            expect: Expect::Zero,
            meaning: "completions that belong to another request than the one in flight",
        },
        Counter {
            name: "overflow",
            expect: Expect::Zero,
            meaning: "signs, after the window, that the completion queue had overflowed",
        },
    ],
    needs: &["io_uring (Linux 5.1 or newer, CONFIG_IO_URING), permitted to this process"],
    functions: &["io_nop"],
    hits: &[
        Hit::new(
            "io_uring:io_uring_submit_req",
            &[("opcode", "NOP")],
            Wanted::PerOp(1),
        ),
        Hit::new(
            "io_uring:io_uring_complete",
            &[("result", "0")],
            Wanted::PerOp(1),
        ),
    ],
    trace_shape: &[("ops", 64)],
    scope: "an io_uring request that does nothing, of one thread on one ring, one request per io_uring_enter call: a synthetic micro-benchmark, the floor of io_uring workloads",
    not_shown: &[
        "the slowdown of any application",
        "io_uring operations that do work in the kernel",
        "many requests in one io_uring_enter call, kernel-side polling, and rings shared by threads",
    ],
    control: None,
};

/// What the completions of one window were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    completions_ok: u64,
    stray: u64,
}

impl Tally {
    /// Counts one completion, taken while `wanted` was in flight.
    ///
    /// Another result than 0 leaves `completions_ok` short of the row's ops.
    #[inline]
    fn take(&mut self, wanted: u64, (user_data, result): (u64, i32)) {
        if user_data == wanted {
            self.completions_ok += u64::from(result == 0);
        } else {
            self.stray += 1;
        }
    }
}

/// The timed part: every round trip of the round, numbered from `first`; returns ns.
fn window(
    ring: &mut IoUring,
    first: u64,
    ops: u64,
    tally: &mut Tally,
) -> Result<u64, WorkloadError> {
    let begin = monotonic_raw_ns();
    for number in first..first + ops {
        push(ring, number)?;
        ring.submit_and_wait(1)
            .map_err(|source| WorkloadError::System {
                workload: NAME,
                call: "io_uring_enter",
                source,
            })?;
        reap(ring, number, tally);
    }
    Ok(monotonic_raw_ns().saturating_sub(begin))
}

#[inline]
fn push(ring: &mut IoUring, number: u64) -> Result<(), WorkloadError> {
    let entry = opcode::Nop::new().build().user_data(number);
    // SAFETY: a NOP points to no memory.
    let pushed = unsafe { ring.submission().push(&entry) };
    pushed.map_err(|_full| WorkloadError::QueueFull { cycle: number })
}

/// Takes every completion there is while `wanted` is in flight.
#[inline]
fn reap(ring: &mut IoUring, wanted: u64, tally: &mut Tally) {
    for completion in ring.completion() {
        tally.take(wanted, (completion.user_data(), completion.result()));
    }
}

/// The workload.
pub struct IoUringNop;

struct RoundTrips {
    ring: IoUring,
    ops: u64,
    next: u64,
}

impl Workload for IoUringNop {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    /// A ring is all there is to ask for: no kernel with `io_uring` lacks the NOP.
    fn support(&self) -> Result<(), WorkloadError> {
        IoUring::new(ENTRIES).map(drop).map_err(setup_error(NAME))
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        _place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        Ok(Box::new(RoundTrips::new(parameters.get("ops")?)?))
    }
}

impl RoundTrips {
    fn new(ops: u64) -> Result<Self, WorkloadError> {
        Ok(Self {
            ring: IoUring::new(ENTRIES).map_err(setup_error(NAME))?,
            ops,
            next: 1,
        })
    }
}

impl Prepared for RoundTrips {
    fn requests(&self) -> u64 {
        self.ops
    }

    /// Nothing: each request is checked by its own completion, in the window.
    fn preflight(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let mut tally = Tally::default();
        let elapsed_ns = window(&mut self.ring, self.next, self.ops, &mut tally)?;
        self.next += self.ops;
        // Nothing is in flight: whatever is still in the queue is stray.
        reap(&mut self.ring, self.next, &mut tally);
        let flagged = self.ring.submission().cq_overflow();
        let overflow = u64::from(flagged) + u64::from(self.ring.completion().overflow());
        Ok(RoundOutcome {
            ops: self.ops,
            elapsed_ns,
            counters: vec![tally.completions_ok, tally.stray, overflow],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::error::Kind;

    /// `None`, with the reason printed, where this process may not use `io_uring`.
    fn round_trips(ops: u64) -> Option<RoundTrips> {
        match IoUringNop.support() {
            Err(error)
                if error.kind() == Kind::Skipped
                    && std::env::var_os("REGBUNDLE_REQUIRE_IO_URING").is_none() =>
            {
                println!("skipped: {error}");
                return None;
            }
            other => other.unwrap(),
        }
        Some(RoundTrips::new(ops).unwrap())
    }

    #[test]
    fn every_request_is_answered_in_this_and_the_next_round() {
        let Some(mut trips) = round_trips(64) else {
            return;
        };
        trips.preflight().unwrap();
        for _ in 0..2 {
            let outcome = trips.round().unwrap();
            assert_eq!(outcome.ops, 64);
            assert!(outcome.elapsed_ns > 0);
            assert_eq!(outcome.counters, [64, 0, 0]);
        }
    }

    #[test]
    fn a_completion_is_right_only_with_its_own_number_and_result_0() {
        for (completion, completions_ok, stray) in [
            ((7, 0), 1, 0),
            ((6, 0), 0, 1),
            ((8, 0), 0, 1),
            ((6, -22), 0, 1),
            ((7, 1), 0, 0),
            ((7, -22), 0, 0),
        ] {
            let mut tally = Tally::default();
            tally.take(7, completion);
            let wanted = Tally {
                completions_ok,
                stray,
            };
            assert_eq!(tally, wanted, "{completion:?}");
        }
    }

    #[test]
    fn a_completion_left_in_the_queue_by_somebody_else_is_stray() {
        let Some(mut trips) = round_trips(64) else {
            return;
        };
        push(&mut trips.ring, u64::MAX).unwrap();
        trips.ring.submit_and_wait(1).unwrap();
        let outcome = trips.round().unwrap();
        // The first wait is satisfied by it, so one of the round's own may be late:
        // a NOP never is, as the kernel completes it inside the submission.
        assert_eq!(outcome.counters, [64, 1, 0]);
    }

    #[test]
    fn more_completions_than_the_queue_holds_are_an_overflow() {
        let Some(mut trips) = round_trips(64) else {
            return;
        };
        for number in 0..u64::from(4 * ENTRIES) {
            push(&mut trips.ring, u64::MAX - number).unwrap();
            trips.ring.submit().unwrap();
        }
        assert!(trips.ring.submission().cq_overflow());
        let outcome = trips.round().unwrap();
        assert_eq!(outcome.ops, 64);
        assert!(outcome.counters[1] > 0, "{:?}", outcome.counters);
    }
}
