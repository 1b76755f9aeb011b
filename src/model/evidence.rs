//! Evidence: what the plan and the journals together say was measured.

use std::collections::{BTreeMap, BTreeSet};

use super::case::Implementation;
use super::identity::BootIdentity;
use super::plan::Plan;
use super::protocol::Clock;
use super::row::Row;

/// Where rows came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The built-in runner, into a journal.
    Runner {
        /// Journal file, relative to the case.
        journal: String,
    },
    /// A raw log made elsewhere.
    Ingested {
        /// The file kept beside the journal, relative to the case.
        file: String,
        /// SHA-256 of its bytes.
        sha256: String,
    },
}

/// One stream of rows of one workload by one implementation.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Workload name.
    pub workload: String,
    /// Which program measured.
    pub implementation: Implementation,
    /// What `elapsed` counts.
    pub clock: Clock,
    /// Rows as they came.
    pub rows: Vec<Row>,
    /// Rows announced by the stream's last line; `None` when the stream is torn.
    pub announced: Option<u64>,
    /// Why the stream was aborted.
    pub aborted: Option<String>,
    /// Semantic counter columns.
    pub counters: Vec<String>,
    /// SHA-256 of the program measured, or empty.
    pub program_sha256: String,
    /// SHA-256 of the C source of the program measured, where it has one.
    pub source_sha256: Option<String>,
    /// Where the rows came from.
    pub source: Source,
    /// Notes of the worker: what it applied and what was refused.
    pub notes: Vec<(String, String)>,
}

/// One try at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// The boot, as far as it is known.
    pub identity: BootIdentity,
    /// Streams in order.
    pub segments: Vec<Segment>,
    /// Whether the point was measured to its end.
    pub finished: bool,
    /// Why the point ended: `clean` or `time`; empty when it did not.
    pub ended_because: String,
    /// Whether its rows were ingested rather than measured by the runner.
    pub ingested: bool,
}

/// One point of the plan with its attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Position in the order, from 1.
    pub position: u32,
    /// Label.
    pub label: String,
    /// Role.
    pub role: super::plan::Role,
    /// Attempts in order; only the last counts, and only when it is finished.
    pub attempts: Vec<Attempt>,
}

impl Point {
    /// Returns the attempt that counts.
    #[must_use]
    pub fn counted(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.finished)
    }

    /// Returns the folder name of this point in a bundle.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}-{}", self.position, self.label)
    }
}

/// Means published without rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Workload name.
    pub workload: String,
    /// Which program measured.
    pub implementation: Implementation,
    /// Point label to column name, text and value.
    pub means: BTreeMap<String, SummaryCell>,
    /// The file, relative to the case.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
}

/// One published mean.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryCell {
    /// Column in the table.
    pub column: String,
    /// The text as published.
    pub text: String,
    /// Its value.
    pub value: f64,
}

/// Plan and measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The plan.
    pub plan: Plan,
    /// Points in the plan's order, also those without attempts.
    pub points: Vec<Point>,
    /// Means without rows.
    pub summaries: Vec<Summary>,
    /// Ingested files that a record names, relative to the case.
    pub ingested: BTreeSet<String>,
    /// Whether every row was appended after the plan was written.
    pub plan_before_rows: bool,
    /// Torn tails that were passed over.
    pub torn: Vec<String>,
    /// Seconds since 1970 of the last opening or closing.
    pub last_seconds: i64,
}
