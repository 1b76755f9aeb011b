//! Untimed runs of a case's programs with static tracepoints on: how often the events
//! that a workload declares are seen, in its rounds and elsewhere.
//!
//! Each program is run twice with a small shape and no warm-up: for one round and
//! for two. Start, preflight and end are the same in both, so the difference of
//! the counts is the rounds' part. A buffer that lost events, or text that is not
//! understood, gives no count at all. It measures no time and writes no evidence.

mod count;

use std::collections::BTreeMap;
use std::path::PathBuf;

use thiserror::Error;

use self::count::{Observed, Tally, Uncountable, answer, tally, witness_missing};
use super::process;
use super::program::{Program, ProgramError, program};
use super::stream::{Next, StreamError};
use crate::edge::interrupt;
use crate::edge::tracefs::{Instance, Tracefs, TracefsError};
use crate::input::trace::{TraceTextError, read_stats};
use crate::model::case::Implementation;
use crate::model::plan::{Plan, PlannedWorkload};
use crate::model::row::{Metric, Row};
use crate::model::trace::{Answer, HitResult, ProgramTrace, TraceReport};
use crate::workload::declaration::{Declaration, Hit};
use crate::workload::registry;

/// Rounds of the shorter run.
const ROUNDS: usize = 1;
/// An event that every run has once, at its begin: that it is there shows that the
/// program was followed, so that a count of 0 is one.
const WITNESS: &str = "sched:sched_process_exec";

/// Why nothing was traced.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Tracefs.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// A program cannot be had.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The signals cannot be held.
    #[error("cannot hold SIGINT and SIGTERM, which would leave the instance behind: {source}")]
    Signals {
        /// What the system says.
        source: std::io::Error,
    },
    /// Somebody asked for the end.
    #[error("interrupted; the instance of tracefs is removed")]
    Interrupted,
}

/// Why one run of one program gave no counts.
#[derive(Debug, Error)]
enum RunFailure {
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("found a round with status `fail` ({0}), wanted one whose work was done")]
    FailedRow(String),
    #[error("found no integer ops in a row, wanted them to count events by")]
    NoOps,
    #[error("found the end of the stream after {0} rounds, wanted more")]
    Short(usize),
    #[error("a statistic of a buffer is not understood: {0}")]
    Stats(#[from] TraceTextError),
    #[error(transparent)]
    Uncountable(#[from] Uncountable),
    #[error("interrupted")]
    Interrupted,
}

/// What a trace is done with.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// This executable, started as the formal worker.
    pub own: PathBuf,
    /// Folder of compiled programs.
    pub build: PathBuf,
    /// CPU to run on.
    pub cpu: usize,
    /// Release of the running kernel.
    pub kernel: Option<String>,
}

/// Counts the declared events of every workload and implementation of a plan; `say` is
/// told what goes on.
///
/// # Errors
///
/// When there is no tracefs, a program cannot be compiled, or a signal asks for the end.
/// The instance is removed in every case. What only one program lacks is its
/// NOT-CHECKED.
pub fn trace(
    plan: &Plan,
    options: &TraceOptions,
    say: &mut dyn FnMut(&str),
) -> Result<TraceReport, TraceError> {
    let tracefs = Tracefs::find()?;
    if tracefs.mounted_now {
        say("tracefs was not mounted; it is now, and stays");
    }
    interrupt::hold().map_err(|source| TraceError::Signals { source })?;
    let instance = tracefs.instance()?;
    let traced = trace_programs(plan, options, &instance, say);
    let removed = instance.remove();
    // Also when the last program was already done: who asks for the end gets it.
    if interrupt::came() {
        removed?;
        return Err(TraceError::Interrupted);
    }
    let programs = traced?;
    removed?;
    Ok(TraceReport {
        kernel: options.kernel.clone(),
        programs,
    })
}

fn trace_programs(
    plan: &Plan,
    options: &TraceOptions,
    instance: &Instance,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<ProgramTrace>, TraceError> {
    let mut programs = Vec::new();
    for planned in &plan.workloads {
        for implementation in &planned.implementations {
            let small = small(planned);
            let program = program(&small, *implementation, &options.own, &options.build)?;
            say(&format!(
                "tracing {} ({})",
                planned.name,
                implementation.word()
            ));
            let run = Runs {
                instance,
                program,
                workload: &small,
                implementation: *implementation,
                cpu: options.cpu,
            };
            programs.push(run.trace()?);
        }
    }
    Ok(programs)
}

/// The workload with the small shape of an untimed run.
fn small(planned: &PlannedWorkload) -> PlannedWorkload {
    let mut small = planned.clone();
    let shape = registry::declaration(&planned.name).map_or(&[][..], |known| known.trace_shape);
    for (name, most) in shape {
        if let Some(value) = small.params.get_mut(*name) {
            *value = (*value).min(*most);
        }
    }
    small
}

/// The untimed runs of one program.
struct Runs<'a> {
    instance: &'a Instance,
    program: Program,
    workload: &'a PlannedWorkload,
    implementation: Implementation,
    cpu: usize,
}

