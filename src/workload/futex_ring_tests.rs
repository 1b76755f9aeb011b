//! Deliberately wrong workloads: each must be caught by the check meant for it.

use std::collections::BTreeMap;

use super::*;
use crate::workload::error::Kind;
use crate::workload::harness::monotonic_raw_ns;
use crate::workload::io_uring_futex_scalar::DECLARATION;
use crate::workload::registry;

const CYCLES: u64 = 3;

fn scalar_wait(memory: &FutexMemory, vector: usize, element: usize) -> Entry {
    opcode::FutexWait::new(memory.word(vector, element), 0, ANY_BIT, FUTEX_FLAGS).build()
}

fn vector_wait(memory: &FutexMemory, vector: usize, _element: usize) -> Entry {
    opcode::FutexWaitV::new(memory.vector(vector), memory.vector_length()).build()
}

fn short_vector_wait(memory: &FutexMemory, vector: usize, _element: usize) -> Entry {
    opcode::FutexWaitV::new(memory.vector(vector), memory.vector_length() - 1).build()
}

fn element(element: usize) -> i32 {
    i32::try_from(element).unwrap()
}

fn zero(_element: usize) -> i32 {
    0
}

fn right(ring: &mut FutexRing, wait: fn(&FutexMemory, usize, usize) -> Entry) {
    ring.queue_waits(wait).unwrap();
    ring.enter(0).unwrap();
    ring.queue_wakes().unwrap();
    ring.enter(2 * ring.vector_count()).unwrap();
    ring.reap();
}

fn scalar_window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
    right(ring, scalar_wait);
    Ok(1)
}

fn vector_window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
    right(ring, vector_wait);
    Ok(1)
}

/// Leaves a waiter on word 0 of vector 0, under a number already used.
fn leaving_window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
    right(ring, scalar_wait);
    ring.push(scalar_wait(&ring.memory, 0, 0), 0)?;
    ring.enter(0)?;
    Ok(1)
}

/// Submits everything once more, so that every completion of the first pass is stray.
fn old_number_window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
    ring.cycle -= 1;
    right(ring, scalar_wait);
    ring.cycle += 1;
    Ok(1)
}

const SCALAR: Form = Form {
    workload: "scalar",
    wait: scalar_wait,
    woken: zero,
    window: scalar_window,
    check_woken_word: true,
};

const VECTOR: Form = Form {
    workload: "vector",
    wait: vector_wait,
    woken: element,
    window: vector_window,
    check_woken_word: false,
};

/// `None`, with the reason printed, where this kernel has no `io_uring` futexes.
fn rounds(form: &'static Form) -> Option<FutexRounds> {
    for name in ["io-uring-futex-waitv", "io-uring-futex-scalar"] {
        match registry::support(name) {
            Err(error)
                if error.kind() == Kind::Skipped
                    && std::env::var_os("REGBUNDLE_REQUIRE_IO_URING").is_none() =>
            {
                println!("skipped: {error}");
                return None;
            }
            other => other.unwrap(),
        }
    }
    let given = BTreeMap::from([("cycles".to_owned(), CYCLES)]);
    let parameters = Parameters::resolve(&DECLARATION, &given).unwrap();
    Some(FutexRounds::new(form, &parameters).unwrap())
}

/// Counters of one round by name, with the ops of a round of 8 vectors.
fn counters(form: &'static Form) -> Option<(u64, BTreeMap<&'static str, u64>)> {
    let outcome = rounds(form)?.round().unwrap();
    let names = DECLARATION.counters.iter().map(|counter| counter.name);
    Some((outcome.ops, names.zip(outcome.counters).collect()))
}

#[test]
fn right_forms_pass_the_preflight_and_leave_nothing() {
    for form in [&SCALAR, &VECTOR] {
        let Some(mut rounds) = rounds(form) else {
            return;
        };
        rounds.preflight().unwrap();
        let outcome = rounds.round().unwrap();
        assert_eq!(outcome.ops, CYCLES * 8);
        assert_eq!(outcome.elapsed_ns, CYCLES);
        assert_eq!(outcome.counters, [CYCLES * 8, CYCLES * 8, 0, 0, 0, 0]);
    }
}

#[test]
fn a_vector_that_is_one_word_short_is_caught_by_the_preflight_alone() {
    static FORM: Form = Form {
        wait: short_vector_wait,
        ..VECTOR
    };
    let Some(mut rounds) = rounds(&FORM) else {
        return;
    };
    let message = rounds.preflight().unwrap_err().to_string();
    assert!(
        message.contains("vector 0, word 7: wake completed with 0, wanted 1"),
        "{message}"
    );
}

#[test]
fn a_wait_that_names_another_word_is_a_bad_result() {
    static FORM: Form = Form {
        woken: zero,
        ..VECTOR
    };
    let Some((ops, found)) = counters(&FORM) else {
        return;
    };
    assert_eq!(found["waits_ok"], 0);
    assert_eq!(found["bad_result"], ops);
    assert_eq!(found["wakes_ok"], ops);
}

