//! A case on disk: `case.toml`, `plan.json`, `journal/`, `ingested/`.
//!
//! Reads the files that evidence follows from into a tree; creates new files whole
//! or not at all; never changes one that is there. Only the user edits `case.toml`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::advice::advice;
use crate::model::tree::{Entry, Tree};

/// Name of the case file.
pub const CASE_FILE: &str = "case.toml";
/// Largest file read from a case, bytes: the limit of a file in a bundle.
const FILE_LIMIT: u64 = 64 << 20;

/// Why a case cannot be read or written.
#[derive(Debug, Error)]
pub enum FolderError {
    /// No such case.
    #[error(
        "{path}: found no case.toml, wanted the folder of a case; make one with `regbundle new {path}`"
    )]
    NoCase {
        /// The folder asked for.
        path: String,
    },
    /// A file cannot be read, created or written.
    #[error("{path}: cannot {action}: {source}{}", advice(.source))]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Something is there already.
    #[error(
        "{path}: exists already and is not overwritten; name another place, or remove it first"
    )]
    Exists {
        /// The file or folder.
        path: String,
    },
    /// A folder, pipe, socket or device.
    #[error(
        "{path}: found something that is not a regular file, wanted a file; copy its content into one"
    )]
    NotAFile {
        /// The path.
        path: String,
    },
    /// A file is too large.
    #[error("{path}: found {found} bytes, wanted at most {limit}")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// Another process works on the case.
    #[error("{path}: another regbundle is working on this case; wait for it or stop it")]
    Busy {
        /// The folder.
        path: String,
    },
}

fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.display().to_string();
    move |source| FolderError::Io {
        path,
        action,
        source,
    }
}

/// The folder of a case.
#[derive(Debug, Clone)]
pub struct CaseFolder {
    path: PathBuf,
}

/// Held while a process writes into a case; released when dropped or when the process dies.
#[derive(Debug)]
pub struct CaseLock {
    _file: File,
}

impl CaseFolder {
    /// Opens the folder of a case.
    ///
    /// # Errors
    ///
    /// When there is no `case.toml` in it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        // The file itself names its case as well as the folder does.
        let path = if path.ends_with(CASE_FILE) && path.is_file() {
            path.parent().unwrap_or(path)
        } else {
            path
        };
        if path.join(CASE_FILE).is_file() {
            return Ok(Self {
                path: path.to_owned(),
            });
        }
        Err(FolderError::NoCase {
            path: path.display().to_string(),
        })
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the case file's path as messages name it.
    #[must_use]
    pub fn case_file(&self) -> PathBuf {
        self.path.join(CASE_FILE)
    }

