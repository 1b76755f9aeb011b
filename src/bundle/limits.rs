//! How large a tree that others wrote may be, and the account that is kept while reading it.
//!
//! Purpose: a directory and a commit are refused at the same size, before the bytes
//! are read. Inputs: the limits and what is found. Output: nothing, or the limit
//! that was exceeded. It reads no file.

use super::name::shown;

/// The most a tree may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files and folders together.
    pub entries: usize,
    /// Components of one path.
    pub depth: usize,
    /// Bytes of one component.
    pub name_bytes: usize,
    /// Bytes of one path from the root.
    pub path_bytes: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
}

impl Limits {
    /// The limits of the format: the largest published tree of kernel measurements we know
    /// has 94 files, so these leave three orders of magnitude and still fit into memory.
    pub const DEFAULT: Self = Self {
        entries: 65_536,
        depth: 16,
        name_bytes: 128,
        path_bytes: 240,
        file_bytes: 64 << 20,
        total_bytes: 1 << 30,
    };
}

/// A limit that something exceeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}: {what} {found}, the limit is {limit}: nothing more was read; take the file out, or ask its author for a smaller tree"
)]
pub struct LimitExceeded {
    /// Where, escaped for display.
    pub path: String,
    /// What was counted, with its unit.
    pub what: &'static str,
    /// How much was found (the first count over the limit where counting stopped).
    pub found: u64,
    /// How much is allowed.
    pub limit: u64,
}

/// What has been counted so far.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    entries: usize,
    bytes: u64,
}

impl Budget {
    /// Starts an account.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: 0,
            bytes: 0,
        }
    }

    /// Counts one file or folder at `path`, from the root of the tree.
    ///
    /// # Errors
    ///
    /// When there are too many entries, or the path is too long or too deep.
    pub fn entry(&mut self, path: &str) -> Result<(), LimitExceeded> {
        self.entries = self.entries.saturating_add(1);
        within(path, "number of entries", self.entries, self.limits.entries)?;
        path_within(path, &self.limits)
    }

    /// Counts the bytes of one file before they are read.
    ///
    /// # Errors
    ///
    /// When the file, or all files together, are too large.
    pub fn file(&mut self, path: &str, bytes: u64) -> Result<(), LimitExceeded> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limits = self.limits;
        for (what, found, limit) in [
            ("size in bytes", bytes, limits.file_bytes),
            ("bytes of all files so far", self.bytes, limits.total_bytes),
        ] {
            if found > limit {
                return Err(LimitExceeded {
                    path: shown(path),
                    what,
                    found,
                    limit,
                });
            }
        }
        Ok(())
    }
}

/// Checks the length and depth of one path.
///
/// # Errors
///
/// When the path, one of its components, or their number is over the limit.
pub fn path_within(path: &str, limits: &Limits) -> Result<(), LimitExceeded> {
    within(path, "path length in bytes", path.len(), limits.path_bytes)?;
    within(path, "depth", path.split('/').count(), limits.depth)?;
    let longest = path.split('/').map(str::len).max().unwrap_or(0);
    within(path, "name length in bytes", longest, limits.name_bytes)
}

fn within(path: &str, what: &'static str, found: usize, limit: usize) -> Result<(), LimitExceeded> {
    if found <= limit {
        return Ok(());
    }
    Err(LimitExceeded {
        path: shown(path),
        what,
        found: u64::try_from(found).unwrap_or(u64::MAX),
        limit: u64::try_from(limit).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed_and_one_more_is_not() {
        let limits = Limits {
            entries: 2,
            depth: 2,
            name_bytes: 3,
            path_bytes: 6,
            file_bytes: 10,
            total_bytes: 15,
        };
        let mut budget = Budget::new(limits);
        assert!(budget.entry("abc/de").is_ok());
        assert!(budget.file("abc/de", 10).is_ok());
        assert!(budget.file("x", 5).is_ok());
        assert!(budget.file("x", 1).is_err());
        assert!(Budget::new(limits).file("x", 11).is_err());
        assert!(budget.entry("a/b").is_ok());
        assert!(budget.entry("c").is_err());
        for long in ["a/b/c", "abcd", "abc/def"] {
            assert!(path_within(long, &limits).is_err(), "{long}");
        }
    }
}
