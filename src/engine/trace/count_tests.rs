use super::*;

const WAITV: Hit = Hit::new(
    "io_uring:io_uring_submit_req",
    &[("opcode", "FUTEX_WAITV")],
    Wanted::PerOp(1),
);
const ALLOCATION: Hit = Hit::allocation(
    "kmem:kmalloc",
    &[("call_site", "io_futexv_prep")],
    Wanted::PerOp(1),
);
const WITNESS: &str = "sched:sched_process_exec";

/// A buffer of an exec, so many submissions of each opcode, and allocations.
fn buffer(waitv: u64, wake: u64, allocations: u64, site: &str) -> String {
    let mut lines = vec!["sched_process_exec: filename=/x pid=9 old_pid=9".to_owned()];
    for (count, opcode) in [(waitv, "FUTEX_WAITV"), (wake, "FUTEX_WAKE")] {
        let line = format!("io_uring_submit_req: ring 0, opcode {opcode}, flags 0x0");
        lines.extend((0..count).map(|_| line.clone()));
    }
    let line = format!(
        "kmalloc: call_site={site} ptr=0 bytes_req=1280 bytes_alloc=2048 gfp_flags=GFP_KERNEL node=-1 accounted=false"
    );
    lines.extend((0..allocations).map(|_| line.clone()));
    let mut text = format!(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: {0}/{0}   #P:2\n#\n",
        lines.len()
    );
    for line in lines {
        text.push_str(&format!(
            "               x-9       [001] ..... 1.000000: {line}\n"
        ));
    }
    text
}

fn counted(text: &str) -> Tally {
    tally(text, &[WAITV, ALLOCATION], WITNESS).unwrap()
}

/// Preflight of 3, and 4 in each round of 4 ops; allocations as given.
fn observed(allocations: [u64; 2], site: &str) -> Observed {
    let at = |waitv, allocations| counted(&buffer(waitv, 9, allocations, site));
    Observed {
        rounds: 1,
        absent: Vec::new(),
        short: at(7, allocations[0]),
        long: at(11, allocations[1]),
        first_half: at(7, allocations[0]),
        before_end: at(11, allocations[1]),
        ops_short: 4,
        ops_long: 8,
        ops_first_half: 4,
    }
}

fn ask(hit: &Hit, index: usize, observed: &Observed) -> HitResult {
    let params = BTreeMap::from([("words".to_owned(), 8), ("cycles".to_owned(), 2)]);
    answer(hit, index, &params, observed)
}

const SITE: &str = "io_futexv_prep+0x57/0x110";

#[test]
fn the_rounds_are_told_apart_from_the_rest() {
    let observed = observed([7, 11], SITE);
    for (hit, index) in [(&WAITV, 0), (&ALLOCATION, 1)] {
        let found = ask(hit, index, &observed);
        assert_eq!(found.answer, Answer::Pass, "{}", found.reason);
        let share = Share {
            in_rounds: 4,
            elsewhere: 3,
        };
        assert_eq!(found.seen, Some(share));
        assert_eq!(found.expected_in_rounds, Some(4));
    }
    let values = ask(&ALLOCATION, 1, &observed).values;
    assert_eq!(values.len(), 1);
    assert_eq!(values[0].fields["bytes_req"], "1280");
    assert_eq!(values[0].share.in_rounds, 4);
}

#[test]
fn one_too_many_and_one_too_few_fail() {
    for long in [10, 12] {
        let found = ask(&ALLOCATION, 1, &observed([7, long], SITE));
        assert_eq!(found.answer, Answer::Fail);
        let text = format!("found {} in the rounds, wanted 4", long - 7);
        assert_eq!(found.reason, text);
    }
}

#[test]
fn counts_that_shrink_are_no_count() {
    let found = ask(&ALLOCATION, 1, &observed([7, 6], SITE));
    assert_eq!(found.answer, Answer::NotChecked);
    assert_eq!(found.seen, None);
    // More in the rounds than the shorter run had in all.
    assert_eq!(
        ask(&ALLOCATION, 1, &observed([2, 6], SITE)).answer,
        Answer::NotChecked
    );
}

#[test]
fn a_lower_bound_holds_from_its_border_on() {
    for (count, wanted) in [(1, Answer::Pass), (2, Answer::Fail)] {
        let hit = Hit {
            wanted: Wanted::AtLeastPerOp(count),
            ..WAITV
        };
        assert_eq!(ask(&hit, 0, &observed([7, 11], SITE)).answer, wanted);
    }
}

