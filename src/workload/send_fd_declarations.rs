//! What the five scenarios of `io-uring-msg-ring-send-fd` say about themselves.
//!
//! Pure data: one table of parameters and one of counters, with what differs.

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::send_fd_rings::NAME;

/// The parameters, of which only the default number of cycles differs by scenario.
const fn parameters(cycles: u64) -> [Parameter; 5] {
    [
        Parameter {
            name: "slots",
            default: 4_096,
            min: 64,
            max: 16_384,
            meaning: "slots of the target's table, all of them filled except by register-install",
        },
        Parameter {
            name: "batch",
            default: 128,
            min: 1,
            max: 4_096,
            meaning: "installs submitted, waited for and reaped with one io_uring_enter",
        },
        Parameter {
            name: "sources",
            default: 64,
            min: 1,
            max: 1_024,
            meaning: "different files; slot i gets file i modulo this",
        },
        Parameter {
            name: "installs",
            default: 64,
            min: 1,
            max: 16_384,
            meaning: "installs in one batch of register-install, unused by the others; at most slots",
        },
        Parameter {
            name: "cycles",
            default: cycles,
            min: 1,
            max: 100_000,
            meaning: "cycles, hence timed windows, in one round; by default 8, and 32 times that in register-install, whose windows are short",
        },
    ]
}

/// About 5 ms of windows in a round: a disturbance inside a long one is invisible to
/// the canaries.
const PARAMETERS: [Parameter; 5] = parameters(8);
/// A window of register-install is about a fortieth of those of the others.
const INSTALL_PARAMETERS: [Parameter; 5] = parameters(8 * 32);

const fn counters(ops_ok: &'static str, first_part: Counter) -> [Counter; 8] {
    [
        Counter {
            name: "ops_ok",
            expect: Expect::Ops,
            meaning: ops_ok,
        },
        Counter {
            name: "bad_result",
            expect: Expect::Zero,
            meaning: "completions of this cycle, on either ring, with another result than 0",
        },
        Counter {
            name: "stray",
            expect: Expect::Zero,
            meaning: "completions on either ring of unknown number, of an earlier cycle, or a second time",
        },
        Counter {
            name: "missing",
            expect: Expect::Zero,
            meaning: "slots whose completion did not come on the target ring exactly once",
        },
        Counter {
            name: "wrong_file",
            expect: Expect::Zero,
            meaning: "slots of the round's last cycle that hold another file than theirs, by FIXED_FD_INSTALL and fstat",
        },
        Counter {
            name: "overflow",
            expect: Expect::Zero,
            meaning: "signs, after each window, that a completion queue of either ring had overflowed",
        },
        first_part,
        Counter {
            name: "part_fill",
            expect: Expect::Recorded,
            meaning: "ns of the windows spent in the installs",
        },
    ]
}

const INSTALLS_OK: &str = "installs whose completions came once on each ring with result 0, into a slot that was empty, of the right file where that was looked at";
const BATCHES_OK: &str =
    "cycles of which every install is right, every slot was empty, and nothing else was wrong";

const REMOVED: Counter = Counter {
    name: "part_remove",
    expect: Expect::Recorded,
    meaning: "ns of the windows spent emptying the table",
};
const NOT_REMOVED: Counter = Counter {
    meaning: "0: the table is emptied outside the windows",
    ..REMOVED
};
const REGISTERED: Counter = Counter {
    name: "part_register",
    expect: Expect::Recorded,
    meaning: "ns of the windows spent registering the sparse table",
};
const NOT_REGISTERED: Counter = Counter {
    meaning: "0: the tables are registered before the first window",
    ..REGISTERED
};

const FIRST_COUNTERS: [Counter; 8] = counters(INSTALLS_OK, NOT_REGISTERED);
const REFILL_COUNTERS: [Counter; 8] = counters(BATCHES_OK, REMOVED);
const REGISTER_COUNTERS: [Counter; 8] = counters(BATCHES_OK, REGISTERED);
const WARM_COUNTERS: [Counter; 8] = counters(INSTALLS_OK, NOT_REMOVED);

/// Fewer installs than by default, so that the buffers hold every event of four rounds.
const TRACE_SHAPE: &[(&str, u64)] = &[("slots", 1_024), ("installs", 1_024), ("cycles", 2)];

const fn sends(wanted: Wanted) -> Hit {
    Hit::new(
        "io_uring:io_uring_submit_req",
        &[("opcode", "MSG_RING")],
        wanted,
    )
}

/// The check of every slot filled in a round's last cycle, as many as the parameter says.
const fn checks(slots: &'static str) -> Hit {
    Hit::new(
        "io_uring:io_uring_submit_req",
        &[("opcode", "FIXED_FD_INSTALL")],
        Wanted::PerRoundTimes(1, slots),
    )
}
/// Nodes of the table where the kernel takes them from a cache; Linux 6.12 has none.
const NODES: Hit = Hit::allocation(
    "kmem:kmalloc",
    &[("call_site", "io_cache_alloc_new")],
    Wanted::Recorded,
);

/// `IORING_REGISTER_FILES2` is 13, `IORING_UNREGISTER_FILES` 3, `IORING_REGISTER_FILES_UPDATE` 6.
const fn register(opcode: &'static [(&'static str, &'static str)], wanted: Wanted) -> Hit {
    Hit::new("io_uring:io_uring_register", opcode, wanted)
}

const FILES2: &[(&str, &str)] = &[("opcode", "13")];
const UNREGISTER: &[(&str, &str)] = &[("opcode", "3")];
const UPDATE: &[(&str, &str)] = &[("opcode", "6")];

