//! The engine of this host: points of this boot, when the running kernel is the one
//! the plan expects.
//!
//! A point is measured in slices: each workload and implementation in turn, until
//! every one has its clean rounds or the point's time is used up. What was measured
//! stays in the journal, also when the point is interrupted; an interrupted point
//! is redone whole as its next attempt.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::journal::{JournalWriter, WriteError};
use super::program::{Program, ProgramError, program};
use super::stream::{Next, StreamError, Worker};
use crate::edge::case_folder::{CaseFolder, FolderError};
use crate::edge::clock::now_seconds;
use crate::edge::host::HostReader;
use crate::input::evidence::{ChainEnd, EvidenceError, JOURNAL_FORMAT, PLAN_FILE, fold, with_plan};
use crate::model::case::{Boots, Implementation};
use crate::model::evidence::{Attempt, Evidence, Segment, Source};
use crate::model::identity::BootIdentity;
use crate::model::journal::RecordKind;
use crate::model::plan::{Plan, PlannedPoint, PlannedWorkload};
use crate::stats::selection::{Floors, select};

/// Longest slice of one workload while others still lack rounds. Disturbances of
/// seconds are common on shared machines (docs/workloads.md): longer slices would
/// spend a whole disturbance on one of them.
const SLICE: Duration = Duration::from_millis(1500);

/// Why a point was not measured.
#[derive(Debug, Error)]
pub enum RunError {
    /// The case cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The evidence so far is damaged.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// A record did not reach the disk.
    #[error(transparent)]
    Journal(#[from] WriteError),
    /// A program cannot be had.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A stream ended before its last line.
    #[error(
        "{point}, attempt {attempt}: {source}; its rows are kept, uncounted; run again for the next attempt"
    )]
    Stream {
        /// Label of the point.
        point: String,
        /// Number of the attempt.
        attempt: u32,
        /// What happened.
        source: StreamError,
    },
    /// The plan needs another boot.
    #[error(
        "{point}: this boot ({boot}) already stands for {used_by}; the plan asks for a fresh boot per point: boot {kernel} and run again"
    )]
    BootUsed {
        /// Label of the next point.
        point: String,
        /// The running boot.
        boot: String,
        /// Label of the point it stands for.
        used_by: String,
        /// The kernel wanted.
        kernel: String,
    },
    /// The plan needs another kernel.
    #[error("{point}: found kernel {found} running, wanted {wanted}; boot it and run again")]
    WrongKernel {
        /// Label of the next point.
        point: String,
        /// The running kernel.
        found: String,
        /// The kernel of the plan.
        wanted: String,
    },
    /// The workload cannot run on this kernel.
    #[error("{workload}: {source}")]
    Unsupported {
        /// The workload.
        workload: String,
        /// The cause.
        source: crate::workload::error::WorkloadError,
    },
}

/// What a run is told while it measures; never called while a window is open.
pub trait Progress {
    /// A point begins.
    fn point(&mut self, label: &str, attempt: u32);
    /// A row came: clean rounds so far and wanted, time used and allowed for the point.
    fn row(&mut self, place: &Place<'_>, clean: usize, wanted: usize);
    /// A point ended.
    fn end(&mut self, label: &str, reason: &str);
}

/// What is measured at the moment.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Label of the point.
    pub label: &'a str,
    /// Workload.
    pub workload: &'a str,
    /// Implementation.
    pub implementation: Implementation,
    /// Time used for the point so far.
    pub used: Duration,
    /// Time allowed for the point.
    pub allowed: Duration,
}

/// Settings of a run that are not evidence.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// This executable, started as the formal worker.
    pub own: PathBuf,
    /// CPU to measure on.
    pub cpu: usize,
    /// Longest time for one point.
    pub point_time: Duration,
    /// Stop after this many points.
    pub most_points: usize,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// Points measured now: label, attempt, why they ended.
    pub measured: Vec<(String, u32, String)>,
    /// Writes of earlier runs that were cut off: file, length and place.
    pub torn: Vec<String>,
    /// Label and kernel of the next point, when one is left.
    pub next: Option<(String, String)>,
}

