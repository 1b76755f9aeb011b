//! What reads bytes of others: any bytes and any change to valid ones give an answer
//! or an error with its place, never a panic; what was written is read back.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::sample::Index;
use regbundle::TOOL;
use regbundle::audit::own_tree::audit_tree;
use regbundle::bundle::assemble::{bag_info, derive, inputs};
use regbundle::bundle::{check, seal};
use regbundle::input::case::{plan_of, read_case};
use regbundle::input::evidence::{fold, read_plan};
use regbundle::input::ingest::{IngestNote, interpret};
use regbundle::input::rows::read_stream;
use regbundle::input::table::Table;
use regbundle::model::case::{Case, TableMap};
use regbundle::model::digest::{sha256_hex, sha256_hex_128};
use regbundle::model::identity::BootIdentity;
use regbundle::model::journal::{RecordKind, format_record, read_journal};
use regbundle::model::tree::{Entry, Tree};
use regbundle::render::tsv::push_line;
use regbundle::workload::parameters::Parameters;
use regbundle::workload::registry;

const CASE: &str = r#"format = 1
id = "x"
title = "getpid got slower"
question = "is this expected?"
[scope]
statement = "getpid"
not_claimed = ["anything else"]
[change]
parent = "816095894c0f44aaba4372d92c874121af687596"
child = "6e0d71c288fdcf5866f5d0c6cde850a091cc3c55"
subject = "a: b"
[plan]
order = ["parent", "child", "parent"]
warmup_rounds = 0
rounds = 2
primary = "syscall-getpid"
[engine.host.kernels.parent]
release = "6.1"
[[workload]]
name = "syscall-getpid"
role = "target"
implementations = ["formal"]
params = { calls = 1024 }
[machine]
cpu = 1
[gates]
drift_pct = 2.5
[report]
to = ["A <a@example.org>"]
in_reply_to = "<m@example.org>"
[[table]]
file = "t.tsv"
kind = "rows"
workload = "syscall-getpid"
columns = { point = "slot", implementation = "who", round = "round", ops = "calls", elapsed = "ns", status = "ok" }
select = { site = "here" }
status_pass = "1"
"#;

const TABLE: &str = "site\tslot\twho\tround\tcalls\tns\tok\nhere\tparent-a\tformal\t0\t1024\t90000\t1\nhere\tparent-a\tformal\t1\t1024\t90001\t1\nthere\tchild\tformal\t0\t1024\t99000\t1\n";

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

fn case() -> Case {
    read_case(CASE, "case.toml").unwrap()
}

fn note(path: &str, bytes: &[u8], point: Option<&str>, map: Option<TableMap>) -> IngestNote {
    IngestNote {
        path: path.to_owned(),
        sha256: sha256_hex(bytes),
        point: point.map(str::to_owned),
        implementation: None,
        map,
    }
}

/// The files of a case whose three points were ingested.
fn evidence_files() -> Tree {
    let mut plan = serde_json::to_string_pretty(&plan_of(&case(), "case.toml").unwrap()).unwrap();
    plan.push('\n');
    let mut previous = sha256_hex_128(plan.as_bytes());
    let mut tree = Tree::from([("plan.json".to_owned(), Entry::text(plan))]);
    let open = [
        "1".to_owned(),
        "1700000000".to_owned(),
        "regbundle".to_owned(),
        serde_json::to_string(&BootIdentity::default()).unwrap(),
        "-".to_owned(),
    ];
    let mut records = vec![(RecordKind::BootOpen, open.to_vec())];
    for (point, elapsed) in [
        ("parent-a", 90_000),
        ("child", 99_000),
        ("parent-b", 90_100),
    ] {
        let text = stream(elapsed);
        let path = format!("ingested/0-{point}.tsv");
        let note = note(&path, text.as_bytes(), Some(point), None);
        let fields = vec!["ingest".to_owned(), serde_json::to_string(&note).unwrap()];
        records.push((RecordKind::Note, fields));
        tree.insert(path, Entry::text(text));
    }
    let mut journal = String::new();
    for (seq, (kind, fields)) in (0..).zip(records) {
        let (line, hash) = format_record(seq, kind, 17, &fields, &previous);
        journal.push_str(&line);
        previous = hash;
    }
    tree.insert("journal/0001-ingest.tsv".to_owned(), Entry::text(journal));
    tree
}

