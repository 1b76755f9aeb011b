//! Wrong input: one clear message with place, found, wanted and what to do; the right
//! exit code; nothing half-written.

#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const CASE: &str = r#"format = 1
id = "x"
title = "t"
[scope]
statement = "s"
[plan]
order = ["parent", "child", "parent"]
warmup_rounds = 0
rounds = 2
primary = "syscall-getpid"
boots = "same"
[engine.host]
[[workload]]
name = "syscall-getpid"
role = "target"
implementations = ["formal"]
params = { calls = 1024 }
[machine]
[[table]]
file = "t.tsv"
kind = "rows"
workload = "syscall-getpid"
columns = { point = "slot", implementation = "who", round = "round", ops = "calls", elapsed = "ns" }
"#;

const TABLE: &str = "slot\twho\tround\tcalls\tns\nparent-a\tformal\t0\t1024\t90000\n";

fn stream(elapsed: u64) -> String {
    let row = |round| {
        format!("measured\t{round}\t1024\t{elapsed}\t1\t1\t0\t0\t0\t0\t40\t40\t1024\tpass\n")
    };
    format!(
        "#regbundle-rows 1 syscall-getpid formal ns\nphase\tround\tops\telapsed\tcpu_begin\tcpu_end\tnvcsw\tnivcsw\tminflt\trun_delay_ns\tcanary_before\tcanary_after\tcalls_ok\tstatus\n{}{}#end 2\n",
        row(0),
        row(1)
    )
}

/// A folder with a case in `case/`, and what stands beside it.
struct Place {
    root: TempDir,
}

impl Place {
    fn new(case: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("case")).unwrap();
        let place = Self { root };
        place.put("case/case.toml", case);
        place
    }

    fn put(&self, path: &str, text: &str) {
        fs::write(self.root.path().join(path), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regbundle"));
        command
            .args(arguments)
            .current_dir(self.root.path())
            // A backtrace asked for must not show either.
            .env("RUST_BACKTRACE", "1");
        command
    }

    fn good(&self, arguments: &[&str]) {
        let output = self.command(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
    }

    /// Runs a command that must be refused and leave every file as it was.
    fn refused(&self, arguments: &[&str], code: i32, parts: &[&str]) -> String {
        self.refused_by(&mut self.command(arguments), code, parts)
    }

    fn refused_by(&self, command: &mut Command, code: i32, parts: &[&str]) -> String {
        let before = snapshot(self.root.path());
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        let message = String::from_utf8(stderr).unwrap();
        let after = snapshot(self.root.path());
        assert_eq!(status.code(), Some(code), "{command:?}: {message}");
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>(),
            "{command:?} left something behind: {message}"
        );
        assert!(before == after, "{command:?} changed a file: {message}");
        assert!(
            stdout.is_empty(),
            "{command:?}: {}",
            String::from_utf8_lossy(&stdout)
        );
        for part in parts {
            assert!(message.contains(part), "{command:?}: {part}: {message}");
        }
        assert_one_message(&message);
        message
    }
}

/// One message, and nothing that looks like a crash.
fn assert_one_message(message: &str) {
    assert_eq!(message.matches("regbundle: ").count(), 1, "{message}");
    assert!(message.starts_with("regbundle: "), "{message}");
    for word in ["panicked", "backtrace", "src/", "Err(", "unwrap", "Error {"] {
        assert!(!message.contains(word), "{word}: {message}");
    }
}

/// Every path below a folder, with the bytes of files.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path.clone());
                found.insert(path, Vec::new());
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

#[test]
fn a_case_that_is_not_there_is_named_with_how_to_make_one() {
    let place = Place::new(CASE);
    fs::create_dir(place.root.path().join("empty")).unwrap();
    for command in ["run", "check", "analyze", "report", "bundle"] {
        for folder in ["nosuch", "empty"] {
            place.refused(
                &[command, folder],
                4,
                &[folder, "case.toml", "regbundle new"],
            );
        }
    }
    place.refused(
        &["ingest", "nosuch", "--point", "child", "f"],
        4,
        &["nosuch", "case.toml"],
    );
}

