//! What the three scenarios of `inotify-watch` say about themselves.
//!
//! Pure data: one table of parameters and one of counters, with what differs.

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::tasks::OVERSUBSCRIBE;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "workers",
        default: 1,
        min: 1,
        max: 64,
        meaning: "threads that add and remove watches, each with an inotify instance and a CPU of its own",
    },
    Parameter {
        name: "watches",
        default: 96,
        min: 1,
        max: 4096,
        meaning: "watches a worker adds before it removes them",
    },
    Parameter {
        name: "cycles",
        default: 32,
        min: 1,
        max: 10_000,
        meaning: "timed windows in one round; workers begin each together",
    },
    OVERSUBSCRIBE,
];

const WATCHES_OK: Counter = Counter {
    name: "watches_ok",
    expect: Expect::Ops,
    meaning: "watches added under a number of their own, removed, and reported as ignored once",
};
const BAD_WD: Counter = Counter {
    name: "bad_wd",
    expect: Expect::Zero,
    meaning: "watches not added, under a number repeated in their cycle, or not removed",
};
const NOT_IGNORED: Counter = Counter {
    name: "not_ignored",
    expect: Expect::Zero,
    meaning: "IN_IGNORED events missing, repeated or of unknown watches, and events of another kind",
};
const QUEUE_OVERFLOW: Counter = Counter {
    name: "queue_overflow",
    expect: Expect::Zero,
    meaning: "IN_Q_OVERFLOW events",
};
const PART_DISTINCT: Counter = Counter {
    name: "part_distinct",
    expect: Expect::Recorded,
    meaning: "part of the windows in which workers watched files of their own, ns",
};
const PART_SHARED: Counter = Counter {
    name: "part_shared",
    expect: Expect::Recorded,
    meaning: "part of the windows in which workers watched the same files, ns",
};

/// What the scenario `distinct` says about itself.
pub const DISTINCT: Declaration = Declaration {
    name: "inotify-watch/distinct",
    op: "one inotify watch added to and removed from a file that no other worker watches",
    op_word: "watch",
    window: "one cycle: from the release of the workers to the end of the last one",
    figure: Figure::TimePerOpOfTask,
    parameters: PARAMETERS,
    counters: &[WATCHES_OK, BAD_WD, NOT_IGNORED, QUEUE_OVERFLOW],
    needs: &["inotify (CONFIG_INOTIFY_USER)"],
    functions: &[
        "fsnotify_add_mark_locked",
        "fsnotify_destroy_mark",
        "fsnotify_free_mark",
        "inotify_handle_inode_event",
        "fsnotify_put_mark",
    ],
    hits: &[
        Hit::new(
            "syscalls:sys_enter_inotify_add_watch",
            &[],
            Wanted::PerOp(1),
        ),
        Hit::new("syscalls:sys_enter_inotify_rm_watch", &[], Wanted::PerOp(1)),
        // The IN_IGNORED event of the removal.
        Hit::allocation(
            "kmem:kmalloc",
            &[("call_site", "inotify_handle_inode_event")],
            Wanted::PerOp(1),
        ),
        // In which function the compiler puts the mark's allocation is its choice.
        Hit::allocation(
            "kmem:kmem_cache_alloc",
            &[("call_site", "inotify_update_watch")],
            Wanted::Recorded,
        ),
    ],
    trace_shape: &[("cycles", 2), ("watches", 16)],
    scope: "inotify_add_watch by path and inotify_rm_watch of regular files on one file system, until the slowest worker is done: a synthetic micro-benchmark",
    not_shown: &[
        "the slowdown of any application",
        "events of files, and reading the queue",
        "watches of directories, and of other file systems",
        "how the time divides into looking a path up, adding and removing",
        "other numbers of workers than the one recorded",
    ],
    control: None,
};

/// What the scenario `shared` says about itself.
pub const SHARED: Declaration = Declaration {
    name: "inotify-watch/shared",
    op: "one inotify watch added to and removed from a file that every worker watches",
    control: Some(DISTINCT.name),
    ..DISTINCT
};

/// What the scenario `pair` says about itself.
pub const PAIR: Declaration = Declaration {
    name: "inotify-watch/pair",
    op: "one inotify watch added and removed, half of them on files of the worker's own and half on files every worker watches",
    window: "one half of a cycle, distinct or shared, their order alternating: from the release of the workers to the end of the last one",
    figure: Figure::SharedToDistinct,
    counters: &[
        WATCHES_OK,
        BAD_WD,
        NOT_IGNORED,
        QUEUE_OVERFLOW,
        PART_DISTINCT,
        PART_SHARED,
    ],
    ..DISTINCT
};
