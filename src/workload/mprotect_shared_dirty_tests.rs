//! Small rounds, and deliberately wrong ones: each must be caught by the counter or
//! the check meant for it.

use std::collections::BTreeMap;

use super::*;

/// Pages of one MiB.
const PAGES: u64 = 256;

fn counters(outcome: RoundOutcome) -> BTreeMap<&'static str, u64> {
    let names = DECLARATION.counters.iter().map(|counter| counter.name);
    names.zip(outcome.counters).collect()
}

#[test]
fn every_page_holds_its_cycles_value_and_the_parts_are_the_window() {
    let mut rounds = Rounds::new(1, 3).unwrap();
    rounds.preflight().unwrap();
    // More cycles than there are values, so that they begin again.
    for _ in 0..90 {
        let outcome = rounds.round().unwrap();
        assert_eq!(outcome.ops, 3 * PAGES);
        let elapsed_ns = outcome.elapsed_ns;
        let found = counters(outcome);
        assert_eq!(found["pages_ok"], 3 * PAGES);
        assert_eq!(found["wrong_value"] + found["huge_pages"], 0);
        let parts = ["part_protect", "part_restore", "part_touch"].map(|name| found[name]);
        assert!(parts.iter().all(|part| *part > 0), "{parts:?}");
        assert_eq!(parts.iter().sum::<u64>(), elapsed_ns);
    }
}

#[test]
fn a_page_that_is_not_written_is_a_wrong_value_in_every_cycle() {
    let mut rounds = Rounds::new(1, 3).unwrap();
    rounds.touch = |mapping, value| {
        let kept = mapping.value(7);
        touch(mapping, value);
        // SAFETY: page 7 is one of the mapping, which is writable here.
        unsafe { mapping.page(7).write_volatile(kept) };
    };
    let found = counters(rounds.round().unwrap());
    assert_eq!(found["wrong_value"], 3);
    assert_eq!(found["pages_ok"], 3 * PAGES - 3);
}

#[test]
fn the_value_of_the_cycle_before_is_wrong_in_every_page() {
    let mut rounds = Rounds::new(1, 2).unwrap();
    rounds.touch = |_, _| {};
    let found = counters(rounds.round().unwrap());
    assert_eq!(found["pages_ok"], 0);
    assert_eq!(found["wrong_value"], 2 * PAGES);
}

#[test]
fn a_protection_that_is_skipped_is_caught_by_the_preflight_alone() {
    let mut rounds = Rounds::new(1, 1).unwrap();
    rounds.protection = WRITABLE;
    let message = rounds.preflight().unwrap_err().to_string();
    assert!(
        message
            .contains("a write under PROT_READ: the write went through, wanted the write faulted"),
        "{message}"
    );
    let found = counters(rounds.round().unwrap());
    assert_eq!((found["pages_ok"], found["wrong_value"]), (PAGES, 0));
}

#[test]
fn pages_that_are_not_there_are_seen_in_the_page_table() {
    let mapping = Mapping::new(1 << 20).unwrap();
    assert_eq!(mapping.present().unwrap(), 0);
    touch(&mapping, 1);
    assert_eq!(mapping.present().unwrap(), PAGES_LOOKED_UP);
}

#[test]
fn values_differ_from_cycle_to_cycle_and_are_never_that_of_a_fresh_page() {
    for value in 0..=u8::MAX {
        assert_ne!(next(value), value);
        assert_ne!(next(value), 0);
    }
}

#[test]
fn huge_pages_are_counted_in_their_three_fields_of_that_mapping_alone() {
    let block = |range: &str, kib: [u64; 3]| {
        format!(
            "{range} rw-s 00000000 00:01 1026 /dev/zero (deleted)\nSize: 1024 kB\nAnonHugePages:  {} kB\nShmemPmdMapped: {} kB\nFilePmdMapped: {} kB\nVmFlags: rd wr sh\n",
            kib[0], kib[1], kib[2]
        )
    };
    let text = block("7f0000000000-7f0000100000", [0, 0, 0])
        + &block("7f0000100000-7f0000200000", [2, 2048, 16])
        + &block("7f0000200000-7f0000300000", [1, 1, 1]);
    let kib = |start| huge_kib_in(&text, start, 1 << 20);
    assert_eq!(kib(0x7f00_0000_0000), Some(0));
    assert_eq!(kib(0x7f00_0010_0000), Some(2066));
    assert_eq!(kib(0x7f00_0020_0000), Some(3));
    // Not there, cut short, or without one of the fields: never taken for 0.
    assert_eq!(kib(0x7f00_0030_0000), None);
    assert_eq!(huge_kib_in(&text, 0x7f00_0000_0000, 2 << 20), None);
    let without = text.replace("FilePmdMapped", "FilePmd");
    assert_eq!(huge_kib_in(&without, 0x7f00_0000_0000, 1 << 20), None);
}

#[test]
fn huge_pages_of_the_mapping_are_in_every_row() {
    let mut rounds = Rounds::new(1, 1).unwrap();
    rounds.huge_kib = 2048;
    for _ in 0..2 {
        assert_eq!(counters(rounds.round().unwrap())["huge_pages"], 2048);
    }
}

#[test]
fn pages_of_another_size_are_a_skip_that_says_both_sizes() {
    check_page_size(4096).unwrap();
    let error = check_page_size(16_384).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("16384") && message.contains("4096"),
        "{message}"
    );
    assert_eq!(error.kind().exit_code(), 4);
}
