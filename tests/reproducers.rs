//! Every emitted C program compiles, runs, and speaks the row protocol.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test may stop at the first surprise, and says what it skipped"
)]

use regbundle::model::protocol::{
    FIXED_COLUMNS, STATUS_COLUMN, STATUS_PASS, STEP_VARIABLE, SYSCALL_CANARY_COLUMNS,
};
use regbundle::workload::emit;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const WARNINGS: [&str; 4] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];
const PAIR_COUNTERS: [&str; 6] = [
    "waits_ok",
    "wakes_ok",
    "bad_result",
    "stray",
    "overflow",
    "residual",
];

const REMOVING_COUNTERS: [&str; 8] = [
    "ops_ok",
    "bad_result",
    "stray",
    "missing",
    "wrong_file",
    "overflow",
    "part_remove",
    "part_fill",
];
const REGISTERING_COUNTERS: [&str; 8] = [
    "ops_ok",
    "bad_result",
    "stray",
    "missing",
    "wrong_file",
    "overflow",
    "part_register",
    "part_fill",
];

/// Names as documented; a workload added to `emit` fails the test below until it is here.
const NAMES: [&str; 11] = [
    "io-uring-futex-waitv",
    "io-uring-futex-scalar",
    "syscall-getpid",
    "io-uring-nop",
    "flistxattr",
    MSG_RING,
    "mprotect-shared-dirty",
    "mmap-munmap",
    "page-fault",
    "thread-pool",
    "inotify-watch",
];

const MSG_RING: &str = "io-uring-msg-ring-send-fd";

/// The scenarios as documented, the default first; none for a program that has one only.
fn scenarios(name: &str) -> &'static [&'static str] {
    match name {
        MSG_RING => &[
            "first-fill",
            "remove-refill",
            "register-fill",
            "register-install",
            "warm-refill",
        ],
        "mmap-munmap" => &["anon", "file"],
        "inotify-watch" => &["distinct", "shared", "pair"],
        _ => &[],
    }
}

/// What the first line of a stream calls each scenario of each program.
fn workloads() -> Vec<String> {
    let of = |name: &'static str| match scenarios(name) {
        [] => vec![name.to_owned()],
        words => words.iter().map(|word| format!("{name}/{word}")).collect(),
    };
    NAMES.into_iter().flat_map(of).collect()
}

/// `arguments`, and the option that chooses the scenario behind the name of `workload`.
fn with_scenario<'a>(workload: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut words = arguments.to_vec();
    if let Some((_, scenario)) = workload.split_once('/') {
        words.extend(["--scenario", scenario]);
    }
    words
}

fn counters(name: &str) -> &'static [&'static str] {
    match name.split('/').next().unwrap() {
        "mmap-munmap" => &["ops_ok", "failed_calls", "bad_address", "stuck", "off_cpu"],
        "page-fault" => &["ops_ok", "failed_calls", "faults_off", "stuck", "off_cpu"],
        "syscall-getpid" => &["calls_ok"],
        "io-uring-nop" => &["completions_ok", "stray", "overflow"],
        "flistxattr" => &["calls_ok", "wrong_length", "wrong_names"],
        "thread-pool" => &["threads_ok", "not_run", "failed_calls"],
        "inotify-watch" => &["watches_ok", "bad_wd", "not_ignored", "queue_overflow"],
        "mprotect-shared-dirty" => &[
            "pages_ok",
            "wrong_value",
            "huge_pages",
            "part_protect",
            "part_restore",
            "part_touch",
        ],
        MSG_RING if name.ends_with("/remove-refill") || name.ends_with("/warm-refill") => {
            &REMOVING_COUNTERS
        }
        MSG_RING => &REGISTERING_COUNTERS,
        _ => &PAIR_COUNTERS,
    }
}

fn compile(dir: &Path, name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let stem = name.split('/').next().unwrap();
    let file = dir.join(format!("{stem}.c"));
    std::fs::write(&file, emit::source(name).unwrap()).unwrap();
    let program = dir.join(stem);
    let built = Command::new(compiler)
        .args(WARNINGS)
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler} {name}: {said}");
    program
}

fn present(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok()
}

fn run(program: &Path, arguments: &[&str], stdin: &str, step: bool) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_remove(STEP_VARIABLE);
    if step {
        command.env(STEP_VARIABLE, "1");
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that ends before it reads closes the pipe; that is not this test's question.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// Standard output of a run that passed; `None` when the machine lacks the feature.
fn passed(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(4) {
        let no_tmpfs = said.contains("no tmpfs that takes user.* attributes");
        let required = std::env::var("REGBUNDLE_REQUIRE_IO_URING").as_deref() == Ok("1");
        assert!(no_tmpfs || !required, "{said}");
        let named = said.contains("not on this kernel") || said.contains("not on this machine");
        assert!(no_tmpfs || named, "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    let rows = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}\n{rows}");
    Some(rows)
}

/// What the stream calls a program that runs its default scenario.
fn stream_name(name: &str) -> String {
    match name {
        "mmap-munmap" => format!("{name}/anon"),
        "inotify-watch" => format!("{name}/distinct"),
        _ => name.to_owned(),
    }
}

/// A window long enough that another load of the machine leaves no task without an op,
/// and two pools on one CPU.
fn steady(name: &str) -> &'static str {
    match name.split('/').next().unwrap() {
        "mmap-munmap" | "page-fault" => "--window_ms 200",
        "thread-pool" => "--oversubscribe 1",
        _ => "",
    }
}

fn arguments<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    parts
        .iter()
        .flat_map(|part| part.split_whitespace())
        .collect()
}

fn cpus() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    usize::try_from(allowed.count()).unwrap()
}

