//! A claim's figure, computed from the cells its inputs name and nothing else.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::input::cell::{CellError, decimal, integer};
use crate::input::table::{Record, Table, TableError};
use crate::model::analysis::PointStatistics;
use crate::model::claim::{Claim, Input};
use crate::model::plan::Role;
use crate::model::shown::printable;
use crate::model::tree::Tree;
use crate::model::units::{text_resolution, to_f64};
use crate::render::number::{fixed, pct, signed_pct};
use crate::stats::figure::{Cells, DISTINCT, SHARED, of_expression, step_of, value_of};
use crate::stats::interval::{Boot, boot_interval};
use crate::stats::location::{drop_first_mean, mean, sample_sd};
use crate::stats::sandwich::{Sandwich, sandwich};
use crate::workload::declaration::{Figure, TASKS};

/// Why a figure cannot be computed.
#[derive(Debug, Error)]
pub enum FigureError {
    /// A file of the inputs is not in the tree.
    #[error("{file} is not in the tree")]
    NoFile {
        /// The file.
        file: String,
    },
    /// A file of the inputs is not a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A cell is not a number.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A line is not in the file.
    #[error("{file}: line {line} is not in the file")]
    NoLine {
        /// The file.
        file: String,
        /// The line.
        line: usize,
    },
    /// The row list is not one.
    #[error("`{rows}` is not a list of lines such as 5-9,12")]
    Rows {
        /// The text.
        rows: String,
    },
    /// The formula is not known.
    #[error("the formula `{formula}` is not known to this version")]
    Formula {
        /// The formula id.
        formula: String,
    },
    /// The inputs do not make a figure.
    #[error("the inputs do not make this figure: {what}")]
    Inputs {
        /// What is missing.
        what: &'static str,
    },
}

/// The tables of a tree, each read once.
#[derive(Debug, Default)]
pub struct Tables {
    read: BTreeMap<String, Table>,
}

impl Tables {
    fn get(&mut self, file: &str, tree: &Tree) -> Result<&Table, FigureError> {
        if !self.read.contains_key(file) {
            let entry = tree.get(file).ok_or_else(|| FigureError::NoFile {
                file: printable(file, 240),
            })?;
            let table = Table::read(&entry.bytes, file)?;
            self.read.insert(file.to_owned(), table);
        }
        self.read.get(file).ok_or_else(|| FigureError::NoFile {
            file: printable(file, 240),
        })
    }
}

/// Computes the text of a claim's value from its inputs.
///
/// # Errors
///
/// When a file, line or cell is missing or the formula is unknown.
pub fn recompute(claim: &Claim, tree: &Tree, tables: &mut Tables) -> Result<String, FigureError> {
    let points: Vec<Measured> = claim
        .inputs
        .iter()
        .zip(1..)
        .map(|(input, position)| Measured::read(input, position, tables.get(&input.file, tree)?))
        .collect::<Result<_, _>>()?;
    let digits = usize::from(claim.digits.min(12));
    let statistics: Vec<PointStatistics> = points
        .iter()
        .map(|point| point.statistics.clone())
        .collect();
    let whole = || {
        sandwich(&statistics).ok_or(FigureError::Inputs {
            what: "a parent and a child point",
        })
    };
    let missing = |what| FigureError::Inputs { what };
    match claim.formula.as_str() {
        "mean" => {
            let first = statistics.first().ok_or(missing("one point"))?;
            Ok(fixed(first.mean, digits))
        }
        "count" => {
            let first = statistics.first().ok_or(missing("one point"))?;
            Ok(first.n.to_string())
        }
        "midpoint" => Ok(fixed(whole()?.midpoint, digits)),
        "delta" => Ok(signed_pct(whole()?.delta_pct, digits)),
        "drop-first" => optional(whole()?, |figures| figures.drop_first_pct, digits),
        "drift" => optional(whole()?, |figures| figures.drift_pct, digits),
        "cv-max" => {
            let cvs: Option<Vec<f64>> = statistics.iter().map(PointStatistics::cv_pct).collect();
            let largest = cvs.and_then(|cvs| cvs.into_iter().reduce(f64::max));
            largest
                .map(|cv| pct(cv, digits))
                .ok_or(missing("two rounds at every point"))
        }
        "ci95-low" | "ci95-high" | "ci90-low" | "ci90-high" => interval_end(claim, &points, digits),
        other => Err(FigureError::Formula {
            formula: other.to_owned(),
        }),
    }
}

fn optional(
    figures: Sandwich,
    figure: impl Fn(&Sandwich) -> Option<f64>,
    digits: usize,
) -> Result<String, FigureError> {
    figure(&figures)
        .map(|value| signed_pct(value, digits))
        .ok_or(FigureError::Inputs {
            what: "two parent points, or two rounds at every point",
        })
}

