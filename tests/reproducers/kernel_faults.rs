//! A wrong answer of the kernel fails the row by its counter, or the preflight.

use std::path::{Path, PathBuf};
use std::process::Output;

use regbundle::model::protocol::{FIXED_COLUMNS, SYSCALL_CANARY_COLUMNS};

use super::{MSG_RING, compile, counters, passed, run, scenarios, with_scenario};

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
fn without_a_tmpfs_flistxattr_says_where_it_looked_and_what_it_needs() {
    let output = run_with_fault("flistxattr", "--calls 64", "NO_TMPFS");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(output.stdout.is_empty());
    for part in ["/dev/shm", "$TMPDIR", "/tmp", "Linux 6.6"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
