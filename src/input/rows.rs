//! The row protocol, read: streams and single rows.

use thiserror::Error;

use super::cell::{CellError, integer};
use crate::model::case::Implementation;
use crate::model::protocol::{
    Clock, END, FIXED_COLUMNS, MAGIC, STATUS_COLUMN, STATUS_FAIL, STATUS_PASS,
    SYSCALL_CANARY_COLUMNS, VERSION,
};
use crate::model::row::{Canary, Metric, Phase, Row, Usage};
use crate::model::shown::printable;

/// Why a stream is not one of rows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowsError {
    /// A line is not what stands at its place in a stream.
    #[error("{place}: found `{found}`, wanted {wanted}")]
    Syntax {
        /// File and line.
        place: String,
        /// The text found.
        found: String,
        /// What stands there in a stream.
        wanted: String,
    },
    /// A row has another number of cells than the header.
    #[error("{place}: found {found} cells, wanted {wanted} as in the header")]
    Width {
        /// File and line.
        place: String,
        /// Cells found.
        found: usize,
        /// Cells of the header.
        wanted: usize,
    },
    /// A cell is not a number.
    #[error(transparent)]
    Cell(#[from] CellError),
}

/// First line of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// Workload name.
    pub workload: String,
    /// Implementation.
    pub implementation: Implementation,
    /// What `elapsed` counts.
    pub clock: Clock,
}

/// The header line, understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns {
    has_syscall_canary: bool,
    /// Semantic counter names in order.
    pub counters: Vec<String>,
    width: usize,
}

/// A whole stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// First line.
    pub head: StreamHead,
    /// Semantic counter names.
    pub counters: Vec<String>,
    /// Rows in order.
    pub rows: Vec<Row>,
    /// Rows announced by the last line; `None` when the stream is torn.
    pub announced: Option<u64>,
}

fn syntax(place: &str, found: &str, wanted: impl Into<String>) -> RowsError {
    RowsError::Syntax {
        place: place.to_owned(),
        found: printable(found, 80),
        wanted: wanted.into(),
    }
}

/// Reads the first line of a stream.
///
/// # Errors
///
/// When it is not `#regbundle-rows 1 <workload> <implementation> <clock>`.
pub fn read_head(line: &str, place: &str) -> Result<StreamHead, RowsError> {
    let wanted = "`#regbundle-rows 1 <workload> <formal|standalone> <ns|instructions>`";
    let words: Vec<&str> = line.split([' ', '\t']).collect();
    let [MAGIC, VERSION, workload, implementation, clock] = words.as_slice() else {
        return Err(syntax(place, line, wanted));
    };
    let implementation =
        Implementation::from_word(implementation).ok_or_else(|| syntax(place, line, wanted))?;
    let clock = Clock::from_word(clock).ok_or_else(|| syntax(place, line, wanted))?;
    Ok(StreamHead {
        workload: (*workload).to_owned(),
        implementation,
        clock,
    })
}

/// Reads the header line of a stream.
///
/// # Errors
///
/// When it does not begin with the fixed columns or end with `status`.
pub fn read_columns(line: &str, place: &str) -> Result<Columns, RowsError> {
    let cells: Vec<&str> = line.split('\t').collect();
    for (cell, wanted) in cells.iter().zip(FIXED_COLUMNS) {
        if *cell != wanted {
            return Err(syntax(place, cell, format!("the column `{wanted}`")));
        }
    }
    let rest = cells.get(FIXED_COLUMNS.len()..).unwrap_or_default();
    let Some((last, counters)) = rest.split_last() else {
        return Err(syntax(
            place,
            line,
            format!("the columns {} … {STATUS_COLUMN}", FIXED_COLUMNS.join(" ")),
        ));
    };
    if *last != STATUS_COLUMN {
        return Err(syntax(
            place,
            last,
            format!("the last column `{STATUS_COLUMN}`"),
        ));
    }
    for (index, name) in counters.iter().enumerate() {
        if !is_column(name) {
            return Err(syntax(
                place,
                name,
                "a column name of a-z, 0-9 and _, at most 40, that begins with a letter",
            ));
        }
        if cells
            .iter()
            .take(FIXED_COLUMNS.len() + index)
            .any(|known| known == name)
        {
            return Err(syntax(place, name, "each column once"));
        }
    }
    let has_syscall_canary = counters.starts_with(&SYSCALL_CANARY_COLUMNS);
    let skip = if has_syscall_canary { 2 } else { 0 };
    Ok(Columns {
        has_syscall_canary,
        counters: counters
            .iter()
            .skip(skip)
            .map(|name| (*name).to_owned())
            .collect(),
        width: cells.len(),
    })
}