/// The columns after the counters, of a program that has tasks.
fn recorded(name: &str, tasks: usize) -> Vec<String> {
    let of_task = match name.split('/').next().unwrap() {
        "mmap-munmap" | "page-fault" => "ops",
        "thread-pool" | "inotify-watch" => "elapsed",
        _ => return Vec::new(),
    };
    let parts: &[&str] = match name {
        "inotify-watch/pair" => &["part_distinct", "part_shared"],
        _ => &[],
    };
    parts
        .iter()
        .chain(&["tasks", "task_cpus"])
        .map(|column| (*column).to_owned())
        .chain((0..tasks).map(|task| format!("task{task}_{of_task}")))
        .collect()
}

/// What must hold of the recorded columns, whatever the machine did.
fn check_recorded(name: &str, tasks: usize, numbers: &[u64], line: &str) {
    let columns = recorded(name, tasks);
    if columns.is_empty() {
        return;
    }
    let (ops, elapsed) = (numbers[0], numbers[1]);
    let found = &numbers[numbers.len() - columns.len()..];
    let (found, of_task) = found.split_at(found.len() - tasks);
    let (parts, found) = found.split_at(found.len() - 2);
    assert_eq!(found, [tasks as u64, tasks.min(cpus()) as u64], "{line}");
    if !parts.is_empty() {
        assert_eq!(parts.iter().sum::<u64>(), elapsed, "{line}");
    }
    let longest = *of_task.iter().max().unwrap();
    match name.split('/').next().unwrap() {
        "thread-pool" => assert_eq!(longest, elapsed, "{line}"),
        // Of each cycle the last worker counts, and that need not be the same one.
        "inotify-watch" if tasks > 1 => assert!(longest <= elapsed, "{line}"),
        "inotify-watch" => assert_eq!(longest, elapsed, "{line}"),
        _ => assert_eq!(of_task.iter().sum::<u64>(), ops, "{line}"),
    }
}

fn check_stream(name: &str, stream: &str, rows: &[(&str, &str)], ops: Option<u64>) {
    let tasks = if name == "thread-pool" { 2 } else { 1 };
    check_tasks(&stream_name(name), tasks, stream, rows, ops);
}

/// `ops` is `None` where a window of time decides how many there are.
fn check_tasks(name: &str, tasks: usize, stream: &str, rows: &[(&str, &str)], ops: Option<u64>) {
    let recorded = recorded(name, tasks);
    let lines: Vec<&str> = stream.lines().collect();
    assert!(stream.ends_with('\n'));
    assert_eq!(lines.len(), rows.len() + 3, "{stream}");
    assert_eq!(lines[0], format!("#regbundle-rows 1 {name} standalone ns"));
    let header = [
        FIXED_COLUMNS.as_slice(),
        SYSCALL_CANARY_COLUMNS.as_slice(),
        counters(name),
        &recorded.iter().map(String::as_str).collect::<Vec<_>>(),
        &[STATUS_COLUMN],
    ]
    .concat();
    assert_eq!(lines[1], header.join("\t"));
    assert_eq!(lines[lines.len() - 1], format!("#end {}", rows.len()));
    for (line, (phase, round)) in lines[2..].iter().zip(rows) {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells.len(), header.len(), "{line}");
        assert_eq!((cells[0], cells[1]), (*phase, *round));
        assert_eq!(cells[cells.len() - 1], STATUS_PASS, "{line}");
        let numbers: Vec<u64> = cells[2..cells.len() - 1]
            .iter()
            .map(|cell| cell.parse().unwrap())
            .collect();
        let ops = ops.unwrap_or(numbers[0]);
        assert_eq!(numbers[0], ops, "{line}");
        assert!(ops > 0, "{line}");
        assert!(numbers[1] > 0, "elapsed: {line}");
        assert_eq!(numbers[2], numbers[3], "the CPU changed: {line}");
        assert!(numbers[8..12].iter().all(|ns| *ns > 0), "canary: {line}");
        check_counters(name, line, ops, numbers[1], &numbers[12..]);
        check_recorded(name, tasks, &numbers, line);
    }
}

/// Each counter what it must be; the parts of the window, where there are, add up to it.
fn check_counters(name: &str, line: &str, ops: u64, elapsed: u64, found: &[u64]) {
    let mut parts = Vec::new();
    for (counter, found) in counters(name).iter().zip(found) {
        if counter.starts_with("part_") {
            parts.push(*found);
            continue;
        }
        let expected = if counter.ends_with("_ok") { ops } else { 0 };
        assert_eq!(*found, expected, "{counter}: {line}");
    }
    if parts.is_empty() {
        return;
    }
    assert_eq!(parts.iter().sum::<u64>(), elapsed, "{line}");
    // These two time their fill alone.
    let fill_alone = name.ends_with("/first-fill") || name.ends_with("/warm-refill");
    assert_eq!(parts[0] == 0, fill_alone, "{line}");
    assert!(parts[1..].iter().all(|part| *part > 0), "{line}");
}

fn default_ops(name: &str) -> Option<u64> {
    match name.split('/').next().unwrap() {
        "syscall-getpid" => Some(65_536),
        "io-uring-nop" => Some(32_768),
        "flistxattr" => Some(8_192),
        "mprotect-shared-dirty" => Some(4 * 16_384),
        "mmap-munmap" | "page-fault" => None,
        "thread-pool" => Some(2 * 8 * 16),
        "inotify-watch" if name.ends_with("/pair") => Some(2 * 96 * 32),
        "inotify-watch" => Some(96 * 32),
        MSG_RING if name.ends_with("/first-fill") || name.ends_with("/warm-refill") => {
            Some(8 * 4_096)
        }
        MSG_RING if name.ends_with("/register-install") => Some(256),
        MSG_RING => Some(8),
        _ => Some(512 * 8),
    }
}

#[test]
fn the_emitted_programs_are_the_documented_ones() {
    assert_eq!(emit::names().collect::<Vec<_>>(), NAMES);
}

#[test]
fn every_program_writes_a_whole_stream_of_passing_rows() {
    for name in &workloads() {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let words = with_scenario(name, &arguments(&["--warmup 1 --rounds 2", steady(name)]));
        let output = run(&program, &words, "", false);
        let Some(stream) = passed(&output) else {
            continue;
        };
        let rows = [("warmup", "0"), ("measured", "0"), ("measured", "1")];
        check_stream(name, &stream, &rows, default_ops(name));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("note: sched="), "{said}");
        assert!(said.contains("of 2 rows"), "{said}");
    }
}

