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
const NAMES: [&str; 7] = [
    "io-uring-futex-waitv",
    "io-uring-futex-scalar",
    "syscall-getpid",
    "io-uring-nop",
    "flistxattr",
    MSG_RING,
    "mprotect-shared-dirty",
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
    match name {
        "syscall-getpid" => &["calls_ok"],
        "io-uring-nop" => &["completions_ok", "stray", "overflow"],
        "flistxattr" => &["calls_ok", "wrong_length", "wrong_names"],
        "mprotect-shared-dirty" => &[
            "pages_ok",
            "wrong_value",
            "huge_pages",
            "part_protect",
            "part_restore",
            "part_touch",
        ],
        "io-uring-msg-ring-send-fd/remove-refill" | "io-uring-msg-ring-send-fd/warm-refill" => {
            &REMOVING_COUNTERS
        }
        _ if name.starts_with(MSG_RING) => &REGISTERING_COUNTERS,
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
        check_counters(name, line, ops, numbers[1], &numbers[12..]);
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

fn default_ops(name: &str) -> u64 {
    match name {
        "syscall-getpid" => 65_536,
        "io-uring-nop" => 32_768,
        "flistxattr" => 8_192,
        "mprotect-shared-dirty" => 4 * 16_384,
        "io-uring-msg-ring-send-fd/first-fill" | "io-uring-msg-ring-send-fd/warm-refill" => {
            8 * 4_096
        }
        "io-uring-msg-ring-send-fd/register-install" => 256,
        _ if name.starts_with(MSG_RING) => 8,
        _ => 512 * 8,
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
        let words = with_scenario(name, &["--warmup", "1", "--rounds", "2"]);
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
        let short = with_scenario(name, &["--warmup", "1", "--rounds", "9"]);
        let Some(stream) = passed(&run(&program, &short, "\nq\n\n\n", true)) else {
            continue;
        };
        check_stream(name, &stream, &rows, default_ops(name));
        let option = with_scenario(name, &["--step", "--warmup", "0", "--rounds", "9"]);
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
        let words = with_scenario(name, &["--warmup", "0", "--rounds", "1"]);
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
