//! Raw logs made elsewhere become segments, summaries and identities.
//!
//! The interpretation (column map, point, implementation) is written into the
//! journal beside the file's digest when the file is ingested, so a later edit of
//! `case.toml` cannot change what its columns mean.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cell::{CellError, decimal, integer};
use super::rows::{RowsError, read_stream};
use super::table::{Record, Table, TableError};
use crate::model::case::{Implementation, TableKind, TableMap};
use crate::model::evidence::{Segment, Source, Summary, SummaryCell};
use crate::model::identity::{BootIdentity, KernelIdentity, Reading, SETTING_KEYS};
use crate::model::plan::Plan;
use crate::model::protocol::{Clock, MAGIC};
use crate::model::row::{Metric, Phase, Row};
use crate::model::shown::printable;
use crate::model::units::{text_resolution, to_f64};

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

fn planned_point(label: &str, place: &str, plan: &Plan) -> Result<String, IngestError> {
    plan.point(label)
        .map(|point| point.label.clone())
        .ok_or_else(|| IngestError::Unplanned {
            place: place.to_owned(),
            what: "point",
            found: printable(label, 60),
            known: join(plan.points.iter().map(|point| point.label.as_str())),
        })
}

fn planned_workload(
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

fn source(note: &IngestNote) -> Source {
    Source::Ingested {
        file: note.path.clone(),
        sha256: note.sha256.clone(),
    }
}

struct TableReader<'a> {
    note: &'a IngestNote,
    map: &'a TableMap,
    table: &'a Table,
    plan: &'a Plan,
}

