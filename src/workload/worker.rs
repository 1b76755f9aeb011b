//! The measuring process: one workload, one CPU, one stream of rows.
//!
//! Input is a byte per row when stepping; outputs are rows and, apart from them,
//! notes. It starts no thread, selects no rows and derives nothing from them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use super::declaration::Declaration;
use super::error::{Kind, WorkloadError};
use super::harness::{HarnessError, Machine, current_cpu, monotonic_raw_ns};
use super::parameters::Parameters;
use super::row::{self, Row};
use super::settle::{self, Settled};
use super::{Place, Prepared, registry, watchdog};
use crate::model::protocol::{Clock, END, STEP_QUIT};

/// What one worker is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerOptions {
    /// Name in the catalogue.
    pub workload: String,
    /// Parameters by name; those missing have their defaults.
    pub parameters: BTreeMap<String, u64>,
    /// The CPU to pin to; the last allowed one when `None`.
    pub cpu: Option<usize>,
    /// Rounds of the phase `warmup`.
    pub warmup: u32,
    /// Rounds of the phase `measured`.
    pub rounds: u32,
    /// Wait for one byte of input after each row.
    pub step: bool,
    /// What the stream says its clock counts; the clock read is the same.
    pub clock: Clock,
    /// Seconds to sleep before the first round, and at most as many more until the canary
    /// is steady; 0 does neither.
    pub settle_seconds: u32,
}

/// What a worker that came to its last line did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerSummary {
    /// Rows written.
    pub rows: u64,
    /// Rows among them with status `fail`.
    pub failed: u64,
}

impl WorkerSummary {
    /// The worker's exit code: 0, or 1 when a row failed.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        if self.failed == 0 {
            0
        } else {
            Kind::Failed.exit_code()
        }
    }
}

/// Why a worker did not come to its last line.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The machine.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// The watchdog.
    #[error("the handler of SIGALRM, which ends a worker that hangs, is refused")]
    Watchdog(#[source] io::Error),
    /// Rows or notes could not be written.
    #[error("row {row} could not be written")]
    Output {
        /// Rows written before it.
        row: u64,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The byte that asks for the next row could not be read.
    #[error("the byte that asks for the row after row {row} could not be read")]
    Input {
        /// Rows written before it.
        row: u64,
        /// The error.
        #[source]
        source: io::Error,
    },
}

impl WorkerError {
    /// The worker's exit code: 1 failed, 4 not possible on this kernel, 64 usage.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Workload(error) => error.kind().exit_code(),
            Self::Harness(error) => error.kind().exit_code(),
            Self::Watchdog(_) | Self::Output { .. } | Self::Input { .. } => {
                Kind::Failed.exit_code()
            }
        }
    }
}

/// Runs a workload and writes its stream.
///
/// Pins the calling thread and may give it `SCHED_FIFO`; meant for a process of its
/// own. A round that hangs ends the process with exit code 1 and a message.
///
/// # Errors
///
/// When the options make no sense, the kernel lacks or refuses something, the
/// preflight fails, or a round cannot be finished. Rows whose counters are wrong are
/// not errors: they have status `fail` and are counted in the summary.
pub fn run(
    options: &WorkerOptions,
    input: &mut dyn Read,
    output: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<WorkerSummary, WorkerError> {
    let workload = registry::get(&options.workload)?;
    let parameters = Parameters::resolve(workload.declaration(), &options.parameters)?;
    workload.check(&parameters)?;
    workload.support()?;
    watchdog::install().map_err(WorkerError::Watchdog)?;
    let machine = Machine::settle(options.cpu)?;
    let mut stream = Stream {
        declaration: workload.declaration(),
        task_columns: workload.task_columns(&parameters),
        machine,
        output,
        notes,
        summary: WorkerSummary::default(),
        line: String::with_capacity(1024),
    };
    stream.note_machine()?;
    let place = Place {
        cpus: stream.machine.cpus().to_vec(),
    };
    let mut prepared = workload.prepare(&parameters, &place)?;
    watchdog::arm(prepared.requests());
    let preflight = prepared.preflight();
    watchdog::disarm();
    preflight?;
    stream.rounds(prepared.as_mut(), options, input)
}

struct Stream<'a> {
    declaration: &'static Declaration,
    task_columns: Vec<String>,
    machine: Machine,
    output: &'a mut dyn Write,
    notes: &'a mut dyn Write,
    summary: WorkerSummary,
    line: String,
}