fn interval_end(claim: &Claim, points: &[Measured], digits: usize) -> Result<String, FigureError> {
    let of_role = |role| -> Vec<Boot> {
        points
            .iter()
            .filter(|point| point.statistics.role == role)
            .map(|point| point.boot)
            .collect()
    };
    // The margin moves only the equivalence test, which no claim here uses.
    let interval = boot_interval(&of_role(Role::Parent), &of_role(Role::Child), 1.0).ok_or(
        FigureError::Inputs {
            what: "two boots of one kernel",
        },
    )?;
    let value = match claim.formula.as_str() {
        "ci95-low" => interval.low95_pct,
        "ci95-high" => interval.high95_pct,
        "ci90-low" => interval.low90_pct,
        _ => interval.high90_pct,
    };
    Ok(signed_pct(value, digits))
}

/// One point as its cells give it.
struct Measured {
    statistics: PointStatistics,
    boot: Boot,
}

impl Measured {
    fn read(input: &Input, position: u32, table: &Table) -> Result<Self, FigureError> {
        let figure = of_expression(&input.column);
        if figure.is_none() {
            table.require(&input.column)?;
        }
        let wanted = lines(&input.rows)?;
        let mut values = Vec::with_capacity(wanted.len());
        let mut resolution = 0.0;
        for line in &wanted {
            let record = table.on_line(*line).ok_or_else(|| FigureError::NoLine {
                file: input.file.clone(),
                line: *line,
            })?;
            if let Some(figure) = figure {
                let cells = cells(&record, figure)?;
                if values.is_empty() {
                    resolution = step_of(figure, &cells);
                }
                values.push(value_of(figure, &cells));
            } else {
                if values.is_empty() {
                    resolution = text_resolution(record.cell(&input.column));
                }
                values.push(decimal(
                    record.cell(&input.column),
                    &record.place(),
                    &input.column,
                )?);
            }
        }
        let location = mean(&values).ok_or(FigureError::Inputs { what: "a row" })?;
        let sd = sample_sd(&values);
        // A single cell is a published mean, not a round.
        let is_summary = !input.file.starts_with("data/points/");
        Ok(Self {
            statistics: PointStatistics {
                position,
                label: input.point.clone(),
                role: input.role,
                n: if is_summary { 0 } else { values.len() },
                mean: location,
                sd: if is_summary { None } else { sd },
                drop_first_mean: if is_summary {
                    None
                } else {
                    drop_first_mean(&values)
                },
            },
            boot: Boot {
                location,
                sd: if is_summary { 0.0 } else { sd.unwrap_or(0.0) },
                n: if is_summary { 0 } else { values.len() },
                resolution,
            },
        })
    }
}

/// Reads the columns a figure is made of; each must be above 0.
fn cells(record: &Record<'_>, figure: Figure) -> Result<Cells, FigureError> {
    let above_0 = |text: &str, column: &str| -> Result<f64, FigureError> {
        match integer(text, &record.place(), column)? {
            0 => Err(CellError::new(&record.place(), column, "0", "a count above 0").into()),
            value => Ok(to_f64(value)),
        }
    };
    let counter = |column: &str| {
        let mut pairs = record.cell("counters").split(' ');
        pairs.find_map(|pair| pair.strip_prefix(column)?.strip_prefix('='))
    };
    let part = |column: &str| match figure {
        Figure::SharedToDistinct => above_0(counter(column).unwrap_or("0"), column),
        _ => Ok(0.0),
    };
    Ok(Cells {
        elapsed: above_0(record.cell("elapsed"), "elapsed")?,
        ops: above_0(record.cell("ops"), "ops")?,
        tasks: above_0(counter(TASKS).unwrap_or("1"), TASKS)?,
        parts: (part(DISTINCT)?, part(SHARED)?),
    })
}

/// Reads `5-9,12` as line numbers; at most a million.
fn lines(text: &str) -> Result<Vec<usize>, FigureError> {
    let error = || FigureError::Rows {
        rows: crate::model::shown::printable(text, 60),
    };
    let mut lines = Vec::new();
    for part in text.split(',') {
        let (start, end) = part.split_once('-').unwrap_or((part, part));
        // Digits only: `+5` is what a standard parser takes and nobody writes.
        let line = |text: &str| {
            integer(text, "", "rows")
                .ok()
                .and_then(|line| usize::try_from(line).ok())
                .ok_or_else(error)
        };
        let (start, end) = (line(start)?, line(end)?);
        if start > end || end - start > 1_000_000 || lines.len() > 1_000_000 {
            return Err(error());
        }
        lines.extend(start..=end);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_lines_are_read_and_odd_ones_refused() {
        assert_eq!(lines("5-7,9").unwrap(), [5, 6, 7, 9]);
        for bad in ["", "a", "+5", "7-5", "1-99999999999", "1,,2"] {
            assert!(lines(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_the_bundle_writes_as_ranges_is_read_back(
            set in proptest::collection::btree_set(1_usize..3000, 1..200)
        ) {
            let numbers: Vec<usize> = set.into_iter().collect();
            proptest::prop_assert_eq!(
                lines(&crate::bundle::points::ranges(&numbers)).unwrap(),
                numbers
            );
        }
    }
}
