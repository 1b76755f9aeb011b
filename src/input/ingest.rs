//! Raw logs made elsewhere become segments, summaries and identities.
//!
//! The interpretation (column map, point, implementation) is written into the
//! journal beside the file's digest when the file is ingested, so a later edit of
//! `case.toml` cannot change what its columns mean.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cell::CellError;
use super::ingest_table::TableReader;
use super::rows::{RowsError, read_stream};
use super::table::{Table, TableError};
use crate::model::case::{Implementation, TableKind, TableMap};
use crate::model::evidence::{Segment, Source, Summary};
use crate::model::identity::{BootIdentity, SETTING_KEYS};
use crate::model::plan::Plan;
use crate::model::protocol::MAGIC;
use crate::model::shown::printable;

/// What the journal says of an ingested file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IngestNote {
    /// The copy, relative to the case: `ingested/<digest>-<name>`.
    pub path: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// `--point`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// `--implementation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<Implementation>,
    /// The column map; absent for a stream of our own row protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<TableMap>,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ingested {
    /// Point label and segment.
    pub segments: Vec<(String, Segment)>,
    /// Published means.
    pub summaries: Vec<Summary>,
    /// Point label to what is known of its boot.
    pub identities: BTreeMap<String, BootIdentity>,
}

/// Why a file cannot be ingested.
#[derive(Debug, Error)]
pub enum IngestError {
    /// A stream of rows is broken.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A table is broken.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A cell is not a number.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The stream lacks its last line.
    #[error(
        "{file}: found no last line `#end <rows>` after {rows} rows, wanted a whole stream; \
         the program that wrote it did not finish, so measure the point again"
    )]
    Torn {
        /// The file.
        file: String,
        /// Rows found.
        rows: usize,
    },
    /// The stream announces another number of rows than it holds.
    #[error("{file}: found {found} rows, wanted the {announced} that its last line announces")]
    Count {
        /// The file.
        file: String,
        /// Rows found.
        found: usize,
        /// Rows announced.
        announced: u64,
    },
    /// Something is not in the plan.
    #[error("{place}: found the {what} `{found}`, wanted one of the plan: {known}")]
    Unplanned {
        /// File and line.
        place: String,
        /// Point, workload or implementation.
        what: &'static str,
        /// What was found.
        found: String,
        /// What the plan has.
        known: String,
    },
    /// The point, workload or implementation is not said.
    #[error("{file}: the {what} of these rows is not known; {hint}")]
    NotSaid {
        /// The file.
        file: String,
        /// Point, workload or implementation.
        what: &'static str,
        /// What to do.
        hint: String,
    },
    /// A key of `columns` means nothing.
    #[error("case.toml, [[table]] for {file}: found `{key}` in `columns`, wanted one of: {known}")]
    Key {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// Keys of this kind of table.
        known: String,
    },
    /// Options and file contradict.
    #[error(
        "{file}: found rows of the implementation `{found}`, wanted `{wanted}` as --implementation says"
    )]
    Contradiction {
        /// The file.
        file: String,
        /// In the stream.
        found: &'static str,
        /// In the option.
        wanted: &'static str,
    },
    /// No line was left after selection.
    #[error(
        "{file}: found no line for {wanted}; check --point, --implementation and `select` in case.toml"
    )]
    Nothing {
        /// The file.
        file: String,
        /// What was looked for.
        wanted: String,
    },
    /// No line passes, and nobody said which text means that it does.
    #[error(
        "{file}: no line has `pass` in the status column `{column}`, the first one has `{found}`; say in the [[table]] of case.toml which text means that the work was done: status_pass = \"…\""
    )]
    Status {
        /// The file.
        file: String,
        /// Name of the column.
        column: String,
        /// Text of the first line.
        found: String,
    },
    /// Two lines for one cell of the evidence.
    #[error("{place}: found {what} a second time, wanted it once")]
    Twice {
        /// File and line.
        place: String,
        /// Which.
        what: String,
    },
}

/// Says whether bytes begin as a stream of our row protocol.
#[must_use]
pub fn is_stream(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC.as_bytes())
}

