//! One record after another becomes evidence.
//!
//! The fold that `evidence::fold` runs over the journals in their order. A record that
//! does not follow from those before it is an error; nothing is repaired.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{EvidenceError, JOURNAL_FORMAT, order};
use super::ingest::{IngestNote, Ingested, interpret};
use super::rows::{Columns, read_columns, read_row};
use crate::model::case::Implementation;
use crate::model::digest::sha256_hex;
use crate::model::evidence::{Attempt, Evidence, Point, Segment, Source};
use crate::model::identity::BootIdentity;
use crate::model::journal::{Record, RecordKind};
use crate::model::plan::Plan;
use crate::model::protocol::Clock;
use crate::model::tree::Tree;

/// The last second of the year 9999, since 1970: later ones have no date of four digits.
const LAST_SECOND: i64 = 253_402_300_799;

/// Where an open stream's rows go: index of the segment in the open attempt.
struct OpenStream {
    segment: usize,
    columns: Columns,
}

/// What the records read so far say.
pub(super) struct State<'a> {
    files: &'a Tree,
    evidence: Evidence,
    identity: BootIdentity,
    /// Index of the point whose attempt is open in this file.
    open: Option<usize>,
    /// Record number of `row-begin` to its stream.
    streams: BTreeMap<String, OpenStream>,
    ingested_identities: BTreeMap<String, BootIdentity>,
    /// Whether the file being read was closed.
    closed: bool,
    /// Rows of the file being read.
    file_rows: u64,
    /// When its last record was written, nanoseconds since boot.
    boottime_ns: u64,
}

impl<'a> State<'a> {
    /// The state before the first record.
    pub(super) fn new(files: &'a Tree, plan: Plan) -> Self {
        let points = plan
            .points
            .iter()
            .map(|point| Point {
                position: point.position,
                label: point.label.clone(),
                role: point.role,
                attempts: Vec::new(),
            })
            .collect();
        Self {
            files,
            evidence: Evidence {
                plan,
                points,
                summaries: Vec::new(),
                ingested: BTreeSet::new(),
                plan_before_rows: true,
                torn: Vec::new(),
                last_seconds: 0,
            },
            identity: BootIdentity::default(),
            open: None,
            streams: BTreeMap::new(),
            ingested_identities: BTreeMap::new(),
            closed: false,
            file_rows: 0,
            boottime_ns: 0,
        }
    }

    /// Forgets what holds within one journal file only.
    pub(super) fn next_file(&mut self) {
        self.open = None;
        self.streams.clear();
        self.closed = false;
        self.file_rows = 0;
        self.boottime_ns = 0;
    }

    /// What all records together say.
    pub(super) fn finish(mut self) -> Result<Evidence, EvidenceError> {
        self.attach_identities()?;
        Ok(self.evidence)
    }

