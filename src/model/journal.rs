//! The journal: append-only, hash-chained records of what was measured.
//!
//! One file per opening. A line is `seq TAB type TAB boottime_ns TAB fields… TAB
//! previous TAB hash LF`; the hash is the first 128 bits of the SHA-256 over the
//! line up to and including the tab before it. The first record of the first file
//! carries the plan's hash as `previous`, so the plan cannot be changed afterwards.
//! This module formats and reads records; it does not touch files.

use thiserror::Error;

use super::digest::sha256_hex_128;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// First record of a file: identity of boot and tool.
    BootOpen,
    /// A stream of rows begins.
    RowBegin,
    /// One row, as the worker wrote it.
    Row,
    /// A stream of rows ended before its last line.
    RowAbort,
    /// Anything else worth keeping: key, then values.
    Note,
    /// Last record of a file that was closed in order.
    BootClose,
}

impl RecordKind {
    /// The word in a record.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::BootOpen => "boot-open",
            Self::RowBegin => "row-begin",
            Self::Row => "row",
            Self::RowAbort => "row-abort",
            Self::Note => "note",
            Self::BootClose => "boot-close",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [
            Self::BootOpen,
            Self::RowBegin,
            Self::Row,
            Self::RowAbort,
            Self::Note,
            Self::BootClose,
        ]
        .into_iter()
        .find(|kind| kind.word() == word)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number in its file, from 0.
    pub seq: u64,
    /// What it says.
    pub kind: RecordKind,
    /// `CLOCK_BOOTTIME` when it was written, nanoseconds.
    pub boottime_ns: u64,
    /// Its fields.
    pub fields: Vec<String>,
    /// Its hash, which the next record carries.
    pub hash: String,
}

impl Record {
    /// Returns field `index`, or the empty string.
    #[must_use]
    pub fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", String::as_str)
    }
}

/// What stands after the last complete line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins, bytes.
    pub offset: usize,
    /// How long it is, bytes.
    pub length: usize,
}

/// A file as read: the valid records and the torn tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Records in order.
    pub records: Vec<Record>,
    /// A write that did not finish.
    pub torn: Option<Torn>,
}

/// Why a journal is not one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JournalError {
    /// A complete line does not follow from the one before it.
    #[error(
        "{file}:{line}: the journal's chain is broken: {found}, wanted {wanted}; \
         a record was changed, removed or added after it was written"
    )]
    Damaged {
        /// Name of the journal file.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// What follows from the record before.
        wanted: String,
    },
}

/// Formats one record as a line with its line feed, and returns it with its hash.
///
/// Tabs and line feeds in fields become spaces: a field cannot end a record.
#[must_use]
pub fn format_record(
    seq: u64,
    kind: RecordKind,
    boottime_ns: u64,
    fields: &[String],
    previous: &str,
) -> (String, String) {
    let mut line = format!("{seq}\t{}\t{boottime_ns}\t", kind.word());
    for field in fields {
        line.extend(field.chars().map(|c| match c {
            '\t' | '\n' | '\r' | '\0' => ' ',
            other => other,
        }));
        line.push('\t');
    }
    line.push_str(previous);
    line.push('\t');
    let hash = sha256_hex_128(line.as_bytes());
    line.push_str(&hash);
    line.push('\n');
    (line, hash)
}

/// Reads one file; `previous` is the hash its first record must carry.
///
/// # Errors
///
/// `Damaged` when a complete line is not the successor of the one before it. Bytes
/// after the last line feed are a torn tail, not damage.
pub fn read_journal(file: &str, bytes: &[u8], previous: &str) -> Result<Reading, JournalError> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |position| position + 1);
    let (complete, tail) = bytes.split_at(end);
    let mut records: Vec<Record> = Vec::new();
    let mut previous = previous.to_owned();
    for (line, raw) in (1..).zip(complete.split_inclusive(|byte| *byte == b'\n')) {
        let seq = records.last().map_or(0, |record| record.seq + 1);
        let record = read_line(file, line, raw, seq, &previous)?;
        previous.clone_from(&record.hash);
        records.push(record);
    }
    let torn = (!tail.is_empty()).then_some(Torn {
        offset: end,
        length: tail.len(),
    });
    Ok(Reading { records, torn })
}

