//! A published regression, ingested: the figures and the mail of its author.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{
    IMPLEMENTATIONS, POINTS, answer, changed_since, fresh_case, ingest, ingest_whole, one_line,
    published, published_case, regbundle, run, snapshot,
};
use serde_json::Value;

const CHILD: &str = "6e0d71c288fdcf5866f5d0c6cde850a091cc3c55";
/// Six decimals are published.
const PUBLISHED_STEP: f64 = 1e-6;
/// Figures of the author's mail and table, and the intervals computed with scipy.
const TEXTS: [&str; 19] = [
    "1045.687", "1128.704", "1042.755", "+8.091", "+8.080", "-0.280", "0.151", "+4.80", "+11.48",
    "1040.270", "1110.916", "1046.198", "+6.488", "+6.511", "+0.570", "0.147", "+0.03", "+13.36",
    "-0.55",
];

/// Ingests the rows point by point, then the other two tables.
fn ingested_in_parts(folder: &Path) -> std::path::PathBuf {
    let case = fresh_case(folder, |text| text);
    for point in POINTS {
        for implementation in IMPLEMENTATIONS {
            let arguments = ["--point", point, "--implementation", implementation];
            ingest(&case, &arguments, "measured-rounds.tsv").expect(0);
        }
    }
    ingest(&case, &[], "result-summary.tsv").expect(0);
    ingest(&case, &[], "build-identity.tsv").expect(0);
    case
}

fn analysis(case: &Path) -> Value {
    answer(
        regbundle()
            .arg("analyze")
            .arg(case)
            .args(["--format", "json"]),
    )
    .expect(0)
    .json()
}

/// `result-summary.tsv` by (implementation, profile), as its author published it.
fn published_summary() -> BTreeMap<(String, String), BTreeMap<String, String>> {
    let text = std::fs::read_to_string(published().join("result-summary.tsv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
    lines
        .map(|line| {
            let row: BTreeMap<String, String> = header
                .iter()
                .zip(line.split('\t'))
                .map(|(name, cell)| ((*name).to_owned(), cell.to_owned()))
                .collect();
            ((row["implementation"].clone(), row["profile"].clone()), row)
        })
        .collect()
}

fn comparison<'a>(analysis: &'a Value, workload: &str, implementation: &str) -> &'a Value {
    let comparisons = analysis["comparisons"].as_array().unwrap();
    comparisons
        .iter()
        .find(|one| one["workload"] == workload && one["implementation"] == implementation)
        .unwrap()
}

/// Both sides are rounded to six decimals, so they may be one step apart.
#[track_caller]
fn agrees(found: &Value, published: &str) {
    let found = found.as_f64().unwrap();
    let published: f64 = published.parse().unwrap();
    assert!(
        (found - published).abs() < 1.01 * PUBLISHED_STEP,
        "found {found}, published {published}"
    );
}

/// In two decimals, as a mail prints it.
#[track_caller]
fn rounds_to(found: &Value, text: &str) {
    assert_eq!(format!("{:+.2}", found.as_f64().unwrap()), text);
}

fn check_means(comparison: &Value, row: &BTreeMap<String, String>) {
    for (index, label) in POINTS.iter().enumerate() {
        let point = &comparison["points"][index];
        assert_eq!(point["label"], *label);
        let column = format!("{}_mean_ns_per_pair", label.replace('-', "_"));
        agrees(&point["mean"], &row[&column]);
    }
    agrees(&comparison["midpoint"], &row["parent_midpoint_ns_per_pair"]);
    agrees(
        &comparison["delta_pct"],
        &row["child_vs_parent_midpoint_percent"],
    );
    agrees(&comparison["drift_pct"], &row["parent_drift_percent"]);
}

