//! Claims: every printed figure with its formula and the rows it follows from.

use crate::model::analysis::{Analysis, Comparison, PointStatistics};
use crate::model::case::Implementation;
use crate::model::claim::{Claim, Input};
use crate::model::evidence::Evidence;
use crate::render::number::{fixed, pct, signed_pct};

/// Where the rows of one point, workload and implementation stand in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlaces {
    /// Label of the point.
    pub label: String,
    /// Workload.
    pub workload: String,
    /// Implementation.
    pub implementation: Implementation,
    /// The input every claim on it names.
    pub input: Input,
}

/// Makes the claims of an analysis; `places` comes from the point files.
#[must_use]
pub fn claims(evidence: &Evidence, analysis: &Analysis, places: &[RowPlaces]) -> Vec<Claim> {
    let mut maker = Maker { claims: Vec::new() };
    for comparison in &analysis.comparisons {
        let inputs: Vec<Input> = comparison
            .points
            .iter()
            .filter_map(|point| input_of(evidence, comparison, point, places))
            .collect();
        maker.comparison(comparison, &inputs);
    }
    let mut fact = |statement: &str, formula: String, value: &str| {
        maker.push(
            statement.to_owned(),
            &formula,
            None,
            Vec::new(),
            value.to_owned(),
            "",
            0,
        );
    };
    fact(
        "verdict of the case",
        "verdict".to_owned(),
        analysis.verdict.word(),
    );
    for finding in &analysis.findings {
        fact(
            &format!("gate {}", finding.gate),
            format!("gate:{}", finding.gate),
            finding.outcome.word(),
        );
    }
    maker.claims
}

fn input_of(
    evidence: &Evidence,
    comparison: &Comparison,
    point: &PointStatistics,
    places: &[RowPlaces],
) -> Option<Input> {
    if !comparison.summary_only {
        return places
            .iter()
            .find(|place| {
                place.label == point.label
                    && place.workload == comparison.workload
                    && place.implementation == comparison.implementation
            })
            .map(|place| place.input.clone());
    }
    let summary = evidence.summaries.iter().find(|summary| {
        summary.workload == comparison.workload
            && summary.implementation == comparison.implementation
    })?;
    let cell = summary.means.get(&point.label)?;
    Some(Input {
        point: point.label.clone(),
        role: point.role,
        file: format!("data/{}", summary.file),
        rows: summary.line.to_string(),
        column: cell.column.clone(),
    })
}

struct Maker {
    claims: Vec<Claim>,
}

impl Maker {
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument per field of a claim; a struct would be the claim itself"
    )]
    fn push(
        &mut self,
        statement: String,
        formula: &str,
        comparison: Option<&Comparison>,
        inputs: Vec<Input>,
        value: String,
        unit: &str,
        digits: u8,
    ) {
        self.claims.push(Claim {
            id: format!("c{}", self.claims.len() + 1),
            statement,
            formula: formula.to_owned(),
            workload: comparison.map_or_else(String::new, |known| known.workload.clone()),
            implementation: comparison
                .map_or_else(String::new, |known| known.implementation.word().to_owned()),
            inputs,
            value,
            unit: unit.to_owned(),
            digits,
        });
    }

    fn comparison(&mut self, comparison: &Comparison, inputs: &[Input]) {
        let unit = comparison.unit.clone();
        for (point, input) in comparison.points.iter().zip(inputs) {
            self.push(
                format!("mean of {}", point.label),
                "mean",
                Some(comparison),
                vec![input.clone()],
                fixed(point.mean, 3),
                &unit,
                3,
            );
            if point.n > 0 {
                self.push(
                    format!("counted rounds of {}", point.label),
                    "count",
                    Some(comparison),
                    vec![input.clone()],
                    point.n.to_string(),
                    "rounds",
                    0,
                );
            }
        }
        self.push(
            "mean of the parent points".to_owned(),
            "midpoint",
            Some(comparison),
            inputs.to_vec(),
            fixed(comparison.midpoint, 3),
            &unit,
            3,
        );
        let interval = comparison.interval.as_ref();
        let figures: [(&str, &str, Option<f64>, u8); 8] = [
            (
                "child against the parent midpoint",
                "delta",
                Some(comparison.delta_pct),
                3,
            ),
            (
                "the same without the first round of each point",
                "drop-first",
                comparison.drop_first_pct,
                3,
            ),
            (
                "last parent point against the first",
                "drift",
                comparison.drift_pct,
                3,
            ),
            (
                "largest CV of a point, divisor n-1",
                "cv-max",
                comparison.cv_max_pct,
                3,
            ),
            (
                "lower end of the 95 % boot-level interval",
                "ci95-low",
                interval.map(|i| i.low95_pct),
                2,
            ),
            (
                "upper end of the 95 % boot-level interval",
                "ci95-high",
                interval.map(|i| i.high95_pct),
                2,
            ),
            (
                "lower end of the 90 % boot-level interval",
                "ci90-low",
                interval.map(|i| i.low90_pct),
                2,
            ),
            (
                "upper end of the 90 % boot-level interval",
                "ci90-high",
                interval.map(|i| i.high90_pct),
                2,
            ),
        ];
        for (statement, formula, value, digits) in figures {
            if let Some(value) = value {
                self.push(
                    statement.to_owned(),
                    formula,
                    Some(comparison),
                    inputs.to_vec(),
                    if formula == "cv-max" {
                        pct(value, usize::from(digits))
                    } else {
                        signed_pct(value, usize::from(digits))
                    },
                    "percent",
                    digits,
                );
            }
        }
    }
}
