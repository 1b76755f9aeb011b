//! What a gate says of the evidence.

use serde::{Deserialize, Serialize};

/// The answer of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum Outcome {
    /// The rule holds.
    #[serde(rename = "PASS")]
    Pass,
    /// The rule does not hold.
    #[serde(rename = "FAIL")]
    Fail,
    /// The evidence does not say.
    #[serde(rename = "NOT-CHECKED")]
    NotChecked,
}

impl Outcome {
    /// The word in every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::NotChecked => "NOT-CHECKED",
        }
    }
}

/// What a failing gate means for the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// A FAIL makes the case INVALID.
    Validity,
    /// A FAIL keeps the case from a REGRESSION or IMPROVEMENT.
    Screen,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Finding {
    /// Gate id.
    pub gate: String,
    /// What a FAIL means.
    pub stage: Stage,
    /// The answer.
    pub outcome: Outcome,
    /// What was found, with the rows or files it points at.
    pub reason: String,
}