#[test]
fn the_byte_q_ends_a_stepping_run_with_the_rows_so_far() {
    for name in &workloads() {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let rows = [("warmup", "0"), ("measured", "0")];
        let short = with_scenario(name, &arguments(&["--warmup 1 --rounds 9", steady(name)]));
        let Some(stream) = passed(&run(&program, &short, "\nq\n\n\n", true)) else {
            continue;
        };
        check_stream(name, &stream, &rows, default_ops(name));
        let option = with_scenario(
            name,
            &arguments(&["--step --warmup 0 --rounds 9", steady(name)]),
        );
        let closed = passed(&run(&program, &option, "", false)).unwrap();
        check_stream(name, &closed, &[("measured", "0")], default_ops(name));
    }
}

#[test]
fn parameters_set_the_shape_of_a_round_up_to_their_limits() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [("measured", "0")];
    let once = ["--warmup", "0", "--rounds", "1"];
    for name in ["io-uring-futex-waitv", "io-uring-futex-scalar"] {
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        for (shape, ops) in [
            ("--vectors 64 --words 128 --wake 127 --cycles 2", 128),
            ("--vectors 1 --words 1 --wake 0 --cycles 1", 1),
            ("--vectors 5 --words 3 --wake 0 --cycles 7", 35),
        ] {
            let words: Vec<&str> = once.into_iter().chain(shape.split(' ')).collect();
            if let Some(stream) = passed(&run(&program, &words, "", false)) {
                check_stream(name, &stream, &rows, Some(ops));
            }
        }
        let refused = run(&program, &["--words", "3"], "", false);
        assert_eq!(refused.status.code(), Some(64));
    }
    for (name, shape, ops) in [
        ("syscall-getpid", "--calls 1024", 1024),
        ("io-uring-nop", "--ops 64", 64),
        ("flistxattr", "--names 1 --calls 64", 64),
        ("flistxattr", "--names 64 --calls 100", 100),
        ("mprotect-shared-dirty", "--mib 1 --cycles 1", 256),
        ("mprotect-shared-dirty", "--mib 3 --cycles 300", 230_400),
        (
            "io-uring-msg-ring-send-fd/first-fill",
            "--slots 65 --batch 1 --cycles 3",
            195,
        ),
        (
            "io-uring-msg-ring-send-fd/warm-refill",
            "--slots 16384 --batch 4096 --sources 1024 --cycles 1",
            16_384,
        ),
        (
            "io-uring-msg-ring-send-fd/remove-refill",
            "--slots 64 --batch 4096 --sources 1 --cycles 65",
            65,
        ),
        (
            "io-uring-msg-ring-send-fd/register-fill",
            "--slots 100 --batch 7 --sources 101 --cycles 1",
            1,
        ),
        // A number of cycles that is given is taken as it is, the default one too.
        (
            "io-uring-msg-ring-send-fd/register-install",
            "--cycles 8 --installs 4096",
            8,
        ),
        (
            "io-uring-msg-ring-send-fd/register-install",
            "--slots 64 --installs 1",
            256,
        ),
    ] {
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let shape: Vec<&str> = once.into_iter().chain(shape.split(' ')).collect();
        let words = with_scenario(name, &shape);
        if let Some(stream) = passed(&run(&program, &words, "", false)) {
            check_stream(name, &stream, &rows, Some(ops));
        }
    }
    for (name, shape) in [
        ("io-uring-nop", "--ops 63"),
        ("io-uring-nop", "--ops 1000001"),
        ("flistxattr", "--names 0"),
        ("flistxattr", "--names 65"),
        ("flistxattr", "--calls 63"),
        ("flistxattr", "--calls 1000001"),
        ("mprotect-shared-dirty", "--mib 1025"),
        ("mprotect-shared-dirty", "--cycles 10001"),
        (MSG_RING, "--slots 63"),
        (MSG_RING, "--slots 16385"),
        (MSG_RING, "--batch 4097"),
        (MSG_RING, "--sources 1025"),
        (MSG_RING, "--installs 16385"),
        (MSG_RING, "--cycles 0"),
        (MSG_RING, "--scenario second-fill"),
        (MSG_RING, "--scenario register-install --installs 4097"),
    ] {
        let words: Vec<&str> = shape.split(' ').collect();
        let refused = run(&dir.path().join(name), &words, "", false);
        assert_eq!(refused.status.code(), Some(64), "{name} {shape}");
    }
}

/// Scenarios and shapes of the programs that have tasks; `%` is the number of tasks.
///
/// At the end the ops of one task, where no window of time decides.
const TASK_SHAPES: [(&str, &str, Option<u64>); 10] = [
    ("mmap-munmap/anon", "--tasks %", None),
    ("mmap-munmap/anon", "--tasks % --threads 1", None),
    ("mmap-munmap/file", "--tasks % --mib 1", None),
    ("page-fault", "--tasks %", None),
    ("page-fault", "--tasks % --threads 1 --mib 1", None),
    ("thread-pool", "--pools %", Some(8 * 16)),
    (
        "thread-pool",
        "--pools % --threads 3 --cycles 2 --stack_kib 64",
        Some(6),
    ),
    (
        "inotify-watch/distinct",
        "--workers % --cycles 3",
        Some(96 * 3),
    ),
    (
        "inotify-watch/shared",
        "--workers % --watches 5 --cycles 2",
        Some(10),
    ),
    (
        "inotify-watch/pair",
        "--workers % --watches 5 --cycles 2",
        Some(20),
    ),
];

