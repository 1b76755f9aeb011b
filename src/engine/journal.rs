//! The journal's writer: one write and one `fdatasync` per record, outside every window.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::edge::case_folder::{FolderError, sync_folder};
use crate::edge::clock::boottime_ns;
use crate::input::evidence::{ChainEnd, JOURNAL_FOLDER};
use crate::model::journal::{RecordKind, format_record};

/// Why a record was not written. Fatal: what follows would not be evidence.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file cannot be created.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The record is not on the disk.
    #[error(
        "{path}: cannot append record {seq}: {source}; the rows before it are kept, \
         make room or mend the disk and run again"
    )]
    Append {
        /// The journal file.
        path: String,
        /// Number of the record.
        seq: u64,
        /// What the system says.
        source: io::Error,
    },
}

/// An open journal file.
#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    seq: u64,
    previous: String,
}

impl JournalWriter {
    /// Creates the next file of the chain: `journal/<opening>-<name>.tsv`.
    ///
    /// # Errors
    ///
    /// When the file exists or cannot be created durably.
    pub fn create(case: &Path, end: &ChainEnd, name: &str) -> Result<Self, WriteError> {
        let folder = case.join(JOURNAL_FOLDER);
        let io_error = |path: &Path, action, source| FolderError::Io {
            path: path.display().to_string(),
            action,
            source,
        };
        fs::create_dir_all(&folder)
            .map_err(|source| io_error(&folder, "create the folder", source))?;
        let path = folder.join(format!("{:04}-{name}.tsv", end.openings + 1));
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o644)
            .open(&path)
            .map_err(|source| io_error(&path, "create", source))?;
        sync_folder(&folder)?;
        sync_folder(case)?;
        Ok(Self {
            file,
            path,
            seq: 0,
            previous: end.hash.clone(),
        })
    }

    /// Appends one record and makes it durable; returns its number.
    ///
    /// # Errors
    ///
    /// When the record did not reach the disk.
    pub fn append(&mut self, kind: RecordKind, fields: &[String]) -> Result<u64, WriteError> {
        let seq = self.seq;
        let (line, hash) = format_record(seq, kind, boottime_ns(), fields, &self.previous);
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data())
            .map_err(|source| WriteError::Append {
                path: self.path.display().to_string(),
                seq,
                source,
            })?;
        self.previous = hash;
        self.seq += 1;
        Ok(seq)
    }

    /// Appends a note.
    ///
    /// # Errors
    ///
    /// When the record did not reach the disk.
    pub fn note(&mut self, fields: &[&str]) -> Result<u64, WriteError> {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        self.append(RecordKind::Note, &fields)
    }
}
