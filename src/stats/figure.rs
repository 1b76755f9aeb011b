//! The figure of one row: what its workload computes from `elapsed`, `ops` and `tasks`.

use crate::model::protocol::Clock;
use crate::model::row::{Metric, Row};
use crate::model::units::{text_resolution, to_f64};
use crate::workload::declaration::{Declaration, Figure, TASKS};
use crate::workload::registry;

/// Nanoseconds of a second.
const NS_PER_S: f64 = 1e9;

/// How a series of one workload and clock becomes figures.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    figure: Figure,
    clock: Clock,
    op_word: &'static str,
}

impl Measure {
    /// Returns the measure of a workload's rows; an unknown workload counts plain ops.
    ///
    /// Instructions are no time: on that clock every figure is instructions per op.
    #[must_use]
    pub fn new(workload: &str, clock: Clock) -> Self {
        let declaration = registry::declaration(workload);
        Self::of(declaration, clock)
    }

    fn of(declaration: Option<&'static Declaration>, clock: Clock) -> Self {
        let figure = match clock {
            Clock::Ns => declaration.map_or(Figure::TimePerOp, |known| known.figure),
            Clock::Instructions => match declaration.map(|known| known.figure) {
                Some(Figure::SharedToDistinct) => Figure::SharedToDistinct,
                _ => Figure::TimePerOp,
            },
        };
        Self {
            figure,
            clock,
            op_word: declaration.map_or("op", |known| known.op_word),
        }
    }

    /// Returns the unit, such as `ns/pair`, `us/batch` or `threads/s`.
    #[must_use]
    pub fn unit(self) -> String {
        let op = self.op_word;
        match self.figure {
            Figure::TimePerOp | Figure::TimePerOpOfTask => format!("{}/{op}", self.clock.word()),
            Figure::MicrosecondsPerOp => format!("us/{op}"),
            Figure::OpsPerSecond | Figure::OpsPerSecondOfTask => format!("{op}s/s"),
            Figure::SharedToDistinct => "shared/distinct".to_owned(),
        }
    }

    /// Returns whether the figure is a quotient of two times: neither slow nor fast.
    #[must_use]
    pub fn is_ratio(self) -> bool {
        self.figure == Figure::SharedToDistinct
    }

    /// Returns whether a larger figure is better.
    #[must_use]
    pub const fn higher_is_better(self) -> bool {
        self.figure.higher_is_better()
    }

    /// Returns the figure of a row, in the unit.
    #[must_use]
    pub fn value(self, row: &Row) -> f64 {
        match &row.metric {
            Metric::Elapsed { elapsed, ops } => {
                value_of(self.figure, &Cells::of(row, *elapsed, *ops))
            }
            Metric::PerOp { value, .. } => *value,
        }
    }

    /// Returns the step of a row's figure: what one unit of the clock changes it by, or
    /// the last decimal of a per-op text.
    #[must_use]
    pub fn step(self, row: &Row) -> f64 {
        match &row.metric {
            Metric::Elapsed { elapsed, ops } => {
                step_of(self.figure, &Cells::of(row, *elapsed, *ops))
            }
            Metric::PerOp { text, .. } => text_resolution(text),
        }
    }

    /// Returns the expression over a row's columns, as claims name it.
    #[must_use]
    pub fn expression(self) -> &'static str {
        EXPRESSIONS
            .iter()
            .find(|(figure, _)| *figure == self.figure)
            .map_or("", |(_, text)| text)
    }
}

/// Figures and the text that stands for each in a claim's `column`.
const EXPRESSIONS: [(Figure, &str); 6] = [
    (Figure::TimePerOp, "elapsed/ops"),
    (Figure::MicrosecondsPerOp, "elapsed/ops/1000"),
    (Figure::TimePerOpOfTask, "elapsed*tasks/ops"),
    (Figure::OpsPerSecond, "ops*1e9/elapsed"),
    (Figure::OpsPerSecondOfTask, "ops*1e9/elapsed/tasks"),
    (Figure::SharedToDistinct, "part_shared/part_distinct"),
];

/// Returns the figure that an expression stands for; `None` for any other text.
#[must_use]
pub fn of_expression(text: &str) -> Option<Figure> {
    EXPRESSIONS
        .iter()
        .find(|(_, known)| *known == text)
        .map(|(figure, _)| *figure)
}

/// The columns of a row that figures are made of.
#[derive(Debug, Clone, Copy)]
pub struct Cells {
    /// Time or instructions.
    pub elapsed: f64,
    /// Ops.
    pub ops: f64,
    /// Tasks; 1 without that column.
    pub tasks: f64,
    /// `part_distinct` and `part_shared`; 0 without them.
    pub parts: (f64, f64),
}

