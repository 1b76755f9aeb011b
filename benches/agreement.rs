//! Formal beside standalone: short runs of both alternate until the ratio is known.
//!
//!     cargo bench --bench agreement -- [NAME...] [--seconds N] [--param NAME=N]...
//!
//! For every workload (or those whose name begins with NAME) it prints the clean median and
//! CV of each implementation, the ratio formal / standalone with its 95 % interval over
//! pairs of runs, and the standard deviation between the medians of the first five batches of
//! 15 clean rounds. `clock %` is the share of a round that is an empty window times the number
//! of windows: what reading the clock costs inside. A round is clean by the rule of `stats::selection`. The first run counts:
//! nothing is repeated for a better figure.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench prints its figures and stops at its first surprise"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regbundle::input::rows::read_stream;
use regbundle::model::case::Implementation::{self, Formal, Standalone};
use regbundle::model::identity::BootIdentity;
use regbundle::model::protocol::Clock;
use regbundle::model::row::{Metric, Phase, Row};
use regbundle::model::units::to_f64;
use regbundle::stats::figure::Measure;
use regbundle::stats::location::{mean, sample_sd};
use regbundle::stats::selection::Floors;
use regbundle::workload::declaration::{Declaration, split_scenario};
use regbundle::workload::harness::monotonic_raw_ns;
use regbundle::workload::{emit, registry};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

const ROUNDS: &str = "10";
const TOLERANCE_PCT: f64 = 3.0;
const BATCH: usize = 15;
/// Half width of the interval that is enough, percent, and the pairs it takes at least.
const ENOUGH_PCT: f64 = 2.0;
const LEAST_PAIRS: usize = 8;

struct Options {
    names: Vec<String>,
    seconds: u64,
    parameters: Vec<(String, String)>,
}

fn options() -> Options {
    let mut options = Options {
        names: Vec::new(),
        seconds: 60,
        parameters: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            // What cargo adds.
            "--bench" => {}
            "--seconds" => options.seconds = words.next().unwrap().parse().unwrap(),
            "--param" => {
                let pair = words.next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                options.parameters.push((name.to_owned(), value.to_owned()));
            }
            _ => options.names.push(word),
        }
    }
    options
}

fn compile(folder: &Path, workload: &str) -> PathBuf {
    let (name, _) = split_scenario(workload);
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, emit::source(name).unwrap()).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-o"]);
    compiler.arg(&program).arg(&file);
    assert!(compiler.status().unwrap().success());
    program
}

/// The measured rows of one short run; empty when the machine cannot do it.
fn run(mut command: Command) -> Vec<Row> {
    let output = command
        .args(["--warmup", "3", "--rounds", ROUNDS])
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(4) {
        eprintln!("skipped: {}", said.trim());
        return Vec::new();
    }
    assert!(output.status.code().is_some_and(|code| code < 2), "{said}");
    let stream = read_stream(str::from_utf8(&output.stdout).unwrap(), "rows").unwrap();
    let failed = stream.rows.iter().filter(|row| row.passed != Some(true));
    let failed = failed.count();
    if failed > 0 {
        eprintln!("{failed} rows fail: {}", said.trim());
    }
    stream
        .rows
        .into_iter()
        .filter(|row| row.phase == Phase::Measured && row.passed == Some(true))
        .collect()
}

