//! Every gate: a case that fails it, one at the border that passes, and one that it
//! cannot decide where there is such a thing.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

mod evidence;

use evidence::{BOTH, CANARY, PCP, ask, attempt, each_row, evidence, flat, outcome, stream};
use regbundle::judge::analyze;
use regbundle::model::analysis::Verdict;
use regbundle::model::case::{Implementation, WorkloadRole};
use regbundle::model::evidence::{Evidence, Summary, SummaryCell};
use regbundle::model::finding::Outcome::{Fail, NotChecked, Pass};
use regbundle::model::finding::{Outcome, Stage};
use regbundle::model::identity::{Reading, SETTING_KEYS};
use regbundle::model::plan::Role;
use regbundle::model::protocol::Clock;
use regbundle::model::row::{Metric, Phase};
use regbundle::stats::figure::Measure;

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

// clocks-equal

#[test]
fn clocks_equal_fails_on_instructions_beside_nanoseconds_and_no_figure_is_made() {
    let mut evidence = quiet();
    for segment in &mut attempt(&mut evidence, 1).segments {
        segment.clock = Clock::Instructions;
    }
    assert_eq!(outcome(&evidence, "clocks-equal"), Fail);
    let analysis = analyze(&evidence);
    assert_eq!(analysis.verdict, Verdict::Invalid);
    assert!(analysis.comparisons.is_empty());
    assert_eq!(outcome(&quiet(), "clocks-equal"), Pass);
}

#[test]
fn a_row_that_lost_its_canary_is_not_clean_beside_rows_that_have_one() {
    let mut evidence = quiet();
    stream(&mut evidence, 1).rows.last_mut().unwrap().canary = None;
    assert_eq!(outcome(&evidence, "clean-rounds"), Fail);
}

#[test]
fn cv_and_drift_are_not_checked_when_only_a_control_has_rows() {
    let mut evidence = quiet();
    evidence.plan.workloads[0].role = WorkloadRole::Control;
    for gate in ["cv-bound", "drift-bound"] {
        assert_eq!(outcome(&evidence, gate), NotChecked, "{gate}");
    }
}

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

// ops-equal

#[test]
fn ops_equal_fails_on_another_amount_of_work_at_one_point() {
    let mut evidence = quiet();
    for row in &mut stream(&mut evidence, 1).rows {
        if let Metric::Elapsed { ops, .. } = &mut row.metric {
            *ops *= 2;
        }
    }
    assert_eq!(outcome(&evidence, "ops-equal"), Fail);
    assert_eq!(outcome(&quiet(), "ops-equal"), Pass);
}

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
fn rows_complete_fails_when_a_stream_lacks_the_warm_up_of_the_plan() {
    let mut evidence = quiet();
    let rows = &mut stream(&mut evidence, 1).rows;
    rows.retain(|row| row.phase == Phase::Measured);
    let left = u64::try_from(rows.len()).unwrap();
    stream(&mut evidence, 1).announced = Some(left);
    let finding = ask(&evidence, "rows-complete");
    assert_eq!(finding.outcome, Fail);
    assert!(finding.reason.contains("warm-up"), "{}", finding.reason);
}

// rows-complete

#[test]
fn rows_complete_fails_on_each_way_a_stream_can_be_broken() {
    let gate = "rows-complete";
    let with = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = quiet();
        change(&mut evidence);
        ask(&evidence, gate)
    };
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Evidence));
    let changes: [Change<'_>; 7] = [
        ("no stream", &|e| attempt(e, 1).segments.clear()),
        ("torn", &|e| stream(e, 1).announced = None),
        ("one row less", &|e| {
            stream(e, 1).rows.pop();
        }),
        ("a gap", &|e| stream(e, 1).rows[3].round = 3),
        ("a repeated round", &|e| stream(e, 1).rows[3].round = 1),
        ("a late warm-up", &|e| {
            stream(e, 1).rows[4].phase = Phase::Warmup;
        }),
        ("aborted", &|e| {
            stream(e, 1).aborted = Some("killed".to_owned());
        }),
    ];
    for (name, change) in changes {
        let finding = with(change);
        assert_eq!(finding.outcome, Fail, "{name}");
        assert!(finding.reason.contains("p2"), "{name}: {}", finding.reason);
    }
}

