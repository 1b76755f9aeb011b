//! What compilers, sanitizers, valgrind and make say of each program.

use std::path::Path;
use std::process::Command;

use regbundle::workload::emit;

use super::{
    MSG_RING, NAMES, arguments, check_stream, compile, default_ops, passed, present, run, steady,
    with_scenario, workloads,
};

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