#[test]
fn the_published_rows_give_the_published_figures() {
    let folder = tempfile::tempdir().unwrap();
    let analysis = analysis(&ingested_in_parts(folder.path()));
    assert_eq!(analysis["verdict"], "REGRESSION");
    assert_eq!(analysis["comparisons"].as_array().unwrap().len(), 3);
    let summary = published_summary();
    for (implementation, cv_factor, interval, cv_max) in [
        ("formal", 1.0, ["+4.80", "+11.48"], "0.151"),
        // The author's standalone table divides by n: the sample figure is larger.
        (
            "standalone",
            (14.0_f64 / 15.0).sqrt(),
            ["+0.03", "+13.36"],
            "0.147",
        ),
    ] {
        let found = comparison(&analysis, "io-uring-futex-waitv", implementation);
        let row = &summary[&(implementation.to_owned(), "v0_waitv_wake".to_owned())];
        check_means(found, row);
        agrees(&found["drop_first_pct"], &row["drop_first_percent"]);
        for (index, label) in POINTS.iter().enumerate() {
            let point = &found["points"][index];
            assert_eq!(point["n"], 15);
            let cv = point["cv_pct"].as_f64().unwrap() * cv_factor;
            let column = format!("{}_cv_percent", label.replace('-', "_"));
            agrees(&Value::from(cv), &row[&column]);
        }
        let largest = found["cv_max_pct"].as_f64().unwrap();
        assert_eq!(format!("{largest:.3}"), cv_max);
        rounds_to(&found["ci95_low_pct"], interval[0]);
        rounds_to(&found["ci95_high_pct"], interval[1]);
        assert_eq!(found["verdict"], "REGRESSION");
    }
    let control = comparison(&analysis, "io-uring-futex-scalar", "formal");
    let row = &summary[&("formal".to_owned(), "s0_wait_wake_control".to_owned())];
    assert_eq!(control["role"], "control");
    assert_eq!(control["summary_only"], true);
    check_means(control, row);
    rounds_to(&control["delta_pct"], "-0.55");
}

#[test]
fn the_screen_and_the_mail_show_the_published_figures() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let screen = answer(regbundle().arg("analyze").arg(&case))
        .expect(0)
        .stdout;
    let mail = answer(regbundle().arg("report").arg(&case))
        .expect(0)
        .stdout;
    for (name, text) in [("screen", &screen), ("mail", &mail)] {
        let text = one_line(text);
        for figure in TEXTS {
            assert!(text.contains(figure), "{figure} is not on the {name}");
        }
        assert!(text.contains("REGRESSION"), "{name}");
    }
    for wanted in [
        ["formal", "1045.687", "1128.704", "1042.755", "+8.091%"],
        ["standalone", "1040.270", "1110.916", "1046.198", "+6.488%"],
    ] {
        let is_row = |line: &str| line.split_whitespace().eq(wanted);
        assert!(mail.lines().any(is_row), "{wanted:?} is not a row:\n{mail}");
    }
}

#[test]
fn a_mail_without_regzbot_lines_says_why() {
    for (from, to, reason) in [
        ("environment = ", "# environment = ", "machine.environment"),
        ("[report]", "[report]\nkind = \"demo\"", "a demonstration"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let case = fresh_case(folder.path(), |text| {
            assert!(text.contains(from), "{from}: {text}");
            text.replace(from, to)
        });
        ingest_whole(&case);
        let answer = run([Path::new("report"), &case]).expect(0);
        assert!(!answer.stdout.contains("#regzbot introduced"), "{from}");
        assert!(
            answer.stderr.contains("no #regzbot lines"),
            "{}",
            answer.stderr
        );
        assert!(answer.stderr.contains(reason), "{}", answer.stderr);
    }
}

#[test]
fn the_mail_has_one_regzbot_paragraph_of_two_lines_with_the_full_hash() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let mail = answer(regbundle().arg("report").arg(&case))
        .expect(0)
        .stdout;
    assert_eq!(mail.matches("#regzbot").count(), 2);
    let lines: Vec<&str> = mail.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.starts_with("#regzbot"))
        .unwrap();
    assert_eq!(lines[first], format!("#regzbot introduced: {CHILD}"));
    assert!(
        lines[first + 1].starts_with("#regzbot title: io_uring futex WAITV"),
        "{}",
        lines[first + 1]
    );
    assert_eq!((lines[first - 1], lines[first + 2]), ("", ""));
}

