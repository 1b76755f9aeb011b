//! State is the fold of plan and journals: there is no other state.
//!
//! Input: the files of a case (or of a bundle's `data/`) as a tree. Output:
//! `Evidence`, with every attempt. Nothing is repaired and nothing dropped: rows
//! of aborted attempts stay, flagged by their attempt.

use thiserror::Error;

use super::ingest::IngestError;
use super::journal_fold::State;
use super::rows::RowsError;
use crate::model::digest::sha256_hex_128;
use crate::model::evidence::Evidence;
use crate::model::journal::{JournalError, read_journal};
use crate::model::plan::{PLAN_FORMAT, Plan};
use crate::model::shown::printable;
use crate::model::tree::{Entry, Tree};

/// Folder of the journals, relative to a case.
pub const JOURNAL_FOLDER: &str = "journal/";
/// First field of a `boot-open` record: version of the records' fields.
pub const JOURNAL_FORMAT: &str = "1";
/// The plan, relative to a case.
pub const PLAN_FILE: &str = "plan.json";

/// Why the files of a case are not evidence.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// The plan is missing.
    #[error(
        "plan.json: not found; `regbundle run` or `regbundle ingest` writes it before the first row"
    )]
    NoPlan,
    /// The plan is not readable.
    #[error("plan.json: {message}; it is written once, before the first row, and never edited")]
    Plan {
        /// What the reader says.
        message: String,
    },
    /// The chain is broken.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A row in the journal is not one.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// An ingested file is not what its note says.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A record does not follow from those before it.
    #[error("{place}: found {found}, wanted {wanted}")]
    Order {
        /// Journal file and line.
        place: String,
        /// What was found.
        found: String,
        /// What may stand there.
        wanted: String,
    },
    /// The rows of one point stand at another too: a copy, not a measurement.
    #[error(
        "{place}: found the rows of {other} again, as rows of {label}, wanted rows measured at {label}; give the rows of {label}, or correct the label"
    )]
    SameRows {
        /// Journal file and line, or the user's file.
        place: String,
        /// The point that holds the rows already.
        other: String,
        /// The point they were given for.
        label: String,
    },
    /// An ingested file is missing or changed.
    #[error("{path}: found {found}, wanted the file with SHA-256 {wanted} that {place} names")]
    File {
        /// The file.
        path: String,
        /// `no file` or its digest.
        found: String,
        /// The digest in the journal.
        wanted: String,
        /// Journal file and line.
        place: String,
    },
}

/// The chain's end: what the next opening continues from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainEnd {
    /// Hash the next file's first record must carry.
    pub hash: String,
    /// Openings so far.
    pub openings: u32,
    /// Torn tails, `file: N bytes at M`.
    pub torn: Vec<String>,
}

/// Folds the files of a case into evidence.
///
/// # Errors
///
/// When the plan or a journal is damaged, an ingested file is missing or changed,
/// or a record does not follow from those before it.
pub fn fold(files: &Tree) -> Result<(Evidence, ChainEnd), EvidenceError> {
    let plan_bytes = &files.get(PLAN_FILE).ok_or(EvidenceError::NoPlan)?.bytes;
    let plan = read_plan(plan_bytes)?;
    let mut state = State::new(files, plan);
    let mut end = ChainEnd {
        hash: sha256_hex_128(plan_bytes),
        ..ChainEnd::default()
    };
    for (path, entry) in files.range(JOURNAL_FOLDER.to_owned()..) {
        if !path.starts_with(JOURNAL_FOLDER) {
            break;
        }
        journal_name(path, end.openings + 1)?;
        let reading = read_journal(path, &entry.bytes, &end.hash)?;
        if let Some(last) = reading.records.last() {
            end.hash.clone_from(&last.hash);
        }
        if let Some(torn) = reading.torn {
            end.torn
                .push(format!("{path}: {} bytes at {}", torn.length, torn.offset));
        }
        end.openings += 1;
        state.next_file();
        for (line, record) in (1..).zip(&reading.records) {
            state.apply(record, path, line)?;
        }
    }
    let mut evidence = state.finish()?;
    evidence.torn.clone_from(&end.torn);
    Ok((evidence, end))
}

/// Puts the plan into the files of a case that has none yet; says whether it had one.
pub fn with_plan(files: &mut Tree, plan: &str) -> bool {
    let planned = files.contains_key(PLAN_FILE);
    if !planned {
        files.insert(PLAN_FILE.to_owned(), Entry::text(plan));
    }
    planned
}

/// Reads `plan.json`.
///
/// # Errors
///
/// When it is not a plan of this format.
pub fn read_plan(bytes: &[u8]) -> Result<Plan, EvidenceError> {
    let plan: Plan = serde_json::from_slice(bytes).map_err(|error| EvidenceError::Plan {
        message: error.to_string(),
    })?;
    if plan.format == PLAN_FORMAT {
        return Ok(plan);
    }
    Err(EvidenceError::Plan {
        message: format!("found format {}, wanted {PLAN_FORMAT}", plan.format),
    })
}

/// Refuses a journal file that the writer would not have named so: files are read in the
/// order of their names, and a name is shown to people.
fn journal_name(path: &str, opening: u32) -> Result<(), EvidenceError> {
    let begin = format!("{JOURNAL_FOLDER}{opening:04}-");
    let name = path
        .strip_prefix(&begin)
        .and_then(|rest| rest.strip_suffix(".tsv"));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_some_and(|name| (1..=40).contains(&name.len()) && name.bytes().all(plain)) {
        return Ok(());
    }
    Err(order(
        &printable(path, 80),
        "a file of that name",
        &format!("{begin}<boot id>.tsv or {begin}ingest.tsv"),
    ))
}

/// The error of a record that does not follow.
pub(super) fn order(place: &str, found: &str, wanted: &str) -> EvidenceError {
    EvidenceError::Order {
        place: place.to_owned(),
        found: found.to_owned(),
        wanted: wanted.to_owned(),
    }
}