#[test]
fn a_waiter_left_behind_is_residual_and_its_completion_is_stray() {
    static FORM: Form = Form {
        window: leaving_window,
        ..SCALAR
    };
    let Some((ops, found)) = counters(&FORM) else {
        return;
    };
    assert_eq!(found["residual"], CYCLES);
    assert!(found["stray"] >= 1, "{found:?}");
    assert_eq!(found["waits_ok"], ops);
}

#[test]
fn completions_numbered_for_another_cycle_are_stray() {
    static FORM: Form = Form {
        window: old_number_window,
        ..SCALAR
    };
    let Some((ops, found)) = counters(&FORM) else {
        return;
    };
    assert_eq!(found["stray"], 2 * ops);
    assert_eq!(found["waits_ok"] + found["wakes_ok"], 0);
}

#[test]
fn the_largest_numbers_of_one_cycle_do_not_reach_into_the_next() {
    let positions = 2 * 64 + 64 * 128;
    assert!(number(7, positions) < number(8, 0));
}

fn much_too_short_vector_wait(memory: &FutexMemory, vector: usize, _element: usize) -> Entry {
    opcode::FutexWaitV::new(memory.vector(vector), memory.vector_length() / 2).build()
}

#[test]
fn a_vector_of_half_its_words_passes_every_counter_so_only_the_preflight_stands() {
    fn window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
        right(ring, much_too_short_vector_wait);
        Ok(1)
    }
    static FORM: Form = Form {
        wait: much_too_short_vector_wait,
        window,
        ..VECTOR
    };
    let Some((ops, found)) = counters(&FORM) else {
        return;
    };
    assert_eq!(found["waits_ok"] + found["wakes_ok"], 2 * ops);
    let wrong = ["bad_result", "stray", "overflow", "residual"];
    assert!(wrong.iter().all(|name| found[name] == 0), "{found:?}");
    let message = rounds(&FORM).unwrap().preflight().unwrap_err().to_string();
    assert!(message.contains("vector 0, word 4"), "{message}");
}

#[test]
fn two_elements_on_one_word_are_caught_by_the_preflight_alone() {
    let Some(mut rounds) = rounds(&VECTOR) else {
        return;
    };
    rounds.ring.memory.alias(2, 5, 4);
    let outcome = rounds.round().unwrap();
    assert_eq!(outcome.counters, [CYCLES * 8, CYCLES * 8, 0, 0, 0, 0]);
    let message = rounds.preflight().unwrap_err().to_string();
    assert!(
        message.contains("vector 2, word 5: wake completed with 0, wanted 1"),
        "{message}"
    );
}

#[test]
fn a_wake_of_another_element_is_a_bad_result() {
    fn window(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
        let (count, element) = (ring.vector_count(), ring.memory.wake() - 1);
        ring.queue_waits(vector_wait)?;
        ring.enter(0)?;
        for vector in 0..count {
            ring.push(wake(&ring.memory, vector, element), count + vector)?;
        }
        ring.enter(2 * count)?;
        ring.reap();
        Ok(1)
    }
    static FORM: Form = Form { window, ..VECTOR };
    let Some((ops, found)) = counters(&FORM) else {
        return;
    };
    assert_eq!((found["waits_ok"], found["bad_result"]), (0, ops));
}

#[test]
fn a_residual_check_in_the_submission_of_the_wakes_finds_waiters_that_are_none() {
    let Some(mut rounds) = rounds(&VECTOR) else {
        return;
    };
    let ring = &mut rounds.ring;
    let (count, words) = (ring.vector_count(), ring.memory.words_per_vector());
    let woken = ring.memory.wake();
    ring.begin_cycle();
    ring.queue_waits(vector_wait).unwrap();
    ring.enter(0).unwrap();
    ring.queue_wakes().unwrap();
    let first = 2 * count;
    let mut queued = 0;
    for vector in 0..count {
        for element in (0..words).filter(|element| *element != woken) {
            ring.push(wake(&ring.memory, vector, element), first + queued)
                .unwrap();
            queued += 1;
        }
    }
    ring.enter(first + queued).unwrap();
    ring.reap();
    let taken = std::mem::take(&mut ring.completions);
    let phantoms = taken
        .iter()
        .filter(|(user_data, result)| *user_data >= number(ring.cycle, first) && *result > 0);
    // A check written so would count them as `residual` and fail every row.
    assert!(phantoms.count() > 0, "{taken:?}");
}

#[test]
fn a_window_that_begins_after_the_first_submission_is_seen_by_no_counter() {
    fn late(ring: &mut FutexRing) -> Result<u64, WorkloadError> {
        ring.queue_waits(vector_wait)?;
        ring.enter(0)?;
        let begin = monotonic_raw_ns();
        ring.queue_wakes()?;
        ring.enter(2 * ring.vector_count())?;
        ring.reap();
        Ok(monotonic_raw_ns().saturating_sub(begin))
    }
    static FORM: Form = Form {
        window: late,
        ..VECTOR
    };
    let Some(mut rounds) = rounds(&FORM) else {
        return;
    };
    rounds.preflight().unwrap();
    let outcome = rounds.round().unwrap();
    // Only another implementation beside it shows this: tests/wrong_variants.rs.
    assert_eq!(outcome.counters, [CYCLES * 8, CYCLES * 8, 0, 0, 0, 0]);
}
