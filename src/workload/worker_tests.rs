//! The worker against a workload that does nothing, and against the real ones.

use super::*;
use crate::model::protocol::{FIXED_COLUMNS, SYSCALL_CANARY_COLUMNS};
use crate::workload::RoundOutcome;
use crate::workload::syscall_getpid::DECLARATION;

/// Reports a fixed outcome; from round `breaks_at` on its counter is one short.
struct Fake {
    rounds: u64,
    breaks_at: u64,
}

impl Prepared for Fake {
    fn requests(&self) -> u64 {
        1
    }

    fn preflight(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let right = 10 - u64::from(self.rounds >= self.breaks_at);
        self.rounds += 1;
        Ok(RoundOutcome {
            ops: 10,
            elapsed_ns: 1_000,
            counters: vec![right],
        })
    }
}

/// Remembers how much had been written at each flush.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    flushed_at: Vec<usize>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed_at.push(self.bytes.len());
        Ok(())
    }
}

struct Refusing;

impl Read for Refusing {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn fake(
    breaks_at: u64,
    options: &WorkerOptions,
    input: &mut dyn Read,
    output: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<WorkerSummary, WorkerError> {
    let stream = Stream {
        declaration: &DECLARATION,
        task_columns: Vec::new(),
        machine: Machine::settle(None).unwrap(),
        output,
        notes,
        summary: WorkerSummary::default(),
        line: String::new(),
    };
    let mut prepared = Fake {
        rounds: 0,
        breaks_at,
    };
    stream.rounds(&mut prepared, options, input)
}

fn options(warmup: u32, rounds: u32, step: bool) -> WorkerOptions {
    WorkerOptions {
        workload: DECLARATION.name.to_owned(),
        warmup,
        rounds,
        step,
        ..WorkerOptions::default()
    }
}

/// Reads a stream by the rules of the protocol; rows as cells by column.
fn parse(bytes: &[u8], workload: &str, counters: &[&str]) -> Vec<BTreeMap<String, String>> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("#regbundle-rows 1 {workload} formal ns"));
    let columns: Vec<&str> = lines[1].split('\t').collect();
    let expected: Vec<&str> = FIXED_COLUMNS
        .iter()
        .chain(&SYSCALL_CANARY_COLUMNS)
        .chain(counters)
        .chain(&["status"])
        .copied()
        .collect();
    assert_eq!(columns, expected);
    let rows = &lines[2..lines.len() - 1];
    assert_eq!(lines[lines.len() - 1], format!("#end {}", rows.len()));
    rows.iter()
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells.len(), columns.len());
            for cell in &cells[1..cells.len() - 1] {
                cell.parse::<u64>().unwrap();
            }
            columns
                .iter()
                .zip(cells)
                .map(|(column, cell)| ((*column).to_owned(), cell.to_owned()))
                .collect()
        })
        .collect()
}

fn column<'a>(rows: &'a [BTreeMap<String, String>], name: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[name].as_str()).collect()
}

#[test]
fn rounds_count_from_zero_in_each_phase() {
    let mut output = Output::default();
    let summary = fake(
        99,
        &options(2, 3, false),
        &mut Refusing,
        &mut output,
        &mut io::sink(),
    )
    .unwrap();
    let rows = parse(&output.bytes, DECLARATION.name, &["calls_ok"]);
    assert_eq!(
        column(&rows, "phase"),
        ["warmup", "warmup", "measured", "measured", "measured"]
    );
    assert_eq!(column(&rows, "round"), ["0", "1", "0", "1", "2"]);
    assert_eq!(summary, WorkerSummary { rows: 5, failed: 0 });
    assert_eq!(summary.exit_code(), 0);
}

