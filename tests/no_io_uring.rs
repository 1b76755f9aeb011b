//! A place where io_uring is not permitted: what `run` and `demo` say and do.
//!
//! A seccomp filter refuses io_uring to the child process alone, as containers do. That
//! the kernel's own switch is understood as well is shown by a second test, which turns
//! io_uring off for the whole machine for a moment and so runs only on request:
//! `REGBUNDLE_TEST_SYSCTL=1 cargo test --test no_io_uring`.

#![expect(unsafe_code, reason = "a seccomp filter is a raw system interface")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops at its first surprise, and says what it skipped"
)]

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// What a child is told depends on the switch, so tests here go one after the other.
static SWITCH: Mutex<()> = Mutex::new(());

const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

const CASE: &str = r#"format = 1
id = "x"
title = "t"
[scope]
statement = "s"
[plan]
order = ["parent", "child", "parent"]
primary = "io-uring-futex-waitv"
boots = "same"
[engine.host]
[[workload]]
name = "io-uring-futex-waitv"
role = "target"
"#;

fn case() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("case")).unwrap();
    fs::write(folder.path().join("case/case.toml"), CASE).unwrap();
    folder
}

fn regbundle(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regbundle"));
    command.args(arguments).current_dir(folder);
    command
}

/// Refuses `io_uring_setup` to this process and its children, with this error.
fn refuse_io_uring(errno: i32) -> io::Result<()> {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        // The codes of classic BPF are below 2^8.
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let number = u32::try_from(libc::SYS_io_uring_setup).unwrap_or_default();
    let errno = u32::try_from(errno).unwrap_or_default();
    let mut filter = [
        // The number of the system call is the first word of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        statement(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | errno,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: prctl reads the program, which lives to the end of this function.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) != 0
    };
    if refused {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Runs without io_uring; `None` where a filter cannot be set.
fn without_io_uring(command: Command) -> Option<Output> {
    refused_with(command, libc::EPERM)
}

fn refused_with(mut command: Command, errno: i32) -> Option<Output> {
    // SAFETY: between fork and exec the function only makes two system calls.
    unsafe { command.pre_exec(move || refuse_io_uring(errno)) };
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: no seccomp filter can be set here: {error}");
            None
        }
    }
}

/// A refusal that names the cause and leaves the case as it was.
fn assert_refused(output: Output, folder: &TempDir, setting: &str) {
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{message}");
    for part in ["io-uring-futex-waitv", "io_uring_disabled", setting] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(fs::read_dir(folder.path().join("case")).unwrap().count(), 1);
}

#[test]
fn a_run_that_a_filter_keeps_from_io_uring_says_so_and_writes_nothing() {
    let _turn = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = case();
    if let Some(output) = without_io_uring(regbundle(&["run", "case"], folder.path())) {
        assert_refused(output, &folder, "seccomp");
    }
}

/// `ENFILE` stands for what is no property of the machine: that is a failure.
#[test]
fn a_c_program_says_why_it_has_no_io_uring() {
    let _turn = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let emitted = regbundle(&["workload", "emit", "io-uring-nop"], folder.path())
        .output()
        .unwrap();
    fs::write(folder.path().join("nop.c"), emitted.stdout).unwrap();
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-o", "nop", "nop.c"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(built.success());
    for (errno, code, hint) in [
        (libc::EPERM, 4, "io_uring_disabled"),
        (libc::ENOSYS, 4, "no io_uring here"),
        (libc::ENOMEM, 4, "ulimit -l"),
        (libc::ENFILE, 1, "io_uring_setup"),
    ] {
        let program = Command::new(folder.path().join("nop"));
        let Some(output) = refused_with(program, errno) else {
            return;
        };
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(hint), "{hint}: {message}");
        assert!(output.stdout.is_empty(), "{message}");
    }
}

#[test]
fn a_demonstration_without_io_uring_measures_the_floor_and_says_why() {
    let _turn = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let Some(output) = without_io_uring(regbundle(&["demo", "--out", "demo"], folder.path()))
    else {
        return;
    };
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    for part in ["syscall-getpid", "io_uring_disabled", "seccomp"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let case = fs::read_to_string(folder.path().join("demo/case/case.toml")).unwrap();
    assert!(!case.contains("io-uring-futex"), "{case}");
}

/// Puts the setting back when dropped, also when the test fails.
struct Restored {
    before: String,
    /// Held while the setting is changed, so that two of these do not meet.
    _lock: fs::File,
}

impl Restored {
    fn disabled() -> Option<Self> {
        if std::env::var("REGBUNDLE_TEST_SYSCTL").as_deref() != Ok("1") {
            eprintln!("skipped: it changes {SYSCTL}; REGBUNDLE_TEST_SYSCTL=1 permits it");
            return None;
        }
        let path = std::env::temp_dir().join("regbundle-test-io-uring.lock");
        let lock = fs::File::create(path).unwrap();
        lock.lock().unwrap();
        let before = fs::read_to_string(SYSCTL).unwrap();
        // The guard first: what is written after it is put back whatever happens.
        let guard = Self {
            before,
            _lock: lock,
        };
        fs::write(SYSCTL, "2").unwrap();
        Some(guard)
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        if fs::write(SYSCTL, self.before.trim()).is_err() {
            eprintln!("{SYSCTL} could not be put back to {}", self.before.trim());
        }
    }
}

#[test]
fn a_run_on_a_kernel_with_io_uring_switched_off_names_the_switch() {
    let _turn = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(_restored) = Restored::disabled() else {
        return;
    };
    let folder = case();
    let output = regbundle(&["run", "case"], folder.path()).output().unwrap();
    assert_refused(output, &folder, "2");
}
