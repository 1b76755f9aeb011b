//! A bundle as a value: a sorted map of path to bytes.
//!
//! Assembling, verifying, auditing, publishing and testing share this one type, so
//! that a directory, a commit and memory cannot be read in different ways.

use std::collections::BTreeMap;

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The content.
    pub bytes: Vec<u8>,
    /// Mode 100755 rather than 100644.
    pub executable: bool,
}

impl Entry {
    /// A file that is not executable.
    #[must_use]
    pub fn text(content: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: content.into(),
            executable: false,
        }
    }
}

/// Path from the root, components separated by `/`, to file; sorted bytewise.
pub type Tree = BTreeMap<String, Entry>;
