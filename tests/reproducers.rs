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
const NAMES: [&str; 3] = [
    "io-uring-futex-waitv",
    "io-uring-futex-scalar",
    "syscall-getpid",
];

fn counters(name: &str) -> &'static [&'static str] {
    match name {
        "syscall-getpid" => &["calls_ok"],
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
        let required = std::env::var("REGBUNDLE_REQUIRE_IO_URING").as_deref() == Ok("1");
        assert!(!required, "{said}");
        assert!(said.contains("not on this kernel"), "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    let rows = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}\n{rows}");
    Some(rows)
}

fn check_stream(name: &str, stream: &str, rows: &[(&str, &str)], ops: u64) {
    let lines: Vec<&str> = stream.lines().collect();
    assert!(stream.ends_with('\n'));
    assert_eq!(lines.len(), rows.len() + 3, "{stream}");
    assert_eq!(lines[0], format!("#regbundle-rows 1 {name} standalone ns"));
    let header = [
        FIXED_COLUMNS.as_slice(),
        SYSCALL_CANARY_COLUMNS.as_slice(),
        counters(name),
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
        assert_eq!(numbers[0], ops, "{line}");
        assert!(numbers[1] > 0, "elapsed: {line}");
        assert_eq!(numbers[2], numbers[3], "the CPU changed: {line}");
        assert!(numbers[8..12].iter().all(|ns| *ns > 0), "canary: {line}");
        for (counter, found) in counters(name).iter().zip(&numbers[12..]) {
            let expected = if counter.ends_with("_ok") { ops } else { 0 };
            assert_eq!(*found, expected, "{counter}: {line}");
        }
    }
}

fn default_ops(name: &str) -> u64 {
    match name {
        "syscall-getpid" => 65_536,
        _ => 512 * 8,
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
        let output = run(&program, &["--warmup", "1", "--rounds", "2"], "", false);
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
        let short = ["--warmup", "1", "--rounds", "9"];
        let Some(stream) = passed(&run(&program, &short, "\nq\n\n\n", true)) else {
            continue;
        };
        check_stream(name, &stream, &rows, default_ops(name));
        let option = ["--step", "--warmup", "0", "--rounds", "9"];
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
                check_stream(name, &stream, &rows, ops);
            }
        }
        let refused = run(&program, &["--words", "3"], "", false);
        assert_eq!(refused.status.code(), Some(64));
    }
    let program = compile(dir.path(), "syscall-getpid", "cc", &["-O2"]);
    let words: Vec<&str> = once.into_iter().chain(["--calls", "1024"]).collect();
    let stream = passed(&run(&program, &words, "", false)).unwrap();
    check_stream("syscall-getpid", &stream, &rows, 1024);
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
        let output = run(&program, &["--warmup", "0", "--rounds", "1"], "", false);
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
