//! `trace` of small cases on this host: counts that must be there, what is refused, and
//! that nothing of it stays in tracefs.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops at its first surprise, and says what it skipped"
)]

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// Only root may make an instance; the variable turns the skip into a failure where root
/// and tracefs are there, and elsewhere nothing can be shown.
fn may_trace() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(probe)
}

fn probe() -> bool {
    let root = rustix::process::geteuid().is_root();
    let missing = if !root {
        "not root"
    } else if !Path::new(INSTANCES).is_dir() {
        "no tracefs at /sys/kernel/tracing"
    } else {
        let probe = format!("{INSTANCES}/regbundle-test-{}", std::process::id());
        match fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)) {
            Ok(()) => return true,
            Err(error) => {
                let required = std::env::var_os("REGBUNDLE_REQUIRE_TOOLS").is_some();
                assert!(!required, "root and tracefs, but no instance: {error}");
                "tracefs makes no instance"
            }
        }
    };
    eprintln!("skipped: {missing}");
    false
}

fn has_io_uring() -> bool {
    let fine = regbundle::workload::registry::support("io-uring-futex-waitv").is_ok();
    let required = std::env::var_os("REGBUNDLE_REQUIRE_IO_URING").is_some();
    assert!(
        fine || !required,
        "io_uring with futex operations is required"
    );
    if !fine {
        eprintln!("skipped: no io_uring with futex operations");
    }
    fine
}

fn case(workload: &str, more: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"format = 1
id = "traced"
title = "a trace"
[scope]
statement = "a trace"
[plan]
order = ["parent", "child", "parent"]
primary = "{workload}"
[[workload]]
name = "{workload}"
role = "target"
{more}
"#
    );
    fs::write(folder.path().join("case.toml"), text).unwrap();
    folder
}

fn command(case: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regbundle"));
    command.args(["--format", "json", "trace"]).arg(case);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn trace(case: &Path, code: i32) -> Value {
    let output = command(case).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(code), "{}{text}", said(&output));
    serde_json::from_str(&text).unwrap()
}

fn hit<'a>(program: &'a Value, event: &str) -> &'a Value {
    let hits = program["hits"].as_array().unwrap();
    hits.iter().find(|hit| hit["event"] == event).unwrap()
}

/// Instances of regbundle processes with these ids.
fn left_behind(process: u32) -> bool {
    Path::new(&format!("{INSTANCES}/regbundle-{process}")).exists()
}

#[test]
fn four_cycles_of_eight_vectors_are_32_submissions_and_32_allocations() {
    if !may_trace() || !has_io_uring() {
        return;
    }
    let case = case("io-uring-futex-waitv", "params = { cycles = 4 }");
    let report = trace(case.path(), 0);
    let programs = report["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 2);
    for program in programs {
        let words = "io_uring:io_uring_submit_req opcode=";
        // The preflight wakes each of the 8 words of each of the 8 vectors once.
        for (event, in_rounds, elsewhere) in [
            (format!("{words}FUTEX_WAITV"), 32, 64),
            (format!("{words}FUTEX_WAKE"), 32 * 8, 64),
            ("kmem:kmalloc call_site=io_futexv_prep".to_owned(), 32, 64),
            ("kmem:kfree call_site=io_futexv_complete".to_owned(), 32, 64),
        ] {
            let hit = hit(program, &event);
            assert_eq!(hit["answer"], "PASS", "{hit}");
            assert_eq!(hit["seen"]["in_rounds"], in_rounds, "{hit}");
            assert_eq!(hit["seen"]["elsewhere"], elsewhere, "{hit}");
            assert_eq!(hit["ops"], 32, "{hit}");
        }
        let values = &hit(program, "kmem:kmalloc call_site=io_futexv_prep")["values"][0];
        assert!(values["fields"]["bytes_req"].is_string(), "{values}");
        assert!(values["fields"]["gfp_flags"].is_string(), "{values}");
        assert!(values["fields"]["accounted"].is_string(), "{values}");
        assert_eq!(values["in_rounds"], 32, "{values}");
    }
    assert!(!case.path().join("plan.json").exists());
}

#[test]
fn the_control_hits_nothing_of_the_vector_wait() {
    if !may_trace() || !has_io_uring() {
        return;
    }
    let report = trace(case("io-uring-futex-scalar", "").path(), 0);
    for program in report["programs"].as_array().unwrap() {
        let none = hit(program, "kmem:kmalloc call_site=io_futexv_prep");
        assert_eq!(none["answer"], "PASS", "{none}");
        assert_eq!(none["seen"]["in_rounds"], 0, "{none}");
        assert_eq!(none["seen"]["elsewhere"], 0, "{none}");
    }
}

#[test]
fn tasks_and_threads_of_a_program_are_counted_too() {
    if !may_trace() {
        return;
    }
    let params = "params = { pools = 2, threads = 3, cycles = 2, oversubscribe = 1 }";
    let report = trace(case("thread-pool", params).path(), 0);
    for program in report["programs"].as_array().unwrap() {
        let hit = hit(program, "task:task_newtask");
        assert_eq!(hit["seen"]["in_rounds"], 2 * 3 * 2, "{hit}");
    }
}

#[test]
fn a_program_of_which_nothing_is_declared_is_no_answer() {
    if !may_trace() {
        return;
    }
    let more = "implementations = [\"standalone\"]\ncommand = [\"./bench\"]";
    let case = case("my-bench", more);
    fs::write(case.path().join("bench"), "#!/bin/sh\n").unwrap();
    let report = trace(case.path(), 5);
    assert_eq!(report["programs"][0]["hits"], serde_json::json!([]));
    assert!(report["programs"][0]["reason"].is_string());
}

#[test]
fn a_signal_ends_the_trace_and_leaves_no_instance() {
    if !may_trace() {
        return;
    }
    let case = case("page-fault", "");
    let mut child = command(case.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !left_behind(child.id()) {
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(child.try_wait().unwrap().is_none(), "ended before");
        thread::sleep(Duration::from_millis(1));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(15), "{status}");
    assert!(!left_behind(child.id()));
}

#[test]
fn without_permission_the_answer_is_what_is_missing() {
    if !may_trace() {
        return;
    }
    // Somebody who is not root, in a folder of his own and with a program he may start.
    let case = case("syscall-getpid", "implementations = [\"formal\"]");
    let nobody = 65_534;
    let program = case.path().join("regbundle");
    fs::copy(env!("CARGO_BIN_EXE_regbundle"), &program).unwrap();
    for path in [case.path(), &case.path().join("case.toml")] {
        std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).unwrap();
    }
    let mut command = Command::new(&program);
    command
        .arg("trace")
        .arg(case.path())
        .uid(nobody)
        .gid(nobody);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("as root"), "{}", said(&output));
}
