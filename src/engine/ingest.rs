//! Raw logs made elsewhere enter the case: the file is copied beside the journal,
//! its digest and interpretation become one record.

use std::path::Path;

use thiserror::Error;

use super::journal::{JournalWriter, WriteError};
use crate::edge::case_folder::{CaseFolder, FolderError, read_named};
use crate::edge::clock::now_seconds;
use crate::input::evidence::{EvidenceError, JOURNAL_FORMAT, PLAN_FILE, fold, with_plan};
use crate::input::ingest::{IngestError, IngestNote, interpret, is_stream};
use crate::model::case::{Case, Implementation};
use crate::model::digest::sha256_hex;
use crate::model::identity::BootIdentity;
use crate::model::journal::RecordKind;
use crate::model::tree::Entry;

/// Why a file was not ingested; the case is as it was.
#[derive(Debug, Error)]
pub enum IngestRunError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The evidence does not take the file.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The file is not what it should be.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A record did not reach the disk.
    #[error(transparent)]
    Journal(#[from] WriteError),
    /// No map for this table.
    #[error(
        "{file}: found neither a stream of the row protocol (`#regbundle-rows 1 …`) nor a [[table]] with file = \"{file}\" in case.toml; add one that maps its columns"
    )]
    NoMap {
        /// Name of the file.
        file: String,
    },
    /// The case has these rows already, or others in their place.
    #[error(
        "{file}: found {found}, wanted {wanted}; nothing was written: a case keeps what it took, so bring other rows into a new folder with a copy of case.toml"
    )]
    NotTaken {
        /// The file.
        file: String,
        /// What was found.
        found: String,
        /// What the case takes.
        wanted: String,
    },
    /// The name cannot be used in a bundle.
    #[error(
        "{file}: found a name with other characters than letters, digits and . _ + @ = -, wanted a plain name; rename the file"
    )]
    Name {
        /// Name of the file.
        file: String,
    },
}

/// What was ingested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestReport {
    /// The copy, relative to the case.
    pub path: String,
    /// `point, workload, implementation: N rows` and the like.
    pub items: Vec<String>,
    /// Rows that give only a per-op figure.
    pub per_op_only: usize,
    /// Whether `plan.json` was written with it.
    pub planned: bool,
}

/// Ingests one file; `plan` is written as `plan.json` when there is none yet.
///
/// # Errors
///
/// When the file is not a stream or a mapped table, or does not fit the plan.
pub fn ingest(
    folder: &CaseFolder,
    case: &Case,
    plan: &str,
    file: &Path,
    point: Option<&str>,
    implementation: Option<Implementation>,
) -> Result<IngestReport, IngestRunError> {
    let bytes = read_named(file)?;
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+@=-".contains(&byte);
    if name.starts_with(['.', '-']) || name.len() > 80 || !name.bytes().all(plain) {
        return Err(IngestRunError::Name { file: name });
    }
    let sha256 = sha256_hex(&bytes);
    let short: String = sha256.chars().take(12).collect();
    let map = if is_stream(&bytes) {
        None
    } else {
        let map = case.table.iter().find(|map| map.file == name);
        Some(
            map.cloned()
                .ok_or_else(|| IngestRunError::NoMap { file: name.clone() })?,
        )
    };
    let note = IngestNote {
        path: format!("ingested/{short}-{name}"),
        sha256,
        point: point.map(str::to_owned),
        implementation,
        map,
    };
    let mut files = folder.read()?;
    let planned = with_plan(&mut files, plan);
    let (evidence, end) = fold(&files)?;
    // Messages name the file as the user did: the copy does not exist yet.
    let named = IngestNote {
        path: file.display().to_string(),
        ..note.clone()
    };
    let ingested = interpret(&named, &bytes, &evidence.plan)?;
    // The whole fold with the new record decides before anything is written.
    let fields = [
        "ingest".to_owned(),
        serde_json::to_string(&note).unwrap_or_default(),
    ];
    let open = [
        JOURNAL_FORMAT.to_owned(),
        now_seconds().to_string(),
        crate::TOOL.to_owned(),
        serde_json::to_string(&BootIdentity::default()).unwrap_or_default(),
        "-".to_owned(),
    ];
    let (first, hash) =
        crate::model::journal::format_record(0, RecordKind::BootOpen, 0, &open, &end.hash);
    let (second, _) = crate::model::journal::format_record(1, RecordKind::Note, 0, &fields, &hash);
    files.insert(note.path.clone(), Entry::text(bytes.clone()));
    files.insert(
        format!("journal/{:04}-ingest.tsv", end.openings + 1),
        Entry::text(first + &second),
    );
    fold(&files).map_err(|error| in_user_words(error, file))?;

    if !planned {
        folder.create(PLAN_FILE, plan.as_bytes())?;
    }
    if !folder.path().join(&note.path).exists() {
        folder.create(&note.path, &bytes)?;
    }
    let mut journal = JournalWriter::create(folder.path(), &end, "ingest")?;
    journal.append(RecordKind::BootOpen, &open)?;
    journal.append(RecordKind::Note, &fields)?;
    journal.append(
        RecordKind::BootClose,
        &["0".to_owned(), now_seconds().to_string()],
    )?;
    Ok(IngestReport {
        planned: !planned,
        ..report(&note, &ingested)
    })
}

/// Names the user's file where the fold names a journal that is not written yet.
fn in_user_words(error: EvidenceError, file: &Path) -> IngestRunError {
    match error {
        EvidenceError::Order { found, wanted, .. } => IngestRunError::NotTaken {
            file: file.display().to_string(),
            found,
            wanted,
        },
        EvidenceError::SameRows { other, label, .. } => EvidenceError::SameRows {
            place: file.display().to_string(),
            other,
            label,
        }
        .into(),
        other => other.into(),
    }
}

fn report(note: &IngestNote, ingested: &crate::input::ingest::Ingested) -> IngestReport {
    let mut items = Vec::new();
    let mut per_op_only = 0;
    for (label, segment) in &ingested.segments {
        per_op_only += segment
            .rows
            .iter()
            .filter(|row| matches!(row.metric, crate::model::row::Metric::PerOp { .. }))
            .count();
        items.push(format!(
            "{label}, {}, {}: {} rows",
            segment.workload,
            segment.implementation.word(),
            segment.rows.len()
        ));
    }
    for summary in &ingested.summaries {
        items.push(format!(
            "{}, {}: {} published means, no rows",
            summary.workload,
            summary.implementation.word(),
            summary.means.len()
        ));
    }
    for (label, identity) in &ingested.identities {
        items.push(format!(
            "{label}: kernel {}, boot {}",
            identity.kernel.release.as_deref().unwrap_or("not stated"),
            identity.boot_id.as_deref().unwrap_or("not stated")
        ));
    }
    IngestReport {
        path: note.path.clone(),
        items,
        per_op_only,
        planned: false,
    }
}