impl Stream<'_> {
    fn note_machine(&mut self) -> Result<(), WorkerError> {
        for note in self.machine.notes() {
            writeln!(self.notes, "note: {note}").map_err(output_error(0))?;
        }
        Ok(())
    }

    fn rounds(
        mut self,
        prepared: &mut dyn Prepared,
        options: &WorkerOptions,
        input: &mut dyn Read,
    ) -> Result<WorkerSummary, WorkerError> {
        self.output
            .write_all(row::head(self.declaration, &self.task_columns, options.clock).as_bytes())
            .map_err(output_error(0))?;
        self.settle(prepared, options)?;
        let phases = [("warmup", options.warmup), ("measured", options.rounds)];
        let mut planned = phases
            .into_iter()
            .flat_map(|(phase, rounds)| (0..rounds).map(move |round| (phase, round)));
        let mut wanted = true;
        while wanted && let Some((phase, round)) = planned.next() {
            let begin = monotonic_raw_ns();
            watchdog::arm(prepared.requests());
            let row = measure(prepared, &self.machine, phase, round);
            watchdog::disarm();
            let busy_ns = monotonic_raw_ns().saturating_sub(begin);
            self.write(&row?, options.step)?;
            wanted = !options.step || self.next_is_wanted(input)?;
            self.machine.rest(busy_ns);
        }
        let rows = self.summary.rows;
        writeln!(self.output, "{END} {rows}").map_err(output_error(rows))?;
        self.output.flush().map_err(output_error(rows))?;
        Ok(self.summary)
    }

    /// Waits as asked and says how that ended; the rows show for themselves what it gave.
    fn settle(
        &mut self,
        prepared: &dyn Prepared,
        options: &WorkerOptions,
    ) -> Result<(), WorkerError> {
        let seconds = options.settle_seconds;
        if seconds == 0 {
            return Ok(());
        }
        // Whoever reads the stream sees that it has begun and that the worker is not stuck.
        self.output.flush().map_err(output_error(0))?;
        let settled = settle::wait(seconds, std::thread::sleep, || {
            Ok::<u64, HarnessError>(self.machine.canary(prepared.cpus())?.alu_ns)
        })?;
        self.note_settled(settled, options)
    }

    fn note_settled(
        &mut self,
        settled: Settled,
        options: &WorkerOptions,
    ) -> Result<(), WorkerError> {
        let (seconds, clock) = (options.settle_seconds, options.clock.word());
        let Settled {
            readings,
            last: [first, second, third],
            steady,
        } = settled;
        let found = if steady { "steady" } else { "NOT steady" };
        writeln!(
            self.notes,
            "note: settled for {seconds} s; canary {found} at reading {readings}: \
             {first}, {second}, {third} {clock}"
        )
        .map_err(output_error(0))
    }

    fn write(&mut self, row: &Row, flush: bool) -> Result<(), WorkerError> {
        let written = self.summary.rows;
        let faults = row.faults(
            self.declaration,
            self.task_columns.len(),
            self.machine.cpu(),
        );
        row.write(faults.is_empty(), &mut self.line);
        self.output
            .write_all(self.line.as_bytes())
            .map_err(output_error(written))?;
        if flush {
            self.output.flush().map_err(output_error(written))?;
        }
        self.summary.rows += 1;
        if !faults.is_empty() {
            self.summary.failed += 1;
            let (phase, round) = (row.phase, row.round);
            writeln!(
                self.notes,
                "note: {phase} round {round} failed: {}",
                faults.join("; ")
            )
            .map_err(output_error(written))?;
        }
        Ok(())
    }

    /// Waits for one byte; end of input is the same as the byte that says stop.
    fn next_is_wanted(&self, input: &mut dyn Read) -> Result<bool, WorkerError> {
        let mut byte = [0_u8];
        match input.read_exact(&mut byte) {
            Ok(()) => Ok(byte != [STEP_QUIT]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(source) => Err(WorkerError::Input {
                row: self.summary.rows,
                source,
            }),
        }
    }
}

/// One round between its readings, in the order that keeps the canaries outermost.
fn measure(
    prepared: &mut dyn Prepared,
    machine: &Machine,
    phase: &'static str,
    round: u32,
) -> Result<Row, WorkerError> {
    let before = machine.canary(prepared.cpus())?;
    let earlier = machine.usage()?;
    let cpu_begin = current_cpu();
    let outcome = prepared.round()?;
    let cpu_end = current_cpu();
    let usage = machine.usage()?.since(earlier);
    let after = machine.canary(prepared.cpus())?;
    Ok(Row {
        phase,
        round,
        outcome,
        cpu_begin,
        cpu_end,
        usage,
        before,
        after,
    })
}

fn output_error(row: u64) -> impl Fn(io::Error) -> WorkerError {
    move |source| WorkerError::Output { row, source }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
