//! `run` of small cases on this host: to the end, killed, cut off, refused.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops at its first surprise, and says what it skipped"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use regbundle::input::evidence::{ChainEnd, fold};
use regbundle::judge::analyze;
use regbundle::model::evidence::Evidence;
use regbundle::model::row::Phase;
use regbundle::model::tree::{Entry, Tree};
use tempfile::TempDir;

const ROUNDS: usize = 5;
const LABELS: [&str; 3] = ["parent-a", "child", "parent-b"];

fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    text.trim().to_owned()
}

/// A case of the smallest workload. The canary may double: noise is not what is tested.
fn case_text(boots: &str, implementations: &str, expected: &str) -> String {
    format!(
        r#"format = 1
id = "small"
title = "a small run"
[scope]
statement = "getpid"
[plan]
order = ["parent", "child", "parent"]
warmup_rounds = 1
rounds = {ROUNDS}
primary = "syscall-getpid"
boots = "{boots}"
point_seconds = 60
[engine.host.kernels.parent]
release = "{expected}"
[engine.host.kernels.child]
release = "{expected}"
[[workload]]
name = "syscall-getpid"
role = "target"
implementations = [{implementations}]
params = {{ calls = 1024 }}
[gates]
canary_pct = 100.0
"#
    )
}

const BOTH: &str = r#""formal", "standalone""#;
const FORMAL: &str = r#""formal""#;

fn case(boots: &str, implementations: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = case_text(boots, implementations, &release());
    fs::write(folder.path().join("case.toml"), text).unwrap();
    folder
}

