//! Gates on what the points have in common: boots, kernels, programs, settings.

use regbundle::judge::analyze;
use regbundle::model::analysis::Verdict;
use regbundle::model::evidence::Evidence;
use regbundle::model::finding::Outcome::{Fail, NotChecked, Pass};
use regbundle::model::finding::Stage;
use regbundle::model::identity::{Reading, SETTING_KEYS};
use regbundle::model::plan::Role;

use super::evidence::{BOTH, PCP, ask, attempt, evidence, outcome, stream};
use super::quiet;

#[test]
fn a_recorded_environment_is_never_not_recorded() {
    let mut evidence = quiet();
    let key = || "environment".to_owned();
    let emulated = Reading::Known("emulated".to_owned());
    for index in 0..3 {
        let settings = &mut attempt(&mut evidence, index).identity.settings;
        settings.remove("environment");
    }
    assert_eq!(analyze(&evidence).environment, "not recorded");
    let settings = &mut attempt(&mut evidence, 0).identity.settings;
    settings.insert(key(), emulated);
    assert!(analyze(&evidence).environment.starts_with("emulated, "));
}

// boots-distinct

#[test]
fn boots_distinct_fails_when_two_points_share_a_boot() {
    let gate = "boots-distinct";
    let mut shared = quiet();
    attempt(&mut shared, 2).identity.boot_id = Some("boot-1".to_owned());
    let finding = ask(&shared, gate);
    assert_eq!(finding.outcome, Fail);
    assert!(
        finding.reason.contains("boot-1")
            && finding.reason.contains("p1")
            && finding.reason.contains("p3"),
        "{}",
        finding.reason
    );
    let mut unknown = quiet();
    attempt(&mut unknown, 1).identity.boot_id = None;
    assert_eq!(outcome(&unknown, gate), NotChecked);
    // An unknown boot does not hide a shared one.
    attempt(&mut unknown, 2).identity.boot_id = Some("boot-1".to_owned());
    assert_eq!(outcome(&unknown, gate), Fail);
}

// attempts-fresh

#[test]
fn attempts_fresh_fails_when_a_point_is_redone_in_the_boot_of_an_attempt_that_did_not_finish() {
    let mut evidence = quiet();
    assert!(
        ask(&evidence, "attempts-fresh")
            .reason
            .contains("first attempt")
    );
    let mut aborted = attempt(&mut evidence, 1).clone();
    aborted.finished = false;
    let rows: usize = aborted
        .segments
        .iter()
        .map(|segment| segment.rows.len())
        .sum();
    evidence.points[1].attempts.insert(0, aborted);
    attempt(&mut evidence, 1).number = 2;
    let finding = ask(&evidence, "attempts-fresh");
    assert_eq!(finding.outcome, Fail);
    assert!(
        finding.reason.contains(&format!("the {rows} rows")),
        "{}",
        finding.reason
    );
    assert_eq!(analyze(&evidence).verdict, Verdict::Invalid);
    // A fresh boot is what the rule wants; the rows that do not count are still said.
    attempt(&mut evidence, 1).identity.boot_id = Some("fresh".to_owned());
    let finding = ask(&evidence, "attempts-fresh");
    assert_eq!(finding.outcome, Pass);
    assert!(
        finding.reason.contains("attempt 2 counts"),
        "{}",
        finding.reason
    );
    attempt(&mut evidence, 1).identity.boot_id = None;
    assert_eq!(outcome(&evidence, "attempts-fresh"), NotChecked);
}

#[test]
fn attempts_fresh_is_open_for_ingested_rows() {
    let mut evidence = quiet();
    attempt(&mut evidence, 0).ingested = true;
    assert_eq!(outcome(&evidence, "attempts-fresh"), NotChecked);
}

// kernel-expected

#[test]
fn kernel_expected_fails_on_what_the_points_recorded_also_without_names_in_the_plan() {
    let mut unnamed = quiet();
    unnamed.plan.kernels.clear();
    assert_eq!(outcome(&unnamed, "kernel-expected"), NotChecked);
    let parent = attempt(&mut unnamed, 0).identity.kernel.build_id.clone();
    let mut one_build = unnamed.clone();
    attempt(&mut one_build, 1).identity.kernel.build_id = parent;
    assert_eq!(outcome(&one_build, "kernel-expected"), Fail);
    let mut two_parents = unnamed;
    attempt(&mut two_parents, 2).identity.kernel.build_id = Some("other".to_owned());
    assert_eq!(outcome(&two_parents, "kernel-expected"), Fail);
}

#[test]
fn kernel_expected_fails_on_another_release_or_build_id() {
    let gate = "kernel-expected";
    let mut release = quiet();
    attempt(&mut release, 1).identity.kernel.release = Some("6.1-parent".to_owned());
    let finding = ask(&release, gate);
    assert_eq!(finding.outcome, Fail);
    assert!(
        finding.reason.contains("6.1-parent") && finding.reason.contains("6.1-child"),
        "{}",
        finding.reason
    );
    let mut build = quiet();
    attempt(&mut build, 1).identity.kernel.build_id = Some("id-parent".to_owned());
    assert_eq!(outcome(&build, gate), Fail);
}