fn run_tasks(dir: &Path, name: &str, tasks: usize, shape: &str, more: &str) -> Output {
    let (program, scenario) = name.split_once('/').unwrap_or((name, ""));
    let chosen = match scenario {
        "" => String::new(),
        _ => format!("--scenario {scenario}"),
    };
    let shape = shape.replace('%', &tasks.to_string());
    let window = match program {
        "mmap-munmap" | "page-fault" => steady(program),
        _ => "",
    };
    let rest = ["--warmup 0 --rounds 1", window, more];
    let words = arguments(&[&[chosen.as_str(), &shape], rest.as_slice()].concat());
    run(&dir.join(program), &words, "", false)
}

#[test]
fn each_scenario_runs_with_one_task_with_two_and_oversubscribed() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [("measured", "0")];
    for (name, shape, ops_of_task) in TASK_SHAPES {
        compile(dir.path(), name.split('/').next().unwrap(), "cc", &["-O2"]);
        for tasks in [1, 2, cpus() + 1] {
            let output = run_tasks(dir.path(), name, tasks, shape, "--oversubscribe 1");
            let stream = passed(&output).unwrap();
            let ops = ops_of_task.map(|ops| ops * tasks as u64);
            check_tasks(name, tasks, &stream, &rows, ops);
        }
    }
}

#[test]
fn more_tasks_than_cpus_are_refused_with_both_numbers_and_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let (many, cpus) = (cpus() + 1, cpus());
    for (name, shape, _) in TASK_SHAPES {
        compile(dir.path(), name.split('/').next().unwrap(), "cc", &["-O2"]);
        let output = run_tasks(dir.path(), name, many, shape, "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{name}: {said}");
        assert!(output.stdout.is_empty(), "{name}");
        let both = format!("{many} tasks but {cpus} CPUs");
        assert!(said.contains(&both), "{said}");
        assert!(said.contains("oversubscribe 1"), "{said}");
    }
}

/// Spoils calls of the tasks, never the sampler's own: one in 16 of a window, or the
/// last of a round that makes a known number. Files are made in $TMPDIR only.
const TASK_FAULTS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>
enum { NO_MAP = 1, NO_UNMAP, UNALIGNED, POPULATED, SLOW, ASTRAY,
       NOT_RUN, NO_THREAD, NO_JOIN,
       NO_ADD, SAME_WD, NO_REMOVE, LOST, REPEATED, UNKNOWN, OVERFLOWN,
       NO_WATCH, NO_INSTANCE };
void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
int __real_sched_getcpu(void);
int __real_pthread_create(pthread_t *, const pthread_attr_t *,
			  void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);
int __real_inotify_init1(int);
int __real_inotify_add_watch(int, const char *, uint32_t);
int __real_inotify_rm_watch(int, int);
ssize_t __real_read(int, void *, size_t);
char *__real_mkdtemp(char *);
static pid_t sampler;
static int maps, unmaps, creates, joins, adds, removes, reads, inotify, wd;
__attribute__((constructor)) static void begin(void)
{
	sampler = getpid();
}
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
	int spoil = getpid() != sampler && ++maps % 16 == 0;
	if (getpid() != sampler && FAULT == SLOW)
		usleep(300000);
	if (spoil && FAULT == NO_MAP)
		return errno = ENOMEM, MAP_FAILED;
	if (spoil && FAULT == POPULATED)
		flags |= MAP_POPULATE;
	p = __real_mmap(p, n, prot, flags, fd, at);
	return spoil && FAULT == UNALIGNED ? (char *)p + 8 : p;
}
int __wrap_munmap(void *p, size_t n)
{
	int r = __real_munmap((void *)((uintptr_t)p & -4096), n);
	if (getpid() != sampler && ++unmaps % 16 == 0 && FAULT == NO_UNMAP)
		return errno = ENOMEM, -1;
	return r;
}
int __wrap_sched_getcpu(void)
{
	int astray = getpid() != sampler && FAULT == ASTRAY;
	return __real_sched_getcpu() + astray;
}
static void *idle(void *p)
{
	return p;
}
/* 1 pool, then 16 threads of the rehearsal and 16 of the round. */
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a,
			  void *(*run)(void *), void *p)
{
	int last = ++creates == 33;
	if (last && FAULT == NO_THREAD)
		return EAGAIN;
	return __real_pthread_create(t, a, last && FAULT == NOT_RUN ?
				     idle : run, p);
}
int __wrap_pthread_join(pthread_t t, void **p)
{
	int r = __real_pthread_join(t, p);
	return ++joins == 32 && FAULT == NO_JOIN ? EINVAL : r;
}
int __wrap_inotify_init1(int flags)
{
	if (FAULT == NO_INSTANCE)
		return errno = EMFILE, -1;
	return inotify = __real_inotify_init1(flags);
}
/* 4 watches tried, 4 of the rehearsal, 4 of the round. */
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	int last = ++adds == 12;
	if (FAULT == NO_WATCH || (last && FAULT == NO_ADD))
		return errno = ENOSPC, -1;
	if (last && FAULT == SAME_WD)
		return wd;
	return wd = __real_inotify_add_watch(fd, path, mask);
}
int __wrap_inotify_rm_watch(int fd, int wd)
{
	int r = __real_inotify_rm_watch(fd, wd);
	return ++removes == 12 && FAULT == NO_REMOVE ? -1 : r;
}
/* One for 8 events of trial and rehearsal, one for none: the third counts. */
ssize_t __wrap_read(int fd, void *p, size_t n)
{
	struct inotify_event *events = p;
	ssize_t r = __real_read(fd, p, n);
	if (fd != inotify || ++reads != 3 || r != 4 * sizeof(*events))
		return r;
	events[4] = events[0];
	if (FAULT == UNKNOWN)
		events[4].wd = 9999;
	if (FAULT == OVERFLOWN)
		events[4].wd = -1, events[4].mask = IN_Q_OVERFLOW;
	if (FAULT == REPEATED || FAULT == UNKNOWN || FAULT == OVERFLOWN)
		r += sizeof(*events);
	return FAULT == LOST ? r - (ssize_t)sizeof(*events) : r;
}
char *__wrap_mkdtemp(char *path)
{
	if (strncmp(path, getenv("TMPDIR"), strlen(getenv("TMPDIR"))))
		return errno = ENOENT, NULL;
	return __real_mkdtemp(path);
}
"#;

