//! Small rounds of every scenario, and deliberately wrong fills: each must be caught
//! by the counter meant for it.

use std::collections::BTreeMap;

use super::*;
use crate::workload::error::Kind;

const ALL: [Scenario; 5] = [
    Scenario::FirstFill,
    Scenario::RemoveRefill,
    Scenario::RegisterFill,
    Scenario::RegisterInstall,
    Scenario::WarmRefill,
];
const SLOTS: u64 = 96;
const INSTALLS: u64 = 24;
const CYCLES: u64 = 3;

const SHAPE: Shape = Shape {
    slots: 96,
    // No divisor of the slots, so that the last batch is a shorter one.
    batch: 40,
    sources: 7,
    target_completions: 192,
    targets: 4,
};

/// `None`, with the reason printed, where this kernel cannot run the workload.
fn rounds_of(scenario: Scenario, shape: Shape) -> Option<SendFdRounds> {
    match MsgRingSendFd::new(scenario).support() {
        Err(error)
            if error.kind() == Kind::Skipped
                && std::env::var_os("REGBUNDLE_REQUIRE_IO_URING").is_none() =>
        {
            println!("skipped: {error}");
            return None;
        }
        other => other.unwrap(),
    }
    let filled = match scenario {
        Scenario::RegisterInstall => INSTALLS,
        _ => SLOTS,
    };
    let filled = usize::try_from(filled).unwrap();
    Some(SendFdRounds::with_shape(scenario, CYCLES, shape, filled).unwrap())
}

/// A round of ops and counters by name, with `fill` in place of the right one once the
/// preflight has passed.
fn round_with(scenario: Scenario, fill: Fill) -> Option<(u64, BTreeMap<&'static str, u64>)> {
    let mut rounds = rounds_of(scenario, SHAPE)?;
    rounds.preflight().unwrap();
    rounds.sizes.fill = fill;
    Some(named(scenario, rounds.round().unwrap()))
}

fn named(scenario: Scenario, outcome: RoundOutcome) -> (u64, BTreeMap<&'static str, u64>) {
    let counters = MsgRingSendFd::new(scenario).declaration.counters;
    assert_eq!(counters.len(), outcome.counters.len());
    let names = counters.iter().map(|counter| counter.name);
    (outcome.ops, names.zip(outcome.counters).collect())
}

/// The counters that must be zero and are not.
fn wrong(found: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
    ["bad_result", "stray", "missing", "wrong_file", "overflow"]
        .into_iter()
        .map(|name| (name, found[name]))
        .filter(|(_, value)| *value > 0)
        .collect()
}

#[test]
fn every_scenario_counts_its_ops_and_its_parts_are_the_window() {
    for scenario in ALL {
        let Some(mut rounds) = rounds_of(scenario, SHAPE) else {
            return;
        };
        rounds.preflight().unwrap();
        let (ops, first) = match scenario {
            Scenario::FirstFill => (CYCLES * SLOTS, "part_register"),
            Scenario::WarmRefill => (CYCLES * SLOTS, "part_remove"),
            Scenario::RemoveRefill => (CYCLES, "part_remove"),
            Scenario::RegisterFill | Scenario::RegisterInstall => (CYCLES, "part_register"),
        };
        for _ in 0..2 {
            let outcome = rounds.round().unwrap();
            let elapsed_ns = outcome.elapsed_ns;
            let (found_ops, found) = named(scenario, outcome);
            assert_eq!((found_ops, found["ops_ok"]), (ops, ops), "{scenario:?}");
            assert_eq!(wrong(&found), BTreeMap::new(), "{scenario:?}");
            assert!(found["part_fill"] > 0);
            assert_eq!(found[first] + found["part_fill"], elapsed_ns);
            assert_eq!(
                found[first] == 0,
                scenario.counts_installs(),
                "{scenario:?}"
            );
        }
    }
}

#[test]
fn a_target_slot_one_too_high_is_a_wrong_file_though_every_completion_is_right() {
    for scenario in ALL {
        let Some((ops, found)) = round_with(scenario, |source, target, slots| {
            source.fill(target, slots, |install| {
                let slot = (install.slot + 1) % 96;
                Install { slot, ..install }.request()
            })
        }) else {
            return;
        };
        // No slot is right by chance: slot 0 of a whole table gets the file of slot 95,
        // which is 95 modulo 7 = 4.
        let filled = if scenario == Scenario::RegisterInstall {
            INSTALLS
        } else {
            SLOTS
        };
        assert_eq!(wrong(&found), BTreeMap::from([("wrong_file", filled)]));
        let lost = if scenario.counts_installs() {
            filled
        } else {
            1
        };
        assert_eq!(found["ops_ok"], ops - lost, "{scenario:?}");
    }
}