impl Cells {
    fn of(row: &Row, elapsed: u64, ops: u64) -> Self {
        let column = |wanted: &str| {
            let mut known = row.counters.iter();
            known
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| to_f64(*value))
        };
        let part = |name| column(name).unwrap_or(0.0);
        Self {
            elapsed: to_f64(elapsed),
            ops: to_f64(ops),
            tasks: column(TASKS).unwrap_or(1.0),
            parts: (part(DISTINCT), part(SHARED)),
        }
    }
}

/// Column of the time spent in a row's distinct half.
pub const DISTINCT: &str = "part_distinct";
/// Column of the time spent in a row's shared half.
pub const SHARED: &str = "part_shared";

/// Returns what one unit of the clock changes a figure by.
#[must_use]
pub fn step_of(figure: Figure, cells: &Cells) -> f64 {
    let more = Cells {
        elapsed: cells.elapsed + 1.0,
        parts: (cells.parts.0, cells.parts.1 + 1.0),
        ..*cells
    };
    (value_of(figure, &more) - value_of(figure, cells)).abs()
}

/// Returns a figure from the numbers it is made of.
#[must_use]
pub fn value_of(figure: Figure, cells: &Cells) -> f64 {
    let Cells {
        elapsed,
        ops,
        tasks,
        parts: (distinct, shared),
    } = *cells;
    match figure {
        Figure::SharedToDistinct => shared / distinct,
        Figure::TimePerOp => elapsed / ops,
        Figure::MicrosecondsPerOp => elapsed / ops / 1000.0,
        Figure::TimePerOpOfTask => elapsed * tasks / ops,
        Figure::OpsPerSecond => ops * NS_PER_S / elapsed,
        Figure::OpsPerSecondOfTask => ops * NS_PER_S / elapsed / tasks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::row::Phase;

    fn row(elapsed: u64, ops: u64, tasks: u64) -> Row {
        Row {
            phase: Phase::Measured,
            round: 0,
            metric: Metric::Elapsed { elapsed, ops },
            usage: None,
            canary: None,
            counters: vec![
                ("part_distinct".to_owned(), elapsed / 5),
                ("part_shared".to_owned(), elapsed - elapsed / 5),
                ("tasks".to_owned(), tasks),
            ],
            passed: Some(true),
        }
    }

    fn measure(figure: Figure, clock: Clock) -> Measure {
        let declaration = crate::workload::syscall_getpid::DECLARATION;
        let declaration = Box::leak(Box::new(Declaration {
            figure,
            op_word: "op",
            ..declaration
        }));
        Measure::of(Some(declaration), clock)
    }

    #[test]
    fn every_figure_has_its_unit_and_its_value() {
        // 4 tasks did 800 ops in 2 ms: 100,000 ops/s each, 10,000 ns for an op of one task.
        let row = row(2_000_000, 800, 4);
        for (figure, unit, wanted, higher) in [
            (Figure::TimePerOp, "ns/op", 2500.0, false),
            (Figure::MicrosecondsPerOp, "us/op", 2.5, false),
            (Figure::TimePerOpOfTask, "ns/op", 10_000.0, false),
            (Figure::OpsPerSecond, "ops/s", 400_000.0, true),
            (Figure::OpsPerSecondOfTask, "ops/s", 100_000.0, true),
            (Figure::SharedToDistinct, "shared/distinct", 4.0, false),
        ] {
            let measure = measure(figure, Clock::Ns);
            assert_eq!(measure.unit(), unit);
            assert!((measure.value(&row) - wanted).abs() < 1e-9 * wanted);
            assert_eq!(measure.higher_is_better(), higher);
            assert_eq!(of_expression(measure.expression()), Some(figure));
        }
    }

    #[test]
    fn instructions_never_become_a_rate_or_microseconds() {
        for figure in [Figure::MicrosecondsPerOp, Figure::OpsPerSecondOfTask] {
            let measure = measure(figure, Clock::Instructions);
            assert_eq!(measure.unit(), "instructions/op");
            assert!((measure.value(&row(5_000, 10, 4)) - 500.0).abs() < 1e-12);
            assert!(!measure.higher_is_better());
        }
    }

    #[test]
    fn the_step_is_what_one_unit_of_the_clock_changes() {
        let per_op = measure(Figure::TimePerOp, Clock::Ns);
        assert!((per_op.step(&row(100, 8, 1)) - 0.125).abs() < 1e-12);
        // 1e9 / 1000 less 1e9 / 1001.
        let rate = measure(Figure::OpsPerSecond, Clock::Ns);
        assert!((rate.step(&row(1000, 1, 1)) - 999.000_999).abs() < 1e-6);
    }
}
