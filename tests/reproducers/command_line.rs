//! Options, help, and what this machine does not allow.

use std::path::Path;

use super::{MSG_RING, compile, passed, run, scenarios};

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
fn a_cpu_outside_the_set_is_not_on_this_machine_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "syscall-getpid", "cc", &["-O2"]);
    let output = run(&program, &["--cpu", "9999"], "", false);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.starts_with("syscall-getpid: wanted CPU 9999"),
        "{said}"
    );
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
