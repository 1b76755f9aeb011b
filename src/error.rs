//! Every error a command can end with, and the exit code of each.

use thiserror::Error;

use crate::audit::own_tree::AuditError;
use crate::bundle::ManifestError;
use crate::bundle::assemble::AssembleError;
use crate::edge::advice::advice;
use crate::edge::case_folder::FolderError;
use crate::edge::cpu::CpuError;
use crate::edge::git::GitError;
use crate::edge::tree::TreeError;
use crate::engine::ingest::IngestRunError;
use crate::engine::run::RunError;
use crate::engine::trace::TraceError;
use crate::input::case::CaseError;
use crate::input::evidence::EvidenceError;
use crate::input::ingest::IngestError;
use crate::publish::permalink::PermalinkError;
use crate::render::mail::MailError;
use crate::workload::error::WorkloadError;
use crate::workload::worker::WorkerError;

/// Exit codes, one meaning each.
pub mod exit {
    /// Yes.
    pub const YES: u8 = 0;
    /// The answer is no.
    pub const NO: u8 = 1;
    /// Rejected: broken digest, chain or format.
    pub const REJECTED: u8 = 2;
    /// Refused: unsafe object or limit.
    pub const REFUSED: u8 = 3;
    /// Usage, environment, input or output.
    pub const USAGE: u8 = 4;
    /// No answer.
    pub const NO_ANSWER: u8 = 5;
}

/// Why a command did not come to its answer.
#[derive(Debug, Error)]
pub enum CommandError {
    /// A case's files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// `case.toml`.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Plan and journals.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An ingestion.
    #[error(transparent)]
    Ingest(#[from] IngestRunError),
    /// A bundle's content.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A bundle's manifests.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A tree on disk.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A permanent link.
    #[error(transparent)]
    Permalink(#[from] PermalinkError),
    /// A mail.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// An audit.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A CPU.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The worker itself.
    #[error("{}", chain(.0))]
    Worker(WorkerError),
    /// The plan was written from another case.
    #[error(
        "{file}: `{key}` differs from plan.json, which was written before the first row: found {found}, wanted {wanted}; put it back, or copy case.toml into a new folder and start there"
    )]
    PlanChanged {
        /// The case file.
        file: String,
        /// The key that differs.
        key: String,
        /// In case.toml.
        found: String,
        /// In plan.json.
        wanted: String,
    },
    /// An engine is missing.
    #[error(
        "{file}: found no [engine.host] or [engine.qemu], wanted the one to measure on this machine or the other to boot kernels; add it, or bring rows in with `regbundle ingest`"
    )]
    NoEngine {
        /// The case file.
        file: String,
    },
    /// Nothing was measured.
    #[error(
        "{case}: found no rows, wanted at least one measured point; measure with `regbundle run {case}` or bring rows in with `regbundle ingest`"
    )]
    NoRows {
        /// The case folder.
        case: String,
    },
    /// A place to write is taken.
    #[error(
        "{path}: exists already and is not empty, wanted a new folder; name another with --out, or remove it"
    )]
    OutTaken {
        /// The folder.
        path: String,
    },
    /// A folder is no tree of ours.
    #[error(
        "{path}: found no bagit.txt, wanted the root folder of a regbundle tree (it holds README.md, claims.json and data/)"
    )]
    NoTree {
        /// The folder or commit.
        path: String,
    },
    /// An address cannot be understood.
    #[error("found `{found}`, wanted {wanted}")]
    Argument {
        /// What was given.
        found: String,
        /// What may be given.
        wanted: &'static str,
    },
    /// Something could not be read or written.
    #[error("{path}: cannot {action}: {source}{}", advice(.source))]
    Io {
        /// Where.
        path: String,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Joins an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl CommandError {
    /// Returns the exit code of this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Evidence(error) => evidence_code(error),
            Self::Run(RunError::Evidence(error)) => evidence_code(error),
            Self::Ingest(IngestRunError::Evidence(error)) => evidence_code(error),
            // What case.toml or the options say is the user's to mend; the rest is the file's.
            Self::Ingest(IngestRunError::Ingest(
                IngestError::Key { .. } | IngestError::NotSaid { .. },
            )) => exit::USAGE,
            Self::Ingest(IngestRunError::Ingest(_)) => exit::REJECTED,
            Self::Assemble(error) | Self::Audit(AuditError::Evidence(error)) => match error {
                AssembleError::Evidence(error) => evidence_code(error),
                AssembleError::Case(_) | AssembleError::Input { .. } => exit::REJECTED,
                AssembleError::Template(_) => exit::USAGE,
            },
            Self::Audit(AuditError::Claims { .. }) | Self::NoTree { .. } => exit::REJECTED,
            Self::Mail(MailError::Invalid { .. }) => exit::NO,
            Self::Tree(error) => error.exit_code(),
            Self::Git(error) => error.exit_code(),
            Self::Worker(error) => error.exit_code(),
            _ => exit::USAGE,
        }
    }
}

fn evidence_code(error: &EvidenceError) -> u8 {
    match error {
        EvidenceError::NoPlan => exit::USAGE,
        _ => exit::REJECTED,
    }
}