const TASK_WRAPS: &str = "-Wl,--wrap=mmap,--wrap=munmap,--wrap=sched_getcpu,\
    --wrap=pthread_create,--wrap=pthread_join,--wrap=inotify_init1,\
    --wrap=inotify_add_watch,--wrap=inotify_rm_watch,--wrap=read,--wrap=mkdtemp";

/// The program with the fault, to be run; `dir` keeps it and is its `$TMPDIR`'s parent.
fn with_task_fault(dir: &Path, name: &str, fault: &str, shape: &str) -> Command {
    let shim = dir.join("faults.c");
    std::fs::write(&shim, TASK_FAULTS).unwrap();
    let define = format!("-DFAULT={fault}");
    let flags = ["-O2", &define, TASK_WRAPS, shim.to_str().unwrap()];
    let program = compile(dir, name, "cc", &flags);
    let files = dir.join("files");
    std::fs::create_dir(&files).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments(&["--warmup 0", shape]))
        .env("TMPDIR", files)
        .env_remove(STEP_VARIABLE);
    command
}

fn run_with_task_fault(name: &str, fault: &str, shape: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let shape = format!("{shape} --rounds 1");
    let output = with_task_fault(dir.path(), name, fault, &shape)
        .output()
        .unwrap();
    assert_no_files(dir.path());
    output
}

fn assert_no_files(dir: &Path) {
    let left = std::fs::read_dir(dir.join("files")).unwrap().count();
    assert_eq!(left, 0, "a folder was left");
}

/// The counters of the only row that are not what they must be.
fn off_counters(name: &str, output: &Output) -> Vec<&'static str> {
    let rows = String::from_utf8(output.stdout.clone()).unwrap();
    let row = rows.lines().nth(2).unwrap();
    let cells: Vec<&str> = row.split('\t').collect();
    let status = cells[cells.len() - 1];
    let off: Vec<&str> = counters(name)
        .iter()
        .zip(&cells[14..])
        .filter(|(counter, cell)| {
            let wanted = if counter.ends_with("_ok") {
                cells[2]
            } else {
                "0"
            };
            **cell != wanted
        })
        .map(|(counter, _)| *counter)
        .collect();
    assert_eq!(off.is_empty(), status == STATUS_PASS, "{rows}");
    assert_eq!(off.is_empty(), output.status.success(), "{rows}");
    off
}

#[test]
fn a_spoilt_call_of_a_task_fails_the_row_by_its_counter() {
    let none: [&str; 0] = [];
    for (name, fault, caught) in [
        ("mmap-munmap", "0", none.as_slice()),
        ("mmap-munmap", "NO_MAP", &["ops_ok", "failed_calls"]),
        ("mmap-munmap", "NO_UNMAP", &["ops_ok", "failed_calls"]),
        ("mmap-munmap", "UNALIGNED", &["ops_ok", "bad_address"]),
        ("mmap-munmap", "SLOW", &["stuck"]),
        ("mmap-munmap", "ASTRAY", &["off_cpu"]),
        // Populated pages are written without a fault: fewer faults than pages.
        ("page-fault", "POPULATED", &["ops_ok", "faults_off"]),
        ("page-fault", "0", &none),
        // A lap without memory writes no page, so no op is wrong.
        ("page-fault", "NO_MAP", &["failed_calls"]),
        ("page-fault", "NO_UNMAP", &["failed_calls"]),
        ("page-fault", "ASTRAY", &["off_cpu"]),
        ("thread-pool", "0", &none),
        ("thread-pool", "NOT_RUN", &["threads_ok", "not_run"]),
        (
            "thread-pool",
            "NO_THREAD",
            &["threads_ok", "not_run", "failed_calls"],
        ),
        ("thread-pool", "NO_JOIN", &["failed_calls"]),
        ("inotify-watch", "0", &none),
        ("inotify-watch", "NO_ADD", &["watches_ok", "bad_wd"]),
        // Two adds, one watch: one IN_IGNORED only.
        (
            "inotify-watch",
            "SAME_WD",
            &["watches_ok", "bad_wd", "not_ignored"],
        ),
        ("inotify-watch", "NO_REMOVE", &["watches_ok", "bad_wd"]),
        ("inotify-watch", "LOST", &["watches_ok", "not_ignored"]),
        ("inotify-watch", "REPEATED", &["watches_ok", "not_ignored"]),
        ("inotify-watch", "UNKNOWN", &["not_ignored"]),
        ("inotify-watch", "OVERFLOWN", &["queue_overflow"]),
    ] {
        let shape = match name {
            "thread-pool" => "--pools 1 --threads 4 --cycles 4",
            "inotify-watch" => "--watches 4 --cycles 1",
            _ => "--mib 1 --window_ms 100",
        };
        let output = run_with_task_fault(name, fault, shape);
        assert_eq!(off_counters(name, &output), caught, "{name} {fault}");
    }
}