fn formal(workload: &str, parameters: &[(String, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regbundle"));
    command.args(["worker", workload]);
    for (name, value) in parameters {
        command.args(["--param", &format!("{name}={value}")]);
    }
    command
}

fn standalone(program: &Path, workload: &str, parameters: &[(String, String)]) -> Command {
    let mut command = Command::new(program);
    if let (_, Some(scenario)) = split_scenario(workload) {
        command.args(["--scenario", scenario]);
    }
    for (name, value) in parameters {
        command.args([&format!("--{name}"), value]);
    }
    command
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Every run in order: which implementation, its rows.
type Runs = Vec<(Implementation, Vec<Row>)>;

struct Figures {
    clean: BTreeMap<&'static str, Vec<f64>>,
    rows: usize,
    pairs: Vec<f64>,
    elapsed_ns: Vec<f64>,
}

fn elapsed(row: &Row) -> Option<f64> {
    match row.metric {
        Metric::Elapsed { elapsed, .. } => Some(to_f64(elapsed)),
        Metric::PerOp { .. } => None,
    }
}

/// Selects on the canaries of all runs; pairs are neighbours with a clean round in each.
fn figures(runs: &Runs, measure: Measure) -> Figures {
    let identity = BootIdentity::default();
    let mut floors = Floors::default();
    for (implementation, rows) in runs {
        for row in rows {
            floors.add(*implementation, &identity, row);
        }
    }
    let clean_of = |(implementation, rows): &(Implementation, Vec<Row>)| -> Vec<f64> {
        rows.iter()
            .filter(|row| {
                floors.is_clean(*implementation, &identity, row, TOLERANCE_PCT) == Some(true)
            })
            .map(|row| measure.value(row))
            .collect()
    };
    let mut figures = Figures {
        clean: BTreeMap::new(),
        rows: runs.iter().map(|(_, rows)| rows.len()).sum(),
        pairs: Vec::new(),
        elapsed_ns: runs
            .iter()
            .flat_map(|(_, rows)| rows)
            .filter_map(elapsed)
            .collect(),
    };
    for run in runs {
        let list = figures.clean.entry(run.0.word()).or_default();
        list.extend(clean_of(run));
    }
    for pair in runs.chunks_exact(2) {
        let (one, other) = (median(&clean_of(&pair[0])), median(&clean_of(&pair[1])));
        if let (Some(one), Some(other)) = (one, other) {
            let sign = if pair[0].0 == Formal { 1.0 } else { -1.0 };
            figures.pairs.push(sign * (one / other).ln());
        }
    }
    figures
}

/// Mean and half width of the 95 % interval of the ratio, percent; `None` below two pairs.
fn ratio(pairs: &[f64]) -> Option<(f64, f64)> {
    let n = f64::from(u32::try_from(pairs.len()).unwrap());
    let (center, sd) = (mean(pairs)?, sample_sd(pairs)?);
    let t = StudentsT::new(0.0, 1.0, n - 1.0)
        .unwrap()
        .inverse_cdf(0.975);
    Some((
        100.0 * center.exp_m1(),
        100.0 * (t * sd / n.sqrt()).exp_m1(),
    ))
}

fn cv_pct(values: &[f64]) -> Option<f64> {
    Some(100.0 * sample_sd(values)? / mean(values)?)
}

/// Time between two clock reads with nothing between them, ns: the smallest mean of a
/// thousand pairs.
fn empty_window_ns() -> f64 {
    let means = (0..1000).map(|_| {
        let sum: u64 = (0..1000)
            .map(|_| {
                let begin = monotonic_raw_ns();
                monotonic_raw_ns().saturating_sub(begin)
            })
            .sum();
        f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / 1000.0
    });
    means.reduce(f64::min).unwrap()
}

/// Clock reads inside the windows of a round, less the first of each.
fn reads(declaration: &Declaration, parameters: &[(String, String)]) -> f64 {
    let value = |name: &str| {
        let known = declaration
            .parameters
            .iter()
            .find(|known| known.name == name)?;
        let given = parameters.iter().find(|(given, _)| given == name);
        Some(given.map_or(known.default, |(_, value)| value.parse().unwrap()))
    };
    let parts = declaration.counters.iter();
    let parts = parts
        .filter(|counter| counter.name.starts_with("part_"))
        .count();
    // The pools of `thread-pool` repeat their cycles in one window.
    let windows = match value("cycles") {
        Some(cycles) if !declaration.name.starts_with("thread-pool") => cycles,
        _ => 1,
    };
    f64::from(u32::try_from(windows).unwrap()) * f64::from(u32::try_from(parts.max(1)).unwrap())
}

/// Standard deviation between the medians of the first five batches, percent.
fn between_pct(values: &[f64]) -> Option<f64> {
    let medians: Vec<f64> = values
        .chunks_exact(BATCH)
        .take(5)
        .filter_map(median)
        .collect();
    (medians.len() == 5).then(|| cv_pct(&medians)).flatten()
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn main() {
    let options = options();
    let folder = tempfile::tempdir().unwrap();
    let empty = empty_window_ns();
    println!("an empty window takes {empty:.1} ns\n");
    println!(
        "| workload | unit | formal | CV % | sd of batches % | standalone | CV % | sd of batches % | formal / standalone, 95 % | pairs | clean of rows | clock % |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for declaration in registry::declarations() {
        let name = declaration.name;
        let asked = options.names.iter().any(|word| name.starts_with(word));
        if !options.names.is_empty() && !asked {
            continue;
        }
        let program = compile(folder.path(), name);
        let measure = Measure::new(name, Clock::Ns);
        let begun = Instant::now();
        let mut runs: Runs = Vec::new();
        loop {
            // F S, S F, F S …: neither is always the first.
            let order = match (runs.len() / 2) % 2 {
                0 => [Formal, Standalone],
                _ => [Standalone, Formal],
            };
            for implementation in order {
                let rows = run(match implementation {
                    Formal => formal(name, &options.parameters),
                    Standalone => standalone(&program, name, &options.parameters),
                });
                runs.push((implementation, rows));
            }
            let found = figures(&runs, measure);
            let narrow = ratio(&found.pairs).is_some_and(|(_, half)| half <= ENOUGH_PCT);
            let batches = found.clean.values().all(|clean| clean.len() >= 5 * BATCH);
            let enough = found.pairs.len() >= LEAST_PAIRS && narrow && batches;
            if enough || begun.elapsed() > Duration::from_secs(options.seconds) {
                break;
            }
        }
        let found = figures(&runs, measure);
        let of = |word: &str| found.clean.get(word).cloned().unwrap_or_default();
        let (formal, standalone) = (of("formal"), of("standalone"));
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {} |",
            measure.unit(),
            cell(median(&formal), 1),
            cell(cv_pct(&formal), 2),
            cell(between_pct(&formal), 2),
            cell(median(&standalone), 1),
            cell(cv_pct(&standalone), 2),
            cell(between_pct(&standalone), 2),
            ratio(&found.pairs).map_or_else(
                || "-".to_owned(),
                |(center, half)| format!("{center:+.2} % +- {half:.2}")
            ),
            found.pairs.len(),
            formal.len() + standalone.len(),
            found.rows,
            cell(
                median(&found.elapsed_ns)
                    .map(|ns| 100.0 * reads(declaration, &options.parameters) * empty / ns),
                3
            ),
        );
    }
}
