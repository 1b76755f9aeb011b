//! Every emitted C program compiles, runs, and speaks the row protocol.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test may stop at the first surprise, and says what it skipped"
)]

mod command_line;
mod kernel_faults;
mod streams;
mod task_faults;
mod tasks;
mod tools;

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
        let named = [
            "not on this kernel",
            "not on this machine",
            "no io_uring here",
        ]
        .iter()
        .any(|words| said.contains(words));
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