#[test]
fn rows_complete_passes_with_one_whole_row_and_is_open_with_means_only() {
    let mut evidence = quiet();
    for index in 0..3 {
        let stream = stream(&mut evidence, index);
        stream.rows.drain(2..);
        stream.announced = Some(2);
    }
    assert_eq!(outcome(&evidence, "rows-complete"), Pass);

    let mut means_only = without_rows();
    means_only.summaries.push(Summary {
        workload: "syscall-getpid".to_owned(),
        implementation: Implementation::Formal,
        means: [("p1", 100.0), ("p2", 110.0), ("p3", 100.0)]
            .into_iter()
            .map(|(label, value)| {
                let cell = SummaryCell {
                    column: label.to_owned(),
                    text: value.to_string(),
                    value,
                };
                (label.to_owned(), cell)
            })
            .collect(),
        file: "means.tsv".to_owned(),
        line: 2,
    });
    assert_eq!(outcome(&means_only, "rows-complete"), NotChecked);
    // A published mean has no spread: the CV is open, drift and signal are not.
    assert_eq!(outcome(&means_only, "cv-bound"), NotChecked);
    assert_eq!(outcome(&means_only, "drift-bound"), Pass);
    assert_eq!(outcome(&means_only, "signal-bound"), Pass);
}

// clean-rounds

#[test]
fn clean_rounds_passes_with_exactly_the_planned_number_and_fails_with_one_less() {
    let mut evidence = quiet();
    // Four rounds a point, three planned, one noisy: exactly the number.
    evidence.plan.rounds = 3;
    stream(&mut evidence, 1).rows[2]
        .canary
        .as_mut()
        .unwrap()
        .alu_after = 2 * CANARY;
    assert_eq!(outcome(&evidence, "clean-rounds"), Pass);
    stream(&mut evidence, 1).rows[3]
        .canary
        .as_mut()
        .unwrap()
        .alu_before = 2 * CANARY;
    let finding = ask(&evidence, "clean-rounds");
    assert_eq!(finding.outcome, Fail);
    assert!(finding.reason.contains("2 of 3"), "{}", finding.reason);
}

#[test]
fn clean_rounds_takes_a_canary_exactly_three_percent_above_its_floor_and_no_more() {
    // 1 + 15/100 is a little less than 1.15 in binary: 115 would be above 100 and 15 %.
    for (tolerance, percent) in [(3.0, 103), (15.0, 115)] {
        for (floor, slot) in
            (1..100).flat_map(|hundreds| (0..4).map(move |at| (hundreds * 100, at)))
        {
            let with = |reading| {
                let mut evidence = quiet();
                evidence.plan.thresholds.canary_pct = tolerance;
                each_row(&mut evidence, |row| {
                    let canary = row.canary.as_mut().unwrap();
                    (canary.alu_before, canary.alu_after) = (floor, floor);
                    canary.syscall = Some((floor, floor));
                });
                let row = &mut stream(&mut evidence, 0).rows[1];
                let canary = row.canary.as_mut().unwrap();
                let (before, after) = canary.syscall.as_mut().unwrap();
                *[&mut canary.alu_before, &mut canary.alu_after, before, after][slot] = reading;
                outcome(&evidence, "clean-rounds")
            };
            assert_eq!(with(floor / 100 * percent), Pass, "floor {floor}");
            assert_eq!(with(floor / 100 * percent + 1), Fail, "floor {floor}");
        }
    }
}

