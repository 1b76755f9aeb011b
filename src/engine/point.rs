//! One point: slices of each workload and implementation in turn, until every one has
//! its clean rounds or the point's time is used up.

use std::time::{Duration, Instant};

use super::journal::{JournalWriter, WriteError};
use super::program::Program;
use super::run::{Place, Programs, Progress, RunError};
use super::stream::{Next, StreamError, Worker};
use crate::model::case::Implementation;
use crate::model::evidence::{Attempt, Segment, Source};
use crate::model::identity::BootIdentity;
use crate::model::journal::RecordKind;
use crate::model::plan::{Plan, PlannedPoint, PlannedWorkload};
use crate::stats::selection::{Floors, select};

/// Longest slice of one workload while others still lack rounds. Disturbances of
/// seconds are common on shared machines (docs/workloads.md): longer slices would
/// spend a whole disturbance on one of them.
const SLICE: Duration = Duration::from_millis(1500);

/// Starts the programs of a point where its kernel runs.
pub(super) trait Launcher {
    /// Starts a program, stepped, and reads the top of its stream.
    fn launch(
        &mut self,
        program: &Program,
        workload: &str,
        implementation: Implementation,
        warmup: u32,
    ) -> Result<Worker<'_>, StreamError>;
}

/// The points of one boot.
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) floors: Floors,
    pub(super) identity: BootIdentity,
    pub(super) point_time: Duration,
    pub(super) programs: Programs,
    pub(super) journal: JournalWriter,
    pub(super) rows: u64,
}

/// Where one slice stands.
struct Slice<'a> {
    point: &'a PlannedPoint,
    begun: Instant,
    slice: Duration,
}

impl Run {
    /// Measures a point whole.
    pub(super) fn point(
        &mut self,
        launcher: &mut dyn Launcher,
        point: &PlannedPoint,
        number: u32,
        progress: &mut dyn Progress,
    ) -> Result<Attempt, RunError> {
        progress.point(&point.label, number);
        self.journal
            .note(&["point-begin", &point.label, &number.to_string()])?;
        let mut attempt = Attempt {
            number,
            identity: self.identity.clone(),
            segments: Vec::new(),
            finished: false,
            ended_because: String::new(),
            ingested: false,
        };
        let begun = Instant::now();
        let reason = loop {
            let lacking = self.lacking(&attempt);
            if lacking.is_empty() {
                break "clean";
            }
            if !attempt.segments.is_empty() && begun.elapsed() >= self.point_time {
                break "time";
            }
            for index in lacking {
                let slice = Slice {
                    point,
                    begun,
                    slice: SLICE,
                };
                self.slice(launcher, &slice, index, &mut attempt, progress)
                    .map_err(|error| match error {
                        SliceError::Stream(source) => RunError::Stream {
                            point: point.label.clone(),
                            attempt: number,
                            source,
                        },
                        SliceError::Journal(source) => source.into(),
                    })?;
            }
        };
        self.journal.note(&["point-end", &point.label, reason])?;
        attempt.finished = true;
        attempt.ended_because = reason.to_owned();
        progress.end(&point.label, reason);
        Ok(attempt)
    }