#[test]
fn a_limit_of_inotify_that_is_too_low_is_named_with_what_was_wanted() {
    for (fault, sysctl, wanted) in [
        ("NO_WATCH", "fs.inotify.max_user_watches", "wanted 4 "),
        ("NO_INSTANCE", "fs.inotify.max_user_instances", "wanted 1 "),
    ] {
        let output = run_with_task_fault("inotify-watch", fault, "--watches 4");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
        assert!(said.contains(sysctl), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_killed_inotify_watch_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = with_task_fault(dir.path(), "inotify-watch", "0", "--step")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The first byte of the stream comes when a row is written: the files are there.
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    assert!(std::fs::read_dir(dir.path().join("files")).unwrap().count() > 0);
    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_no_files(dir.path());
}

/// Stands between a program and the kernel and spoils one answer of the round.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <time.h>
enum { RESULT = 1, USER_DATA, LENGTH, REFUSED, NAME, TWICE, NO_TMPFS,
       SLOT, SAME_FILE, NEXT_FILE, ARRIVED_TWICE, SMALL_CQ, NOT_REMOVED,
       REMOVED_IN_PART, NOT_PROTECTED, NOT_RESTORED, NOT_WRITTEN, LATE_CQE,
       LIE };
long __real_syscall(long, long, long, long, long, long, long);
void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_fstatfs(int, struct statfs *);
int __real_mprotect(void *, size_t, int);
int __real_sched_getcpu(void);
int __real_clock_gettime(clockid_t, struct timespec *);
static struct io_uring_sqe *sqes;	/* these of the ring opened first */
static char *queues;
static struct io_uring_params *setup, first_setup;
static char *shared;
static int seen, in_round, clock_reads;
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
	p = __real_mmap(p, n, prot, flags, fd, at);
	if (fd >= 0 && at == IORING_OFF_SQES && !sqes)
		sqes = p;
	if (fd >= 0 && at == IORING_OFF_SQ_RING && !queues) {
		queues = p;
		first_setup = *setup;
	}
	if (fd < 0 && flags & MAP_SHARED)
		shared = p;
	return p;
}
int __wrap_fstatfs(int fd, struct statfs *fs)
{
	int r = __real_fstatfs(fd, fs);
	if (FAULT == NO_TMPFS)
		fs->f_type = 0xef53;
	return r;
}
int __wrap_mprotect(void *p, size_t n, int prot)
{
	if (FAULT == NOT_PROTECTED && prot == PROT_READ)
		return 0;
	if (FAULT == NOT_RESTORED && prot != PROT_READ)
		return 0;
	return __real_mprotect(p, n, prot);
}
/* The harness asks for the CPU just before and just after the round. */
int __wrap_sched_getcpu(void)
{
	in_round = !in_round;
	return __real_sched_getcpu();
}
/* A cycle of protections reads it four times; the write is then done. */
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	if (FAULT == NOT_WRITTEN && in_round && ++clock_reads == 4)
		shared[7 * 4096] ^= 1;
	return __real_clock_gettime(id, t);
}
/* The only batch of the round, of 64 installs, is about to be submitted. */
static void spoil_sends(void)
{
	struct io_uring_sqe *sixth = &sqes[5];

	if (FAULT == RESULT)
		sixth->opcode = 255;
	if (FAULT == USER_DATA)
		sixth->user_data += 1000;
	if (FAULT == LATE_CQE)
		sixth->off -= 1 << 16;
	if (FAULT == SLOT)
		((unsigned *)sixth)[11] += 1;
	if (FAULT == NEXT_FILE)
		((__u64 *)sixth)[6] += 1;
	if (FAULT == ARRIVED_TWICE)
		sixth->off += 1;
	for (int i = 0; FAULT == SAME_FILE && i < 64; i++)
		((__u64 *)&sqes[i])[6] = 0;
}
/* Its CQE of the sixth says that something else than 0 came of it. */
static void spoil_result(void)
{
	struct io_uring_cqe *cqe = (void *)(queues + first_setup.cq_off.cqes);

	for (unsigned i = 0; i < first_setup.cq_entries; i++)
		if (cqe[i].user_data == sqes[5].user_data)
			cqe[i].res = 1;
}
static int is_removal(long n, long operation)
{
	return n == SYS_io_uring_register &&
	       operation == IORING_REGISTER_FILES_UPDATE;
}
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long r;
	/* The 64th and last call of the round; not one that asks for a length. */
	int last = (n == SYS_io_uring_enter || (n == SYS_flistxattr && b)) &&
		   ++seen == 64 && !MSG_RING;
	if (MSG_RING && in_round && n == SYS_io_uring_enter && b == 64)
		spoil_sends();
	if (n == SYS_io_uring_setup)
		setup = (struct io_uring_params *)b;
	if (FAULT == SMALL_CQ && in_round && n == SYS_io_uring_setup)
		((struct io_uring_params *)b)->flags &= ~IORING_SETUP_CQSIZE;
	if (FAULT == NOT_REMOVED && is_removal(n, b))
		return d;
	if (FAULT == REMOVED_IN_PART && in_round && is_removal(n, b))
		d -= 1;
	if (last && FAULT == RESULT)
		sqes->opcode = 255;
	if (last && FAULT == USER_DATA)
		sqes->user_data += 1000;
	r = __real_syscall(n, a, b, c, d, e, f);
	if (FAULT == LIE && in_round && n == SYS_io_uring_enter && b == 64)
		spoil_result();
	if (last && FAULT == LENGTH)
		r -= 1;
	if (last && FAULT == REFUSED)
		errno = ERANGE, r = -1;
	if (last && FAULT == NAME)
		((char *)b)[0] = 'v';
	if (last && FAULT == TWICE)
		memcpy((char *)b, (char *)b + r / 2, r / 2);
	return r;
}
"#;

fn compile_with_fault(dir: &Path, name: &str, fault: &str) -> PathBuf {
    let shim = dir.join("faults.c");
    std::fs::write(&shim, FAULTS).unwrap();
    let define = format!("-DFAULT={fault}");
    let sends = format!("-DMSG_RING={}", u8::from(name.starts_with(MSG_RING)));
    let wraps = "-Wl,--wrap=syscall,--wrap=mmap,--wrap=fstatfs,--wrap=mprotect,\
                 --wrap=sched_getcpu,--wrap=clock_gettime";
    let flags = ["-O2", &define, &sends, wraps, shim.to_str().unwrap()];
    compile(dir, name, "cc", &flags)
}

fn run_one_round(program: &Path, name: &str, shape: &str) -> Output {
    let words: Vec<&str> = "--warmup 0 --rounds 1"
        .split(' ')
        .chain(shape.split(' '))
        .collect();
    run(program, &with_scenario(name, &words), "", false)
}

fn run_with_fault(name: &str, shape: &str, fault: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let program = compile_with_fault(dir.path(), name, fault);
    run_one_round(&program, name, shape)
}

