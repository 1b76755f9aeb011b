//! The scenarios on this kernel, and windows that went wrong.

use super::*;
use crate::workload::testing::{Named, named, place, resolve};

const SCENARIOS: [InotifyWatch; 3] = [
    InotifyWatch::DISTINCT,
    InotifyWatch::SHARED,
    InotifyWatch::PAIR,
];

fn watches(scenario: &InotifyWatch, spoil: fn(&mut Worker), more: &[(&str, u64)]) -> Watches {
    let mut given = vec![("watches", 5), ("cycles", 3), ("oversubscribe", 1)];
    given.extend(more);
    let parameters = resolve(scenario.declaration, &given);
    scenario.start(&parameters, &place(), spoil).unwrap()
}

fn round(scenario: &InotifyWatch, watches: &mut Watches) -> (RoundOutcome, Named) {
    let outcome = watches.round().unwrap();
    let columns = columns(count(watches.assignment.tasks), "elapsed");
    let counters = named(scenario.declaration, &columns, &outcome);
    (outcome, counters)
}

#[test]
fn every_scenario_adds_and_removes_with_one_and_two_workers() {
    for scenario in SCENARIOS {
        for workers in [1, 2] {
            let mut watches = watches(&scenario, |_| {}, &[("workers", workers)]);
            watches.preflight().unwrap();
            for _ in 0..2 {
                let (outcome, counters) = round(&scenario, &mut watches);
                let halves = if scenario.scenario == Scenario::Pair {
                    2
                } else {
                    1
                };
                assert_eq!(outcome.ops, workers * 5 * 3 * halves);
                assert_eq!(counters["watches_ok"], outcome.ops);
                for name in ["bad_wd", "not_ignored", "queue_overflow"] {
                    assert_eq!(counters[name], 0, "{name}");
                }
                assert_eq!(counters["tasks"], workers);
                if halves == 2 {
                    let (distinct, shared) = (counters["part_distinct"], counters["part_shared"]);
                    assert!(distinct > 0 && shared > 0);
                    assert_eq!(distinct + shared, outcome.elapsed_ns);
                }
                let slowest = (0..workers)
                    .map(|worker| counters[&format!("task{worker}_elapsed")])
                    .max()
                    .unwrap();
                assert!(0 < slowest && slowest <= outcome.elapsed_ns);
            }
        }
    }
}

#[test]
fn the_order_of_a_pair_alternates_with_cycles_and_rounds() {
    let mut watches = watches(&InotifyWatch::PAIR, |_| {}, &[]);
    assert_eq!(watches.steps(0), [STEP_DISTINCT, STEP_SHARED]);
    assert_eq!(watches.steps(1), [STEP_SHARED, STEP_DISTINCT]);
    watches.round().unwrap();
    assert_eq!(watches.steps(0), [STEP_SHARED, STEP_DISTINCT]);
}

#[test]
fn the_folder_is_gone_when_the_workload_is_and_when_it_cannot_start() {
    let watches = watches(&InotifyWatch::DISTINCT, |_| {}, &[]);
    let folder = watches._files.folder.path().to_owned();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 10);
    drop(watches);
    assert!(!folder.exists());
}

#[test]
fn more_workers_than_cpus_are_refused_unless_asked_for() {
    let cpus = count(place().cpus.len());
    for scenario in SCENARIOS {
        let refused = resolve(scenario.declaration, &[("workers", cpus + 1)]);
        let error = scenario.prepare(&refused, &place()).err().unwrap();
        assert_eq!(error.kind().exit_code(), 64);
        assert!(error.to_string().contains("oversubscribe 1"), "{error}");
    }
    let scenario = InotifyWatch::SHARED;
    let mut watches = watches(&scenario, |_| {}, &[("workers", cpus + 1)]);
    let (_, counters) = round(&scenario, &mut watches);
    assert_eq!(counters["tasks"], cpus + 1);
    assert_eq!(counters["task_cpus"], cpus);
}

/// The counters of a round of 15 watches spoilt in this way, and its preflight's answer.
fn spoilt(spoil: fn(&mut Worker)) -> (Named, String) {
    let scenario = InotifyWatch::DISTINCT;
    let mut watches = watches(&scenario, spoil, &[]);
    let message = watches.preflight().unwrap_err().to_string();
    (round(&scenario, &mut watches).1, message)
}

#[test]
fn a_lost_in_ignored_is_counted_in_not_ignored() {
    let (counters, message) = spoilt(|worker| {
        worker.spoil = |events| {
            events.pop();
        }
    });
    // One of five in each of three cycles.
    assert_eq!(counters["not_ignored"], 3);
    assert_eq!(counters["watches_ok"], 12);
    assert_eq!(counters["bad_wd"], 0);
    assert!(message.contains("is 4, wanted 5"), "{message}");
}

#[test]
fn an_overflow_of_the_queue_is_counted_in_queue_overflow() {
    let (counters, _) = spoilt(|worker| {
        worker.spoil = |events| {
            *events.last_mut().unwrap() = (-1, ReadFlags::QUEUE_OVERFLOW);
        }
    });
    assert_eq!(counters["queue_overflow"], 3);
    assert_eq!(counters["not_ignored"], 3);
    assert_eq!(counters["watches_ok"], 12);
}

#[test]
fn a_file_that_is_not_there_is_counted_in_bad_wd() {
    let (counters, message) = spoilt(|worker| {
        let mut paths = worker.own.to_vec();
        paths[2] = c"/nowhere/at/all".to_owned();
        worker.own = paths.into();
    });
    assert_eq!(counters["bad_wd"], 3);
    assert_eq!(counters["watches_ok"], 12);
    assert!(message.contains("is 4, wanted 5"), "{message}");
}

#[test]
fn a_file_watched_twice_has_a_repeated_number_which_is_counted_in_bad_wd() {
    let (counters, _) = spoilt(|worker| {
        let mut paths = worker.own.to_vec();
        paths[2] = paths[1].clone();
        worker.own = paths.into();
    });
    assert_eq!(counters["bad_wd"], 3);
    assert_eq!(counters["watches_ok"], 12);
}

#[test]
fn events_are_matched_whatever_their_order_and_strangers_are_counted() {
    let ignored = ReadFlags::IGNORED;
    let right = Verdict {
        right: 2,
        ..Verdict::default()
    };
    for (events, wanted) in [
        (vec![(2, ignored), (1, ignored)], right),
        (
            vec![(1, ignored), (2, ignored), (2, ignored)],
            Verdict {
                right: 1,
                not_ignored: 1,
                ..right
            },
        ),
        (
            vec![(1, ignored), (2, ignored), (9, ignored)],
            Verdict {
                not_ignored: 1,
                ..right
            },
        ),
        (
            vec![(1, ignored), (2, ReadFlags::MODIFY), (2, ignored)],
            Verdict {
                not_ignored: 1,
                ..right
            },
        ),
    ] {
        assert_eq!(judge(&[1, 2], &[true, true], &events), wanted, "{events:?}");
    }
}

#[test]
fn a_limit_below_what_is_needed_is_a_skip_that_names_the_sysctl() {
    let error = check_limit("inotify-watch/shared", MAX_WATCHES, u64::MAX).unwrap_err();
    assert_eq!(error.kind().exit_code(), 4);
    let message = error.to_string();
    assert!(
        message.contains("sysctl -w fs.inotify.max_user_watches=N"),
        "{message}"
    );
    check_limit("inotify-watch/shared", MAX_WATCHES, 0).unwrap();
}