impl Runs<'_> {
    fn trace(&self) -> Result<ProgramTrace, TraceError> {
        let mut result = ProgramTrace {
            workload: self.workload.name.clone(),
            implementation: self.implementation.word(),
            parameters: self.workload.params.clone(),
            reason: String::new(),
            hits: Vec::new(),
        };
        let declared = registry::declaration(&self.workload.name)
            .filter(|known| self.workload.command.is_empty() && !known.hits.is_empty());
        let Some(declaration) = declared else {
            "no events are declared for this program".clone_into(&mut result.reason);
            return Ok(result);
        };
        result.hits = match self.observe(declaration) {
            Ok(observed) => self.answers(declaration, &observed),
            Err(RunFailure::Interrupted) => return Err(TraceError::Interrupted),
            Err(RunFailure::Tracefs(error)) => return Err(error.into()),
            Err(failure) => self.unanswered(declaration, &failure.to_string()),
        };
        Ok(result)
    }

    fn answers(&self, declaration: &Declaration, observed: &Observed) -> Vec<HitResult> {
        declaration
            .hits
            .iter()
            .enumerate()
            .map(|(index, hit)| answer(hit, index, &self.workload.params, observed))
            .collect()
    }

    fn unanswered(&self, declaration: &Declaration, reason: &str) -> Vec<HitResult> {
        let nothing = Observed::default();
        let mut answers = self.answers(declaration, &nothing);
        for hit in &mut answers {
            hit.answer = Answer::NotChecked;
            reason.clone_into(&mut hit.reason);
        }
        answers
    }

    fn observe(&self, declaration: &Declaration) -> Result<Observed, RunFailure> {
        let short = self.run(declaration, ROUNDS)?;
        let long = self.run(declaration, 2 * ROUNDS)?;
        Ok(Observed {
            rounds: ROUNDS,
            absent: long.absent,
            short: short.whole,
            long: long.whole,
            first_half: long.half,
            before_end: long.before_end,
            ops_short: short.ops.iter().sum(),
            ops_long: long.ops.iter().sum(),
            ops_first_half: long.ops.iter().take(ROUNDS).sum(),
        })
    }

    /// One run of so many rounds.
    fn run(&self, declaration: &Declaration, rounds: usize) -> Result<Run, RunFailure> {
        let hits = declaration.hits;
        self.instance.reset()?;
        let mut run = Run::default();
        let witnessed = self.instance.enable(WITNESS)?;
        for event in events(hits) {
            if !self.instance.enable(event)? {
                run.absent.push(event.to_owned());
            }
        }
        let mut command = process::command(&self.program, self.cpu, 0);
        self.instance.follow(&mut command)?;
        let mut worker = process::start(command, &self.workload.name, self.implementation)
            .map_err(unless_interrupted)?;
        for round in 1..=rounds {
            match worker.receive().map_err(unless_interrupted)? {
                Next::Row(_, row) => run.ops.push(ops(&row, declaration)?),
                Next::End(_) => return Err(RunFailure::Short(round - 1)),
            }
            // The program waits for a byte, or is on its way there: what it does meanwhile
            // (writing the row) must not come between the two looks at the buffer.
            self.instance.stop()?;
            if round == ROUNDS {
                run.half = self.count(hits)?;
            }
            if round == rounds {
                run.before_end = self.count(hits)?;
            }
            self.instance.resume()?;
            if interrupt::came() {
                return Err(RunFailure::Interrupted);
            }
            worker.step(round < rounds).map_err(unless_interrupted)?;
        }
        while let Next::Row(..) = worker.receive().map_err(unless_interrupted)? {}
        worker.finish().map_err(unless_interrupted)?;
        self.instance.stop()?;
        run.whole = self.count(hits)?;
        if witnessed {
            witness_missing(&run.whole)?;
        }
        Ok(run)
    }

    /// Counts what the buffers hold, when they hold everything.
    fn count(&self, hits: &[Hit]) -> Result<Tally, RunFailure> {
        let mut lost = 0_u64;
        for stats in self.instance.stats()? {
            lost = lost.saturating_add(read_stats(&stats)?.lost());
        }
        if lost > 0 {
            return Err(Uncountable::Lost { lost }.into());
        }
        Ok(tally(&self.instance.text()?, hits, WITNESS)?)
    }
}

/// What one run gave.
#[derive(Default)]
struct Run {
    absent: Vec<String>,
    half: Tally,
    before_end: Tally,
    whole: Tally,
    ops: Vec<u64>,
}

/// Each event once.
fn events(hits: &[Hit]) -> impl Iterator<Item = &'static str> {
    let names: BTreeMap<&'static str, ()> = hits.iter().map(|hit| (hit.event, ())).collect();
    names.into_keys()
}

fn ops(row: &Row, declaration: &Declaration) -> Result<u64, RunFailure> {
    let Metric::Elapsed { ops, .. } = row.metric else {
        return Err(RunFailure::NoOps);
    };
    if row.passed == Some(true) {
        return Ok(ops);
    }
    let wrong = declaration.counters.iter().filter_map(|counter| {
        let (_, found) = row.counters.iter().find(|(name, _)| name == counter.name)?;
        let wanted = counter.expect.wanted(ops)?;
        (*found != wanted).then(|| format!("{} {found}, wanted {wanted}", counter.name))
    });
    let wrong: Vec<String> = wrong.collect();
    Err(RunFailure::FailedRow(wrong.join("; ")))
}

/// A signal from the terminal ends the program too; what it leaves is no error of its own.
fn unless_interrupted(error: StreamError) -> RunFailure {
    if interrupt::came() {
        RunFailure::Interrupted
    } else {
        error.into()
    }
}