impl TableReader<'_> {
    fn selected(&self) -> impl Iterator<Item = Record<'_>> {
        self.table.records().filter(|record| {
            self.map
                .select
                .iter()
                .all(|(column, text)| record.cell(column) == text)
        })
    }

    fn cell<'r>(&self, record: &'r Record<'r>, key: &str) -> Option<&'r str> {
        self.map.columns.get(key).map(|column| record.cell(column))
    }

    /// Returns the point of a record: from its column, else from `--point`. `None`
    /// when the record belongs to another point than `--point` asks for.
    fn point(&self, record: &Record<'_>) -> Result<Option<String>, IngestError> {
        let asked = self.note.point.as_deref();
        let label = match (self.cell(record, "point"), asked) {
            (Some(found), Some(asked)) if found != asked => return Ok(None),
            (Some(found), _) => found,
            (None, Some(asked)) => asked,
            (None, None) => {
                return Err(self.not_said(
                    "point",
                    "name it with --point LABEL, or map a `point` column in case.toml",
                ));
            }
        };
        planned_point(label, &record.place(), self.plan).map(Some)
    }

    fn implementation(&self, record: &Record<'_>) -> Result<Option<Implementation>, IngestError> {
        let asked = self.note.implementation;
        let Some(text) = self.cell(record, "implementation") else {
            return asked.map(Some).ok_or_else(|| {
                self.not_said(
                    "implementation",
                    "name it with --implementation, or map an `implementation` column in case.toml",
                )
            });
        };
        let found = Implementation::from_word(text).ok_or_else(|| IngestError::Unplanned {
            place: record.place(),
            what: "implementation",
            found: printable(text, 60),
            known: "formal, standalone".to_owned(),
        })?;
        Ok(asked.is_none_or(|asked| asked == found).then_some(found))
    }

    fn workload(&self) -> Result<&str, IngestError> {
        self.map.workload.as_deref().ok_or_else(|| {
            self.not_said(
                "workload",
                "add `workload = \"…\"` to the [[table]] in case.toml",
            )
        })
    }

    fn not_said(&self, what: &'static str, hint: &str) -> IngestError {
        IngestError::NotSaid {
            file: self.note.path.clone(),
            what,
            hint: hint.to_owned(),
        }
    }

    fn nothing(&self) -> IngestError {
        let point = self.note.point.as_deref().unwrap_or("any point");
        let implementation = self
            .note
            .implementation
            .map_or("any implementation", Implementation::word);
        IngestError::Nothing {
            file: self.note.path.clone(),
            wanted: format!("{point} and {implementation}"),
        }
    }

    fn rows(&self) -> Result<Ingested, IngestError> {
        let mut rows: BTreeMap<(String, Implementation), Vec<Row>> = BTreeMap::new();
        for record in self.selected() {
            let (Some(label), Some(implementation)) =
                (self.point(&record)?, self.implementation(&record)?)
            else {
                continue;
            };
            let row = self.row(&record)?;
            rows.entry((label, implementation)).or_default().push(row);
        }
        if rows.is_empty() {
            return Err(self.nothing());
        }
        self.check_status(&rows)?;
        let mut ingested = Ingested::default();
        for ((label, implementation), rows) in rows {
            let workload =
                planned_workload(self.workload()?, implementation, &self.note.path, self.plan)?;
            let segment = Segment {
                workload,
                implementation,
                clock: Clock::Ns,
                announced: u64::try_from(rows.len()).ok(),
                rows,
                aborted: None,
                counters: Vec::new(),
                program_sha256: String::new(),
                source_sha256: None,
                source: source(self.note),
                notes: Vec::new(),
            };
            ingested.segments.push((label, segment));
        }
        Ok(ingested)
    }

    /// A pass text that no line has, where none was named, is a question and not 90 failures.
    fn check_status(
        &self,
        rows: &BTreeMap<(String, Implementation), Vec<Row>>,
    ) -> Result<(), IngestError> {
        let Some(column) = self.map.columns.get("status") else {
            return Ok(());
        };
        let passes = rows.values().flatten().any(|row| row.passed == Some(true));
        if self.map.status_pass.is_some() || passes {
            return Ok(());
        }
        let first = self.selected().next();
        Err(IngestError::Status {
            file: self.note.path.clone(),
            column: column.clone(),
            found: first.map_or_else(String::new, |record| printable(record.cell(column), 40)),
        })
    }

    fn row(&self, record: &Record<'_>) -> Result<Row, IngestError> {
        let place = record.place();
        let number = |key: &'static str| {
            self.cell(record, key)
                .map(|text| integer(text, &place, key))
                .transpose()
        };
        let ops = number("ops")?;
        let elapsed = number("elapsed")?;
        let metric = match (elapsed, ops, self.cell(record, "per_op")) {
            (Some(elapsed), Some(ops), per_op) if elapsed > 0 && ops > 0 => {
                if let Some(text) = per_op {
                    agrees(text, elapsed, ops, &place)?;
                }
                Metric::Elapsed { elapsed, ops }
            }
            (None, _, Some(text)) => {
                let value = decimal(text, &place, "per_op")?;
                if value <= 0.0 {
                    return Err(CellError::new(&place, "per_op", text, "a figure above 0").into());
                }
                Metric::PerOp {
                    text: text.to_owned(),
                    value,
                    ops,
                }
            }
            (Some(_), Some(_), _) => {
                return Err(
                    CellError::new(&place, "elapsed", "0", "elapsed and ops above 0").into(),
                );
            }
            _ => {
                return Err(self.not_said(
                    "metric",
                    "map `elapsed` and `ops`, or `per_op`, in the [[table]] of case.toml",
                ));
            }
        };
        let phase = match self.cell(record, "phase") {
            None => Phase::Measured,
            Some(text) => Phase::from_word(text)
                .ok_or_else(|| CellError::new(&place, "phase", text, "warmup or measured"))?,
        };
        let round = number("round")?
            .ok_or_else(|| self.not_said("round", "map a `round` column in case.toml"))?;
        let pass_text = self.map.status_pass.as_deref().unwrap_or("pass");
        Ok(Row {
            phase,
            round,
            metric,
            usage: None,
            canary: None,
            counters: Vec::new(),
            passed: self.cell(record, "status").map(|text| text == pass_text),
        })
    }

    fn summaries(&self) -> Result<Ingested, IngestError> {
        let mut ingested = Ingested::default();
        for record in self.selected() {
            let Some(implementation) = self.implementation(&record)? else {
                continue;
            };
            let workload =
                planned_workload(self.workload()?, implementation, &record.place(), self.plan)?;
            let mut means = BTreeMap::new();
            for point in &self.plan.points {
                let Some(column) = self.map.columns.get(&point.label) else {
                    continue;
                };
                let text = record.cell(column);
                let value = decimal(text, &record.place(), column)?;
                if value <= 0.0 {
                    return Err(
                        CellError::new(&record.place(), column, text, "a mean above 0").into(),
                    );
                }
                means.insert(
                    point.label.clone(),
                    SummaryCell {
                        column: column.clone(),
                        text: text.to_owned(),
                        value,
                    },
                );
            }
            if ingested.summaries.iter().any(|known: &Summary| {
                known.workload == workload && known.implementation == implementation
            }) {
                return Err(IngestError::Twice {
                    place: record.place(),
                    what: format!("{workload}, {}", implementation.word()),
                });
            }
            ingested.summaries.push(Summary {
                workload,
                implementation,
                means,
                file: self.note.path.clone(),
                line: record.line,
            });
        }
        if ingested.summaries.is_empty() {
            return Err(self.nothing());
        }
        Ok(ingested)
    }

    fn identities(&self) -> Result<Ingested, IngestError> {
        let mut ingested = Ingested::default();
        for record in self.selected() {
            let Some(label) = self.point(&record)? else {
                continue;
            };
            let text = |key: &str| {
                self.cell(&record, key)
                    .filter(|text| !text.is_empty())
                    .map(|text| printable(text, 400))
            };
            let mut identity = BootIdentity {
                boot_id: text("boot_id"),
                kernel: KernelIdentity {
                    release: text("release"),
                    build_id: text("build_id"),
                    ..KernelIdentity::default()
                },
                ..BootIdentity::default()
            };
            for key in SETTING_KEYS {
                if let Some(value) = text(key) {
                    identity
                        .settings
                        .insert((*key).to_owned(), Reading::Known(value));
                }
            }
            if ingested
                .identities
                .insert(label.clone(), identity)
                .is_some()
            {
                return Err(IngestError::Twice {
                    place: record.place(),
                    what: format!("the point {label}"),
                });
            }
        }
        if ingested.identities.is_empty() {
            return Err(self.nothing());
        }
        Ok(ingested)
    }
}

/// Refuses a per-op figure that is not `elapsed / ops` in the digits it has.
fn agrees(text: &str, elapsed: u64, ops: u64, place: &str) -> Result<(), IngestError> {
    let stated = decimal(text, place, "per_op")?;
    let ratio = to_f64(elapsed) / to_f64(ops);
    // Rounded or cut: at most one step of the last digit apart.
    if (stated - ratio).abs() <= text_resolution(text) {
        return Ok(());
    }
    Err(CellError::new(place, "per_op", text, "elapsed / ops of the same line").into())
}
