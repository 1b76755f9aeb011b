//! `io-uring-futex-waitv`: `IORING_OP_FUTEX_WAITV` on vectors of private words, each
//! woken on one element by `IORING_OP_FUTEX_WAKE` on the same ring.
//!
//! Two enters per cycle, which is part of the quantity: one enter for both is cheaper.

use io_uring::opcode;
use io_uring::squeue::Entry;

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::futex_memory::{self, FutexMemory};
use super::futex_ring::{Form, FutexRing, FutexRounds};
use super::harness::monotonic_raw_ns;
use super::io_uring_support;
use super::parameters::Parameters;
use super::{Place, Prepared, Workload};

/// Name of the workload.
pub const NAME: &str = "io-uring-futex-waitv";

/// The parameters both futex workloads share, so that they stay a matched pair.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "vectors",
        default: 8,
        min: 1,
        max: 64,
        meaning: "waits, and wakes, in one cycle",
    },
    Parameter {
        name: "words",
        default: 8,
        min: 1,
        max: 128,
        meaning: "futex words in one vector, each on its own 64-byte line",
    },
    Parameter {
        name: "wake",
        default: 3,
        min: 0,
        max: 127,
        meaning: "index of the word woken in each vector; less than words",
    },
    Parameter {
        name: "cycles",
        default: 512,
        min: 1,
        max: 65_536,
        meaning: "cycles, hence timed windows, in one round",
    },
];

/// The counters both futex workloads share.
pub(super) const COUNTERS: &[Counter] = &[
    Counter {
        name: "waits_ok",
        expect: Expect::Ops,
        meaning: "waits of this cycle completed once, with the result that names the word woken",
    },
    Counter {
        name: "wakes_ok",
        expect: Expect::Ops,
        meaning: "wakes of this cycle completed once, having woken one waiter",
    },
    Counter {
        name: "bad_result",
        expect: Expect::Zero,
        meaning: "completions with another result",
    },
    Counter {
        name: "stray",
        expect: Expect::Zero,
        meaning: "completions that belong to no request of the cycle, or came twice",
    },
    Counter {
        name: "overflow",
        expect: Expect::Zero,
        meaning: "cycles after which the completion queue had overflowed",
    },
    Counter {
        name: "residual",
        expect: Expect::Zero,
        meaning: "words on which a waiter was left after the window",
    },
];

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: NAME,
    op: "one IORING_OP_FUTEX_WAITV request completed by one IORING_OP_FUTEX_WAKE request on the same ring",
    op_word: "pair",
    window: "one cycle: all waits submitted by one io_uring_enter, all wakes by a second that waits for every completion, and the reaping",
    figure: Figure::TimePerOp,
    parameters: PARAMETERS,
    counters: COUNTERS,
    needs: &[
        "io_uring, permitted to this process",
        "IORING_OP_FUTEX_WAITV and IORING_OP_FUTEX_WAKE (Linux 6.7 or newer, CONFIG_FUTEX)",
    ],
    functions: &[
        "io_futexv_prep",
        "io_futexv_wait",
        "io_futexv_complete",
        "io_futex_wake",
    ],
    hits: &[
        Hit::new(
            "io_uring:io_uring_submit_req",
            &[("opcode", "FUTEX_WAITV")],
            Wanted::PerOp(1),
        ),
        // One that wakes, and one for each other word of the vector after the window.
        Hit::new(
            "io_uring:io_uring_submit_req",
            &[("opcode", "FUTEX_WAKE")],
            Wanted::PerOpOf("words", 0),
        ),
        Hit::allocation(
            "kmem:kmalloc",
            &[("call_site", "io_futexv_prep")],
            Wanted::PerOp(1),
        ),
        Hit::new(
            "kmem:kfree",
            &[("call_site", "io_futexv_complete")],
            Wanted::PerOp(1),
        ),
    ],
    trace_shape: &[("cycles", 4)],
    scope: "io_uring futex WAITV to WAKE of one thread on one ring, private words, two io_uring_enter calls per cycle: a synthetic micro-benchmark",
    not_shown: &[
        "the slowdown of any application",
        "futex system calls, and io_uring operations other than these two",
        "waits that block a thread, wakes from another thread or CPU, contended or shared words",
        "other vector lengths than the one recorded",
    ],
    control: Some(super::io_uring_futex_scalar::NAME),
};

const FORM: Form = Form {
    workload: NAME,
    wait,
    woken,
    window,
    check_woken_word: false,
};

/// The timed part: one cycle, from before its first request is made until its last
/// completion is taken.
fn window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
    let begin = monotonic_raw_ns();
    ring.queue_waits(wait)?;
    ring.enter(0)?;
    ring.queue_wakes()?;
    ring.enter(2 * ring.vector_count())?;
    ring.reap();
    Ok(monotonic_raw_ns().saturating_sub(begin))
}

#[inline]
fn wait(memory: &FutexMemory, vector: usize, _element: usize) -> Entry {
    opcode::FutexWaitV::new(memory.vector(vector), memory.vector_length()).build()
}

/// A vector wait returns the index of the word that was woken.
fn woken(element: usize) -> i32 {
    i32::try_from(element).unwrap_or(i32::MAX)
}

/// The workload.
pub struct IoUringFutexWaitv;

impl Workload for IoUringFutexWaitv {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    fn check(&self, parameters: &Parameters) -> Result<(), WorkloadError> {
        futex_memory::check(parameters)
    }

    fn support(&self) -> Result<(), WorkloadError> {
        io_uring_support::support(
            NAME,
            &[
                (opcode::FutexWaitV::CODE, "IORING_OP_FUTEX_WAITV", "6.7"),
                (opcode::FutexWake::CODE, "IORING_OP_FUTEX_WAKE", "6.7"),
            ],
        )
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        _place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        Ok(Box::new(FutexRounds::new(&FORM, parameters)?))
    }
}