#[test]
fn a_wrong_counter_fails_its_row_only_and_the_worker() {
    let (mut output, mut notes) = (Output::default(), Vec::new());
    let options = options(0, 3, false);
    let summary = fake(1, &options, &mut Refusing, &mut output, &mut notes).unwrap();
    let rows = parse(&output.bytes, DECLARATION.name, &["calls_ok"]);
    assert_eq!(column(&rows, "status"), ["pass", "fail", "fail"]);
    assert_eq!(summary, WorkerSummary { rows: 3, failed: 2 });
    assert_eq!(summary.exit_code(), 1);
    let notes = String::from_utf8(notes).unwrap();
    assert!(
        notes.contains("measured round 1 failed: calls_ok 9, wanted 10"),
        "{notes}"
    );
}

#[test]
fn a_stepping_worker_waits_for_a_byte_after_each_row_and_stops_at_q_or_the_end_of_input() {
    for (bytes, wanted) in [
        (b"nnnn".as_slice(), 3),
        (b"nq", 2),
        (b"q", 1),
        (b"n", 2),
        (b"", 1),
    ] {
        let mut output = Output::default();
        let mut input = bytes;
        let options = options(1, 2, true);
        let summary = fake(99, &options, &mut input, &mut output, &mut io::sink()).unwrap();
        let rows = parse(&output.bytes, DECLARATION.name, &["calls_ok"]);
        assert_eq!(rows.len(), wanted, "{bytes:?}");
        assert_eq!(summary.rows, u64::try_from(wanted).unwrap());
        let ends_of_lines: Vec<usize> = output
            .bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at + 1)
            .skip(2)
            .collect();
        assert_eq!(output.flushed_at, ends_of_lines, "{bytes:?}");
    }
}

