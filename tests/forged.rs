//! Trees whose digests are right and whose content is not: measured here, then forged.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use common::{Answer, read_tree, reseal, run, text, write_tree};
use regbundle::model::journal::{RecordKind, format_record};
use regbundle::model::tree::{Entry, Tree};

const CASE: &str = r#"format = 1
id = "small"
title = "a small run"
[scope]
statement = "getpid"
[plan]
order = ["parent", "child", "parent"]
warmup_rounds = 1
rounds = 5
primary = "syscall-getpid"
boots = "same"
point_seconds = 60
[engine.host]
[[workload]]
name = "syscall-getpid"
role = "target"
params = { calls = 1024 }
[gates]
canary_pct = 100.0
"#;

/// A tree measured on this host.
fn measured(folder: &Path) -> Tree {
    measured_case(folder, CASE)
}

/// The same of another case.
fn measured_case(folder: &Path, text: &str) -> Tree {
    let case = folder.join("case");
    fs::create_dir(&case).unwrap();
    fs::write(case.join("case.toml"), text).unwrap();
    run([Path::new("run"), &case]).expect(0);
    let out = folder.join("tree");
    run([Path::new("bundle"), &case, Path::new("--out"), &out]).expect(0);
    read_tree(&out)
}

/// Writes a changed tree with its manifests redone, and asks both readers.
fn ask(folder: &Path, name: &str, tree: &Tree) -> (Answer, Answer) {
    let out: PathBuf = folder.join(name);
    write_tree(&out, &reseal(tree));
    (
        run([Path::new("verify"), &out]),
        run([Path::new("audit"), &out]),
    )
}

/// Builds the journal's chain anew over other records.
fn rechained(tree: &Tree, change: impl Fn(&mut Vec<Vec<String>>)) -> Tree {
    rechained_from(tree, None, change)
}

/// The same, from another first hash.
fn rechained_from(
    tree: &Tree,
    seed: Option<String>,
    change: impl Fn(&mut Vec<Vec<String>>),
) -> Tree {
    let mut tree = tree.clone();
    let path = tree
        .keys()
        .find(|path| path.starts_with("data/journal/"))
        .unwrap()
        .clone();
    let old = text(&tree, &path);
    let mut records: Vec<Vec<String>> = old
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect();
    let mut previous = seed.unwrap_or_else(|| records[0][records[0].len() - 2].clone());
    change(&mut records);
    let mut new = String::new();
    for (seq, record) in (0..).zip(&records) {
        let kind = [
            RecordKind::BootOpen,
            RecordKind::RowBegin,
            RecordKind::Row,
            RecordKind::RowAbort,
            RecordKind::Note,
            RecordKind::BootClose,
        ]
        .into_iter()
        .find(|kind| kind.word() == record[1])
        .unwrap();
        let fields = &record[3..record.len() - 2];
        let (line, hash) = format_record(seq, kind, record[2].parse().unwrap(), fields, &previous);
        new.push_str(&line);
        previous = hash;
    }
    tree.insert(path, Entry::text(new));
    tree
}

#[test]
fn the_measured_tree_and_its_chain_built_anew_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let tree = measured(folder.path());
    let (verify, audit) = ask(folder.path(), "same", &rechained(&tree, |_| {}));
    verify.expect(0);
    audit.expect(0);
}