    /// Returns the indices of programs that still lack clean rounds.
    fn lacking(&self, attempt: &Attempt) -> Vec<usize> {
        self.programs
            .iter()
            .enumerate()
            .filter(|(_, (workload, implementation, _))| {
                self.clean(attempt, workload, *implementation) < self.wanted()
            })
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns the clean rounds to collect: those of the plan and a reserve of a fifth,
    /// because a floor that falls later makes rounds near it unclean afterwards. The
    /// analysis takes the planned number of them, the first ones, whatever they say.
    fn wanted(&self) -> usize {
        let planned = usize::try_from(self.plan.rounds).unwrap_or(usize::MAX);
        planned.saturating_add(planned / 5)
    }

    fn clean(
        &self,
        attempt: &Attempt,
        workload: &PlannedWorkload,
        implementation: Implementation,
    ) -> usize {
        let selection = select(
            attempt,
            &workload.name,
            implementation,
            &self.floors,
            self.plan.thresholds.canary_pct,
            self.wanted(),
        );
        if selection.has_canary {
            selection.clean
        } else {
            selection.measured
        }
    }

    /// Runs one program for one slice and keeps its rows.
    fn slice(
        &mut self,
        launcher: &mut dyn Launcher,
        slice: &Slice<'_>,
        index: usize,
        attempt: &mut Attempt,
        progress: &mut dyn Progress,
    ) -> Result<(), SliceError> {
        let Some((workload, implementation, program)) = self.programs.get(index).cloned() else {
            return Ok(());
        };
        let started = Instant::now();
        let mut worker = launcher.launch(
            &program,
            &workload.name,
            implementation,
            self.plan.warmup_rounds,
        )?;
        let begin = self.begin(&worker, &program)?;
        attempt.segments.push(Segment {
            workload: workload.name.clone(),
            implementation,
            clock: worker.head.clock,
            rows: Vec::new(),
            announced: None,
            aborted: None,
            counters: Vec::new(),
            program_sha256: program.sha256.clone(),
            source_sha256: program.source_sha256.clone(),
            source: Source::Runner {
                journal: String::new(),
            },
            notes: Vec::new(),
        });
        loop {
            let next = match worker.receive() {
                Ok(next) => next,
                Err(error) => {
                    let reason = [begin.clone(), error.to_string()];
                    self.journal.append(RecordKind::RowAbort, &reason)?;
                    return Err(error.into());
                }
            };
            let (line, row) = match next {
                Next::Row(line, row) => (line, row),
                Next::End(count) => {
                    for note in worker.notes() {
                        self.journal.note(&["worker", &begin, &note])?;
                    }
                    self.journal
                        .note(&["row-end", &begin, &count.to_string()])?;
                    return Ok(());
                }
            };
            let mut fields = vec![begin.clone()];
            fields.extend(line.split('\t').map(str::to_owned));
            self.journal.append(RecordKind::Row, &fields)?;
            self.rows += 1;
            self.floors.add(implementation, &self.identity, &row);
            if let Some(segment) = attempt.segments.last_mut() {
                segment.rows.push(row);
            }
            let clean = self.clean(attempt, &workload, implementation);
            let place = Place {
                label: &slice.point.label,
                workload: &workload.name,
                implementation,
                used: slice.begun.elapsed(),
                allowed: self.point_time,
            };
            progress.row(&place, clean, self.wanted());
            let segment_rows = attempt
                .segments
                .last()
                .map_or(0, |segment| segment.rows.len());
            let rows = u32::try_from(segment_rows).unwrap_or(u32::MAX);
            let late = started.elapsed() >= slice.slice || place.used >= place.allowed;
            let (warmup, wanted) = (self.plan.warmup_rounds, self.wanted());
            worker.step(goes_on(rows, clean, warmup, wanted, late))?;
        }
    }

    fn begin(&mut self, worker: &Worker<'_>, program: &Program) -> Result<String, WriteError> {
        let fields = [
            worker.head.workload.clone(),
            worker.head.implementation.word().to_owned(),
            worker.head.clock.word().to_owned(),
            program.sha256.clone(),
            worker.header.clone(),
            program.arguments.join(" "),
            program
                .source_sha256
                .clone()
                .unwrap_or_else(|| "-".to_owned()),
        ];
        self.journal
            .append(RecordKind::RowBegin, &fields)
            .map(|seq| seq.to_string())
    }
}

/// Says whether a slice of `rows` rows so far needs another.
///
/// Its warm-up rounds come first, whatever else is enough by then: a warm-up row's canary can
/// raise the floor and make earlier rounds clean, and a stream cut there is not complete. A
/// slice is long enough for its planned rounds, however slow they are.
fn goes_on(rows: u32, clean: usize, warmup: u32, wanted: usize, late: bool) -> bool {
    let least = warmup.saturating_add(u32::try_from(wanted).unwrap_or(u32::MAX));
    rows < warmup || (clean < wanted && !(late && rows >= least))
}

enum SliceError {
    Stream(StreamError),
    Journal(WriteError),
}

impl From<StreamError> for SliceError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<WriteError> for SliceError {
    fn from(error: WriteError) -> Self {
        Self::Journal(error)
    }
}

#[cfg(test)]
mod tests {
    use super::goes_on;

    #[test]
    fn a_stream_never_ends_in_its_warm_up() {
        for clean in [0, 17, 18, 40] {
            for late in [false, true] {
                assert!(goes_on(1, clean, 3, 18, late), "{clean} {late}");
            }
        }
        assert!(!goes_on(3, 18, 3, 18, false));
    }

    #[test]
    fn a_slice_ends_with_its_clean_rounds_or_late_after_the_planned_ones() {
        assert!(goes_on(20, 17, 3, 18, true));
        assert!(!goes_on(21, 17, 3, 18, true));
        assert!(goes_on(400, 17, 3, 18, false));
        assert!(!goes_on(400, 18, 3, 18, false));
    }
}
