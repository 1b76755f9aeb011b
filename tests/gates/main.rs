//! Every gate: a case that fails it, one at the border that passes, and one that it
//! cannot decide where there is such a thing.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

#[path = "../evidence/mod.rs"]
mod evidence;

mod bounds;
mod points;
mod rows;

use evidence::{ask, flat, stream};
use regbundle::judge::analyze;
use regbundle::model::analysis::Verdict;
use regbundle::model::evidence::Evidence;
use regbundle::model::finding::Outcome::Pass;
use regbundle::model::finding::Stage;
use regbundle::model::identity::SETTING_KEYS;

/// Quiet evidence: no gate may fail or be left open.
fn quiet() -> Evidence {
    flat(100_000, 110_000, 100_100)
}

fn without_rows() -> Evidence {
    let mut evidence = quiet();
    for point in &mut evidence.points {
        point.attempts.clear();
    }
    evidence
}

#[test]
fn quiet_evidence_passes_every_gate_and_no_gate_is_missing() {
    let findings = analyze(&quiet()).findings;
    for finding in &findings {
        assert_eq!(
            finding.outcome, Pass,
            "{}: {}",
            finding.gate, finding.reason
        );
    }
    let mut gates: Vec<&str> = findings
        .iter()
        .map(|finding| finding.gate.as_str())
        .collect();
    gates.sort_unstable();
    let mut expected: Vec<String> = SETTING_KEYS
        .iter()
        .filter(|key| **key != "cmdline")
        .map(|key| format!("{key}-equal"))
        .collect();
    expected.extend(
        [
            "rows-complete",
            "clean-rounds",
            "clocks-equal",
            "ops-equal",
            "semantics-clean",
            "cpu-pinned",
            "tasks-within-cpus",
            "boots-distinct",
            "attempts-fresh",
            "kernel-expected",
            "program-equal",
            "plan-before-rows",
            "cv-bound",
            "drift-bound",
            "signal-bound",
        ]
        .map(str::to_owned),
    );
    expected.sort();
    assert_eq!(gates, expected);
}

#[test]
fn a_failing_validity_gate_makes_the_case_invalid_and_a_screen_gate_does_not() {
    let mut evidence = quiet();
    stream(&mut evidence, 0).program_sha256 = "another".to_owned();
    assert_eq!(ask(&evidence, "program-equal").stage, Stage::Validity);
    assert_eq!(analyze(&evidence).verdict, Verdict::Invalid);
    let drifting = flat(100_000, 120_000, 103_000);
    assert_eq!(ask(&drifting, "drift-bound").stage, Stage::Screen);
    assert_eq!(analyze(&drifting).verdict, Verdict::Inconclusive);
}

#[test]
fn without_rows_no_gate_passes() {
    for finding in analyze(&without_rows()).findings {
        assert_ne!(finding.outcome, Pass, "{}", finding.gate);
    }
}