#[test]
fn one_wrong_answer_of_the_kernel_fails_the_row_by_its_counter() {
    for (name, shape, fault, spoilt) in [
        ("io-uring-nop", "--ops 64", "RESULT", "63 0 0"),
        ("io-uring-nop", "--ops 64", "USER_DATA", "63 1 0"),
        ("flistxattr", "--calls 64", "LENGTH", "63 1 0"),
        ("flistxattr", "--calls 64", "REFUSED", "63 1 0"),
        // The first name becomes a label nobody set: one missing, the rest too long.
        ("flistxattr", "--calls 64", "NAME", "64 0 2"),
        // The second half of 16 names comes twice: 8 repeated, 8 missing.
        ("flistxattr", "--calls 64", "TWICE", "64 0 16"),
    ] {
        if passed(&run_with_fault(name, shape, "0")).is_none() {
            continue;
        }
        let output = run_with_fault(name, shape, fault);
        let rows = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{name} {fault}: {rows}");
        let row = rows.lines().nth(2).unwrap().replace('\t', " ");
        assert!(row.ends_with(&format!(" {spoilt} fail")), "{fault}: {row}");
    }
}

/// The counters of the only row of a run that failed by it, and its status.
fn failed_row(name: &str, output: Output) -> String {
    let rows = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{name}: {said} {rows}");
    let row: Vec<&str> = rows.lines().nth(2).unwrap().split('\t').collect();
    let before = FIXED_COLUMNS.len() + SYSCALL_CANARY_COLUMNS.len();
    let mut cells = Vec::new();
    for (counter, cell) in counters(name).iter().zip(&row[before..]) {
        if !counter.starts_with("part_") {
            cells.push(*cell);
        }
    }
    cells.push(row[row.len() - 1]);
    cells.join(" ")
}

/// A window of 64 installs, sent by one enter.
const ONE_BATCH: &str = "--slots 64 --batch 64 --cycles 1";

/// True when every scenario passes without a fault; false when the machine cannot run them.
fn sends_pass_without_a_fault() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let program = compile_with_fault(dir.path(), MSG_RING, "0");
    scenarios(MSG_RING).iter().all(|scenario| {
        let name = format!("{MSG_RING}/{scenario}");
        passed(&run_one_round(&program, &name, ONE_BATCH)).is_some()
    })
}

#[test]
fn one_wrong_install_of_a_window_fails_the_row_by_its_counter() {
    if !sends_pass_without_a_fault() {
        return;
    }
    // ops_ok bad_result stray missing wrong_file overflow
    for (fault, spoilt) in [
        // Slot 5 stays empty; what went to slot 6 is replaced by its own install.
        ("SLOT", "63 0 0 0 1 0"),
        // Slot 5 holds the file of source 6: no result and no CQE tells.
        ("NEXT_FILE", "63 0 0 0 1 0"),
        // All slots but the first hold a file that is not theirs.
        ("SAME_FILE", "1 0 0 0 63 0"),
        // -EINVAL: then nothing arrives, and the slot is empty.
        ("RESULT", "63 1 0 1 1 0"),
        // The install was made, but its result is 1.
        ("LIE", "63 1 0 0 0 0"),
        // The source's CQE is not of this window; the target's is.
        ("USER_DATA", "63 0 1 0 0 0"),
        // The target's CQE of slot 5 says 6: one repeated, neither came exactly once.
        ("ARRIVED_TWICE", "62 0 1 2 0 0"),
        // The target's CQE of slot 5 is of the cycle before.
        ("LATE_CQE", "63 0 1 1 0 0"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile_with_fault(dir.path(), MSG_RING, fault);
        for scenario in scenarios(MSG_RING) {
            let name = format!("{MSG_RING}/{scenario}");
            let found = failed_row(&name, run_one_round(&program, &name, ONE_BATCH));
            let (right, others) = spoilt.split_once(' ').unwrap();
            // A batch is one op, and a wrong one as a whole.
            let fill_alone = ["first-fill", "warm-refill"].contains(scenario);
            let right = if fill_alone { right } else { "0" };
            assert_eq!(found, format!("{right} {others} fail"), "{name} {fault}");
        }
    }
}

#[test]
fn a_target_ring_with_too_few_cq_entries_fails_the_row_by_overflow() {
    // One SQ entry makes two CQ entries: 62 of 64 CQEs wait in the kernel. The check of the
    // files lets them in, which is too late: they are strays.
    let name = "io-uring-msg-ring-send-fd/first-fill";
    if sends_pass_without_a_fault() {
        let output = run_with_fault(name, ONE_BATCH, "SMALL_CQ");
        assert_eq!(failed_row(name, output), "2 0 62 62 0 1 fail");
    }
}

#[test]
fn a_removal_that_removes_nothing_or_not_all_ends_the_run() {
    if !sends_pass_without_a_fault() {
        return;
    }
    for (scenario, fault, wanted) in [
        // No counter can see this one: an install replaces what is in its slot.
        (
            "remove-refill",
            "NOT_REMOVED",
            "preflight: 0 of 64 slots empty",
        ),
        (
            "warm-refill",
            "NOT_REMOVED",
            "preflight: 0 of 64 slots empty",
        ),
        (
            "remove-refill",
            "REMOVED_IN_PART",
            "63 slots emptied, wanted 64",
        ),
        (
            "warm-refill",
            "REMOVED_IN_PART",
            "63 slots emptied, wanted 64",
        ),
    ] {
        let name = format!("{MSG_RING}/{scenario}");
        let output = run_with_fault(&name, ONE_BATCH, fault);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(wanted), "{said}");
        let rows = String::from_utf8(output.stdout).unwrap();
        assert!(!rows.contains("measured\t"), "{rows}");
    }
}