    /// Takes the case for writing.
    ///
    /// # Errors
    ///
    /// When another process holds it.
    pub fn lock(&self) -> Result<CaseLock, FolderError> {
        // A directory can be locked: no lock file to leave behind or to commit.
        let file = File::open(&self.path).map_err(io_error(&self.path, "open"))?;
        match file.try_lock() {
            Ok(()) => Ok(CaseLock { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(FolderError::Busy {
                path: self.path.display().to_string(),
            }),
            Err(fs::TryLockError::Error(source)) => Err(io_error(&self.path, "lock")(source)),
        }
    }

    /// Reads `case.toml` as text.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is not UTF-8.
    pub fn case_text(&self) -> Result<String, FolderError> {
        let path = self.case_file();
        fs::read_to_string(&path).map_err(io_error(&path, "read"))
    }

    /// Reads the files that evidence follows from: plan, journals, ingested files.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read or is too large.
    pub fn read(&self) -> Result<Tree, FolderError> {
        let mut tree = Tree::new();
        let plan = self.path.join("plan.json");
        if plan.exists() {
            tree.insert("plan.json".to_owned(), read_file(&plan)?);
        }
        for folder in ["journal", "ingested"] {
            let path = self.path.join(folder);
            if !path.exists() {
                continue;
            }
            for entry in fs::read_dir(&path).map_err(io_error(&path, "list"))? {
                let entry = entry.map_err(io_error(&path, "list"))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                // Names that begin with a dot are writes that did not finish.
                if !name.starts_with('.') {
                    tree.insert(format!("{folder}/{name}"), read_file(&entry.path())?);
                }
            }
        }
        Ok(tree)
    }

    /// Creates a file with its content, whole or not at all.
    ///
    /// # Errors
    ///
    /// When it exists already or cannot be written.
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, FolderError> {
        create_whole(&self.path.join(name), bytes)
    }
}

fn read_file(path: &Path) -> Result<Entry, FolderError> {
    let metadata = fs::metadata(path).map_err(io_error(path, "read"))?;
    // A pipe would block and a device never end.
    if !metadata.is_file() {
        return Err(FolderError::NotAFile {
            path: path.display().to_string(),
        });
    }
    let found = metadata.len();
    if found > FILE_LIMIT {
        return Err(FolderError::TooLarge {
            path: path.display().to_string(),
            found,
            limit: FILE_LIMIT,
        });
    }
    Ok(Entry::text(fs::read(path).map_err(io_error(path, "read"))?))
}

/// Reads a whole file named by the user.
///
/// # Errors
///
/// When it cannot be read or is too large.
pub fn read_named(path: &Path) -> Result<Vec<u8>, FolderError> {
    read_file(path).map(|entry| entry.bytes)
}

/// Creates a file with its content, whole or not at all, and makes it durable.
///
/// # Errors
///
/// When it exists already or cannot be written.
pub fn create_whole(path: &Path, bytes: &[u8]) -> Result<PathBuf, FolderError> {
    put(path, bytes, false)
}

/// Creates or replaces a file of our own making, whole or not at all.
///
/// # Errors
///
/// When it cannot be written.
pub fn replace_whole(path: &Path, bytes: &[u8]) -> Result<PathBuf, FolderError> {
    put(path, bytes, true)
}

fn put(path: &Path, bytes: &[u8], replace: bool) -> Result<PathBuf, FolderError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(io_error(parent, "create the folder"))?;
    if !replace && path.symlink_metadata().is_ok() {
        return Err(FolderError::Exists {
            path: path.display().to_string(),
        });
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = parent.join(format!(".{name}.partial-{}", std::process::id()));
    let written = write_partial(&partial, bytes).and_then(|()| {
        if replace {
            fs::rename(&partial, path)
        } else {
            // A link fails when the name was taken in the meantime; a rename would not.
            fs::hard_link(&partial, path).and_then(|()| fs::remove_file(&partial))
        }
    });
    if let Err(source) = written {
        // The error that matters is the first one.
        let _ = fs::remove_file(&partial);
        if source.kind() == io::ErrorKind::AlreadyExists {
            return Err(FolderError::Exists {
                path: path.display().to_string(),
            });
        }
        return Err(io_error(path, "write")(source));
    }
    sync_folder(parent)?;
    Ok(path.to_owned())
}

fn write_partial(partial: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(partial)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder durable.
///
/// # Errors
///
/// When the folder cannot be synchronised.
pub fn sync_folder(path: &Path) -> Result<(), FolderError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error(path, "synchronise"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_created_once_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/plan.json");
        create_whole(&path, b"one").unwrap();
        assert!(matches!(
            create_whole(&path, b"two"),
            Err(FolderError::Exists { .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_case_is_held_by_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(CASE_FILE), "").unwrap();
        let case = CaseFolder::open(folder.path()).unwrap();
        let held = case.lock().unwrap();
        assert!(matches!(case.lock(), Err(FolderError::Busy { .. })));
        drop(held);
        assert!(case.lock().is_ok());
    }

    #[test]
    fn a_folder_without_a_case_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let message = CaseFolder::open(folder.path()).unwrap_err().to_string();
        assert!(
            message.contains("case.toml") && message.contains("regbundle new"),
            "{message}"
        );
    }
}
