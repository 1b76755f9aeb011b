//! What each program writes, by its parameters.

use super::{
    MSG_RING, arguments, check_stream, compile, default_ops, passed, run, steady, with_scenario,
    workloads,
};

#[test]
fn every_program_writes_a_whole_stream_of_passing_rows() {
    for name in &workloads() {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, "cc", &["-O2"]);
        let words = with_scenario(name, &arguments(&["--warmup 1 --rounds 2", steady(name)]));
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
        let short = with_scenario(name, &arguments(&["--warmup 1 --rounds 9", steady(name)]));
        let Some(stream) = passed(&run(&program, &short, "\nq\n\n\n", true)) else {
            continue;
        };
        check_stream(name, &stream, &rows, default_ops(name));
        let option = with_scenario(
            name,
            &arguments(&["--step --warmup 0 --rounds 9", steady(name)]),
        );
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