/// Reads an ingested file as its note says.
///
/// # Errors
///
/// When the file is not what the note says, or holds what the plan does not.
pub fn interpret(note: &IngestNote, bytes: &[u8], plan: &Plan) -> Result<Ingested, IngestError> {
    match &note.map {
        None => stream(note, bytes, plan),
        Some(map) => {
            let table = Table::read(bytes, &note.path)?;
            check_keys(map, plan, &note.path)?;
            for column in map.columns.values().chain(map.select.keys()) {
                table.require(column)?;
            }
            let reader = TableReader {
                note,
                map,
                table: &table,
                plan,
            };
            match map.kind {
                TableKind::Rows => reader.rows(),
                TableKind::Summary => reader.summaries(),
                TableKind::Identity => reader.identities(),
            }
        }
    }
}

fn check_keys(map: &TableMap, plan: &Plan, file: &str) -> Result<(), IngestError> {
    let mut known: Vec<String> = match map.kind {
        TableKind::Rows => [
            "point",
            "implementation",
            "round",
            "phase",
            "ops",
            "elapsed",
            "per_op",
            "status",
        ]
        .map(str::to_owned)
        .to_vec(),
        TableKind::Summary => std::iter::once("implementation".to_owned())
            .chain(plan.points.iter().map(|point| point.label.clone()))
            .collect(),
        TableKind::Identity => ["point", "boot_id", "release", "build_id"]
            .iter()
            .chain(SETTING_KEYS)
            .map(|key| (*key).to_owned())
            .collect(),
    };
    known.sort();
    for key in map.columns.keys() {
        if !known.contains(key) {
            return Err(IngestError::Key {
                file: file.to_owned(),
                key: key.clone(),
                known: known.join(", "),
            });
        }
    }
    Ok(())
}

/// The label of a point of the plan.
pub(super) fn planned_point(label: &str, place: &str, plan: &Plan) -> Result<String, IngestError> {
    plan.point(label)
        .map(|point| point.label.clone())
        .ok_or_else(|| IngestError::Unplanned {
            place: place.to_owned(),
            what: "point",
            found: printable(label, 60),
            known: join(plan.points.iter().map(|point| point.label.as_str())),
        })
}

/// The name of a workload that the plan has in this implementation.
pub(super) fn planned_workload(
    name: &str,
    implementation: Implementation,
    place: &str,
    plan: &Plan,
) -> Result<String, IngestError> {
    let workload = plan.workload(name).ok_or_else(|| IngestError::Unplanned {
        place: place.to_owned(),
        what: "workload",
        found: printable(name, 60),
        known: join(plan.workloads.iter().map(|workload| workload.name.as_str())),
    })?;
    if workload.implementations.contains(&implementation) {
        return Ok(workload.name.clone());
    }
    Err(IngestError::Unplanned {
        place: place.to_owned(),
        what: "implementation",
        found: format!("{} of {name}", implementation.word()),
        known: join(workload.implementations.iter().map(|known| known.word())),
    })
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn stream(note: &IngestNote, bytes: &[u8], plan: &Plan) -> Result<Ingested, IngestError> {
    let file = &note.path;
    let text =
        std::str::from_utf8(bytes).map_err(|_| TableError::NotText { file: file.clone() })?;
    let stream = read_stream(text, file)?;
    let announced = stream.announced.ok_or_else(|| IngestError::Torn {
        file: file.clone(),
        rows: stream.rows.len(),
    })?;
    if u64::try_from(stream.rows.len()) != Ok(announced) {
        return Err(IngestError::Count {
            file: file.clone(),
            found: stream.rows.len(),
            announced,
        });
    }
    let implementation = stream.head.implementation;
    if let Some(wanted) = note
        .implementation
        .filter(|wanted| *wanted != implementation)
    {
        return Err(IngestError::Contradiction {
            file: file.clone(),
            found: implementation.word(),
            wanted: wanted.word(),
        });
    }
    let label = note.point.as_deref().ok_or_else(|| IngestError::NotSaid {
        file: file.clone(),
        what: "point",
        hint: "name it with --point LABEL".to_owned(),
    })?;
    let label = planned_point(label, file, plan)?;
    let workload = planned_workload(&stream.head.workload, implementation, file, plan)?;
    let segment = Segment {
        workload,
        implementation,
        clock: stream.head.clock,
        rows: stream.rows,
        announced: stream.announced,
        aborted: None,
        counters: stream.counters,
        program_sha256: String::new(),
        source_sha256: None,
        source: source(note),
        notes: Vec::new(),
    };
    Ok(Ingested {
        segments: vec![(label, segment)],
        ..Ingested::default()
    })
}

/// Where the rows of a note come from.
pub(super) fn source(note: &IngestNote) -> Source {
    Source::Ingested {
        file: note.path.clone(),
        sha256: note.sha256.clone(),
    }
}
