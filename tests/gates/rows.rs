//! Gates on the rows of each point.

use regbundle::judge::analyze;
use regbundle::model::analysis::Verdict;
use regbundle::model::case::Implementation;
use regbundle::model::evidence::{Evidence, Summary, SummaryCell};
use regbundle::model::finding::Outcome::{Fail, NotChecked, Pass};
use regbundle::model::protocol::Clock;
use regbundle::model::row::{Metric, Phase};

use super::evidence::{CANARY, ask, attempt, each_row, outcome, stream};
use super::{quiet, without_rows};

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

// rows-complete

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

#[test]
fn a_row_that_lost_its_canary_is_not_clean_beside_rows_that_have_one() {
    let mut evidence = quiet();
    stream(&mut evidence, 1).rows.last_mut().unwrap().canary = None;
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