fn read_line(
    file: &str,
    line: usize,
    raw: &[u8],
    seq: u64,
    previous: &str,
) -> Result<Record, JournalError> {
    let damaged = |found: String, wanted: String| JournalError::Damaged {
        file: file.to_owned(),
        line,
        found,
        wanted,
    };
    let text = std::str::from_utf8(raw)
        .map_err(|_| damaged("bytes that are not UTF-8".into(), "UTF-8 text".into()))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (body, hash) = text
        .rsplit_once('\t')
        .ok_or_else(|| damaged("a line without tabs".into(), "tab-separated cells".into()))?;
    let wanted = sha256_hex_128(format!("{body}\t").as_bytes());
    if hash != wanted {
        return Err(damaged(format!("hash {hash}"), format!("hash {wanted}")));
    }
    let cells: Vec<&str> = body.split('\t').collect();
    let [seq_text, kind_text, time_text, fields @ .., found_previous] = cells.as_slice() else {
        return Err(damaged(
            format!("{} cells", cells.len() + 1),
            "at least 5 cells".into(),
        ));
    };
    if *found_previous != previous {
        return Err(damaged(
            format!("previous hash {found_previous}"),
            format!("previous hash {previous}"),
        ));
    }
    if *seq_text != seq.to_string() {
        return Err(damaged(
            format!("record number {seq_text}"),
            format!("record number {seq}"),
        ));
    }
    let kind = RecordKind::from_word(kind_text).ok_or_else(|| {
        damaged(
            format!("record type {kind_text}"),
            "boot-open, row-begin, row, row-abort, note or boot-close".into(),
        )
    })?;
    let boottime_ns = time_text.parse().map_err(|_| {
        damaged(
            format!("time {time_text}"),
            "nanoseconds as an integer".into(),
        )
    })?;
    Ok(Record {
        seq,
        kind,
        boottime_ns,
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        hash: hash.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "00112233445566778899aabbccddeeff";

    fn sample() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        let mut previous = SEED.to_owned();
        let fields = [
            vec!["1".to_owned(), "{\"a\":1}".to_owned()],
            vec!["parent-a".to_owned()],
            vec!["1".to_owned(), "measured".to_owned(), "4096".to_owned()],
        ];
        let kinds = [RecordKind::BootOpen, RecordKind::RowBegin, RecordKind::Row];
        for (seq, (kind, fields)) in (0..).zip(kinds.into_iter().zip(&fields)) {
            let (line, hash) = format_record(seq, kind, 17 + seq, fields, &previous);
            bytes.extend_from_slice(line.as_bytes());
            ends.push(bytes.len());
            previous = hash;
        }
        (bytes, ends)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (bytes, _) = sample();
        let reading = read_journal("j", &bytes, SEED).unwrap();
        assert_eq!(reading.torn, None);
        assert_eq!(reading.records.len(), 3);
        assert_eq!(reading.records[2].fields, ["1", "measured", "4096"]);
        assert_eq!(reading.records[2].boottime_ns, 19);
    }

    #[test]
    fn every_truncation_keeps_exactly_the_complete_records() {
        let (bytes, ends) = sample();
        for length in 0..=bytes.len() {
            for zeros in [0, 64] {
                let mut cut = bytes[..length].to_vec();
                cut.resize(length + zeros, 0);
                let reading = read_journal("j", &cut, SEED).unwrap();
                let complete = ends.iter().filter(|end| **end <= length).count() - 1;
                assert_eq!(reading.records.len(), complete, "cut at {length}");
                let tail = length - ends[complete] + zeros;
                assert_eq!(reading.torn.map_or(0, |torn| torn.length), tail);
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let (bytes, _) = sample();
        let whole = read_journal("j", &bytes, SEED).unwrap();
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                if let Ok(reading) = read_journal("j", &flipped, SEED) {
                    assert_ne!(reading, whole, "bit {bit} of byte {index}");
                    assert!(reading.torn.is_some(), "bit {bit} of byte {index}");
                }
            }
        }
    }

    #[test]
    fn another_plan_breaks_the_chain_at_its_first_record() {
        let (bytes, _) = sample();
        let error = read_journal("j", &bytes, "ffffffffffffffffffffffffffffffff").unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 1, .. }));
    }

    #[test]
    fn a_field_cannot_end_a_record() {
        let fields = vec!["a\tb\nc".to_owned()];
        let (line, _) = format_record(0, RecordKind::Note, 1, &fields, SEED);
        let reading = read_journal("j", line.as_bytes(), SEED).unwrap();
        assert_eq!(reading.records[0].fields, ["a b c"]);
    }
}