#[test]
fn clean_rounds_is_open_where_rows_have_no_canary() {
    let mut evidence = quiet();
    each_row(&mut evidence, |row| row.canary = None);
    assert_eq!(outcome(&evidence, "clean-rounds"), NotChecked);
    // Too few rows are too few with or without canaries.
    evidence.plan.rounds = 5;
    assert_eq!(outcome(&evidence, "clean-rounds"), Fail);
}

// semantics-clean

#[test]
fn semantics_clean_fails_on_one_counter_one_status_or_one_missing_column() {
    let gate = "semantics-clean";
    let mut short = quiet();
    // In a warm-up round: these are checked as well.
    stream(&mut short, 2).rows[0].counters[0].1 -= 1;
    let finding = ask(&short, gate);
    assert_eq!(finding.outcome, Fail);
    assert!(
        finding.reason.contains("calls_ok") && finding.reason.contains("999"),
        "{}",
        finding.reason
    );
    let mut failed = quiet();
    stream(&mut failed, 2).rows[4].passed = Some(false);
    assert_eq!(outcome(&failed, gate), Fail);
    let mut missing = quiet();
    stream(&mut missing, 0).counters = vec!["other".to_owned()];
    assert_eq!(outcome(&missing, gate), Fail);
}

#[test]
fn semantics_clean_is_open_in_a_table_without_counters_or_status() {
    let gate = "semantics-clean";
    let mut evidence = quiet();
    for index in 0..3 {
        stream(&mut evidence, index).counters.clear();
    }
    each_row(&mut evidence, |row| row.counters.clear());
    // A stream of the row protocol cannot lack the counters of its workload.
    let stripped = ask(&evidence, gate);
    assert_eq!(stripped.outcome, Fail);
    assert!(
        stripped.reason.contains("`calls_ok` is missing"),
        "{}",
        stripped.reason
    );
    each_row(&mut evidence, |row| row.usage = None);
    assert_eq!(outcome(&evidence, gate), NotChecked);
    let mut evidence = quiet();
    stream(&mut evidence, 1).rows[1].passed = None;
    assert_eq!(outcome(&evidence, gate), NotChecked);
}

// cpu-pinned