/// What all scenarios have in common.
const COMMON: Declaration = Declaration {
    name: NAME,
    op: "",
    op_word: "batch",
    figure: Figure::MicrosecondsPerOp,
    parameters: &PARAMETERS,
    counters: &REGISTER_COUNTERS,
    needs: &[
        "io_uring, permitted to this process",
        "IORING_OP_MSG_RING with IORING_MSG_SEND_FD (Linux 6.0 or newer)",
        "sparse tables by IORING_REGISTER_FILES2 (Linux 5.19 or newer)",
        "IORING_OP_FIXED_FD_INSTALL for the check (Linux 6.8 or newer)",
        "a hard limit of open files (RLIMIT_NOFILE) of at least slots, and of the rings and sources",
    ],
    functions: &[
        "io_msg_ring_prep",
        "io_msg_ring",
        "io_msg_install_complete",
        "__io_fixed_fd_install",
        "io_post_aux_cqe",
    ],
    window: "",
    hits: &[
        sends(Wanted::PerOpOf("slots", 0)),
        register(FILES2, Wanted::PerOp(1)),
        register(UNREGISTER, Wanted::PerOp(1)),
        checks("slots"),
        NODES,
    ],
    trace_shape: TRACE_SHAPE,
    scope: "",
    not_shown: &[
        "the slowdown of any application",
        "installs by other means: fixed accept or open, and registering files in place",
        "target rings of other threads, whose lock may be taken, and installs with CQE_SKIP",
        "other numbers of slots, batches and sources than those recorded",
        "closing the target ring or its table, which is never timed",
    ],
    control: None,
};

const REGISTER_FUNCTIONS: &[&str] = &[
    "io_msg_ring_prep",
    "io_msg_ring",
    "io_msg_install_complete",
    "__io_fixed_fd_install",
    "io_post_aux_cqe",
    "io_sqe_files_register",
];

/// What the scenario `first-fill` says about itself.
pub const FIRST_FILL: Declaration = Declaration {
    name: "io-uring-msg-ring-send-fd/first-fill",
    op: "one file installed by MSG_RING SEND_FD into an empty slot of a ring that never had a file in its table",
    op_word: "install",
    figure: Figure::TimePerOp,
    counters: &FIRST_COUNTERS,
    window: "one fill of a fresh table, batch by batch; the source ring's completions are reaped in it",
    hits: &[
        sends(Wanted::PerOp(1)),
        register(FILES2, Wanted::PerRoundTimes(1, "cycles")),
        checks("slots"),
        NODES,
    ],
    scope: "files sent by one thread from its ring to the whole sparse table of a fresh second ring of its own, in batches: a synthetic micro-benchmark",
    ..COMMON
};

/// What the scenario `remove-refill` says about itself.
pub const REMOVE_REFILL: Declaration = Declaration {
    name: "io-uring-msg-ring-send-fd/remove-refill",
    op: "one full table emptied by one IORING_REGISTER_FILES_UPDATE and filled again by MSG_RING SEND_FD",
    counters: &REFILL_COUNTERS,
    functions: &[
        "io_msg_ring_prep",
        "io_msg_ring",
        "io_msg_install_complete",
        "__io_fixed_fd_install",
        "io_post_aux_cqe",
        "__io_sqe_files_update",
    ],
    window: "the emptying of the table and the fill after it; one more clock read divides them",
    hits: &[
        sends(Wanted::PerOpOf("slots", 0)),
        register(UPDATE, Wanted::PerOp(1)),
        checks("slots"),
        NODES,
    ],
    scope: "the table of one ring emptied by one call and refilled by one thread from another ring of its own, in batches, over and over: a synthetic micro-benchmark",
    ..COMMON
};

/// What the scenario `register-fill` says about itself.
pub const REGISTER_FILL: Declaration = Declaration {
    name: "io-uring-msg-ring-send-fd/register-fill",
    op: "one sparse table registered by IORING_REGISTER_FILES2 and filled by MSG_RING SEND_FD",
    functions: REGISTER_FUNCTIONS,
    window: "the registration and the fill to its last install; one more clock read divides them",
    scope: "a sparse table registered on one ring and filled by one thread from another ring of its own, in batches, over and over: a synthetic micro-benchmark",
    ..COMMON
};

/// What the scenario `register-install` says about itself.
pub const REGISTER_INSTALL: Declaration = Declaration {
    name: "io-uring-msg-ring-send-fd/register-install",
    op: "one sparse table registered by IORING_REGISTER_FILES2 and its first slots (64 of 4,096 by default) filled by MSG_RING SEND_FD",
    parameters: &INSTALL_PARAMETERS,
    functions: REGISTER_FUNCTIONS,
    window: "the registration and the installs; one more clock read divides them",
    hits: &[
        sends(Wanted::PerOpOf("installs", 0)),
        register(FILES2, Wanted::PerOp(1)),
        register(UNREGISTER, Wanted::PerOp(1)),
        checks("installs"),
        NODES,
    ],
    scope: "a large sparse table registered on one ring and a few of its slots filled by one thread from another ring of its own, over and over: a synthetic micro-benchmark",
    ..COMMON
};

/// What the scenario `warm-refill` says about itself.
pub const WARM_REFILL: Declaration = Declaration {
    name: "io-uring-msg-ring-send-fd/warm-refill",
    op: "one file installed by MSG_RING SEND_FD into a slot of a table that was full and has just been emptied",
    op_word: "install",
    figure: Figure::TimePerOp,
    counters: &WARM_COUNTERS,
    window: "the fill alone",
    hits: &[
        sends(Wanted::PerOp(1)),
        register(UPDATE, Wanted::PerRoundTimes(1, "cycles")),
        checks("slots"),
        NODES,
    ],
    scope: "files sent by one thread from its ring to the whole table, just emptied, of a second ring of its own, in batches: a synthetic micro-benchmark",
    ..COMMON
};