#[test]
fn each_forgery_under_right_digests_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tree = measured(folder);

    let mut other_source = tree.clone();
    let source = "data/reproducer/syscall-getpid.c";
    let changed = text(&tree, source).replacen("getpid", "getppid", 1);
    other_source.insert(source.to_owned(), Entry::text(changed));
    let (verify, audit) = ask(folder, "source", &other_source);
    assert!(verify.expect(1).said().contains(source));
    assert!(audit.expect(1).said().contains(source));

    // A format this version does not know is no way around the comparison of texts.
    let mut other_format = tree.clone();
    let tool = text(&tree, "data/tool.json");
    let changed = tool.replace("\"template_format\": 1", "\"template_format\": 2");
    assert_ne!(tool, changed);
    other_format.insert("data/tool.json".to_owned(), Entry::text(changed));
    let (verify, audit) = ask(folder, "format", &other_format);
    assert!(verify.expect(2).said().contains("tool.json"));
    assert!(audit.expect(2).said().contains("tool.json"));

    // A row taken out, with its chain: the closing record counts the rows.
    let fewer = rechained(&tree, |records| {
        let row = records
            .iter()
            .rposition(|record| record[1] == "row")
            .unwrap();
        records.remove(row);
    });
    let (verify, audit) = ask(folder, "fewer", &fewer);
    assert!(verify.expect(2).said().contains("boot-close"));
    assert!(audit.expect(2).said().contains("boot-close"));

    // A row after the closing record.
    let late = rechained(&tree, |records| {
        let last = records.last().unwrap()[2].clone();
        let mut row = records
            .iter()
            .find(|record| record[1] == "row")
            .unwrap()
            .clone();
        row[2] = last;
        records.push(row);
    });
    let (verify, audit) = ask(folder, "late", &late);
    assert!(verify.expect(2).said().contains("after boot-close"));
    assert!(audit.expect(2).said().contains("after boot-close"));

    // A point that says it was ingested stays a point of the runner.
    let relabelled = rechained(&tree, |records| {
        for record in records {
            if record[3] == "point-end" {
                record[5] = "ingested".to_owned();
            }
        }
    });
    let (verify, _) = ask(folder, "relabelled", &relabelled);
    assert!(verify.expect(1).said().contains("boot.json"));

    // A second boot inside one file.
    let two_boots = rechained(&tree, |records| {
        let at = records.len() / 2;
        let mut open = records[0].clone();
        open[2].clone_from(&records[at][2]);
        records.insert(at, open);
    });
    let (verify, audit) = ask(folder, "boots", &two_boots);
    assert!(verify.expect(2).said().contains("second boot-open"));
    audit.expect(2);

    // Another plan than the case makes; the chain is built anew over its digest.
    let mut other_plan = tree.clone();
    let plan = text(&tree, "data/plan.json").replace("\"drift_pct\": 2.0", "\"drift_pct\": 90.0");
    let seed = regbundle::model::digest::sha256_hex_128(plan.as_bytes());
    other_plan.insert("data/plan.json".to_owned(), Entry::text(plan));
    let other_plan = rechained_from(&other_plan, Some(seed), |_| {});
    let (verify, audit) = ask(folder, "plan", &other_plan);
    assert!(verify.expect(2).said().contains("plan.json"));
    assert!(audit.expect(2).said().contains("plan.json"));

    // A claim nobody made, whose figure does follow from the lines it names.
    let mut invented = tree.clone();
    let claims = text(&tree, "claims.json");
    let mut value: serde_json::Value = serde_json::from_str(&claims).unwrap();
    let mut extra = value["claims"][0].clone();
    extra["id"] = "c999".into();
    extra["statement"] = "slowdown of every application".into();
    value["claims"].as_array_mut().unwrap().push(extra);
    invented.insert("claims.json".to_owned(), Entry::text(value.to_string()));
    let (verify, audit) = ask(folder, "invented", &invented);
    verify.expect(1);
    assert!(
        audit
            .expect(1)
            .said()
            .contains("CONTRADICTED claims.json c999")
    );

    // Another time in a row, with its chain: every derived file says something else.
    let faster = rechained(&tree, |records| {
        let row = records
            .iter_mut()
            .rfind(|record| record[1] == "row" && record[4] == "measured")
            .unwrap();
        row[7] = "1".to_owned();
    });
    let (verify, audit) = ask(folder, "faster", &faster);
    assert!(verify.expect(1).said().contains("rows.tsv"));
    assert!(audit.expect(1).said().contains("CONTRADICTED"));
}

#[test]
fn the_plan_the_journals_name_and_its_times_are_those_the_writer_makes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tree = measured(folder);

    // The commits a case is about are part of the plan, too.
    let mut other_change = tree.clone();
    let case = format!(
        "{}\n[change]\nparent = \"{}\"\nchild = \"{}\"\nsubject = \"x: y\"\n",
        text(&tree, "data/case.toml"),
        "1".repeat(40),
        "2".repeat(40)
    );
    other_change.insert("data/case.toml".to_owned(), Entry::text(case));
    let (verify, audit) = ask(folder, "change", &other_change);
    assert!(verify.expect(2).said().contains("plan.json"));
    audit.expect(2);

    // Records that go back in time, and points in another order than the plan's.
    let back = rechained(&tree, |records| records[2][2] = "1".to_owned());
    let (verify, _) = ask(folder, "back", &back);
    assert!(verify.expect(2).said().contains("after boot"));
    let swapped = rechained(&tree, |records| {
        for record in records.iter_mut().filter(|record| record.len() > 4) {
            record[4] = match record[4].as_str() {
                "parent-a" => "parent-b".to_owned(),
                "parent-b" => "parent-a".to_owned(),
                _ => continue,
            };
        }
    });
    let (verify, _) = ask(folder, "swapped", &swapped);
    assert!(
        verify
            .expect(2)
            .said()
            .contains("the points in the order of the plan")
    );

    // A journal file under a name that the writer does not make.
    let mut renamed = tree.clone();
    let path = tree
        .keys()
        .find(|path| path.starts_with("data/journal/"))
        .unwrap();
    let journal = renamed.remove(path).unwrap();
    renamed.insert("data/journal/0001-Look_HERE.tsv".to_owned(), journal);
    let (verify, _) = ask(folder, "renamed", &renamed);
    assert!(verify.expect(2).said().contains("0001-"));
}

