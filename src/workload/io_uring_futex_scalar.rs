//! `io-uring-futex-scalar`: the control of `io-uring-futex-waitv`. The same ring,
//! words, counts and wakes; only the wait is `IORING_OP_FUTEX_WAIT` on one word.

use io_uring::opcode;
use io_uring::squeue::Entry;

use super::declaration::{Declaration, Figure, Hit, Wanted};
use super::error::WorkloadError;
use super::futex_memory::{self, ANY_BIT, FUTEX_FLAGS, FutexMemory, WORD_VALUE};
use super::futex_ring::{Form, FutexRing, FutexRounds};
use super::harness::monotonic_raw_ns;
use super::io_uring_futex_waitv::{COUNTERS, PARAMETERS};
use super::io_uring_support;
use super::parameters::Parameters;
use super::{Place, Prepared, Workload};

/// Name of the workload.
pub const NAME: &str = "io-uring-futex-scalar";

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: NAME,
    op: "one IORING_OP_FUTEX_WAIT request completed by one IORING_OP_FUTEX_WAKE request on the same ring",
    op_word: "pair",
    window: "one cycle: all waits submitted by one io_uring_enter, all wakes by a second that waits for every completion, and the reaping",
    figure: Figure::TimePerOp,
    parameters: PARAMETERS,
    counters: COUNTERS,
    needs: &[
        "io_uring, permitted to this process",
        "IORING_OP_FUTEX_WAIT and IORING_OP_FUTEX_WAKE (Linux 6.7 or newer, CONFIG_FUTEX)",
    ],
    functions: &["io_futex_wait", "io_futex_complete", "io_futex_wake"],
    hits: &[
        Hit::new(
            "io_uring:io_uring_submit_req",
            &[("opcode", "FUTEX_WAIT")],
            Wanted::PerOp(1),
        ),
        Hit::new(
            "io_uring:io_uring_submit_req",
            &[("opcode", "FUTEX_WAKE")],
            Wanted::PerOpOf("words", 1),
        ),
        // What makes it a control: none of the vector wait.
        Hit::new(
            "io_uring:io_uring_submit_req",
            &[("opcode", "FUTEX_WAITV")],
            Wanted::PerOp(0),
        ),
        Hit::allocation(
            "kmem:kmalloc",
            &[("call_site", "io_futexv_prep")],
            Wanted::PerOp(0),
        ),
        // The ring's cache of futex data is filled once.
        Hit::allocation(
            "kmem:kmalloc",
            &[("call_site", "io_cache_alloc_new")],
            Wanted::Recorded,
        ),
    ],
    trace_shape: &[("cycles", 4)],
    scope: "io_uring futex WAIT to WAKE of one thread on one ring, private words, two io_uring_enter calls per cycle: a synthetic micro-benchmark, the control of io-uring-futex-waitv",
    not_shown: &[
        "the slowdown of any application",
        "vector waits, futex system calls, and other io_uring operations",
        "waits that block a thread, wakes from another thread or CPU, contended or shared words",
    ],
    control: None,
};

const FORM: Form = Form {
    workload: NAME,
    wait,
    woken,
    window,
    check_woken_word: true,
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
fn wait(memory: &FutexMemory, vector: usize, element: usize) -> Entry {
    let word = memory.word(vector, element);
    opcode::FutexWait::new(word, WORD_VALUE, ANY_BIT, FUTEX_FLAGS).build()
}

/// A scalar wait returns 0 whichever word it was.
const fn woken(_element: usize) -> i32 {
    0
}

/// The workload.
pub struct IoUringFutexScalar;

impl Workload for IoUringFutexScalar {
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
                (opcode::FutexWait::CODE, "IORING_OP_FUTEX_WAIT", "6.7"),
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