#[test]
fn another_source_or_one_for_all_is_a_wrong_file() {
    let next: Fill = |source, target, slots| {
        source.fill(target, slots, |install| {
            let source = (install.source + 1) % 7;
            Install { source, ..install }.request()
        })
    };
    let same: Fill = |source, target, slots| {
        source.fill(target, slots, |install| {
            Install {
                source: 0,
                ..install
            }
            .request()
        })
    };
    // Of 96 slots, 0, 7, 14 and so on to 91 have file 0: 14 of them.
    for (fill, files) in [(next, SLOTS), (same, SLOTS - 14)] {
        let Some((ops, found)) = round_with(Scenario::FirstFill, fill) else {
            return;
        };
        assert_eq!(wrong(&found), BTreeMap::from([("wrong_file", files)]));
        assert_eq!(found["ops_ok"], ops - files);
    }
}

#[test]
fn a_target_queue_that_is_too_small_is_an_overflow_and_completions_missing() {
    for scenario in [Scenario::FirstFill, Scenario::RegisterFill] {
        let small = Shape {
            target_completions: 64,
            ..SHAPE
        };
        let Some(mut rounds) = rounds_of(scenario, small) else {
            return;
        };
        // The preflight's small fill is of 64 slots: it fits.
        rounds.preflight().unwrap();
        let (ops, found) = named(scenario, rounds.round().unwrap());
        assert_eq!(found["overflow"], CYCLES, "{found:?}");
        assert!(found["missing"] >= SLOTS - 64, "{found:?}");
        assert!(found["ops_ok"] < ops);
    }
}

#[test]
fn a_request_that_fails_is_a_bad_result() {
    // The source's table ends at its last file: EBADF for slot 0 of the target.
    let Some((ops, found)) = round_with(Scenario::RegisterFill, |source, target, slots| {
        source.fill(target, slots, |install| {
            let source = if install.slot == 0 { 7 } else { install.source };
            Install { source, ..install }.request()
        })
    }) else {
        return;
    };
    let wanted = BTreeMap::from([
        ("bad_result", CYCLES),
        ("missing", CYCLES),
        ("wrong_file", 1),
    ]);
    assert_eq!(wrong(&found), wanted);
    assert_eq!((ops, found["ops_ok"]), (CYCLES, 0));
}

#[test]
fn a_slot_that_is_filled_twice_instead_of_its_neighbour_is_stray_and_missing() {
    let Some((ops, found)) = round_with(Scenario::WarmRefill, |source, target, slots| {
        source.fill(target, slots, |install| {
            let back = u32::from(install.slot == 1);
            Install {
                slot: install.slot - back,
                number: install.number - u64::from(back),
                ..install
            }
            .request()
        })
    }) else {
        return;
    };
    // Once on each ring; the slot that got two is not exactly once either. In the
    // last cycle slot 0 has file 1 and slot 1 none.
    let wanted = BTreeMap::from([
        ("stray", 2 * CYCLES),
        ("missing", 2 * CYCLES),
        ("wrong_file", 2),
    ]);
    assert_eq!(wrong(&found), wanted);
    assert_eq!(found["ops_ok"], ops - 2 * CYCLES);
}

#[test]
fn numbers_of_the_cycle_before_are_stray() {
    let Some((ops, found)) = round_with(Scenario::RemoveRefill, |source, target, slots| {
        source.fill(target, slots, |install| {
            let number = install.number - (1 << 14);
            Install { number, ..install }.request()
        })
    }) else {
        return;
    };
    let every = CYCLES * SLOTS;
    let wanted = BTreeMap::from([("stray", 2 * every), ("missing", every)]);
    assert_eq!(wrong(&found), wanted);
    assert_eq!((ops, found["ops_ok"]), (CYCLES, 0));
}

#[test]
fn installs_left_out_leave_their_completions_missing() {
    let Some((ops, found)) = round_with(Scenario::RegisterFill, |source, target, slots| {
        source.fill(target, slots - 1, Install::request)
    }) else {
        return;
    };
    let wanted = BTreeMap::from([("missing", CYCLES), ("wrong_file", 1)]);
    assert_eq!(wrong(&found), wanted);
    assert_eq!((ops, found["ops_ok"]), (CYCLES, 0));
}