#[test]
fn kernel_expected_passes_when_the_plan_names_a_release_only_and_is_open_otherwise() {
    let gate = "kernel-expected";
    let mut evidence = quiet();
    for kernel in evidence.plan.kernels.values_mut() {
        kernel.build_id = None;
    }
    attempt(&mut evidence, 1).identity.kernel.build_id = None;
    assert_eq!(outcome(&evidence, gate), Pass);
    let mut no_build = quiet();
    attempt(&mut no_build, 1).identity.kernel.build_id = None;
    assert_eq!(outcome(&no_build, gate), NotChecked);
    let mut no_release = quiet();
    attempt(&mut no_release, 1).identity.kernel.release = None;
    assert_eq!(outcome(&no_release, gate), NotChecked);
    let mut unnamed = quiet();
    unnamed.plan.kernels.remove(&Role::Child);
    assert_eq!(outcome(&unnamed, gate), NotChecked);
}

// program-equal

#[test]
fn program_equal_compares_points_and_not_implementations() {
    let gate = "program-equal";
    let rounds = || vec![100_000; 4];
    let mut both = evidence(&PCP, &[rounds(), rounds(), rounds()], &BOTH);
    assert_eq!(outcome(&both, gate), Pass);
    stream(&mut both, 2).program_sha256 = "another".to_owned();
    assert_eq!(outcome(&both, gate), Fail);
    let mut unknown = quiet();
    stream(&mut unknown, 2).program_sha256.clear();
    assert_eq!(outcome(&unknown, gate), NotChecked);
}

// plan-before-rows

#[test]
fn plan_before_rows_is_open_for_rows_that_were_ingested() {
    let mut evidence = quiet();
    evidence.plan_before_rows = false;
    assert_eq!(outcome(&evidence, "plan-before-rows"), NotChecked);
}

// The equality gates, one per setting.

#[test]
fn settings_equal_each_key_fails_on_one_difference_and_is_open_when_one_is_unknown() {
    for key in SETTING_KEYS {
        let gate = format!("{key}-equal");
        if *key == "cmdline" {
            // Recorded and shown, but it differs between two kernels by its nature.
            let gates = analyze(&quiet()).findings;
            assert!(gates.iter().all(|finding| finding.gate != gate));
            continue;
        }
        let set = |evidence: &mut Evidence, index, reading| {
            attempt(evidence, index)
                .identity
                .settings
                .insert((*key).to_owned(), reading);
        };
        for index in 0..3 {
            let mut differs = quiet();
            set(&mut differs, index, Reading::known("something else"));
            let finding = ask(&differs, &gate);
            assert_eq!(finding.outcome, Fail, "{gate} at {index}");
            assert!(finding.reason.contains("something else"), "{gate}");
            assert_eq!(finding.stage, Stage::Validity, "{gate}");

            let mut unknown = quiet();
            set(&mut unknown, index, Reading::unknown("no such file"));
            let finding = ask(&unknown, &gate);
            assert_eq!(finding.outcome, NotChecked, "{gate} at {index}");
            assert!(finding.reason.contains("no such file"), "{gate}");

            let mut missing = quiet();
            attempt(&mut missing, index).identity.settings.remove(*key);
            assert_eq!(outcome(&missing, &gate), NotChecked, "{gate} at {index}");

            // One point unknown does not hide that two others differ.
            set(
                &mut unknown,
                (index + 1) % 3,
                Reading::known("something else"),
            );
            assert_eq!(outcome(&unknown, &gate), Fail, "{gate} at {index}");
        }
        assert_eq!(outcome(&quiet(), &gate), Pass, "{gate}");
    }
}

#[test]
fn preempt_equal_and_cgroup_equal_fail_when_the_plan_asks_for_another() {
    for (key, wanted, found) in [
        ("preempt", "full", "voluntary"),
        ("cgroup", "child", "root"),
    ] {
        let with = |value: &str| {
            let mut evidence = quiet();
            match key {
                "preempt" => evidence.plan.preempt = Some(wanted.to_owned()),
                _ => evidence.plan.cgroup = Some(wanted.to_owned()),
            }
            for index in 0..3 {
                attempt(&mut evidence, index)
                    .identity
                    .settings
                    .insert(key.to_owned(), Reading::known(value));
            }
            ask(&evidence, &format!("{key}-equal"))
        };
        let refused = with(found);
        assert_eq!(refused.outcome, Fail, "{key}");
        assert!(
            refused.reason.contains(wanted) && refused.reason.contains(found),
            "{}",
            refused.reason
        );
        assert_eq!(with(wanted).outcome, Pass, "{key}");
        // What stands behind the first word is detail.
        assert_eq!(with(&format!("{wanted} (v2)")).outcome, Pass, "{key}");
    }
}
