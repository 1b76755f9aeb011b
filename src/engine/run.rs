//! What every engine's run is made of: its settings, its report, its errors, the next
//! point of the plan, the programs it needs and the journal of a boot.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::journal::{JournalWriter, WriteError};
use super::program::{Program, ProgramError, program};
use super::stream::StreamError;
use crate::edge::case_folder::{CaseFolder, FolderError};
use crate::edge::clock::now_seconds;
use crate::input::evidence::{ChainEnd, EvidenceError, JOURNAL_FORMAT};
use crate::model::case::Implementation;
use crate::model::evidence::Evidence;
use crate::model::identity::BootIdentity;
use crate::model::journal::RecordKind;
use crate::model::plan::{Plan, PlannedPoint, PlannedWorkload};

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
        "{point}, attempt {attempt}: {source}; its rows are kept, uncounted; run again for the next attempt, on a fresh boot where the plan asks for one per point"
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
        "{point}: {used_by} was begun on this boot ({boot}); the plan asks for a fresh boot per attempt at a point: reboot into {kernel} and run again"
    )]
    BootUsed {
        /// Label of the next point.
        point: String,
        /// The running boot.
        boot: String,
        /// The attempt begun on it, with the label of its point.
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
    /// The guest.
    #[error(transparent)]
    Qemu(#[from] super::qemu::QemuError),
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
    /// Something worth a line.
    fn say(&mut self, text: &str);
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

pub(super) fn next_point(evidence: &Evidence) -> Option<&PlannedPoint> {
    evidence
        .points
        .iter()
        .find(|point| point.counted().is_none())
        .and_then(|point| evidence.plan.point(&point.label))
}

pub(super) fn attempts(evidence: &Evidence, label: &str) -> u32 {
    evidence
        .points
        .iter()
        .find(|point| point.label == label)
        .map_or(0, |point| {
            u32::try_from(point.attempts.len()).unwrap_or(u32::MAX)
        })
}

/// Describes the kernel a point wants, for a message.
pub(super) fn wanted_kernel(plan: &Plan, point: &PlannedPoint) -> String {
    plan.kernels.get(&point.role).map_or_else(
        || format!("the {} kernel", point.role.word()),
        |kernel| format!("the {} kernel {}", point.role.word(), kernel.release),
    )
}

pub(super) type Programs = Vec<(PlannedWorkload, Implementation, Program)>;

/// Whether what a workload needs is asked of the running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    /// The programs run on this kernel.
    Here,
    /// They run on another, and will say there what is missing.
    Elsewhere,
}

/// Returns every program of a plan; `own` is this executable, `build` the folder for
/// compiled ones.
pub(super) fn programs(
    plan: &Plan,
    own: &Path,
    build: &Path,
    support: Support,
) -> Result<Programs, RunError> {
    let mut programs = Vec::new();
    for workload in &plan.workloads {
        if support == Support::Here && workload.command.is_empty() {
            crate::workload::registry::support(&workload.name).map_err(|source| {
                RunError::Unsupported {
                    workload: workload.name.clone(),
                    source,
                }
            })?;
        }
        for implementation in &workload.implementations {
            let found = program(workload, *implementation, own, build)?;
            programs.push((workload.clone(), *implementation, found));
        }
    }
    Ok(programs)
}

pub(super) fn open_journal(
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

/// Checks that a kernel is the one the plan names for a point.
pub(super) fn same_kernel(
    plan: &Plan,
    point: &PlannedPoint,
    identity: &BootIdentity,
) -> Result<(), RunError> {
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
    Ok(())
}
