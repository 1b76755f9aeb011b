//! The lines of a table made elsewhere, as the column map of its note says.
//!
//! Input: a table, its map and the plan. Output: segments, summaries or identities.
//! Integers stay integers; a per-op figure keeps the digits it has.

use std::collections::BTreeMap;

use super::cell::{CellError, decimal, integer};
use super::ingest::{IngestError, IngestNote, Ingested, planned_point, planned_workload, source};
use super::table::{Record, Table};
use crate::model::case::{Implementation, TableMap};
use crate::model::evidence::{Segment, Summary, SummaryCell};
use crate::model::identity::{BootIdentity, KernelIdentity, Reading, SETTING_KEYS};
use crate::model::plan::Plan;
use crate::model::protocol::Clock;
use crate::model::row::{Metric, Phase, Row};
use crate::model::shown::printable;
use crate::model::units::{text_resolution, to_f64};

/// A table with what its note and the plan say of it.
pub(super) struct TableReader<'a> {
    pub(super) note: &'a IngestNote,
    pub(super) map: &'a TableMap,
    pub(super) table: &'a Table,
    pub(super) plan: &'a Plan,
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

    /// Reads a table of `kind = "rows"`.
    pub(super) fn rows(&self) -> Result<Ingested, IngestError> {
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

    /// Reads a table of `kind = "summary"`.
    pub(super) fn summaries(&self) -> Result<Ingested, IngestError> {
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

    /// Reads a table of `kind = "identity"`.
    pub(super) fn identities(&self) -> Result<Ingested, IngestError> {
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
