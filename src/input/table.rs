//! Tab-separated tables made elsewhere: header line, then one line per record.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::model::shown::printable;

/// Why a file is not a table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// Not UTF-8, or a NUL inside.
    #[error("{file}: found bytes that are not text, wanted a tab-separated UTF-8 table")]
    NotText {
        /// The file.
        file: String,
    },
    /// No header line.
    #[error("{file}: found no line, wanted a header line with column names separated by tabs")]
    Empty {
        /// The file.
        file: String,
    },
    /// One column name twice.
    #[error("{file}:1: found the column `{column}` twice, wanted each name once")]
    Duplicate {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// A line of another width than the header.
    #[error("{file}:{line}: found {found} cells, wanted {wanted} as in the header")]
    Width {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Cells found.
        found: usize,
        /// Cells of the header.
        wanted: usize,
    },
    /// A column the map names is not in the table.
    #[error(
        "{file}:1: found no column `{column}`, wanted one of: {known}; correct `columns` in case.toml"
    )]
    NoColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
        /// Names in the table.
        known: String,
    },
}

/// A table as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    file: String,
    columns: BTreeMap<String, usize>,
    header: Vec<String>,
    records: Vec<(usize, Vec<String>)>,
}

/// One line of a table.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    table: &'a Table,
    /// Line in the file, from 1.
    pub line: usize,
    cells: &'a [String],
}

impl Table {
    /// Reads a table; `file` names it in errors. A final line feed may be missing.
    ///
    /// # Errors
    ///
    /// When the bytes are not text or a line has another width than the header.
    pub fn read(bytes: &[u8], file: &str) -> Result<Self, TableError> {
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'))
            .ok_or_else(|| TableError::NotText {
                file: file.to_owned(),
            })?;
        let mut lines = (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.is_empty())
            .map(|(number, line)| (number, line.split('\t').map(str::to_owned).collect()));
        let (_, header): (usize, Vec<String>) = lines.next().ok_or_else(|| TableError::Empty {
            file: file.to_owned(),
        })?;
        let mut columns = BTreeMap::new();
        for (index, name) in header.iter().enumerate() {
            if columns.insert(name.clone(), index).is_some() {
                return Err(TableError::Duplicate {
                    file: file.to_owned(),
                    column: printable(name, 60),
                });
            }
        }
        let mut records = Vec::new();
        for (line, cells) in lines {
            if cells.len() != header.len() {
                return Err(TableError::Width {
                    file: file.to_owned(),
                    line,
                    found: cells.len(),
                    wanted: header.len(),
                });
            }
            records.push((line, cells));
        }
        Ok(Self {
            file: file.to_owned(),
            columns,
            header,
            records,
        })
    }

    /// Checks that a column is there.
    ///
    /// # Errors
    ///
    /// When it is not; the message lists those that are.
    pub fn require(&self, column: &str) -> Result<(), TableError> {
        if self.columns.contains_key(column) {
            return Ok(());
        }
        Err(TableError::NoColumn {
            file: self.file.clone(),
            column: column.to_owned(),
            known: printable(&self.header.join(", "), 400),
        })
    }

    /// Returns the record on a line of the file, from 1.
    #[must_use]
    pub fn on_line(&self, line: usize) -> Option<Record<'_>> {
        let index = self
            .records
            .binary_search_by_key(&line, |(line, _)| *line)
            .ok()?;
        let (line, cells) = self.records.get(index)?;
        Some(Record {
            table: self,
            line: *line,
            cells,
        })
    }

    /// Returns the records in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.records.iter().map(|(line, cells)| Record {
            table: self,
            line: *line,
            cells,
        })
    }
}

impl Record<'_> {
    /// Returns the cell under `column`, or the empty string.
    #[must_use]
    pub fn cell(&self, column: &str) -> &str {
        self.table
            .columns
            .get(column)
            .and_then(|index| self.cells.get(*index))
            .map_or("", String::as_str)
    }

    /// Returns `file:line`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.table.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_name() {
        let table = Table::read(b"a\tb\n1\t2\n\n3\t4", "f").unwrap();
        let cells: Vec<(usize, &str)> = table
            .records
            .iter()
            .map(|(line, cells)| (*line, cells[1].as_str()))
            .collect();
        assert_eq!(cells, [(2, "2"), (4, "4")]);
        assert_eq!(table.records().next().unwrap().cell("b"), "2");
    }

    #[test]
    fn odd_tables_are_refused_with_their_place() {
        assert!(matches!(
            Table::read(b"", "f"),
            Err(TableError::Empty { .. })
        ));
        assert!(matches!(
            Table::read(b"a\ta\n", "f"),
            Err(TableError::Duplicate { .. })
        ));
        assert!(matches!(
            Table::read(b"a\tb\n1\n", "f"),
            Err(TableError::Width { line: 2, .. })
        ));
        assert!(matches!(
            Table::read(b"a\0\n", "f"),
            Err(TableError::NotText { .. })
        ));
        assert!(matches!(
            Table::read(b"\xff\n", "f"),
            Err(TableError::NotText { .. })
        ));
    }
}