    /// Takes the next record of the file being read.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        path: &str,
        line: usize,
    ) -> Result<(), EvidenceError> {
        let place = format!("{path}:{line}");
        if record.seq == 0 && record.kind != RecordKind::BootOpen {
            return Err(order(
                &place,
                record.kind.word(),
                "boot-open as the first record",
            ));
        }
        if record.boottime_ns < self.boottime_ns {
            return Err(order(
                &place,
                &format!("a record {} ns after boot", record.boottime_ns),
                &format!("{} or later, as the record before it", self.boottime_ns),
            ));
        }
        self.boottime_ns = record.boottime_ns;
        if self.closed {
            return Err(order(
                &place,
                "a record after boot-close",
                "nothing: the file was closed",
            ));
        }
        match record.kind {
            RecordKind::BootOpen => self.boot_open(record, &place),
            RecordKind::BootClose => self.boot_close(record, &place),
            RecordKind::RowBegin => self.row_begin(record, path, &place),
            RecordKind::Row => self.row(record, &place),
            RecordKind::RowAbort => {
                let reason = record.field(1).to_owned();
                self.segment(record.field(0), &place)?.aborted = Some(reason);
                Ok(())
            }
            RecordKind::Note => self.note(record, &place),
        }
    }

    fn take_time(&mut self, text: &str, place: &str) -> Result<(), EvidenceError> {
        // A date that cannot be written must not become another one in a mail.
        let seconds = text
            .parse::<i64>()
            .ok()
            .filter(|seconds| (0..=LAST_SECOND).contains(seconds))
            .ok_or_else(|| order(place, text, "seconds since 1970, before the year 10000"))?;
        self.evidence.last_seconds = self.evidence.last_seconds.max(seconds);
        Ok(())
    }

    fn boot_close(&mut self, record: &Record, place: &str) -> Result<(), EvidenceError> {
        let rows = self.file_rows.to_string();
        if record.field(0) != rows {
            return Err(order(
                place,
                &format!("boot-close of {} rows", record.field(0)),
                &format!("{rows}, as many as the file holds"),
            ));
        }
        self.take_time(record.field(1), place)?;
        self.closed = true;
        Ok(())
    }

    fn boot_open(&mut self, record: &Record, place: &str) -> Result<(), EvidenceError> {
        if record.seq != 0 {
            return Err(order(
                place,
                "a second boot-open",
                "one per file, its first record",
            ));
        }
        if record.field(0) != JOURNAL_FORMAT {
            return Err(order(
                place,
                &format!("journal format {}", record.field(0)),
                &format!("format {JOURNAL_FORMAT}"),
            ));
        }
        self.take_time(record.field(1), place)?;
        self.identity = serde_json::from_str(record.field(3)).map_err(|error| {
            order(
                place,
                &error.to_string(),
                "the identity of the boot as JSON",
            )
        })?;
        Ok(())
    }

    fn attempt(&mut self, place: &str) -> Result<&mut Attempt, EvidenceError> {
        self.open
            .and_then(|index| self.evidence.points.get_mut(index))
            .and_then(|point| point.attempts.last_mut())
            .ok_or_else(|| {
                order(
                    place,
                    "a row outside any point",
                    "a note `point-begin` before it",
                )
            })
    }

    fn segment(&mut self, begin: &str, place: &str) -> Result<&mut Segment, EvidenceError> {
        let index = self
            .streams
            .get(begin)
            .map(|stream| stream.segment)
            .ok_or_else(|| {
                order(
                    place,
                    &format!("row-begin {begin}"),
                    "the number of a row-begin in this file",
                )
            })?;
        self.attempt(place)?.segments.get_mut(index).ok_or_else(|| {
            order(
                place,
                "a stream of another point",
                "a stream of the open point",
            )
        })
    }

    fn row_begin(&mut self, record: &Record, path: &str, place: &str) -> Result<(), EvidenceError> {
        let workload = record.field(0).to_owned();
        let implementation = Implementation::from_word(record.field(1))
            .ok_or_else(|| order(place, record.field(1), "formal or standalone"))?;
        let planned = self
            .evidence
            .plan
            .workload(&workload)
            .is_some_and(|planned| planned.implementations.contains(&implementation));
        if !planned {
            return Err(order(
                place,
                &format!("{workload}, {}", implementation.word()),
                "a workload and implementation of the plan",
            ));
        }
        let clock = Clock::from_word(record.field(2))
            .ok_or_else(|| order(place, record.field(2), "ns or instructions"))?;
        let columns = read_columns(&record.field(4).replace(' ', "\t"), place)?;
        let segment = Segment {
            workload,
            implementation,
            clock,
            rows: Vec::new(),
            announced: None,
            aborted: None,
            counters: columns.counters.clone(),
            program_sha256: record.field(3).to_owned(),
            source_sha256: Some(record.field(6).to_owned()).filter(|text| text.len() == 64),
            source: Source::Runner {
                journal: path.to_owned(),
            },
            notes: Vec::new(),
        };
        let attempt = self.attempt(place)?;
        attempt.segments.push(segment);
        let stream = OpenStream {
            segment: attempt.segments.len() - 1,
            columns,
        };
        self.streams.insert(record.seq.to_string(), stream);
        Ok(())
    }

    fn row(&mut self, record: &Record, place: &str) -> Result<(), EvidenceError> {
        let (begin, cells) = record.fields.split_first().ok_or_else(|| {
            order(
                place,
                "an empty row",
                "the number of its row-begin and its cells",
            )
        })?;
        let row = match self.streams.get(begin) {
            Some(stream) => read_row(&cells.join("\t"), &stream.columns, place)?,
            None => {
                return Err(order(
                    place,
                    begin,
                    "the number of a row-begin in this file",
                ));
            }
        };
        self.segment(begin, place)?.rows.push(row);
        self.file_rows += 1;
        Ok(())
    }

    fn note(&mut self, record: &Record, place: &str) -> Result<(), EvidenceError> {
        match record.field(0) {
            "point-begin" => self.point_begin(record, place),
            "point-end" => {
                let attempt = self.attempt(place)?;
                attempt.finished = true;
                record.field(2).clone_into(&mut attempt.ended_because);
                self.open = None;
                Ok(())
            }
            "row-end" => {
                let announced = record.field(2).parse().ok();
                self.segment(record.field(1), place)?.announced = announced;
                Ok(())
            }
            "worker" => {
                let note = record.field(2);
                let (key, value) = note.split_once('=').unwrap_or((note, ""));
                let pair = (key.to_owned(), value.to_owned());
                self.segment(record.field(1), place)?.notes.push(pair);
                Ok(())
            }
            "ingest" => self.ingest(record, place),
            _ => Ok(()),
        }
    }

    fn point_begin(&mut self, record: &Record, place: &str) -> Result<(), EvidenceError> {
        let label = record.field(1);
        let index = self
            .evidence
            .points
            .iter()
            .position(|point| point.label == label)
            .ok_or_else(|| {
                order(
                    place,
                    &format!("the point `{label}`"),
                    "a point of the plan",
                )
            })?;
        let mut before = self.evidence.points.iter().take(index);
        if let Some(open) = before.find(|point| point.counted().is_none()) {
            return Err(order(
                place,
                &format!("`{label}` begun while `{}` is not finished", open.label),
                "the points in the order of the plan",
            ));
        }
        let identity = self.identity.clone();
        if let Some(point) = self.evidence.points.get_mut(index) {
            if point.counted().is_some() {
                return Err(order(
                    place,
                    &format!("`{label}` begun again after it was finished"),
                    "each point finished once",
                ));
            }
            let number = u32::try_from(point.attempts.len() + 1).unwrap_or(u32::MAX);
            point.attempts.push(Attempt {
                number,
                identity,
                segments: Vec::new(),
                finished: false,
                ended_because: String::new(),
                ingested: false,
            });
        }
        self.open = Some(index);
        Ok(())
    }

    fn ingest(&mut self, record: &Record, place: &str) -> Result<(), EvidenceError> {
        let note: IngestNote = serde_json::from_str(record.field(1))
            .map_err(|error| order(place, &error.to_string(), "what was ingested, as JSON"))?;
        let missing = |found: String| EvidenceError::File {
            path: note.path.clone(),
            found,
            wanted: note.sha256.clone(),
            place: place.to_owned(),
        };
        let entry = self
            .files
            .get(&note.path)
            .ok_or_else(|| missing("no file".to_owned()))?;
        let found = sha256_hex(&entry.bytes);
        if found != note.sha256 {
            return Err(missing(found));
        }
        let ingested = interpret(&note, &entry.bytes, &self.evidence.plan)?;
        self.evidence.ingested.insert(note.path);
        self.merge(ingested, place)
    }

    fn merge(&mut self, ingested: Ingested, place: &str) -> Result<(), EvidenceError> {
        for (label, segment) in ingested.segments {
            self.evidence.plan_before_rows = false;
            if let Some(other) = self.same_rows(&label, &segment) {
                return Err(EvidenceError::SameRows {
                    place: place.to_owned(),
                    other,
                    label,
                });
            }
            let Some(point) = self
                .evidence
                .points
                .iter_mut()
                .find(|point| point.label == label)
            else {
                continue;
            };
            if point.attempts.is_empty() {
                point.attempts.push(Attempt {
                    number: 1,
                    identity: BootIdentity::default(),
                    segments: Vec::new(),
                    finished: true,
                    ended_because: "ingested".to_owned(),
                    ingested: true,
                });
            }
            let Some(attempt) = point.attempts.last_mut() else {
                continue;
            };
            let twice = attempt.segments.iter().any(|known| {
                known.workload == segment.workload && known.implementation == segment.implementation
            });
            if twice || !attempt.ingested {
                return Err(order(
                    place,
                    &format!(
                        "rows of {label}, {}, {} a second time",
                        segment.workload,
                        segment.implementation.word()
                    ),
                    "each point, workload and implementation once",
                ));
            }
            attempt.segments.push(segment);
        }
        for summary in ingested.summaries {
            let twice = self.evidence.summaries.iter().any(|known| {
                known.workload == summary.workload && known.implementation == summary.implementation
            });
            if twice {
                return Err(order(
                    place,
                    &format!("means of {} a second time", summary.workload),
                    "each workload and implementation once",
                ));
            }
            self.evidence.summaries.push(summary);
        }
        for (label, identity) in ingested.identities {
            if self
                .ingested_identities
                .insert(label.clone(), identity)
                .is_some()
            {
                return Err(order(
                    place,
                    &format!("the boot of {label} a second time"),
                    "one boot per point",
                ));
            }
        }
        Ok(())
    }

    /// Returns the other point that has the very same rows: no two boots give them.
    fn same_rows(&self, label: &str, segment: &Segment) -> Option<String> {
        self.evidence
            .points
            .iter()
            .filter(|point| point.label != label)
            .find(|point| {
                point
                    .attempts
                    .iter()
                    .flat_map(|attempt| &attempt.segments)
                    .any(|known| {
                        known.workload == segment.workload
                            && known.implementation == segment.implementation
                            && known.rows == segment.rows
                    })
            })
            .map(|point| point.label.clone())
    }

    /// Gives ingested points the identity that a table states for them.
    fn attach_identities(&mut self) -> Result<(), EvidenceError> {
        for point in &mut self.evidence.points {
            let Some(identity) = self.ingested_identities.get(&point.label) else {
                continue;
            };
            for attempt in &mut point.attempts {
                if !attempt.ingested {
                    return Err(order(
                        "an ingested table of identities",
                        &format!("an identity for {}", point.label),
                        "none: the runner recorded the boot of that point itself",
                    ));
                }
                attempt.identity = identity.clone();
            }
        }
        Ok(())
    }
}
