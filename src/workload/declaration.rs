//! What a workload says about itself: metric, parameters, semantic counters, limits.
//!
//! Pure data, read by the catalogue, the gates, the report and the reproducer.

/// What a semantic counter of one row must be for the work to count as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Exactly zero.
    Zero,
    /// Equal to the row's `ops`.
    Ops,
    /// This many per op.
    PerOp(u64),
}

impl Expect {
    /// The value a counter must have in a row of this many ops.
    #[must_use]
    pub const fn wanted(self, ops: u64) -> u64 {
        match self {
            Self::Zero => 0,
            Self::Ops => ops,
            Self::PerOp(count) => ops.saturating_mul(count),
        }
    }
}

/// A semantic counter of a row.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Column name in the row protocol.
    pub name: &'static str,
    /// What it must be.
    pub expect: Expect,
    /// What it counts, one clause.
    pub meaning: &'static str,
}

/// A parameter with its limits (inclusive).
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name in `case.toml` (`params`) and, with `--` before it, in the C program.
    pub name: &'static str,
    /// Value when the case names none.
    pub default: u64,
    /// Smallest value accepted.
    pub min: u64,
    /// Largest value accepted.
    pub max: u64,
    /// What it sets, one clause.
    pub meaning: &'static str,
}

/// Whether a smaller or a larger metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Time or work per op.
    LowerIsBetter,
    /// Ops per second.
    HigherIsBetter,
}

/// Everything a workload declares.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// Name: part of the interface.
    pub name: &'static str,
    /// One sentence: what one op is.
    pub op: &'static str,
    /// The word for one op in a unit, as in `ns/pair`.
    pub op_word: &'static str,
    /// Which way is better.
    pub direction: Direction,
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Semantic counters in column order.
    pub counters: &'static [Counter],
    /// Kernel features it needs, as words for a message.
    pub needs: &'static [&'static str],
    /// Kernel functions a direct hit must show.
    pub functions: &'static [&'static str],
    /// What a report may say of its scope, one sentence.
    pub scope: &'static str,
    /// What it does not show.
    pub not_shown: &'static [&'static str],
    /// Name of the matched control, when there is one.
    pub control: Option<&'static str>,
}
