//! A wrong answer of the kernel to one task fails the row by its counter.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use regbundle::model::protocol::{STATUS_PASS, STEP_VARIABLE};

use super::{arguments, compile, counters};

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