fn regbundle(arguments: &[&str], case: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regbundle"))
        .args(arguments)
        .arg(case)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn run(case: &Path) -> serde_json::Value {
    let output = regbundle(&["--format", "json", "run"], case);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The files evidence follows from.
fn files(case: &Path) -> Tree {
    let mut tree = Tree::new();
    if let Ok(plan) = fs::read(case.join("plan.json")) {
        tree.insert("plan.json".to_owned(), Entry::text(plan));
    }
    for (name, bytes) in journals(case) {
        tree.insert(format!("journal/{name}"), Entry::text(bytes));
    }
    tree
}

fn journals(case: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(case.join("journal")) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn evidence(case: &Path) -> (Evidence, ChainEnd) {
    fold(&files(case)).unwrap()
}

fn complete_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
}

/// Complete lines of rows, by the text of the journal alone.
fn row_lines(journals: &BTreeMap<String, Vec<u8>>) -> usize {
    journals
        .values()
        .flat_map(|bytes| complete_lines(bytes))
        .filter(|line| line.split(|byte| *byte == b'\t').nth(1) == Some(b"row".as_slice()))
        .count()
}

fn rows_of(evidence: &Evidence) -> usize {
    evidence
        .points
        .iter()
        .flat_map(|point| &point.attempts)
        .flat_map(|attempt| &attempt.segments)
        .map(|segment| segment.rows.len())
        .sum()
}

/// Every planned point once, each round once, and no fewer rounds than planned.
///
/// Rounds as they were measured, not as they count: on a noisy host the canary may take some
/// out of the statistics afterwards, when a later point lowers its floor.
fn assert_each_point_once(evidence: &Evidence, implementations: usize) {
    let analysis = analyze(evidence);
    assert_eq!(analysis.comparisons.len(), implementations);
    for comparison in &analysis.comparisons {
        let labels: Vec<&str> = comparison
            .points
            .iter()
            .map(|point| point.label.as_str())
            .collect();
        assert_eq!(labels, LABELS);
    }
    assert_eq!(evidence.points.len(), LABELS.len());
    for point in &evidence.points {
        let attempt = point.counted().unwrap();
        let mut measured: BTreeMap<&str, usize> = BTreeMap::new();
        for segment in &attempt.segments {
            let rounds: Vec<u64> = segment
                .rows
                .iter()
                .filter(|row| row.phase == Phase::Measured)
                .map(|row| row.round)
                .collect();
            let each_once: Vec<u64> = (0..).take(rounds.len()).collect();
            assert_eq!(rounds, each_once, "{}", point.label);
            *measured.entry(segment.implementation.word()).or_default() += rounds.len();
        }
        assert_eq!(measured.len(), implementations, "{}", point.label);
        for (implementation, rounds) in measured {
            assert!(
                rounds >= ROUNDS,
                "{} {implementation}: {rounds}",
                point.label
            );
        }
    }
}

#[test]
fn a_case_in_one_boot_runs_to_its_end_and_once_only() {
    let folder = case("same", BOTH);
    let report = run(folder.path());
    let measured: Vec<&str> = report["measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["point"].as_str().unwrap())
        .collect();
    assert_eq!(measured, LABELS);
    assert_each_point_once(&evidence(folder.path()).0, 2);

    let analysis = regbundle(&["--format", "json", "analyze"], folder.path());
    // Points of one boot: the answer is no, and says which gate.
    assert_eq!(analysis.status.code(), Some(1), "{}", said(&analysis));
    let json: serde_json::Value = serde_json::from_slice(&analysis.stdout).unwrap();
    assert_eq!(json["verdict"], "INVALID");
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 2);

    let before = journals(folder.path());
    let again = run(folder.path());
    assert_eq!(again["measured"].as_array().unwrap().len(), 0);
    assert!(again["next"].is_null());
    assert_eq!(journals(folder.path()), before);
}

#[test]
fn the_number_of_points_can_be_limited_and_the_next_run_goes_on() {
    let folder = case("same", FORMAL);
    let first = regbundle(&["--format", "json", "run", "--points", "1"], folder.path());
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    let first: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(first["next"]["point"], "child");
    assert_eq!(run(folder.path())["measured"].as_array().unwrap().len(), 2);
    assert_each_point_once(&evidence(folder.path()).0, 1);
}

/// Runs and kills as soon as this many new journal lines are on the disk; says
/// whether the run was still going.
fn run_and_kill(case: &Path, lines: usize) -> bool {
    let count = || -> usize {
        journals(case)
            .values()
            .map(|bytes| complete_lines(bytes).count())
            .sum()
    };
    let before = count();
    let mut child = Command::new(env!("CARGO_BIN_EXE_regbundle"))
        .arg("run")
        .arg(case)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if count() >= before + lines {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn a_run_killed_at_ten_moments_loses_no_row_and_counts_none_twice() {
    let folder = case("same", BOTH);
    let case = folder.path();
    let mut kills = 0;
    let mut known = BTreeMap::new();
    // One line is the opening, two the point; a point has about 24 lines.
    for lines in [1, 2, 3, 4, 7, 10, 13, 17, 21, 30] {
        kills += usize::from(run_and_kill(case, lines));
        let now = journals(case);
        for (name, bytes) in &known {
            assert_eq!(now.get(name), Some(bytes), "{name} changed afterwards");
        }
        let (evidence, _) = evidence(case);
        assert_eq!(rows_of(&evidence), row_lines(&now));
        known = now;
    }
    assert!(
        kills >= 8,
        "{kills} of 10 runs were still going when killed"
    );
    run(case);

    let now = journals(case);
    for (name, bytes) in &known {
        assert_eq!(now.get(name), Some(bytes), "{name} changed afterwards");
    }
    let (evidence, _) = evidence(case);
    assert_eq!(rows_of(&evidence), row_lines(&now));
    assert_each_point_once(&evidence, 2);
    let begun = now
        .values()
        .flat_map(|bytes| complete_lines(bytes))
        .filter(|line| line.windows(13).any(|part| part == b"\tpoint-begin\t"))
        .count();
    let mut attempts = 0;
    for point in &evidence.points {
        for (number, attempt) in (1..).zip(&point.attempts) {
            assert_eq!(attempt.number, number);
            let is_last = point.attempts.len() == usize::try_from(number).unwrap();
            assert_eq!(attempt.finished, is_last, "{} {number}", point.label);
        }
        attempts += point.attempts.len();
    }
    assert_eq!(attempts, begun);
    assert!(attempts > LABELS.len(), "a kill interrupted no point");
    assert_eq!(run(case)["measured"].as_array().unwrap().len(), 0);
}

#[test]
fn a_plan_of_distinct_boots_gets_one_point_from_this_boot() {
    let folder = case("distinct", FORMAL);
    let report = run(folder.path());
    assert_eq!(report["measured"].as_array().unwrap().len(), 1);
    assert_eq!(report["next"]["point"], "child");
    let before = journals(folder.path());
    let refused = regbundle(&["run"], folder.path());
    assert_eq!(refused.status.code(), Some(4));
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let message = said(&refused);
    for part in [boot.trim(), "parent-a", "child", &release()] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(journals(folder.path()), before);
}

#[test]
fn after_a_kill_a_plan_of_distinct_boots_asks_for_a_fresh_boot_of_the_same_point() {
    let folder = case("distinct", FORMAL);
    assert!(run_and_kill(folder.path(), 4), "the run ended by itself");
    let before = journals(folder.path());
    let refused = regbundle(&["run"], folder.path());
    assert_eq!(refused.status.code(), Some(4));
    let message = said(&refused);
    let wanted = format!("reboot into the parent kernel {}", release());
    for part in ["attempt 1 at parent-a (unfinished)", wanted.as_str()] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(journals(folder.path()), before);
}

#[test]
fn another_kernel_than_the_plan_expects_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = case_text("same", FORMAL, "9.9.9-nosuch");
    fs::write(folder.path().join("case.toml"), text).unwrap();
    let refused = regbundle(&["run"], folder.path());
    assert_eq!(refused.status.code(), Some(4));
    let message = said(&refused);
    assert!(
        message.contains("9.9.9-nosuch") && message.contains(&release()),
        "{message}"
    );
    assert!(!folder.path().join("plan.json").exists());
    assert!(!folder.path().join("journal").exists());
}

#[test]
fn a_threshold_changed_after_the_plan_is_refused_by_its_key() {
    let folder = case("same", FORMAL);
    run(folder.path());
    let path = folder.path().join("case.toml");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, key) in [
        (
            "canary_pct = 100.0",
            "canary_pct = 100.0\ndrift_pct = 7.5",
            "gates.drift_pct",
        ),
        ("rounds = 5\n", "rounds = 6\n", "plan.rounds"),
        ("calls = 1024", "calls = 2048", "workload"),
    ] {
        assert!(text.contains(from));
        fs::write(&path, text.replace(from, to)).unwrap();
        for command in ["run", "analyze", "check", "bundle"] {
            let refused = regbundle(&[command], folder.path());
            assert_eq!(refused.status.code(), Some(4), "{command}");
            let message = said(&refused);
            assert!(message.contains(key), "{command}: {message}");
        }
    }
    assert!(!folder.path().join("bundle").exists());
}

#[test]
fn a_journal_cut_at_any_byte_keeps_exactly_its_complete_rows() {
    let folder = case("same", FORMAL);
    run(folder.path());
    let (name, whole) = journals(folder.path()).pop_first().unwrap();
    let mut files = files(folder.path());
    let path = format!("journal/{name}");
    for length in whole.len().saturating_sub(2000)..=whole.len() {
        for zeros in [0, 512] {
            let mut cut = whole[..length].to_vec();
            cut.resize(length + zeros, 0);
            let rows = row_lines(&BTreeMap::from([(name.clone(), cut.clone())]));
            let complete: usize = complete_lines(&cut).map(<[u8]>::len).sum();
            let torn = cut.len() - complete;
            files.insert(path.clone(), Entry::text(cut));
            let (evidence, end) = fold(&files).unwrap();
            assert_eq!(rows_of(&evidence), rows, "cut at {length}, {zeros} zeros");
            let expected = match torn {
                0 => Vec::new(),
                _ => vec![format!("{path}: {torn} bytes at {complete}")],
            };
            assert_eq!(end.torn, expected);
        }
    }
}

#[test]
fn the_run_after_a_torn_write_says_so_and_goes_on() {
    let folder = case("same", FORMAL);
    run(folder.path());
    let (name, whole) = journals(folder.path()).pop_first().unwrap();
    let journal = folder.path().join("journal").join(&name);
    for (lost, zeros) in [(1, 0), (40, 0), (700, 0), (700, 4096), (1900, 3)] {
        for later in journals(folder.path()).into_keys().skip(1) {
            fs::remove_file(folder.path().join("journal").join(later)).unwrap();
        }
        let mut cut = whole[..whole.len() - lost].to_vec();
        cut.resize(cut.len() + zeros, 0);
        fs::write(&journal, &cut).unwrap();
        let complete: usize = complete_lines(&cut).map(<[u8]>::len).sum();
        let output = regbundle(&["run"], folder.path());
        let message = said(&output);
        assert_eq!(output.status.code(), Some(0), "{message}");
        let torn = format!("{name}: {} bytes at {complete}", cut.len() - complete);
        assert!(message.contains(&torn), "{torn}: {message}");
        // The torn file stays as it is; what follows is in the next one.
        assert_eq!(fs::read(&journal).unwrap(), cut);
        let (evidence, _) = evidence(folder.path());
        assert_each_point_once(&evidence, 1);
        assert_eq!(rows_of(&evidence), row_lines(&journals(folder.path())));
    }
}

/// Runs a shell script with mounts of its own; `None` where that is not permitted.
fn in_own_mounts(script: &str, case: &Path) -> Option<Output> {
    let namespace = |script: &str| {
        Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh"])
            .arg(env!("CARGO_BIN_EXE_regbundle"))
            .arg(case)
            .output()
    };
    match namespace("mount -t tmpfs none \"$2\"") {
        Ok(output) if output.status.success() => Some(namespace(script).unwrap()),
        _ => {
            eprintln!("skipped: no right to mount a file system here");
            None
        }
    }
}

#[test]
fn a_read_only_case_is_refused_with_its_path() {
    let folder = case("same", FORMAL);
    let script =
        "mount --bind \"$2\" \"$2\" && mount -o remount,bind,ro \"$2\" && \"$1\" run \"$2\"";
    let Some(output) = in_own_mounts(script, folder.path()) else {
        return;
    };
    let message = said(&output);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(
        message.contains(folder.path().to_str().unwrap()) && message.contains("Read-only"),
        "{message}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_keeps_the_rows_so_far_and_the_run_goes_on_after_room_is_made() {
    let folder = case("same", FORMAL);
    let text = fs::read_to_string(folder.path().join("case.toml")).unwrap();
    let text = text.replace("rounds = 5\n", "rounds = 100\n");
    fs::write(folder.path().join("case.toml"), text).unwrap();
    let kept = tempfile::tempdir().unwrap();
    let script = format!(
        r#"cp "$2/case.toml" {kept}/ && mount -t tmpfs -o size=300k none "$2" && cp {kept}/case.toml "$2/" || exit 99
head -c 20480 /dev/zero > "$2/room"; cat /dev/zero > "$2/filler" 2>/dev/null; rm "$2/room"
"$1" run "$2" 2> {kept}/full; echo $? > {kept}/code
cp -r "$2/journal" "$2/plan.json" {kept}/
rm "$2/filler"
"$1" run "$2" 2>&1 || exit 98
mkdir {kept}/after && cp -r "$2/journal" "$2/plan.json" {kept}/after/"#,
        kept = kept.path().display()
    );
    let Some(output) = in_own_mounts(&script, folder.path()) else {
        return;
    };
    let all = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    let message = fs::read_to_string(kept.path().join("full")).unwrap();
    let code = fs::read_to_string(kept.path().join("code")).unwrap();
    assert_eq!(code.trim(), "4", "{message}");
    assert!(message.contains("journal/0001-"), "{message}");
    assert!(message.contains("No space left"), "{message}");
    let before = journals(kept.path());
    assert!(row_lines(&before) > 0, "{message}");
    let after = journals(&kept.path().join("after"));
    for (name, bytes) in &before {
        assert_eq!(after.get(name), Some(bytes));
    }
    let (evidence, end) = evidence(&kept.path().join("after"));
    assert_eq!(rows_of(&evidence), row_lines(&after));
    assert_eq!(evidence.points[0].attempts.len(), 2);
    assert!(
        evidence
            .points
            .iter()
            .all(|point| point.counted().is_some())
    );
    assert!(end.torn.len() <= 1, "{:?}", end.torn);
}

/// A program of somebody's: the row protocol in shell, with a constant canary.
const EXTERNAL: &str = r##"#!/bin/sh
printf '#regbundle-rows 1 my-bench standalone ns\n'
printf 'phase\tround\tops\telapsed\tcpu_begin\tcpu_end\tnvcsw\tnivcsw\tminflt\trun_delay_ns\tcanary_before\tcanary_after\tdone_ok\tstatus\n'
cpu=0 warmup=0 size=0
while [ $# -gt 0 ]; do
	case $1 in
	--cpu) cpu=$2; shift ;;
	--warmup) warmup=$2; shift ;;
	--size) size=$2; shift ;;
	--rounds) shift ;;
	esac
	shift
