//! What the tests of several workloads use.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::thread::CpuSet;

use super::declaration::Declaration;
use super::parameters::Parameters;
use super::{Place, RoundOutcome};

/// The CPUs of the calling thread.
pub fn place() -> Place {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    Place {
        cpus: (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect(),
    }
}

/// The counters of an outcome by name.
pub type Named = BTreeMap<String, u64>;

/// Names the counters of an outcome as the header of its row does.
pub fn named(declaration: &Declaration, columns: &[String], outcome: &RoundOutcome) -> Named {
    let counters = declaration.counters.iter();
    let names = counters.map(|counter| counter.name.to_owned());
    let names: Vec<String> = names.chain(columns.iter().cloned()).collect();
    assert_eq!(names.len(), outcome.counters.len());
    names
        .into_iter()
        .zip(outcome.counters.iter().copied())
        .collect()
}

/// Parameters, the others at their defaults.
pub fn resolve(declaration: &Declaration, given: &[(&str, u64)]) -> Parameters {
    let given = given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    Parameters::resolve(declaration, &given.collect()).unwrap()
}

/// Runs the test of this name in a process of its own; false in that process, which is
/// to do the test.
pub fn was_run_alone(test: &str) -> bool {
    const ALONE: &str = "REGBUNDLE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{output:?}");
    assert!(text.contains("1 passed"), "no test {test}: {text}");
    true
}