fn is_column(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 40
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(plain)
}

/// Reads one row under its header.
///
/// # Errors
///
/// When the number of cells differs or a cell is not an integer.
pub fn read_row(line: &str, columns: &Columns, place: &str) -> Result<Row, RowsError> {
    let cells: Vec<&str> = line.split('\t').collect();
    if cells.len() != columns.width {
        return Err(RowsError::Width {
            place: place.to_owned(),
            found: cells.len(),
            wanted: columns.width,
        });
    }
    let mut cells = cells.into_iter();
    let mut next = || cells.next().unwrap_or_default();
    let phase_text = next();
    let phase = Phase::from_word(phase_text)
        .ok_or_else(|| syntax(place, phase_text, "`warmup` or `measured`"))?;
    let mut number = |column: &str| integer(next(), place, column);
    let round = number("round")?;
    let ops = number("ops")?;
    let elapsed = number("elapsed")?;
    let usage = Usage {
        cpu_begin: number("cpu_begin")?,
        cpu_end: number("cpu_end")?,
        nvcsw: number("nvcsw")?,
        nivcsw: number("nivcsw")?,
        minflt: number("minflt")?,
        run_delay_ns: number("run_delay_ns")?,
    };
    let alu_before = number("canary_before")?;
    let alu_after = number("canary_after")?;
    let syscall = if columns.has_syscall_canary {
        let [before, after] = SYSCALL_CANARY_COLUMNS;
        Some((number(before)?, number(after)?))
    } else {
        None
    };
    let mut counters = Vec::with_capacity(columns.counters.len());
    for name in &columns.counters {
        counters.push((name.clone(), number(name)?));
    }
    let status = next();
    let passed = match status {
        STATUS_PASS => true,
        STATUS_FAIL => false,
        other => return Err(syntax(place, other, "the status `pass` or `fail`")),
    };
    if ops == 0 || elapsed == 0 {
        return Err(syntax(place, line, "ops and elapsed above 0"));
    }
    Ok(Row {
        phase,
        round,
        metric: Metric::Elapsed { elapsed, ops },
        usage: Some(usage),
        // A stream without canaries writes 0: a loop of instructions cannot take no time.
        canary: (alu_before > 0 && alu_after > 0).then_some(Canary {
            alu_before,
            alu_after,
            syscall: syscall.filter(|(before, after)| *before > 0 && *after > 0),
        }),
        counters,
        passed: Some(passed),
    })
}

/// Reads the last line of a stream; `None` when the line is another one.
///
/// # Errors
///
/// When it begins as the last line and its count is not an integer.
pub fn read_end(line: &str, place: &str) -> Result<Option<u64>, RowsError> {
    match line.split_once([' ', '\t']) {
        Some((END, count)) => Ok(Some(integer(count, place, "#end")?)),
        _ if line.starts_with(END) => Err(syntax(place, line, "`#end <rows>`")),
        _ => Ok(None),
    }
}

