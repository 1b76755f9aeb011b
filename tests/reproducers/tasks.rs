//! Programs with tasks: one, two, and more than there are CPUs.

use std::path::Path;
use std::process::Output;

use super::{arguments, check_tasks, compile, cpus, passed, run, steady};

/// Scenarios and shapes of the programs that have tasks; `%` is the number of tasks.
///
/// At the end the ops of one task, where no window of time decides.
const TASK_SHAPES: [(&str, &str, Option<u64>); 10] = [
    ("mmap-munmap/anon", "--tasks %", None),
    ("mmap-munmap/anon", "--tasks % --threads 1", None),
    ("mmap-munmap/file", "--tasks % --mib 1", None),
    ("page-fault", "--tasks %", None),
    ("page-fault", "--tasks % --threads 1 --mib 1", None),
    ("thread-pool", "--pools %", Some(8 * 16)),
    (
        "thread-pool",
        "--pools % --threads 3 --cycles 2 --stack_kib 64",
        Some(6),
    ),
    (
        "inotify-watch/distinct",
        "--workers % --cycles 3",
        Some(96 * 3),
    ),
    (
        "inotify-watch/shared",
        "--workers % --watches 5 --cycles 2",
        Some(10),
    ),
    (
        "inotify-watch/pair",
        "--workers % --watches 5 --cycles 2",
        Some(20),
    ),
];

fn run_tasks(dir: &Path, name: &str, tasks: usize, shape: &str, more: &str) -> Output {
    let (program, scenario) = name.split_once('/').unwrap_or((name, ""));
    let chosen = match scenario {
        "" => String::new(),
        _ => format!("--scenario {scenario}"),
    };
    let shape = shape.replace('%', &tasks.to_string());
    let window = match program {
        "mmap-munmap" | "page-fault" => steady(program),
        _ => "",
    };
    let rest = ["--warmup 0 --rounds 1", window, more];
    let words = arguments(&[&[chosen.as_str(), &shape], rest.as_slice()].concat());
    run(&dir.join(program), &words, "", false)
}

#[test]
fn each_scenario_runs_with_one_task_with_two_and_oversubscribed() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [("measured", "0")];
    for (name, shape, ops_of_task) in TASK_SHAPES {
        compile(dir.path(), name.split('/').next().unwrap(), "cc", &["-O2"]);
        for tasks in [1, 2, cpus() + 1] {
            let output = run_tasks(dir.path(), name, tasks, shape, "--oversubscribe 1");
            let stream = passed(&output).unwrap();
            let ops = ops_of_task.map(|ops| ops * tasks as u64);
            check_tasks(name, tasks, &stream, &rows, ops);
        }
    }
}

#[test]
fn more_tasks_than_cpus_are_refused_with_both_numbers_and_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let (many, cpus) = (cpus() + 1, cpus());
    for (name, shape, _) in TASK_SHAPES {
        compile(dir.path(), name.split('/').next().unwrap(), "cc", &["-O2"]);
        let output = run_tasks(dir.path(), name, many, shape, "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{name}: {said}");
        assert!(output.stdout.is_empty(), "{name}");
        let both = format!("{many} tasks but {cpus} CPUs");
        assert!(said.contains(&both), "{said}");
        assert!(said.contains("oversubscribe 1"), "{said}");
    }
}
