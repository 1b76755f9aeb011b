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
const NAMES: [&str; 5] = [
    "io-uring-futex-waitv",
    "io-uring-futex-scalar",
    "syscall-getpid",
    "io-uring-nop",
    "flistxattr",
];

fn counters(name: &str) -> &'static [&'static str] {
    match name {
        "syscall-getpid" => &["calls_ok"],
        "io-uring-nop" => &["completions_ok", "stray", "overflow"],
        "flistxattr" => &["calls_ok", "wrong_length", "wrong_names"],
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
        "io-uring-nop" => 32_768,
        "flistxattr" => 8_192,
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
    for (name, shape, ops) in [
        ("syscall-getpid", "--calls 1024", 1024),
        ("io-uring-nop", "--ops 64", 64),
        ("flistxattr", "--names 1 --calls 64", 64),
        ("flistxattr", "--names 64 --calls 100", 100),
    ] {
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let words: Vec<&str> = once.into_iter().chain(shape.split(' ')).collect();
        if let Some(stream) = passed(&run(&program, &words, "", false)) {
            check_stream(name, &stream, &rows, ops);
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