#[test]
fn a_lower_bound_holds_for_the_first_rounds_too() {
    let hit = Hit {
        wanted: Wanted::AtLeastPerOp(1),
        ..WAITV
    };
    let mut observed = observed([7, 11], SITE);
    observed.ops_first_half = 8;
    observed.ops_long = 12;
    let found = ask(&hit, 0, &observed);
    assert_eq!(found.answer, Answer::Fail);
    assert!(found.reason.contains("first rounds"), "{}", found.reason);
    observed.ops_first_half = 7;
    observed.ops_long = 11;
    assert_eq!(ask(&hit, 0, &observed).answer, Answer::Pass);
}

#[test]
fn a_round_may_have_as_many_more_as_declared_and_not_one_beyond() {
    let hit = Hit {
        wanted: Wanted::PerOpAndInRound(1),
        ..ALLOCATION
    };
    for (long, wanted) in [
        (10, Answer::Fail),
        (11, Answer::Pass),
        (12, Answer::Pass),
        (13, Answer::Fail),
    ] {
        let answer = ask(&hit, 1, &observed([7, long], SITE)).answer;
        assert_eq!(answer, wanted, "{long}");
    }
}

#[test]
fn what_is_recorded_is_divided_within_one_run() {
    let hit = Hit {
        wanted: Wanted::Recorded,
        ..ALLOCATION
    };
    let mut observed = observed([7, 11], SITE);
    // The other run's start had more: no matter.
    observed.short = counted(&buffer(0, 0, 30, SITE));
    let share = Share {
        in_rounds: 4,
        elsewhere: 3,
    };
    assert_eq!(ask(&hit, 1, &observed).seen, Some(share));
    observed.first_half = counted(&buffer(0, 0, 1, SITE));
    assert_eq!(ask(&hit, 1, &observed).answer, Answer::NotChecked);
}

#[test]
fn a_parameter_says_how_many_per_op_or_per_round() {
    let observed = observed([7, 11], SITE);
    for (wanted, expected) in [
        (Wanted::PerOpOf("words", 1), Some(36)),
        (Wanted::PerRoundTimes(2, "cycles"), Some(4)),
        (Wanted::PerOpOf("absent", 0), None),
        (Wanted::Recorded, None),
    ] {
        let found = ask(&Hit { wanted, ..WAITV }, 0, &observed);
        assert_eq!(found.expected_in_rounds, expected, "{wanted:?}");
        let answer = match (wanted, expected) {
            (Wanted::Recorded, _) => Answer::Recorded,
            (_, None) => Answer::NotChecked,
            (_, Some(4)) => Answer::Pass,
            _ => Answer::Fail,
        };
        assert_eq!(found.answer, answer, "{wanted:?}");
    }
}

#[test]
fn an_event_that_the_kernel_has_not_is_not_a_count_of_none() {
    let mut observed = observed([7, 11], SITE);
    observed.absent.push(WAITV.event.to_owned());
    let none = Hit {
        wanted: Wanted::PerOp(0),
        ..WAITV
    };
    assert_eq!(ask(&none, 0, &observed).answer, Answer::NotChecked);
}

#[test]
fn call_sites_that_are_addresses_are_not_counted_as_other_functions() {
    let observed = observed([7, 11], "0xffffffff81234567");
    let none = Hit {
        wanted: Wanted::PerOp(0),
        ..ALLOCATION
    };
    assert_eq!(ask(&none, 1, &observed).answer, Answer::NotChecked);
    assert_eq!(ask(&WAITV, 0, &observed).answer, Answer::Pass);
}

#[test]
fn a_buffer_that_is_not_whole_gives_no_count() {
    let hits = [WAITV];
    let whole = buffer(2, 0, 0, SITE);
    assert!(tally(&whole, &hits, WITNESS).is_ok());
    let cut = whole.lines().take(5).collect::<Vec<_>>().join("\n");
    assert!(matches!(
        tally(&cut, &hits, WITNESS),
        Err(Uncountable::NotWhole { read: 1, .. })
    ));
    let overwritten = whole.replace("written: 3/3", "written: 3/4");
    assert!(tally(&overwritten, &hits, WITNESS).is_err());
    let lost = format!("{whole}CPU:1 [LOST 7 EVENTS]\n");
    assert!(matches!(
        tally(&lost, &hits, WITNESS),
        Err(Uncountable::Lost { .. })
    ));
    assert!(tally("", &hits, WITNESS).is_err());
}

#[test]
fn a_run_without_its_own_exec_was_not_followed() {
    let text = "# entries-in-buffer/entries-written: 0/0   #P:2\n";
    assert!(witness_missing(&counted(text)).is_err());
    assert!(witness_missing(&counted(&buffer(0, 0, 0, SITE))).is_ok());
}