#[test]
fn a_page_that_does_not_hold_its_byte_fails_the_row_by_wrong_value() {
    let shape = "--mib 1 --cycles 1";
    let name = "mprotect-shared-dirty";
    if passed(&run_with_fault(name, shape, "0")).is_some() {
        let output = run_with_fault(name, shape, "NOT_WRITTEN");
        assert_eq!(failed_row(name, output), "255 1 0 fail");
    }
}

#[test]
fn an_mprotect_that_does_nothing_is_found_by_the_preflight() {
    let shape = "--mib 1 --cycles 1";
    if passed(&run_with_fault("mprotect-shared-dirty", shape, "0")).is_none() {
        return;
    }
    // No counter can see the first: the pages are written all the same.
    for (fault, wanted) in [
        ("NOT_PROTECTED", "under PROT_READ: 0 faults, wanted 1"),
        ("NOT_RESTORED", "after PROT_READ was lifted"),
    ] {
        let output = run_with_fault("mprotect-shared-dirty", shape, fault);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(wanted), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_hard_limit_of_open_files_too_low_is_said_with_what_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), MSG_RING, "cc", &["-O2"]);
    let script = format!("ulimit -n 1000 && exec {} --rounds 1", program.display());
    let output = run(Path::new("sh"), &["-c", &script], "", false);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("files is 1000, wanted 4096"), "{said}");
    assert!(output.stdout.is_empty());
    // The soft limit alone is raised.
    let script = format!("ulimit -Sn 100 && exec {} --rounds 1", program.display());
    passed(&run(Path::new("sh"), &["-c", &script], "", false));
}

#[test]
fn the_help_says_what_the_table_of_parameters_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), MSG_RING, "cc", &["-O2"]);
    let help = run(&program, &["--help"], "", false);
    let said = String::from_utf8(help.stdout).unwrap();
    assert!(
        said.contains("--cycles: 1 to 100000, default 8\n"),
        "{said}"
    );
    assert!(said.contains("--cycles by default 256\n"), "{said}");
    for scenario in scenarios(MSG_RING) {
        assert!(said.contains(&format!("--scenario {scenario}\n")), "{said}");
    }
}

#[test]
fn without_a_tmpfs_flistxattr_says_where_it_looked_and_what_it_needs() {
    let output = run_with_fault("flistxattr", "--calls 64", "NO_TMPFS");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(output.stdout.is_empty());
    for part in ["/dev/shm", "$TMPDIR", "/tmp", "Linux 6.6"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn sanitizers_find_nothing_in_one_round() {
    for name in &workloads() {
        let dir = tempfile::tempdir().unwrap();
        let flags = [
            "-O1",
            "-g",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
        ];
        let program = compile(dir.path(), name, "cc", &flags);
        let words = with_scenario(name, &arguments(&["--warmup 0 --rounds 1", steady(name)]));
        let output = run(&program, &words, "", false);
        if let Some(stream) = passed(&output) {
            check_stream(name, &stream, &[("measured", "0")], default_ops(name));
        }
    }
}

#[test]
fn valgrind_finds_nothing_in_one_small_round() {
    if !present("valgrind") {
        let required = std::env::var("REGBUNDLE_REQUIRE_TOOLS").as_deref() == Ok("1");
        assert!(!required, "no valgrind");
        eprintln!("skipped: no valgrind");
        return;
    }
    for name in &workloads() {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, "cc", &["-O1", "-g"]);
        let small = match name.split('/').next().unwrap() {
            "syscall-getpid" => "--calls 1024",
            "io-uring-nop" => "--ops 64",
            "flistxattr" => "--calls 64",
            "mprotect-shared-dirty" => "--mib 1 --cycles 1",
            MSG_RING => "--slots 64 --cycles 1",
            // valgrind runs one thread at a time, and slowly.
            "mmap-munmap" | "page-fault" => "--mib 1 --window_ms 500",
            "thread-pool" => "--pools 1 --threads 2 --cycles 1",
            "inotify-watch" => "--watches 4 --cycles 2",
            _ => "--cycles 2",
        };
        let once = with_scenario(name, &arguments(&["--warmup 0 --rounds 1", small]));
        let path = program.to_str().unwrap();
        let words: Vec<&str> = ["--quiet", "--error-exitcode=99", path]
            .into_iter()
            .chain(once)
            .collect();
        let output = run(Path::new("valgrind"), &words, "", false);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("=="), "{name}: {said}");
        passed(&output);
    }
}

#[test]
fn clang_compiles_every_program_without_a_warning() {
    if !present("clang") {
        eprintln!("skipped: no clang");
        return;
    }
    for name in NAMES {
        let dir = tempfile::tempdir().unwrap();
        compile(dir.path(), name, "clang", &["-O2"]);
    }
}

#[test]
fn the_makefile_builds_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let name = "syscall-getpid";
    std::fs::write(dir.path().join("Makefile"), emit::makefile(&[name])).unwrap();
    let source = emit::source(name).unwrap();
    std::fs::write(dir.path().join(format!("{name}.c")), source).unwrap();
    let made = Command::new("make").current_dir(dir.path()).output();
    let Ok(made) = made else {
        eprintln!("skipped: no make");
        return;
    };
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(dir.path().join(name).exists());
}

#[test]
fn a_cpu_outside_the_set_is_not_on_this_machine_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "syscall-getpid", "cc", &["-O2"]);
    let output = run(&program, &["--cpu", "9999"], "", false);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.starts_with("syscall-getpid: wanted CPU 9999"),
        "{said}"
    );
    assert!(said.contains("Cpus_allowed has "), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_is_no_number_in_its_limits_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "syscall-getpid", "cc", &["-O2"]);
    for words in [
        "--rounds x",
        "--rounds",
        "--rounds 0",
        "--calls 1023",
        "--bogus 1",
        "-1",
    ] {
        let arguments: Vec<&str> = words.split(' ').collect();
        let output = run(&program, &arguments, "", false);
        assert_eq!(output.status.code(), Some(64), "{words}");
        assert!(output.stdout.is_empty(), "{words}");
    }
    assert_eq!(run(&program, &["--help"], "", false).status.code(), Some(0));
}