done
n=0
while :; do
	phase=measured round=$((n - warmup))
	[ $n -lt $warmup ] && phase=warmup round=$n
	printf '%s\t%d\t%d\t%d\t%d\t%d\t0\t0\t0\t0\t40000\t40000\t%d\tpass\n' \
		$phase $round $size $((size * 100 + n % 3)) $cpu $cpu $size
	n=$((n + 1))
	byte=$(dd bs=1 count=1 2>/dev/null)
	[ "$byte" = q ] && break
done
printf '#end %d\n' $n
"##;

#[test]
fn an_external_command_that_speaks_the_row_protocol_is_measured_and_bundled() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = case("same", BOTH);
    let text = fs::read_to_string(folder.path().join("case.toml")).unwrap();
    let text = text
        .replace("primary = \"syscall-getpid\"", "primary = \"my-bench\"")
        .replace(
            "name = \"syscall-getpid\"",
            "name = \"my-bench\"\ncommand = [\"./bench.sh\"]",
        )
        .replace(BOTH, "\"standalone\"")
        .replace("calls = 1024", "size = 64");
    fs::write(folder.path().join("case.toml"), text).unwrap();
    let program = folder.path().join("bench.sh");
    fs::write(&program, EXTERNAL).unwrap();
    // Not executable yet: an error that names it, and nothing is written.
    let refused = regbundle(&["run"], folder.path());
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains("bench.sh"), "{}", said(&refused));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let out = tempfile::tempdir().unwrap();
    let report = run(folder.path());
    assert_eq!(report["measured"].as_array().unwrap().len(), 3);
    let tree = out.path().join("tree");
    let bundled = Command::new(env!("CARGO_BIN_EXE_regbundle"))
        .arg("bundle")
        .arg(folder.path())
        .arg("--out")
        .arg(&tree)
        .output()
        .unwrap();
    assert_eq!(bundled.status.code(), Some(0), "{}", said(&bundled));
    for command in ["verify", "audit"] {
        let answer = regbundle(&[command], &tree);
        assert_eq!(answer.status.code(), Some(0), "{}", said(&answer));
    }
    let readme = fs::read_to_string(tree.join("data/reproducer/README.md")).unwrap();
    assert!(
        readme.contains("`my-bench` was measured by a program of the reporter's"),
        "{readme}"
    );
    assert!(!tree.join("data/reproducer/my-bench.c").exists());
    let rows = fs::read_to_string(tree.join("data/points/2-child/rows.tsv")).unwrap();
    assert!(rows.contains("done_ok=64"), "{rows}");
}
