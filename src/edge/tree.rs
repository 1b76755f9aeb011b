//! A bundle in a directory: reading one that others wrote, writing one of ours.
//!
//! Inputs: a path, and for writing a tree. Outputs: a tree, or a directory that is
//! complete or absent. Reading follows no link, opens nothing but regular files, and
//! counts before it reads. It does not judge what it read; `bundle::check` does.

mod read;
mod write;

pub use read::{Reading, read_directory, read_directory_within};
pub use write::write_directory;

use super::advice::advice;
use crate::bundle::limits::LimitExceeded;

/// Why a directory was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Something in the directory that no bundle has.
    #[error("{path} {why}")]
    Rejected {
        /// Finding code.
        code: &'static str,
        /// Where, escaped for display.
        path: String,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// Too large, too deep or too many.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Another file system is mounted inside.
    #[error(
        "{path} is on another file system than the directory it is in: copy the tree to one place first"
    )]
    OtherMount {
        /// Where, escaped for display.
        path: String,
    },
    /// The directory to write is there already.
    #[error("{path} exists, wanted a new directory: choose another name, or remove it")]
    Exists {
        /// The directory.
        path: String,
    },
    /// A path in the tree that cannot be a file below the directory.
    #[error("cannot write a file called `{path}`: it {why}")]
    Unwritable {
        /// The path, escaped for display.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system said no.
    #[error("{path}: cannot {doing}: {source}{}", advice(.source))]
    Io {
        /// What was tried, a verb.
        doing: &'static str,
        /// On what, escaped for display.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl TreeError {
    /// The exit code that belongs to it: 2 rejected, 3 refused, 4 usage or input and output.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Rejected { .. } => 2,
            Self::Limit(_) | Self::OtherMount { .. } => 3,
            Self::Exists { .. } | Self::Unwritable { .. } | Self::Io { .. } => 4,
        }
    }

    /// The finding code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Rejected { code, .. } => code,
            Self::Limit(_) => "E-LIMIT",
            Self::OtherMount { .. } => "E-MOUNT",
            Self::Exists { .. } => "E-EXISTS",
            Self::Unwritable { .. } => "E-PATH",
            Self::Io { .. } => "E-IO",
        }
    }
}