#[test]
fn the_clock_changes_the_first_line_of_a_stream_only() {
    let lines = |clock| {
        let options = WorkerOptions {
            clock,
            ..options(0, 1, false)
        };
        let mut output = Output::default();
        fake(99, &options, &mut Refusing, &mut output, &mut io::sink()).unwrap();
        let text = String::from_utf8(output.bytes).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (ns, instructions) = (lines(Clock::Ns), lines(Clock::Instructions));
    assert_eq!(ns[0], "#regbundle-rows 1 syscall-getpid formal ns");
    assert_eq!(
        instructions[0],
        "#regbundle-rows 1 syscall-getpid formal instructions"
    );
    assert_eq!(instructions[1], ns[1]);
    // What the fake workload measured is the same count under either word.
    assert!(ns[2].starts_with("measured\t0\t10\t1000\t"), "{}", ns[2]);
    assert!(
        instructions[2].starts_with("measured\t0\t10\t1000\t"),
        "{}",
        instructions[2]
    );
}

#[test]
fn a_worker_that_settles_shows_its_head_then_sleeps_and_says_how_the_canary_was() {
    let settling = WorkerOptions {
        settle_seconds: 1,
        clock: Clock::Instructions,
        ..options(0, 1, false)
    };
    let (mut output, mut notes) = (Output::default(), Vec::new());
    let begin = monotonic_raw_ns();
    fake(99, &settling, &mut Refusing, &mut output, &mut notes).unwrap();
    assert!(monotonic_raw_ns() - begin >= 1_200_000_000);
    let text = String::from_utf8(output.bytes).unwrap();
    let head: usize = text.split_inclusive('\n').take(2).map(str::len).sum();
    assert_eq!(output.flushed_at, [head, text.len()]);
    let notes = String::from_utf8(notes).unwrap();
    assert!(
        notes.starts_with("note: settled for 1 s; canary "),
        "{notes}"
    );
    assert!(notes.ends_with(" instructions\n"), "{notes}");

    let (mut output, mut notes) = (Output::default(), Vec::new());
    let at_once = options(0, 1, false);
    fake(99, &at_once, &mut Refusing, &mut output, &mut notes).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(output.flushed_at, [output.bytes.len()]);
}

#[test]
fn an_input_that_cannot_be_read_is_an_error_when_stepping() {
    let mut output = Output::default();
    let options = options(0, 2, true);
    let error = fake(99, &options, &mut Refusing, &mut output, &mut io::sink()).unwrap_err();
    assert!(
        matches!(error, WorkerError::Input { row: 1, .. }),
        "{error:?}"
    );
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn a_cpu_that_is_not_allowed_or_a_name_that_is_unknown_gives_64_and_no_stream() {
    let good = options(0, 1, false);
    let far = WorkerOptions {
        cpu: Some(1_000_000),
        ..good.clone()
    };
    let unknown = WorkerOptions {
        workload: "syscall-getuid".to_owned(),
        ..good.clone()
    };
    let excess = WorkerOptions {
        parameters: BTreeMap::from([("calls".to_owned(), 1_023)]),
        ..good
    };
    for options in [far, unknown, excess] {
        let mut output = Output::default();
        let error = run(&options, &mut Refusing, &mut output, &mut io::sink()).unwrap_err();
        assert_eq!(error.exit_code(), 64, "{error}");
        assert!(output.bytes.is_empty());
    }
}

#[test]
fn every_workload_does_its_work_on_this_kernel() {
    for workload in registry::all() {
        let declaration = workload.declaration();
        let required = declaration.name.starts_with("io-uring")
            && std::env::var_os("REGBUNDLE_REQUIRE_IO_URING").is_some();
        if let Err(error) = workload.support()
            && !required
        {
            println!("skipped: {}: {error}", declaration.name);
            continue;
        }
        let has = |name: &str| {
            let parameters = declaration.parameters;
            parameters.iter().any(|parameter| parameter.name == name)
        };
        let has_window = has("window_ms");
        // Long, because real-time threads of other tests may hold the CPU of the tasks;
        // oversubscribed, because this thread is pinned since the first workload.
        let parameters = [("window_ms", 200), ("oversubscribe", 1)]
            .into_iter()
            .filter(|(name, _)| has(name))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let options = WorkerOptions {
            workload: declaration.name.to_owned(),
            parameters,
            ..options(1, 2, false)
        };
        let (mut output, mut notes) = (Output::default(), Vec::new());
        let summary = run(&options, &mut Refusing, &mut output, &mut notes).unwrap();
        assert_eq!(summary, WorkerSummary { rows: 3, failed: 0 });
        let defaults = Parameters::resolve(declaration, &BTreeMap::new()).unwrap();
        let tasks = workload.task_columns(&defaults);
        let counters: Vec<&str> = declaration
            .counters
            .iter()
            .map(|counter| counter.name)
            .chain(tasks.iter().map(String::as_str))
            .collect();
        let rows = parse(&output.bytes, declaration.name, &counters);
        assert_eq!(column(&rows, "status"), ["pass"; 3]);
        let ops = match declaration.name {
            "mprotect-shared-dirty" => Some("65536"),
            "io-uring-msg-ring-send-fd/first-fill" | "io-uring-msg-ring-send-fd/warm-refill" => {
                Some("32768")
            }
            "io-uring-msg-ring-send-fd/remove-refill"
            | "io-uring-msg-ring-send-fd/register-fill" => Some("8"),
            "io-uring-msg-ring-send-fd/register-install" => Some("256"),
            "syscall-getpid" => Some("65536"),
            "io-uring-nop" => Some("32768"),
            "flistxattr" => Some("8192"),
            "thread-pool" => Some("256"),
            "inotify-watch/distinct" | "inotify-watch/shared" => Some("3072"),
            "inotify-watch/pair" => Some("6144"),
            // As many as a window of fixed length saw.
            _ if has_window => None,
            _ => Some("4096"),
        };
        match ops {
            Some(ops) => assert_eq!(column(&rows, "ops"), [ops; 3]),
            None => assert!(!column(&rows, "ops").contains(&"0")),
        }
        for row in &rows {
            for name in ["elapsed", "canary_before", "canary_syscall_after"] {
                assert_ne!(row[name], "0", "{name}");
            }
        }
        let notes = String::from_utf8(notes).unwrap();
        assert!(notes.starts_with("note: sched="), "{notes}");
    }
}