/// A sealed tree of that case.
fn bundle() -> &'static Tree {
    static BUNDLE: OnceLock<Tree> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let files = evidence_files();
        let (evidence, _) = fold(&files).unwrap();
        let mut content = inputs(&case(), &evidence, &files, TOOL, 1_700_000_000).unwrap();
        let derived = derive(&content).unwrap();
        let info = bag_info(&derived);
        content.extend(derived.files);
        seal(&content, &info).unwrap()
    })
}

/// One change to bytes that were valid.
#[derive(Debug, Clone)]
enum Change {
    Flip(Index, u8),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    DoubleLine(Index),
    RemoveLine(Index),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let odd = prop_oneof![
        any::<Vec<u8>>(),
        prop::sample::select(vec![
            "\t",
            "\n",
            "\r\n",
            "\0",
            "-",
            "NaN",
            "1e9",
            "\u{202e}",
            "[",
            "{",
            "\"",
            "\\u0000",
            "99999999999999999999",
            "-1",
            "=",
            "\u{feff}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop_oneof![
        (any::<Index>(), 1_u8..).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (any::<Index>(), 1_usize..40).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<Index>(), odd).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        any::<Index>().prop_map(Change::DoubleLine),
        any::<Index>().prop_map(Change::RemoveLine),
        any::<Index>().prop_map(Change::Cut),
    ]
}

fn changed(valid: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match change {
            Change::Flip(at, bits) => bytes[at.index(length)] ^= bits,
            Change::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Change::Insert(at, new) => {
                let at = at.index(length);
                bytes.splice(at..at, new.iter().copied());
            }
            Change::DoubleLine(at) | Change::RemoveLine(at) => {
                let mut lines: Vec<Vec<u8>> = bytes
                    .split_inclusive(|byte| *byte == b'\n')
                    .map(<[u8]>::to_vec)
                    .collect();
                let at = at.index(lines.len());
                if matches!(change, Change::DoubleLine(_)) {
                    lines.insert(at, lines[at].clone());
                } else {
                    lines.remove(at);
                }
                bytes = lines.concat();
            }
            Change::Cut(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

/// Valid bytes with a few changes, or any bytes.
fn input(valid: impl Into<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let valid = valid.into();
    let some = prop::collection::vec(change(), 1..4);
    prop_oneof![
        4 => (Just(valid), some).prop_map(|(valid, changes)| changed(&valid, &changes)),
        1 => any::<Vec<u8>>(),
    ]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Text for a field: no tab, no line end, no NUL.
fn field() -> impl Strategy<Value = String> {
    "[^\t\n\r\0]{0,20}"
}

fn line() -> impl Strategy<Value = String> {
    "[A-Za-zäµ][A-Za-z0-9äµ\"'\\\\ #\\[\\]=:.,-]{0,40}"
}

fn kinds() -> impl Strategy<Value = RecordKind> {
    prop::sample::select(vec![
        RecordKind::BootOpen,
        RecordKind::RowBegin,
        RecordKind::Row,
        RecordKind::RowAbort,
        RecordKind::Note,
        RecordKind::BootClose,
    ])
}

fn cases() -> impl Strategy<Value = Case> {
    (
        (line(), line(), prop::option::of(line())),
        prop::collection::vec(line(), 0..3),
        (2_u32..1000, 0_u32..100, 1_u32..100),
        (0.001_f64..100.0, 0.001_f64..100.0),
        prop::option::of(0_u32..5000),
        prop::collection::btree_map(line(), line(), 0..4),
        1024_u64..10_000_000,
    )
        .prop_map(
            |((title, statement, question), not_claimed, rounds, gates, cpu, columns, calls)| {
                let mut case = case();
                (case.title, case.scope.statement, case.question) = (title, statement, question);
                case.scope.not_claimed = not_claimed;
                let plan = &mut case.plan;
                (plan.rounds, plan.warmup_rounds, plan.point_seconds) = rounds;
                (case.gates.signal_pct, case.gates.cv_pct) = gates;
                case.machine.cpu = cpu;
                case.table[0].columns = columns;
                case.workload[0].params.insert("calls".to_owned(), calls);
                case
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_text_is_a_case_or_an_error_that_names_the_file(bytes in input(CASE)) {
        match read_case(&text(&bytes), "case.toml") {
            // What is a case has a plan or says which parameter it is.
            Ok(case) => if let Err(error) = plan_of(&case, "case.toml") {
                prop_assert!(error.to_string().starts_with("case.toml"), "{}", error);
            },
            Err(error) => prop_assert!(error.to_string().starts_with("case.toml"), "{}", error),
        }
    }

    #[test]
    fn any_text_is_a_stream_or_an_error_that_names_the_line(bytes in input(stream(90_000))) {
        if let Err(error) = read_stream(&text(&bytes), "rows") {
            prop_assert!(error.to_string().starts_with("rows:"), "{}", error);
        }
    }

    #[test]
    fn any_bytes_are_a_table_or_an_error_that_names_the_file(bytes in input(TABLE)) {
        if let Err(error) = Table::read(&bytes, "table") {
            prop_assert!(error.to_string().starts_with("table:"), "{}", error);
        }
    }

    #[test]
    fn any_bytes_are_ingested_or_refused_by_name(
        table in input(TABLE), rows in input(stream(90_000)), column in ".{0,8}"
    ) {
        let plan = plan_of(&case(), "case.toml").unwrap();
        let mut map = case().table.remove(0);
        for (bytes, map) in [(&table, Some(map.clone())), (&rows, None)] {
            let note = note("ingested/0-f", bytes, Some("parent-a"), map);
            if let Err(error) = interpret(&note, bytes, &plan) {
                prop_assert!(error.to_string().contains("ingested/0-f"), "{}", error);
            }
        }
        map.columns.insert("elapsed".to_owned(), column);
        let note = note("ingested/0-f", TABLE.as_bytes(), None, Some(map));
        if let Err(error) = interpret(&note, TABLE.as_bytes(), &plan) {
            prop_assert!(error.to_string().contains("ingested/0-f"), "{}", error);
        }
    }

    #[test]
    fn any_bytes_are_a_journal_or_an_error_that_names_the_line(
        bytes in input(evidence_files()["journal/0001-ingest.tsv"].bytes.clone())
    ) {
        let plan = &evidence_files()["plan.json"].bytes;
        if let Err(error) = read_journal("journal", &bytes, &sha256_hex_128(plan)) {
            prop_assert!(error.to_string().starts_with("journal:"), "{}", error);
        }
    }

    #[test]
    fn records_of_a_valid_chain_that_make_no_sense_are_refused_with_their_line(
        records in prop::collection::vec((
            kinds(),
            prop::collection::vec(prop_oneof![
                prop::sample::select(vec![
                    "point-begin", "point-end", "row-end", "worker", "ingest", "parent-a",
                    "child", "syscall-getpid", "formal", "ns", "0", "1", "2", "{}", "{\"kernel\":{}}",
                    "phase round ops", "clean", "measured",
                ]).prop_map(str::to_owned),
                field(),
            ], 0..6),
        ), 1..12)
    ) {
        let mut files = evidence_files();
        let mut previous = sha256_hex_128(&files["plan.json"].bytes);
        let mut journal = String::new();
        for (seq, (kind, fields)) in (0..).zip(records) {
            let (line, hash) = format_record(seq, kind, 17, &fields, &previous);
            journal.push_str(&line);
            previous = hash;
        }
        files.insert("journal/0001-ingest.tsv".to_owned(), Entry::text(journal));
        if let Err(error) = fold(&files) {
            prop_assert!(error.to_string().contains("journal/0001-ingest.tsv:"), "{}", error);
        }
    }

    #[test]
    fn any_bytes_are_a_plan_or_an_error_that_names_the_file(
        bytes in input(evidence_files()["plan.json"].bytes.clone())
    ) {
        if let Err(error) = read_plan(&bytes) {
            prop_assert!(error.to_string().starts_with("plan.json"), "{}", error);
        }
    }

    #[test]
    fn any_claims_are_audited_or_refused_by_name(
        bytes in input(bundle()["claims.json"].bytes.clone())
    ) {
        let mut tree = bundle().clone();
        tree.insert("claims.json".to_owned(), Entry::text(bytes));
        if let Err(error) = audit_tree(&tree) {
            prop_assert!(error.to_string().contains("claims.json"), "{}", error);
        }
    }

    #[test]
    fn a_tree_with_any_change_has_a_finding_with_its_path(
        which in any::<Index>(), changes in prop::collection::vec(change(), 1..4)
    ) {
        let mut tree = bundle().clone();
        let path = tree.keys().nth(which.index(tree.len())).unwrap().clone();
        let before = tree[&path].bytes.clone();
        let after = changed(&before, &changes);
        tree.get_mut(&path).unwrap().bytes.clone_from(&after);
        let findings = check(&tree);
        prop_assert_eq!(findings.is_empty(), before == after, "{}", path);
        for finding in findings {
            prop_assert!(!finding.path.is_empty() && !finding.message.is_empty());
        }
    }

    #[test]
    fn a_tree_of_any_files_is_checked_without_a_panic(
        files in prop::collection::btree_map(".{0,20}", any::<Vec<u8>>(), 0..6)
    ) {
        let tree: Tree = files
            .into_iter()
            .map(|(path, bytes)| (path, Entry::text(bytes)))
            .collect();
        prop_assert!(!check(&tree).is_empty());
    }

    #[test]
    fn any_parameters_are_resolved_or_refused_by_name(
        given in prop::collection::btree_map(
            prop_oneof![Just("calls".to_owned()), Just("vectors".to_owned()), ".{0,8}"],
            any::<u64>(),
            0..4
        )
    ) {
        for declaration in registry::declarations() {
            match Parameters::resolve(declaration, &given) {
                Ok(resolved) => {
                    for (name, value) in &given {
                        prop_assert_eq!(resolved.get(name).unwrap(), *value);
                    }
                }
                Err(error) => {
                    let message = error.to_string();
                    prop_assert!(
                        given.keys().any(|name| message.contains(name.as_str())),
                        "{}", message
                    );
                }
            }
        }
    }

    #[test]
    fn records_written_are_the_records_read(
        records in prop::collection::vec(
            (kinds(), any::<u64>(), prop::collection::vec(field(), 0..8)), 0..10
        )
    ) {
        let seed = sha256_hex_128(b"plan");
        let mut previous = seed.clone();
        let mut bytes = String::new();
        for (seq, (kind, time, fields)) in (0..).zip(&records) {
            let (line, hash) = format_record(seq, *kind, *time, fields, &previous);
            bytes.push_str(&line);
            previous = hash;
        }
        let reading = read_journal("journal", bytes.as_bytes(), &seed).unwrap();
        prop_assert_eq!(reading.torn, None);
        let read: Vec<_> = reading
            .records
            .into_iter()
            .map(|record| (record.kind, record.boottime_ns, record.fields))
            .collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn tables_written_are_the_tables_read(
        names in prop::collection::btree_set("[a-z_]{1,8}", 2..5),
        cells in prop::collection::vec(prop::collection::vec(field(), 5), 0..8)
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let mut text = String::new();
        push_line(&mut text, &names);
        for record in &cells {
            push_line(&mut text, record.iter().take(names.len()));
        }
        let table = Table::read(text.as_bytes(), "table").unwrap();
        let read: Vec<Vec<String>> = table
            .records()
            .map(|record| names.iter().map(|name| record.cell(name).to_owned()).collect())
            .collect();
        let written: Vec<Vec<String>> = cells
            .iter()
            .map(|record| record.iter().take(names.len()).cloned().collect())
            .collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn cases_and_plans_written_are_the_ones_read(case in cases()) {
        let text = toml::to_string(&case).unwrap();
        let read = read_case(&text, "case.toml").unwrap();
        prop_assert_eq!(&read, &case);
        let plan = plan_of(&read, "case.toml").unwrap();
        let written = serde_json::to_vec_pretty(&plan).unwrap();
        prop_assert_eq!(read_plan(&written).unwrap(), plan);
    }
}

#[test]
fn the_sample_tree_is_intact_and_nothing_in_it_is_contradicted() {
    assert_eq!(check(bundle()), []);
    let audit = audit_tree(bundle()).unwrap();
    let counts: BTreeMap<&str, usize> =
        audit
            .answers
            .iter()
            .fold(BTreeMap::new(), |mut counts, answer| {
                *counts.entry(answer.verdict.word()).or_default() += 1;
                counts
            });
    assert!(counts["CONFIRMED"] > 10, "{counts:?}");
    assert!(!counts.contains_key("CONTRADICTED"), "{counts:?}");
}