#[test]
fn files_that_no_claim_stands_in_are_compared_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tree = measured(folder);

    // Files that no claim stands in, but that people read.
    for (name, path, from, to, code) in [
        (
            "identifier",
            "bag-info.txt",
            "External-Identifier: small",
            "External-Identifier: other",
            1,
        ),
        (
            "agent",
            "bag-info.txt",
            "Bag-Software-Agent: regbundle",
            "Bag-Software-Agent: trusted",
            1,
        ),
        (
            "writer",
            "claims.json",
            "\"tool\": \"regbundle ",
            "\"tool\": \"trusted ",
            1,
        ),
        (
            "tool",
            "data/tool.json",
            "\"tool\": \"regbundle ",
            "\"tool\": \"[regbundle](http://x) ",
            2,
        ),
        (
            "date",
            "data/tool.json",
            "\"date_seconds\": ",
            "\"date_seconds\": 99999999",
            2,
        ),
    ] {
        let mut other = tree.clone();
        let changed = text(&tree, path).replacen(from, to, 1);
        assert_ne!(changed, text(&tree, path), "{name}");
        other.insert(path.to_owned(), Entry::text(changed));
        let (verify, audit) = ask(folder, name, &other);
        assert!(verify.expect(code).said().contains(path), "{name}");
        assert!(audit.expect(code).said().contains(path), "{name}");
    }
    ask(folder, "mode", &tree);
    let readme = folder.join("mode/README.md");
    fs::set_permissions(&readme, fs::Permissions::from_mode(0o755)).unwrap();
    let verify = run([Path::new("verify"), &folder.join("mode")]);
    let audit = run([Path::new("audit"), &folder.join("mode")]);
    assert!(verify.expect(1).said().contains("executable"));
    assert!(audit.expect(1).said().contains("executable"));
}

#[test]
fn every_file_of_the_reproducer_is_the_one_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tree = measured(folder);
    for path in ["data/reproducer/Makefile", "data/reproducer/README.md"] {
        let mut other = tree.clone();
        let changed = format!("{}\n# more\n", text(&tree, path));
        other.insert(path.to_owned(), Entry::text(changed));
        let name = path.rsplit('/').next().unwrap();
        let (verify, audit) = ask(folder, name, &other);
        assert!(verify.expect(1).said().contains(path));
        assert!(audit.expect(1).said().contains(path));
    }
    // Rows of the built-in worker name no C source: the file is compared all the same.
    let formal = folder.join("formal");
    fs::create_dir(&formal).unwrap();
    let case = CASE.replace(
        "role = \"target\"",
        "role = \"target\"\nimplementations = [\"formal\"]",
    );
    let tree = measured_case(&formal, &case);
    let path = "data/reproducer/syscall-getpid.c";
    let mut other = tree.clone();
    let changed = text(&tree, path).replacen("getpid", "getppid", 1);
    other.insert(path.to_owned(), Entry::text(changed));
    let (verify, audit) = ask(&formal, "source", &other);
    assert!(verify.expect(1).said().contains(path));
    assert!(audit.expect(1).said().contains(path));

    // Another version's files cannot be made again; they are not called right.
    let mut elsewhere = tree;
    let version = regbundle::TOOL;
    for path in ["data/tool.json", "bag-info.txt"] {
        let changed = text(&elsewhere, path).replace(version, "regbundle 9.9.9");
        elsewhere.insert(path.to_owned(), Entry::text(changed));
    }
    let (verify, audit) = ask(&formal, "elsewhere", &elsewhere);
    let (verify, audit) = (verify.said(), audit.said());
    assert!(verify.contains(&format!("NOT-CHECKED {path}")), "{verify}");
    assert!(audit.contains("NOT-CHECKABLE"), "{audit}");
}

#[test]
fn files_that_nothing_accounts_for_and_ids_that_stand_twice_are_contradicted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tree = measured(folder);
    for path in [
        "RESULTS.md",
        "data/ingested/0123456789ab-table.tsv",
        "data/reproducer/evil.c",
        "data/points/extra.tsv",
    ] {
        let mut other = tree.clone();
        other.insert(path.to_owned(), Entry::text("x\n"));
        let (verify, audit) = ask(folder, &path.replace('/', "-"), &other);
        assert!(verify.expect(1).said().contains(path));
        assert!(audit.expect(1).said().contains(path));
    }
    let mut twice = tree.clone();
    let mut value: serde_json::Value = serde_json::from_str(&text(&tree, "claims.json")).unwrap();
    let again = value["claims"][0].clone();
    value["claims"].as_array_mut().unwrap().push(again);
    twice.insert("claims.json".to_owned(), Entry::text(value.to_string()));
    let (verify, audit) = ask(folder, "twice", &twice);
    verify.expect(1);
    assert!(audit.expect(1).said().contains("the id c1 stands twice"));
}