#[test]
fn each_mistake_in_case_toml_is_named_with_file_place_and_what_is_wanted() {
    // What is changed, and what the message must hold.
    let cases: [(&str, &str, &[&str]); 10] = [
        (
            "primary = ",
            "primay = ",
            &["case/case.toml", "line 10, column 1", "primay", "`primary`"],
        ),
        (
            "rounds = 2\n",
            "rounds = 2x\n",
            &["case/case.toml", "line 9"],
        ),
        (
            "rounds = 2\n",
            "rounds = -2\n",
            &["case/case.toml", "line 9", "-2"],
        ),
        (
            "rounds = 2\n",
            "rounds = 1\n",
            &["case/case.toml", "plan.rounds", "found 1", "2 to 100000"],
        ),
        (
            "[machine]",
            "[gates]\ndrift_pct = nan\n[machine]",
            &["case/case.toml", "gates.drift_pct", "NaN"],
        ),
        (
            "name = \"syscall-getpid\"",
            "name = \"nosuch\"",
            &[
                "case/case.toml",
                "workload.name",
                "`nosuch`",
                "syscall-getpid",
            ],
        ),
        (
            "calls = 1024",
            "call = 1024",
            &[
                "case/case.toml",
                "workload.syscall-getpid.params",
                "'call'",
                "calls",
            ],
        ),
        (
            "calls = 1024",
            "calls = 1",
            &[
                "case/case.toml",
                "workload.syscall-getpid.params",
                "1024",
                "10000000",
            ],
        ),
        (
            "id = \"x\"",
            "id = \"../x\"",
            &["case/case.toml", "`id`", "../x"],
        ),
        (
            "order = [\"parent\", \"child\", \"parent\"]",
            "order = [\"parent\", \"chid\"]",
            &["case/case.toml", "line 7", "chid", "`parent`"],
        ),
    ];
    for (from, to, parts) in cases {
        assert!(CASE.contains(from), "{from}");
        let place = Place::new(&CASE.replace(from, to));
        place.refused(&["run", "case"], 4, parts);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_as_a_case() {
    let place = Place::new(CASE);
    fs::write(place.root.path().join("case/case.toml"), b"\xff\xfe\x00").unwrap();
    place.refused(&["run", "case"], 4, &["case/case.toml"]);
}

#[test]
fn a_cpu_that_cannot_be_is_refused_before_plan_and_journal() {
    let place = Place::new(&CASE.replace("[machine]", "[machine]\ncpu = 9999"));
    place.refused(&["run", "case"], 4, &["9999", "machine.cpu", "allowed"]);
}

#[test]
fn a_case_without_engine_or_rows_says_what_to_do() {
    let place = Place::new(&CASE.replace("[engine.host]\n", ""));
    place.refused(
        &["run", "case"],
        4,
        &["case/case.toml", "engine.host", "regbundle ingest"],
    );
    for command in ["check", "analyze", "report", "bundle"] {
        place.refused(&[command, "case"], 4, &["case", "no rows", "regbundle run"]);
    }
}

#[test]
fn each_file_that_cannot_be_ingested_is_named_and_not_even_the_plan_is_written() {
    let good = stream(90_000);
    let torn = good.replace("#end 2\n", "");
    let short = good.replace("#end 2\n", "#end 3\n");
    let not_a_number = good.replace("\t90000\t", "\t9e4\t");
    let place = Place::new(CASE);
    for (name, text) in [
        ("torn.tsv", torn.as_str()),
        ("short.tsv", &short),
        ("odd.tsv", &not_a_number),
        ("good.tsv", &good),
        ("nomap.tsv", TABLE),
        ("a name.tsv", &good),
    ] {
        place.put(name, text);
    }
    let point: &[&str] = &["--point", "child"];
    let with = |arguments: &[&str], parts: &[&str], code| {
        let mut all = vec!["ingest", "case"];
        all.extend(arguments);
        let message = place.refused(&all, code, parts);
        // The copy that would have been made is not where the user looks.
        assert!(!message.contains("ingested/"), "{message}");
    };
    let cases: [(&[&str], &str, &[&str], i32); 7] = [
        (
            point,
            "nosuch.tsv",
            &["nosuch.tsv", "No such file", "check the path"],
            4,
        ),
        (
            point,
            "nomap.tsv",
            &["nomap.tsv", "[[table]]", "case.toml"],
            4,
        ),
        (point, "a name.tsv", &["a name.tsv", "rename"], 4),
        (point, "torn.tsv", &["torn.tsv", "#end", "2 rows"], 2),
        (point, "short.tsv", &["short.tsv", "found 2", "3"], 2),
        (
            point,
            "odd.tsv",
            &["odd.tsv:3", "elapsed", "9e4", "integer"],
            2,
        ),
        (&[], "good.tsv", &["good.tsv", "--point"], 4),
    ];
    for (options, file, parts, code) in cases {
        let mut arguments = options.to_vec();
        arguments.push(file);
        with(&arguments, parts, code);
    }
    // A device never ends: what is not a regular file is not opened.
    with(
        &["--point", "child", "/dev/zero"],
        &["/dev/zero", "regular file"],
        4,
    );
    with(
        &["--point", "child-z", "good.tsv"],
        &["good.tsv", "`child-z`", "parent-a, child, parent-b"],
        2,
    );
    with(
        &[
            "--point",
            "child",
            "--implementation",
            "standalone",
            "good.tsv",
        ],
        &["good.tsv", "`formal`", "`standalone`"],
        2,
    );
    with(
        &["--point", "child", "--implementation", "both", "good.tsv"],
        &["both", "formal", "standalone"],
        4,
    );
}

#[test]
fn each_cell_and_column_that_is_none_is_named_with_its_line() {
    let place = Place::new(CASE);
    let header = "slot\twho\tround\tcalls\tns";
    let with = |arguments: &[&str], parts: &[&str], code| {
        let mut all = vec!["ingest", "case"];
        all.extend(arguments);
        let message = place.refused(&all, code, parts);
        // The copy that would have been made is not where the user looks.
        assert!(!message.contains("ingested/"), "{message}");
    };
    for (cell, shown) in [
        ("NaN", "`NaN`"),
        ("1,5", "`1,5`"),
        ("+5", "`+5`"),
        ("", "``"),
        ("0", "0"),
        ("-1", "`-1`"),
        ("18446744073709551616", "18446744073709551616"),
    ] {
        place.put(
            "t.tsv",
            &format!("{header}\nparent-a\tformal\t0\t1024\t{cell}\n"),
        );
        with(&["t.tsv"], &["t.tsv:2", shown, "elapsed"], 2);
    }
    place.put("t.tsv", &TABLE.replace("\tns\n", "\tnanoseconds\n"));
    with(
        &["t.tsv"],
        &["t.tsv:1", "`ns`", "nanoseconds", "case.toml"],
        2,
    );
    place.put("t.tsv", &TABLE.replace("parent-a", "parent-z"));
    with(&["t.tsv"], &["t.tsv:2", "parent-z", "parent-a"], 2);
    place.put("t.tsv", &format!("{TABLE}parent-a\tformal\n"));
    with(&["t.tsv"], &["t.tsv:3", "found 2", "5"], 2);
    place.put("t.tsv", "");
    with(&["t.tsv"], &["t.tsv", "header"], 2);
    // The map names a key that means nothing.
    let place = Place::new(&CASE.replace("round = \"round\"", "rond = \"round\""));
    place.put("t.tsv", TABLE);
    place.refused(
        &["ingest", "case", "t.tsv"],
        4,
        &["t.tsv", "`rond`", "round"],
    );
}

#[test]
fn a_status_text_that_nobody_named_is_asked_for_and_not_taken_as_failure() {
    let case = CASE.replace("round = \"round\"", "round = \"round\", status = \"ok\"");
    assert_ne!(case, CASE);
    let place = Place::new(&case);
    place.put(
        "t.tsv",
        "slot\twho\tround\tcalls\tns\tok\nparent-a\tformal\t0\t1024\t90000\t1\n",
    );
    place.refused(
        &["ingest", "case", "t.tsv"],
        2,
        &["t.tsv", "`ok`", "`1`", "status_pass"],
    );
}

#[test]
fn a_new_case_goes_out_only_when_its_texts_are_filled_in() {
    let place = ingested();
    let text = fs::read_to_string(place.root.path().join("case/case.toml")).unwrap();
    let text = text.replacen("title = \"", "title = \"FILL IN: ", 1);
    place.put("case/case.toml", &text);
    place.refused(&["report", "case"], 4, &["title", "text of a new case"]);
}

#[test]
fn rows_ingested_a_second_time_are_refused() {
    let place = Place::new(CASE);
    place.put("good.tsv", &stream(90_000));
    let arguments = ["ingest", "case", "--point", "child", "good.tsv"];
    place.good(&arguments);
    place.refused(
        &arguments,
        4,
        &["good.tsv: ", "child", "second time", "new folder"],
    );
}

/// A case with rows of all three points, in boots that are not known.
fn ingested() -> Place {
    let place = Place::new(CASE);
    for (point, elapsed) in [
        ("parent-a", 90_000),
        ("child", 99_000),
        ("parent-b", 90_100),
    ] {
        let name = format!("{point}.tsv");
        place.put(&name, &stream(elapsed));
        place.good(&["ingest", "case", "--point", point, &name]);
    }
    place
}

#[test]
fn a_report_without_sender_and_recipients_says_which_keys_are_missing() {
    let place = ingested();
    place.refused(
        &["report", "case"],
        4,
        &["case.toml", "report.from", "report.to", "[change]"],
    );
    place.refused(
        &["report", "case", "--out", "mail.eml"],
        4,
        &["case.toml", "report.from"],
    );
}

#[test]
fn what_exists_already_is_not_overwritten() {
    let place = ingested();
    fs::create_dir(place.root.path().join("taken")).unwrap();
    place.put("taken/mine", "mine");
    place.refused(
        &["bundle", "case", "--out", "taken"],
        4,
        &["taken", "exists"],
    );
    place.refused(&["demo", "--out", "taken"], 4, &["taken", "--out"]);
    place.refused(&["new", "case"], 4, &["case/case.toml", "exists"]);
    place.good(&["bundle", "case"]);
    place.refused(&["bundle", "case"], 4, &["case/bundle/x", "exists"]);
}

#[test]
fn what_is_no_bundle_is_rejected_in_one_line() {
    let place = Place::new(CASE);
    fs::create_dir(place.root.path().join("empty")).unwrap();
    for folder in ["empty", "case"] {
        for command in ["verify", "audit"] {
            place.refused(&[command, folder], 2, &[folder, "bagit.txt", "wanted"]);
        }
    }
    place.refused(
        &["verify", "nosuch"],
        4,
        &["nosuch", "No such file", "check the path"],
    );
}

#[test]
fn what_cannot_be_audited_is_named_with_what_can() {
    let place = Place::new(CASE);
    place.refused(
        &["audit", "case/case.toml"],
        4,
        &["case/case.toml", "REPO@COMMIT"],
    );
    place.refused(&["audit", "nosuch"], 4, &["nosuch", "REPO@COMMIT"]);
    place.refused(&["audit", "case@0123abc"], 4, &["0123abc", "40"]);
    place.refused(&["audit", "case@HEAD"], 4, &["HEAD", "40"]);
    let full = "0123456789012345678901234567890123456789";
    place.refused(&["audit", &format!("nosuch@{full}")], 4, &["nosuch"]);
}

#[test]
fn usage_errors_say_so_with_code_4() {
    let place = Place::new(CASE);
    let cases: [&[&str]; 7] = [
        &[],
        &["frobnicate"],
        &["run"],
        &["run", "case", "--points", "x"],
        &["--format", "yaml", "run", "case"],
        &["new", "other", "--tree", "t"],
        &["workload", "show"],
    ];
    for arguments in cases {
        let before = snapshot(place.root.path());
        let output = place.command(arguments).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {message}");
        assert!(message.contains("Usage") || message.contains("--help"));
        assert!(!message.contains("panicked"), "{message}");
        assert!(before == snapshot(place.root.path()), "{arguments:?}");
    }
    place.refused(
        &["workload", "show", "nosuch"],
        4,
        &["nosuch", "syscall-getpid"],
    );
    place.refused(
        &["workload", "emit", "nosuch"],
        4,
        &["nosuch", "syscall-getpid"],
    );
}

#[test]
fn without_a_compiler_the_message_says_how_to_go_on_and_nothing_is_written() {
    let place = Place::new(&CASE.replace("[\"formal\"]", "[\"formal\", \"standalone\"]"));
    place.refused_by(
        place
            .command(&["run", "case"])
            .env_remove("CC")
            .env("PATH", "/nonexistent"),
        4,
        &["`cc`", "C compiler", "standalone", "case.toml"],
    );
    place.refused_by(
        place.command(&["run", "case"]).env("CC", "/nonexistent/cc"),
        4,
        &["/nonexistent/cc", "C compiler"],
    );
    place.refused_by(
        place.command(&["run", "case"]).env("CC", "false"),
        4,
        &["`false`", "syscall-getpid.c"],
    );
}

#[test]
fn data_that_does_not_reach_stdout_is_an_error_and_a_reader_that_leaves_is_none() {
    let program = env!("CARGO_BIN_EXE_regbundle");
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Command::new(program)
        .args(["workload", "list"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_one_message(&String::from_utf8(output.stderr).unwrap());
    let mut gone = Command::new(program)
        .args(["workload", "list"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(gone.stdout.take());
    let output = gone.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}