#[test]
fn cpu_pinned_fails_when_one_row_moves_or_one_point_is_elsewhere() {
    let gate = "cpu-pinned";
    let mut moved = quiet();
    stream(&mut moved, 1).rows[2]
        .usage
        .as_mut()
        .unwrap()
        .cpu_end = 3;
    assert_eq!(outcome(&moved, gate), Fail);
    let mut elsewhere = quiet();
    for row in &mut stream(&mut elsewhere, 1).rows {
        let usage = row.usage.as_mut().unwrap();
        (usage.cpu_begin, usage.cpu_end) = (3, 3);
    }
    assert_eq!(outcome(&elsewhere, gate), Fail);
    let mut silent = quiet();
    stream(&mut silent, 0).rows[0].usage = None;
    assert_eq!(outcome(&silent, gate), NotChecked);
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

// kernel-expected

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

// tasks-within-cpus

#[test]
fn tasks_within_cpus_fails_on_one_task_too_many_unless_the_plan_asks_for_it() {
    let crowd = |tasks: u64| {
        let mut evidence = quiet();
        each_row(&mut evidence, |row| {
            row.counters.push(("tasks".to_owned(), tasks));
            row.counters.push(("task_cpus".to_owned(), 2));
        });
        evidence
    };
    assert_eq!(outcome(&crowd(2), "tasks-within-cpus"), Pass);
    let mut evidence = crowd(3);
    let finding = ask(&evidence, "tasks-within-cpus");
    assert_eq!(finding.outcome, Fail);
    assert!(
        finding.reason.contains("3 tasks on 2 CPUs"),
        "{}",
        finding.reason
    );
    evidence.plan.workloads[0]
        .params
        .insert("oversubscribe".to_owned(), 1);
    let finding = ask(&evidence, "tasks-within-cpus");
    assert_eq!(finding.outcome, Pass);
    assert!(
        finding.reason.contains("asked for by the plan"),
        "{}",
        finding.reason
    );
}

#[test]
fn tasks_within_cpus_is_open_where_rows_have_no_counters() {
    let mut evidence = quiet();
    for index in 0..3 {
        stream(&mut evidence, index).counters.clear();
    }
    assert_eq!(outcome(&evidence, "tasks-within-cpus"), NotChecked);
}

// kernel-expected

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

// cv-bound, drift-bound, signal-bound

/// Elapsed figures with mean 100,000 and sample sd `step`: sqrt((a² + 0 + a²) / 2) = a.
fn scattered(step: u64) -> Vec<u64> {
    vec![100_000 - step, 100_000, 100_000 + step]
}

#[test]
fn cv_bound_passes_exactly_at_three_percent_and_fails_above() {
    let with = |step| {
        let quiet = scattered(100);
        let rounds = [quiet.clone(), scattered(step), quiet];
        outcome(
            &evidence(&PCP, &rounds, &[Implementation::Formal]),
            "cv-bound",
        )
    };
    assert_eq!(with(3000), Pass);
    assert_eq!(with(3001), Fail);
}

#[test]
fn cv_bound_is_open_with_one_round() {
    let round = || vec![100_000];
    let evidence = evidence(
        &PCP,
        &[round(), round(), round()],
        &[Implementation::Formal],
    );
    assert_eq!(outcome(&evidence, "cv-bound"), NotChecked);
}

#[test]
fn drift_bound_passes_exactly_at_two_percent_in_either_direction_and_fails_above() {
    let with = |parent_b| outcome(&flat(100_000, 100_000, parent_b), "drift-bound");
    assert_eq!(with(102_000), Pass);
    assert_eq!(with(98_000), Pass);
    assert_eq!(with(102_001), Fail);
    assert_eq!(with(97_999), Fail);
}

#[test]
fn drift_bound_is_open_with_one_boot_of_each_kernel() {
    let rounds = || vec![100_000; 4];
    let evidence = evidence(
        &[Role::Parent, Role::Child],
        &[rounds(), rounds()],
        &[Implementation::Formal],
    );
    assert_eq!(outcome(&evidence, "drift-bound"), NotChecked);
}

#[test]
fn drift_bound_sees_two_boots_of_the_child_too() {
    let rounds = |elapsed| vec![elapsed; 4];
    let evidence = evidence(
        &[Role::Parent, Role::Child, Role::Child, Role::Parent],
        &[
            rounds(100_000),
            rounds(110_000),
            rounds(114_000),
            rounds(100_000),
        ],
        &[Implementation::Formal],
    );
    assert_eq!(outcome(&evidence, "drift-bound"), Fail);
}

#[test]
fn signal_bound_passes_exactly_at_five_percent_in_either_direction_and_fails_below() {
    let with = |child| outcome(&flat(100_000, child, 100_000), "signal-bound");
    assert_eq!(with(105_000), Pass);
    assert_eq!(with(95_000), Pass);
    assert_eq!(with(104_999), Fail);
    assert_eq!(with(95_001), Fail);
    // 5 % above one parent boot only is not enough.
    assert_eq!(
        outcome(&flat(100_000, 105_000, 100_001), "signal-bound"),
        Fail
    );
}

#[test]
fn a_per_op_figure_without_elapsed_time_counts_for_the_bounds() {
    let mut evidence = quiet();
    each_row(&mut evidence, |row| {
        let value = Measure::new("io-uring-futex-waitv", Clock::Ns).value(row);
        row.metric = Metric::PerOp {
            text: value.to_string(),
            value,
            ops: None,
        };
    });
    let answers: Vec<Outcome> = ["cv-bound", "drift-bound", "signal-bound"]
        .iter()
        .map(|gate| outcome(&evidence, gate))
        .collect();
    assert_eq!(answers, [Pass, Pass, Pass]);
}