#[test]
fn the_mail_goes_to_whom_the_case_names_and_answers_the_posting() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let mail = answer(regbundle().arg("report").arg(&case))
        .expect(0)
        .stdout;
    let (head, body) = mail.split_once("\n\n").unwrap();
    let unfolded = head.replace("\n ", " ");
    let header = |name: &str| -> Vec<&str> {
        unfolded
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    };
    for (name, wanted) in [
        ("From", "Reporter <reporter@example.org>"),
        ("To", "Maintainer <maintainer@example.org>"),
        (
            "Cc",
            "io-uring@vger.kernel.org, linux-kernel@vger.kernel.org, regressions@lists.linux.dev",
        ),
        ("In-Reply-To", "<patch-posting@example.org>"),
        ("References", "<patch-posting@example.org>"),
        (
            "Subject",
            "Re: [PATCH for-next] io_uring/futex: use GFP_KERNEL_ACCOUNT for futex data allocation",
        ),
    ] {
        assert_eq!(header(name), [wanted], "{name}");
    }
    assert!(header("Bcc").is_empty());
    for name in ["Date", "Message-ID", "MIME-Version", "Content-Type"] {
        assert_eq!(header(name).len(), 1, "{name}");
    }
    assert!(head.lines().all(|line| line.len() <= 78), "{head}");
    assert!(body.lines().all(|line| line.len() <= 76), "{body}");
}

#[test]
fn rows_ingested_a_second_time_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let case = ingested_in_parts(folder.path());
    let before = snapshot(&case);
    let child = ["--point", "child", "--implementation", "formal"];
    for (arguments, file, named) in [
        (child.as_slice(), "measured-rounds.tsv", "child"),
        (&[], "measured-rounds.tsv", "formal"),
        (&[], "result-summary.tsv", "io-uring-futex-scalar"),
        (&[], "build-identity.tsv", "child"),
    ] {
        let refused = ingest(&case, arguments, file);
        assert_ne!(refused.code, 0, "{file} {arguments:?}: {}", refused.said());
        assert!(refused.stderr.contains(named), "{file}: {}", refused.stderr);
        let changed = changed_since(&before, &case);
        assert!(changed.is_empty(), "{file} {arguments:?}: {changed:?}");
    }
}

#[test]
fn a_table_that_is_refused_leaves_a_fresh_case_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let case = fresh_case(folder.path(), |text| text);
    let file = case.join("measured-rounds.tsv");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("1130.442383", "1130,442383")).unwrap();
    let before = snapshot(&case);
    let refused = ingest(&case, &[], "measured-rounds.tsv");
    assert_ne!(refused.code, 0);
    for named in ["measured-rounds.tsv", "17", "1130,442383"] {
        assert!(refused.stderr.contains(named), "{}", refused.stderr);
    }
    let changed = changed_since(&before, &case);
    assert!(changed.is_empty(), "{changed:?}");
}

#[test]
fn one_ingestion_gives_the_analysis_of_six() {
    let (one, six) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let parts = ingested_in_parts(six.path());
    let whole = fresh_case(one.path(), |text| text);
    ingest_whole(&whole);
    assert_eq!(analysis(&whole), analysis(&parts));
    let screen = |case: &Path| run([Path::new("analyze"), case]).expect(0).stdout;
    assert_eq!(screen(&whole), screen(&parts));
}

#[test]
fn the_rows_of_one_point_are_not_taken_as_those_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let case = fresh_case(folder.path(), |text| text);
    let table = std::fs::read_to_string(case.join("measured-rounds.tsv")).unwrap();
    let header = table.lines().next().unwrap();
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("formal\tparent-a\t"))
        .collect();
    let copied: Vec<String> = rows
        .iter()
        .map(|line| line.replace("parent-a", "parent-b"))
        .collect();
    let text = format!("{header}\n{}\n{}\n", rows.join("\n"), copied.join("\n"));
    std::fs::write(case.join("measured-rounds.tsv"), text).unwrap();
    let said = common::ingest(&case, &[], "measured-rounds.tsv")
        .expect(2)
        .said();
    assert!(
        said.contains("parent-a") && said.contains("parent-b"),
        "{said}"
    );
}
