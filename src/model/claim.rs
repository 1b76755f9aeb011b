//! A claim: one figure or fact, with everything needed to compute it again.

use serde::{Deserialize, Serialize};

/// The `format` of `claims.json`.
pub const CLAIMS_FORMAT: u32 = 1;

/// Rows or cells a claim rests on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Label of the point.
    pub point: String,
    /// Role of the point.
    pub role: super::plan::Role,
    /// File, from the root of the bundle.
    pub file: String,
    /// Line numbers, from 1, as in `5-9,12`.
    pub rows: String,
    /// Column, or `elapsed/ops`.
    pub column: String,
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `c1`, `c2` …
    pub id: String,
    /// What it is, in words.
    pub statement: String,
    /// Formula id; docs/statistics.md defines each.
    pub formula: String,
    /// Workload, or empty for claims on the whole case.
    pub workload: String,
    /// Implementation, or empty.
    pub implementation: String,
    /// What it rests on.
    pub inputs: Vec<Input>,
    /// Value as printed.
    pub value: String,
    /// Unit.
    pub unit: String,
    /// Decimals printed.
    pub digits: u8,
}

/// `claims.json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Version of this file's format.
    pub format: u32,
    /// Name and version of the program.
    pub tool: String,
    /// Every claim.
    pub claims: Vec<Claim>,
}
