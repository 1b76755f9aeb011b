//! The team against jobs that do nothing but count, sleep, stray or die.

use std::process::{Command, Stdio};

use super::*;
use crate::workload::task_board::{Word, add};
use crate::workload::testing::place;

const NAME: &str = "test";
const KINDS: [TaskKind; 2] = [TaskKind::Process, TaskKind::Thread];

/// Counts until it is stopped.
struct Counting;

impl Job for Counting {
    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        while go.on() {
            slot.count(true);
        }
    }
}

/// Counts once, then waits for the end of the round.
struct Once;

impl Job for Once {
    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        slot.count(true);
        while go.on() {
            std::thread::yield_now();
        }
    }
}

/// Reports the command it was given.
struct Answering;

impl Job for Answering {
    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        add(&slot.bad_wd, u64::from(go.command()));
    }
}

/// Ends in its first round.
struct Dying;

impl Job for Dying {
    fn round(&mut self, _slot: &Slot, _go: &Go<'_>) {
        // SAFETY: ends this forked child only.
        unsafe { libc::_exit(3) };
    }
}

/// Leaves its CPU for another one of the place.
struct Straying(usize);

impl Job for Straying {
    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        let _ = sched_setaffinity(None, &cpu_set(&[self.0]));
        while go.on() {
            slot.count(true);
        }
    }
}

fn assignment(tasks: usize) -> Assignment {
    Assignment {
        tasks,
        cpus: place().cpus.into_iter().take(tasks).collect(),
    }
}

fn team<J: Job>(kind: TaskKind, jobs: Vec<J>) -> Team {
    let allowed = assignment(jobs.len()).pinned();
    Team::start(NAME, kind, jobs, &allowed).unwrap()
}

#[test]
fn a_slot_and_every_word_have_128_bytes_of_their_own() {
    assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (128, 128));
    assert_eq!((size_of::<Word>(), align_of::<Word>()), (128, 128));
}

#[test]
fn a_tally_keeps_ops_and_right_ops_apart() {
    let slot = Slot::default();
    slot.count(true);
    slot.count(false);
    slot.count(true);
    assert_eq!(slot.tally(), (3, 2));
}

#[test]
fn every_task_counts_in_every_window_and_sleeps_after_it() {
    for kind in KINDS {
        let mut team = team(kind, vec![Counting, Counting, Counting]);
        for _ in 0..3 {
            let sample = team.sample(Duration::from_millis(20)).unwrap();
            assert_eq!(sample.ops.len(), 3);
            assert_eq!(sample.ops, sample.right);
            assert!(sample.elapsed_ns >= 20_000_000);
            let tallies: Vec<_> = team.slots().iter().map(Slot::tally).collect();
            std::thread::sleep(Duration::from_millis(5));
            let later: Vec<_> = team.slots().iter().map(Slot::tally).collect();
            assert_eq!(tallies, later, "{kind:?}: a task ran between rounds");
            assert!(tallies.iter().all(|(ops, _)| *ops > 0));
            assert_eq!(team.off_cpu(), 0);
        }
    }
}

#[test]
fn a_task_without_an_op_in_the_window_has_none_in_the_sample() {
    let mut team = team(TaskKind::Process, vec![Once]);
    assert_eq!(team.sample(Duration::from_millis(1)).unwrap().ops, [0]);
}

#[test]
fn a_round_that_tasks_end_themselves_hands_them_its_command_and_clocks_each() {
    for kind in KINDS {
        let mut team = team(kind, vec![Answering, Answering]);
        for command in [5, 7] {
            let begin = team.run(command).unwrap();
            assert_eq!(team.sum(|slot| &slot.bad_wd), 2 * u64::from(command));
            assert!(team.slots().iter().all(|slot| slot.end_ns() > begin));
        }
    }
}

#[test]
fn a_child_that_dies_ends_the_round_with_its_number_and_status() {
    let mut team = team(TaskKind::Process, vec![Dying]);
    let message = team.run(0).unwrap_err().to_string();
    // 3 << 8: the exit code as waitpid reports it.
    assert!(
        message.contains("task 0 of test") && message.contains("768"),
        "{message}"
    );
}

#[test]
fn a_task_on_another_cpu_at_the_end_of_the_round_is_off_cpu() {
    let [_, other, ..] = place().cpus[..] else {
        println!("skipped: one CPU only");
        return;
    };
    for kind in KINDS {
        let mut team = team(kind, vec![Straying(other)]);
        team.sample(Duration::from_millis(1)).unwrap();
        assert_eq!(team.off_cpu(), 1, "{kind:?}");
    }
}

#[test]
fn a_cpu_that_cannot_be_is_an_error_that_names_the_task() {
    for kind in KINDS {
        let allowed = vec![place().cpus, vec![CpuSet::MAX_CPU - 1]];
        let error = Team::start(NAME, kind, vec![Once, Once], &allowed).err();
        let message = error.unwrap().to_string();
        assert!(message.contains("sched_setaffinity"), "{message}");
        assert!(message.contains("task 1"), "{message}");
    }
}

#[test]
fn tasks_take_turns_on_the_cpus_and_the_columns_say_how_many() {
    let assignment = Assignment {
        tasks: 3,
        cpus: vec![6, 2],
    };
    assert_eq!(assignment.pinned(), [vec![6], vec![2], vec![6]]);
    assert_eq!(assignment.spread(), vec![vec![6, 2]; 3]);
    assert_eq!(assignment.columns(), [3, 2]);
    assert_eq!(
        columns(2, "ops"),
        ["tasks", "task_cpus", "task0_ops", "task1_ops"]
    );
}

/// Set by the test that starts this executable again to kill it.
const LINGER: &str = "REGBUNDLE_TEST_LINGER";

#[test]
fn children_wait_for_rounds_as_long_as_their_parent_lives() {
    let team = team(TaskKind::Process, vec![Once, Once]);
    let pids: Vec<i32> = team
        .tasks
        .iter()
        .map(|task| match task {
            Task::Process(pid) => pid.as_raw_nonzero().get(),
            Task::Thread(_) | Task::Ended => panic!("not a process"),
        })
        .collect();
    if std::env::var_os(LINGER).is_some() {
        println!("pids {} {} end", pids[0], pids[1]);
        loop {
            std::thread::park();
        }
    }
    assert!(pids.iter().all(|pid| exists(*pid)));
    drop(team);
    assert!(!pids.iter().any(|pid| exists(*pid)));
}

#[test]
fn children_of_a_killed_parent_die() {
    use std::io::BufRead as _;
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "workload::tasks::tests::children_wait_for_rounds_as_long_as_their_parent_lives",
            "--nocapture",
        ])
        .env(LINGER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = io::BufReader::new(parent.stdout.take().unwrap());
    let line = output
        .lines()
        .map(Result::unwrap)
        .find(|line| line.contains("pids "))
        .unwrap();
    let pids: Vec<i32> = line
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(pids.len(), 2, "{line}");
    assert!(pids.iter().all(|pid| exists(*pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    // A signal is delivered soon, but not within any bound that is promised.
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !pids.iter().any(|pid| exists(*pid))
    });
    assert!(gone, "{pids:?} outlived their parent");
}

/// Whether a process is there and not only waiting to be reaped.
fn exists(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