/// Reads a whole stream; `file` names it in errors.
///
/// # Errors
///
/// When a line is not what stands at its place. A missing last line is no error
/// here: the stream is torn and `announced` is `None`.
pub fn read_stream(text: &str, file: &str) -> Result<Stream, RowsError> {
    let mut lines = (1..).zip(text.split('\n')).map(|(number, line)| {
        (
            format!("{file}:{number}"),
            line.strip_suffix('\r').unwrap_or(line),
        )
    });
    let (place, first) = lines.next().unwrap_or_default();
    let head = read_head(first, &place)?;
    let (place, header) = lines.next().unwrap_or_else(|| (format!("{file}:2"), ""));
    let columns = read_columns(header, &place)?;
    let mut rows = Vec::new();
    let mut announced = None;
    for (place, line) in lines {
        if line.is_empty() {
            continue;
        }
        if announced.is_some() {
            return Err(syntax(&place, line, "nothing after the last line `#end`"));
        }
        announced = read_end(line, &place)?;
        if announced.is_none() {
            rows.push(read_row(line, &columns, &place)?);
        }
    }
    Ok(Stream {
        head,
        counters: columns.counters,
        rows,
        announced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "#regbundle-rows 1 syscall-getpid formal ns\nphase\tround\tops\telapsed\tcpu_begin\tcpu_end\tnvcsw\tnivcsw\tminflt\trun_delay_ns\tcanary_before\tcanary_after\tcalls_ok\tstatus\n";

    #[test]
    fn a_stream_without_the_syscall_canary_is_read() {
        let text =
            format!("{HEAD}measured\t0\t10\t1000\t1\t1\t0\t0\t0\t0\t40\t41\t10\tpass\n#end 1\n");
        let stream = read_stream(&text, "f").unwrap();
        assert_eq!(stream.announced, Some(1));
        assert_eq!(stream.counters, ["calls_ok"]);
        let metric = &stream.rows[0].metric;
        assert!(matches!(
            metric,
            Metric::Elapsed {
                elapsed: 1000,
                ops: 10
            }
        ));
        assert_eq!(stream.rows[0].canary.unwrap().syscall, None);
    }

    #[test]
    fn a_column_is_a_plain_name_that_stands_once() {
        for (bad, wanted) in [
            ("calls\u{1b}[2J", "a column name"),
            ("two words", "a column name"),
            ("", "a column name"),
            ("Calls", "a column name"),
            ("ops", "each column once"),
            ("calls_ok\tcalls_ok", "each column once"),
        ] {
            let head = HEAD.replace("calls_ok", bad);
            let error = read_stream(&head, "f").unwrap_err().to_string();
            assert!(
                error.starts_with("f:2") && error.contains(wanted),
                "{error}"
            );
        }
    }

    #[test]
    fn a_stream_without_its_last_line_is_torn() {
        let text = format!("{HEAD}measured\t0\t10\t1000\t1\t1\t0\t0\t0\t0\t40\t41\t10\tpass\n");
        assert_eq!(read_stream(&text, "f").unwrap().announced, None);
    }

    #[test]
    fn each_wrong_line_is_named_with_its_place() {
        let row = "measured\t0\t10\t1000\t1\t1\t0\t0\t0\t0\t40\t41\t10\tpass\n";
        let cases = [
            ("#regbundle-rows 2 a formal ns\n".to_owned(), "f:1"),
            (HEAD.replace("minflt", "faults"), "f:2"),
            (HEAD.replace("\tstatus", ""), "f:2"),
            (
                format!("{HEAD}{}", row.replace("\t1000\t", "\t1e3\t")),
                "f:3",
            ),
            (format!("{HEAD}{}", row.replace("\t1000\t", "\t")), "f:3"),
            (
                format!("{HEAD}{}", row.replace("measured", "cooldown")),
                "f:3",
            ),
            (format!("{HEAD}{}", row.replace("pass", "ok")), "f:3"),
            (
                format!("{HEAD}{}", row.replace("\t10\t1000", "\t0\t1000")),
                "f:3",
            ),
            (format!("{HEAD}{row}#end 1\n{row}"), "f:5"),
            (format!("{HEAD}{row}#end x\n"), "f:4"),
        ];
        for (text, place) in cases {
            let message = read_stream(&text, "f").unwrap_err().to_string();
            assert!(message.starts_with(place), "{message}");
        }
    }
}