#[test]
fn installs_into_slots_that_were_not_emptied_are_not_counted() {
    for scenario in [Scenario::WarmRefill, Scenario::FirstFill] {
        let Some(mut rounds) = rounds_of(scenario, SHAPE) else {
            return;
        };
        rounds.preflight().unwrap();
        let mut target = Target::with_table(&SHAPE).unwrap();
        rounds.cycle(&mut target, 90, true).unwrap();
        assert_eq!(rounds.totals.ops_ok, 90);
        assert_eq!(rounds.totals.tally, Tally::default());
    }
}

#[test]
fn the_preflight_refuses_a_wrong_fill_and_says_which_counter() {
    for scenario in ALL {
        let Some(mut rounds) = rounds_of(scenario, SHAPE) else {
            return;
        };
        rounds.sizes.fill = |source, target, slots| {
            source.fill(target, slots, |install| {
                Install {
                    slot: install.slot + 1,
                    ..install
                }
                .request()
            })
        };
        let error = rounds.preflight().unwrap_err();
        let message = error.to_string();
        // The slot behind the last one must be empty, and is not.
        let files = rounds.sizes.filled.min(64) + 1;
        assert!(
            message.contains(&format!(
                "a small fill: bad_result 0, stray 0, missing 0, wrong_file {files}, overflow 0"
            )),
            "{message}"
        );
        assert_eq!(error.kind().exit_code(), 1);
    }
}

#[test]
fn a_table_that_is_still_full_is_not_an_emptied_one() {
    let Some(mut rounds) = rounds_of(Scenario::WarmRefill, SHAPE) else {
        return;
    };
    let mut target = Target::with_table(&SHAPE).unwrap();
    let slots = usize::try_from(SLOTS).unwrap();
    rounds.sizes.try_fill(&mut target, slots, "fill").unwrap();
    let mut tally = Tally::default();
    rounds.sizes.source.begin();
    let source = &mut rounds.sizes.source;
    source.judge(&mut target, 0, slots, &mut tally).unwrap();
    assert_eq!(tally.wrong_file, SLOTS);
    rounds.sizes.try_remove(&mut target).unwrap();
}

#[test]
fn there_is_no_request_for_a_slot_that_no_table_has() {
    let install = Install {
        target: io_uring::types::Fd(0),
        slot: u32::MAX,
        source: 3,
        number: 9,
    };
    assert!(install.request().is_none());
    assert!(Install { slot: 0, ..install }.request().is_some());
}

#[test]
fn more_installs_than_slots_are_refused_with_both_numbers() {
    let workload = MsgRingSendFd::new(Scenario::RegisterInstall);
    let check = |installs: u64, slots: u64| {
        let given = BTreeMap::from([
            ("installs".to_owned(), installs),
            ("slots".to_owned(), slots),
        ]);
        workload.check(&Parameters::resolve(workload.declaration, &given).unwrap())
    };
    check(128, 128).unwrap();
    let error = check(129, 128).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("is 129;") && message.contains("is 128"),
        "{message}"
    );
    assert_eq!(error.kind().exit_code(), 64);
}

#[test]
fn only_the_cycles_of_the_short_windows_differ_by_default() {
    for scenario in ALL {
        let workload = MsgRingSendFd::new(scenario);
        let resolved = Parameters::resolve(workload.declaration, &BTreeMap::new()).unwrap();
        let cycles = if scenario == Scenario::RegisterInstall {
            256
        } else {
            8
        };
        let wanted = [
            ("batch", 128),
            ("cycles", cycles),
            ("installs", 64),
            ("slots", 4_096),
            ("sources", 64),
        ];
        assert_eq!(resolved.iter().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn the_smallest_and_odd_sizes_give_right_rounds() {
    for (batch, sources, installs) in [(1, 1, 1), (64, 1_024, 64), (200, 3, 5)] {
        for scenario in [Scenario::FirstFill, Scenario::RegisterInstall] {
            if rounds_of(scenario, SHAPE).is_none() {
                return;
            }
            let workload = MsgRingSendFd::new(scenario);
            let given = BTreeMap::from([
                ("slots".to_owned(), 64),
                ("batch".to_owned(), batch),
                ("sources".to_owned(), sources),
                ("installs".to_owned(), installs),
                ("cycles".to_owned(), 2),
            ]);
            let parameters = Parameters::resolve(workload.declaration, &given).unwrap();
            let mut prepared = workload
                .prepare(&parameters, &Place { cpus: vec![0] })
                .unwrap();
            prepared.preflight().unwrap();
            let (ops, found) = named(scenario, prepared.round().unwrap());
            assert_eq!(found["ops_ok"], ops);
            assert_eq!(wrong(&found), BTreeMap::new());
        }
    }
}
