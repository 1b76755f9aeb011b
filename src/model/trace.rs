//! What a trace found: one answer per event, workload and implementation.

use std::collections::BTreeMap;

use serde::Serialize;

/// The answer to one expected count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Answer {
    /// The count is the one expected.
    #[serde(rename = "PASS")]
    Pass,
    /// It is another one.
    #[serde(rename = "FAIL")]
    Fail,
    /// Nothing can be said.
    #[serde(rename = "NOT-CHECKED")]
    NotChecked,
    /// The count depends on the kernel; nothing was expected.
    #[serde(rename = "RECORDED")]
    Recorded,
}

impl Answer {
    /// The word in every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::NotChecked => "NOT-CHECKED",
            Self::Recorded => "RECORDED",
        }
    }
}

/// How often something was seen, divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    /// In the rounds.
    pub in_rounds: u64,
    /// Everywhere else: start, preflight, end.
    pub elsewhere: u64,
}

/// Values of an event that were seen together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenValues {
    /// Field to value.
    pub fields: BTreeMap<String, String>,
    /// How often.
    #[serde(flatten)]
    pub share: Share,
}

/// One expected event of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HitResult {
    /// Event with its group, then the fields that select.
    pub event: String,
    /// What is expected, in words.
    pub expected: String,
    /// How many are expected in the rounds; `None` when that depends on the kernel.
    pub expected_in_rounds: Option<u64>,
    /// What was seen; `None` when it could not be counted.
    pub seen: Option<Share>,
    /// Ops of the rounds counted.
    pub ops: u64,
    /// The answer.
    pub answer: Answer,
    /// Why it is no PASS; empty for others.
    pub reason: String,
    /// The values of the declared fields.
    pub values: Vec<SeenValues>,
}

/// One program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramTrace {
    /// Workload.
    pub workload: String,
    /// `formal` or `standalone`.
    pub implementation: &'static str,
    /// Parameters it ran with.
    pub parameters: BTreeMap<String, u64>,
    /// Why nothing of it could be counted; empty when it could.
    pub reason: String,
    /// One result per declared event.
    pub hits: Vec<HitResult>,
}

/// All programs of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// `uname -r`.
    pub kernel: Option<String>,
    /// Programs in the order of the case.
    pub programs: Vec<ProgramTrace>,
}

impl TraceReport {
    /// Counts the answers that are this one; a program that could not be run counts as
    /// one NOT-CHECKED.
    #[must_use]
    pub fn count(&self, answer: Answer) -> usize {
        let hits = self
            .programs
            .iter()
            .flat_map(|program| &program.hits)
            .filter(|hit| hit.answer == answer)
            .count();
        let programs = self
            .programs
            .iter()
            .filter(|program| program.hits.is_empty() && answer == Answer::NotChecked)
            .count();
        hits + programs
    }
}