/// Measures the next points of the plan, as far as this boot may; `plan` is written as
/// `plan.json` when there is none yet, once nothing stands against the first row.
///
/// # Errors
///
/// When the boot or kernel is not the one the plan wants, a program fails, or a
/// record does not reach the disk. Rows measured before stay.
pub fn run(
    folder: &CaseFolder,
    plan: &str,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunReport, RunError> {
    let mut files = folder.read()?;
    let planned = with_plan(&mut files, plan);
    let (evidence, end) = fold(&files)?;
    let mut report = RunReport {
        torn: end.torn.clone(),
        ..RunReport::default()
    };
    let Some(first) = next_point(&evidence) else {
        return Ok(report);
    };
    let identity = HostReader::new(Path::new("/")).read(options.cpu);
    admit(&evidence, first, &identity)?;
    let programs = programs(&evidence.plan, options, &folder.path().join("build"))?;
    if !planned {
        folder.create(PLAN_FILE, plan.as_bytes())?;
    }
    let journal = open_journal(folder, &end, &identity)?;
    let mut run = Run {
        plan: evidence.plan.clone(),
        floors: Floors::of(&evidence),
        identity,
        options,
        programs,
        journal,
        rows: 0,
    };
    let mut evidence = evidence;
    while let Some(point) = next_point(&evidence).cloned() {
        let full = report.measured.len() >= options.most_points;
        if full || (run.plan.boots == Boots::Distinct && !report.measured.is_empty()) {
            break;
        }
        let attempt = attempts(&evidence, &point.label) + 1;
        let measured = run.point(&point, attempt, progress)?;
        report
            .measured
            .push((point.label.clone(), attempt, measured.ended_because.clone()));
        if let Some(known) = evidence
            .points
            .iter_mut()
            .find(|known| known.label == point.label)
        {
            known.attempts.push(measured);
        }
    }
    let close = [run.rows.to_string(), now_seconds().to_string()];
    run.journal.append(RecordKind::BootClose, &close)?;
    report.next = next_point(&evidence)
        .map(|point| (point.label.clone(), wanted_kernel(&evidence.plan, point)));
    Ok(report)
}

fn next_point(evidence: &Evidence) -> Option<&PlannedPoint> {
    evidence
        .points
        .iter()
        .find(|point| point.counted().is_none())
        .and_then(|point| evidence.plan.point(&point.label))
}

fn attempts(evidence: &Evidence, label: &str) -> u32 {
    evidence
        .points
        .iter()
        .find(|point| point.label == label)
        .map_or(0, |point| {
            u32::try_from(point.attempts.len()).unwrap_or(u32::MAX)
        })
}

/// Describes the kernel a point wants, for a message.
fn wanted_kernel(plan: &Plan, point: &PlannedPoint) -> String {
    plan.kernels.get(&point.role).map_or_else(
        || format!("the {} kernel", point.role.word()),
        |kernel| format!("the {} kernel {}", point.role.word(), kernel.release),
    )
}

/// Checks that this boot may be the point.
fn admit(
    evidence: &Evidence,
    point: &PlannedPoint,
    identity: &BootIdentity,
) -> Result<(), RunError> {
    let plan = &evidence.plan;
    if let Some(wanted) = plan.kernels.get(&point.role) {
        let found = &identity.kernel;
        let same_build = match (&wanted.build_id, &found.build_id) {
            (Some(wanted), Some(found)) => wanted == found,
            _ => true,
        };
        let release = found.release.as_deref().unwrap_or("of unknown release");
        if release != wanted.release || !same_build {
            let describe = |release: &str, build: &Option<String>| match build {
                Some(build) => format!("{release} (build id {build})"),
                None => release.to_owned(),
            };
            return Err(RunError::WrongKernel {
                point: point.label.clone(),
                found: describe(release, &found.build_id),
                wanted: describe(&wanted.release, &wanted.build_id),
            });
        }
    }
    if plan.boots == Boots::Same {
        return Ok(());
    }
    let boot = identity.boot_id.clone().unwrap_or_default();
    let used_by = evidence.points.iter().find(|known| {
        known
            .attempts
            .iter()
            .any(|attempt| attempt.identity.boot_id.as_deref() == Some(boot.as_str()))
    });
    match used_by {
        None => Ok(()),
        Some(used_by) => Err(RunError::BootUsed {
            point: point.label.clone(),
            boot,
            used_by: used_by.label.clone(),
            kernel: wanted_kernel(plan, point),
        }),
    }
}

type Programs = Vec<(PlannedWorkload, Implementation, Program)>;

fn programs(plan: &Plan, options: &RunOptions, build: &Path) -> Result<Programs, RunError> {
    let mut programs = Vec::new();
    for workload in &plan.workloads {
        if workload.command.is_empty() {
            crate::workload::registry::support(&workload.name).map_err(|source| {
                RunError::Unsupported {
                    workload: workload.name.clone(),
                    source,
                }
            })?;
        }
        for implementation in &workload.implementations {
            let found = program(workload, *implementation, &options.own, build)?;
            programs.push((workload.clone(), *implementation, found));
        }
    }
    Ok(programs)
}

fn open_journal(
    folder: &CaseFolder,
    end: &ChainEnd,
    identity: &BootIdentity,
) -> Result<JournalWriter, RunError> {
    let name = identity.boot_id.as_deref().unwrap_or("unknown-boot");
    let mut journal = JournalWriter::create(folder.path(), end, name)?;
    let identity = serde_json::to_string(identity).unwrap_or_default();
    let torn = if end.torn.is_empty() {
        "-".to_owned()
    } else {
        end.torn.join("; ")
    };
    journal.append(
        RecordKind::BootOpen,
        &[
            JOURNAL_FORMAT.to_owned(),
            now_seconds().to_string(),
            crate::TOOL.to_owned(),
            identity,
            torn,
        ],
    )?;
    Ok(journal)
}

struct Run<'a> {
    plan: Plan,
    floors: Floors,
    identity: BootIdentity,
    options: &'a RunOptions,
    programs: Programs,
    journal: JournalWriter,
    rows: u64,
}

