//! What was computed from the rows.

use super::case::{Implementation, WorkloadRole};
use super::finding::Finding;
use super::plan::Role;
use super::protocol::Clock;

/// Location and spread of one point.
#[derive(Debug, Clone, PartialEq)]
pub struct PointStatistics {
    /// Position in the order, from 1.
    pub position: u32,
    /// Label.
    pub label: String,
    /// Role.
    pub role: Role,
    /// Counted rounds; 0 when only a published mean is known.
    pub n: usize,
    /// Arithmetic mean, metric units.
    pub mean: f64,
    /// Sample standard deviation, divisor n-1; `None` below two rounds.
    pub sd: Option<f64>,
    /// Mean after the first counted round is dropped.
    pub drop_first_mean: Option<f64>,
}

impl PointStatistics {
    /// Returns 100 * sd / mean, percent.
    #[must_use]
    pub fn cv_pct(&self) -> Option<f64> {
        self.sd.map(|sd| 100.0 * sd / self.mean)
    }
}

/// The boot-level interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Degrees of freedom: boots less arms.
    pub df: usize,
    /// Boot standard deviation used, log scale.
    pub s: f64,
    /// Whether the within-boot floor decided `s`.
    pub floor_binds: bool,
    /// Lower end of the 95 % interval, percent.
    pub low95_pct: f64,
    /// Upper end of the 95 % interval, percent.
    pub high95_pct: f64,
    /// Lower end of the 90 % interval, percent.
    pub low90_pct: f64,
    /// Upper end of the 90 % interval, percent.
    pub high90_pct: f64,
    /// Two-sided p of no change.
    pub p: f64,
    /// p of the two one-sided tests at the plan's margin.
    pub p_equivalence: f64,
}

/// Child against parents for one workload and implementation.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Workload, with its scenario where it has several: `name/scenario`.
    pub workload: String,
    /// Implementation.
    pub implementation: Implementation,
    /// Target or control.
    pub role: WorkloadRole,
    /// Unit of the metric, such as `ns/pair`.
    pub unit: String,
    /// What the rows' clock counts.
    pub clock: Clock,
    /// Whether only published means are known.
    pub summary_only: bool,
    /// Whether a counted row gives only a per-op figure, not integer elapsed and ops.
    pub per_op_only: bool,
    /// Whether a larger metric is better.
    pub higher_is_better: bool,
    /// Whether the metric is a quotient of two times, which is neither slow nor fast.
    pub is_ratio: bool,
    /// Points in order.
    pub points: Vec<PointStatistics>,
    /// Mean of the parent locations.
    pub midpoint: f64,
    /// Mean of the child locations.
    pub child_mean: f64,
    /// 100 * (child / midpoint - 1).
    pub delta_pct: f64,
    /// The same after the first counted round of every point is dropped.
    pub drop_first_pct: Option<f64>,
    /// 100 * (last parent / first parent - 1), signed.
    pub drift_pct: Option<f64>,
    /// Largest absolute difference between two boots of one kernel, percent of the smaller.
    pub drift_max_pct: Option<f64>,
    /// Largest CV of a point, percent.
    pub cv_max_pct: Option<f64>,
    /// Smallest change of a child boot against a parent boot, signed, percent.
    pub pair_min_pct: f64,
    /// Largest change of a child boot against a parent boot, signed, percent.
    pub pair_max_pct: f64,
    /// Boot-level interval; `None` without two boots of one kernel.
    pub interval: Option<Interval>,
    /// What this comparison alone would say.
    pub verdict: Verdict,
}

/// Verdict of a case or of one comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Child worse, resolved.
    Regression,
    /// Child better, resolved.
    Improvement,
    /// Shown to lie inside the margin.
    NoMaterialChange,
    /// The evidence does not decide.
    Inconclusive,
    /// A validity gate fails.
    Invalid,
}

impl Verdict {
    /// The word in every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Regression => "REGRESSION",
            Self::Improvement => "IMPROVEMENT",
            Self::NoMaterialChange => "NO-MATERIAL-CHANGE",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Invalid => "INVALID",
        }
    }
}

/// Everything computed for a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// One per workload and implementation, targets first.
    pub comparisons: Vec<Comparison>,
    /// What the gates say.
    pub findings: Vec<Finding>,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict's sentence.
    pub sentence: String,
    /// What decided: the middle of the sentence.
    pub reason: String,
    /// Whether one boot of one recorded kernel build stands for every point.
    pub null_run: bool,
    /// The verdict of a declared null run if the gate `boots-distinct` were left out.
    pub without_boots_distinct: Option<Verdict>,
    /// Environment class of the points, or `not recorded`.
    pub environment: String,
    /// Canary floors that chose the rows: which canary, nanoseconds.
    pub canary_floors: Vec<(String, u64)>,
}
