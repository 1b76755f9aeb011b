//! Audit: claims are recomputed from the rows and answered one by one.
//!
//! This version audits trees of our own format, from a directory or a commit. It
//! builds, runs and fetches nothing.

pub mod figures;
pub mod own_tree;

use serde::Serialize;

/// The answer to one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ClaimVerdict {
    /// The rows give something else.
    #[serde(rename = "CONTRADICTED")]
    Contradicted,
    /// Something is missing.
    #[serde(rename = "NOT-CHECKABLE")]
    NotCheckable,
    /// The rows give the same in the digits printed.
    #[serde(rename = "CONFIRMED")]
    Confirmed,
}

impl ClaimVerdict {
    /// The word in every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Contradicted => "CONTRADICTED",
            Self::NotCheckable => "NOT-CHECKABLE",
            Self::Confirmed => "CONFIRMED",
        }
    }
}

/// What the audit says of one claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Id of the claim.
    pub id: String,
    /// Where it stands: file and line.
    pub place: String,
    /// Its words.
    pub quote: String,
    /// The answer.
    pub verdict: ClaimVerdict,
    /// Value as claimed.
    pub claimed: String,
    /// Value as recomputed; absent when it cannot be.
    pub recomputed: Option<String>,
    /// Formula that gives it.
    pub definition: String,
    /// What is missing.
    pub missing: Option<String>,
}

/// The whole audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Answers, worst first.
    pub answers: Vec<Answer>,
    /// What a reader should know besides the answers.
    pub remarks: Vec<String>,
}

impl Audit {
    /// Counts the answers of one kind.
    #[must_use]
    pub fn count(&self, verdict: ClaimVerdict) -> usize {
        self.answers
            .iter()
            .filter(|answer| answer.verdict == verdict)
            .count()
    }

    /// Returns the exit code: 1 contradicted, 5 nothing confirmed, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.count(ClaimVerdict::Contradicted) > 0 {
            1
        } else if self.count(ClaimVerdict::Confirmed) == 0 {
            5
        } else {
            0
        }
    }
}