/// Where one slice stands.
struct Slice<'a> {
    point: &'a PlannedPoint,
    begun: Instant,
    slice: Duration,
}

impl Run<'_> {
    fn point(
        &mut self,
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
            if !attempt.segments.is_empty() && begun.elapsed() >= self.options.point_time {
                break "time";
            }
            for index in lacking {
                let slice = Slice {
                    point,
                    begun,
                    slice: SLICE,
                };
                self.slice(&slice, index, &mut attempt, progress)
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
        slice: &Slice<'_>,
        index: usize,
        attempt: &mut Attempt,
        progress: &mut dyn Progress,
    ) -> Result<(), SliceError> {
        let Some((workload, implementation, program)) = self.programs.get(index).cloned() else {
            return Ok(());
        };
        let started = Instant::now();
        let mut worker = Worker::start(
            &program,
            &workload.name,
            implementation,
            self.options.cpu,
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
                allowed: self.options.point_time,
            };
            progress.row(&place, clean, self.wanted());
            let segment_rows = attempt
                .segments
                .last()
                .map_or(0, |segment| segment.rows.len());
            // A slice is long enough for its planned rounds, however slow they are.
            let planned = u32::try_from(self.wanted()).unwrap_or(u32::MAX);
            let least = self.plan.warmup_rounds.saturating_add(planned);
            let whole = u32::try_from(segment_rows).is_ok_and(|rows| rows >= least);
            let over = whole && (started.elapsed() >= slice.slice || place.used >= place.allowed);
            worker.step(clean < self.wanted() && !over)?;
        }
    }

    fn begin(&mut self, worker: &Worker, program: &Program) -> Result<String, WriteError> {
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
