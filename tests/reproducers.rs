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

/// Names as documented; a workload added to `emit` fails the test below until it is here.
const NAMES: [&str; 9] = [
    "io-uring-futex-waitv",
    "io-uring-futex-scalar",
    "syscall-getpid",
    "io-uring-nop",
    "flistxattr",
    "mmap-munmap",
    "page-fault",
    "thread-pool",
    "inotify-watch",
];

fn counters(name: &str) -> &'static [&'static str] {
    match name.split('/').next().unwrap() {
        "mmap-munmap" => &["ops_ok", "failed_calls", "bad_address", "stuck", "off_cpu"],
        "page-fault" => &["ops_ok", "failed_calls", "faults_off", "stuck", "off_cpu"],
        "syscall-getpid" => &["calls_ok"],
        "io-uring-nop" => &["completions_ok", "stray", "overflow"],
        "flistxattr" => &["calls_ok", "wrong_length", "wrong_names"],
        "thread-pool" => &["threads_ok", "not_run", "failed_calls"],
        "inotify-watch" => &["watches_ok", "bad_wd", "not_ignored", "queue_overflow"],
        _ => &PAIR_COUNTERS,
    }
}

fn compile(dir: &Path, name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let file = dir.join(format!("{name}.c"));
    std::fs::write(&file, emit::source(name).unwrap()).unwrap();
    let program = dir.join(name);
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
        assert!(no_tmpfs || said.contains("not on this kernel"), "{said}");
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
    match name {
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
        for (counter, found) in counters(name).iter().zip(&numbers[12..]) {
            let expected = if counter.ends_with("_ok") { ops } else { 0 };
            assert_eq!(*found, expected, "{counter}: {line}");
        }
        check_recorded(name, tasks, &numbers, line);
    }
}

fn default_ops(name: &str) -> Option<u64> {
    match name {
        "syscall-getpid" => Some(65_536),
        "io-uring-nop" => Some(32_768),
        "flistxattr" => Some(8_192),
        "mmap-munmap" | "page-fault" => None,
        "thread-pool" => Some(2 * 8 * 16),
        "inotify-watch" => Some(96 * 32),
        _ => Some(512 * 8),
    }
}

#[test]
fn the_emitted_programs_are_the_documented_ones() {
    assert_eq!(emit::names().collect::<Vec<_>>(), NAMES);
}

#[test]
fn every_program_writes_a_whole_stream_of_passing_rows() {
    for name in NAMES {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let words = arguments(&["--warmup 1 --rounds 2", steady(name)]);
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
    for name in NAMES {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let rows = [("warmup", "0"), ("measured", "0")];
        let short = arguments(&["--warmup 1 --rounds 9", steady(name)]);
        let Some(stream) = passed(&run(&program, &short, "\nq\n\n\n", true)) else {
            continue;
        };
        check_stream(name, &stream, &rows, default_ops(name));
        let option = arguments(&["--step --warmup 0 --rounds 9", steady(name)]);
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
    ] {
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let words: Vec<&str> = once.into_iter().chain(shape.split(' ')).collect();
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
/* Two for 8 events of trial and rehearsal, one for none: the fourth counts. */
ssize_t __wrap_read(int fd, void *p, size_t n)
{
	struct inotify_event *events = p;
	ssize_t r = __real_read(fd, p, n);
	if (fd != inotify || ++reads != 4 || r != 4 * sizeof(*events))
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
enum { RESULT = 1, USER_DATA, LENGTH, REFUSED, NAME, TWICE, NO_TMPFS };
long __real_syscall(long, long, long, long, long, long, long);
void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_fstatfs(int, struct statfs *);
static struct io_uring_sqe *sqes;
static int seen;
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
	p = __real_mmap(p, n, prot, flags, fd, at);
	if (fd >= 0 && at == IORING_OFF_SQES)
		sqes = p;
	return p;
}
int __wrap_fstatfs(int fd, struct statfs *fs)
{
	int r = __real_fstatfs(fd, fs);
	if (FAULT == NO_TMPFS)
		fs->f_type = 0xef53;
	return r;
}
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long r;
	/* The 64th and last call of the round; not one that asks for a length. */
	int last = (n == SYS_io_uring_enter || (n == SYS_flistxattr && b)) &&
		   ++seen == 64;
	if (last && FAULT == RESULT)
		sqes->opcode = 255;
	if (last && FAULT == USER_DATA)
		sqes->user_data += 1000;
	r = __real_syscall(n, a, b, c, d, e, f);
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

fn run_with_fault(name: &str, shape: &str, fault: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let shim = dir.path().join("faults.c");
    std::fs::write(&shim, FAULTS).unwrap();
    let define = format!("-DFAULT={fault}");
    let wraps = "-Wl,--wrap=syscall,--wrap=mmap,--wrap=fstatfs";
    let flags = ["-O2", &define, wraps, shim.to_str().unwrap()];
    let program = compile(dir.path(), name, "cc", &flags);
    let words: Vec<&str> = "--warmup 0 --rounds 1"
        .split(' ')
        .chain(shape.split(' '))
        .collect();
    run(&program, &words, "", false)
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
    for name in NAMES {
        let dir = tempfile::tempdir().unwrap();
        let flags = [
            "-O1",
            "-g",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
        ];
        let program = compile(dir.path(), name, "cc", &flags);
        let words = arguments(&["--warmup 0 --rounds 1", steady(name)]);
        let output = run(&program, &words, "", false);
        if let Some(stream) = passed(&output) {
            check_stream(name, &stream, &[("measured", "0")], default_ops(name));
        }
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
fn a_cpu_outside_the_set_fails_and_names_both() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "syscall-getpid", "cc", &["-O2"]);
    let output = run(&program, &["--cpu", "9999"], "", false);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("wanted CPU 9999"), "{said}");
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
