//! A commit becomes a tree, without believing what the repository says of itself.
//!
//! The commit is named by its full id; every object's size is known before it is
//! read, and its hash is verified by libgit2. Trees are parsed here, so that names and
//! modes are seen as stored; the walk keeps its own stack and the same limits as a directory.

use std::collections::BTreeSet;
use std::path::Path;

use git2::{ErrorCode, ObjectType, Odb, Oid};

use super::GitError;
use super::precheck::precheck;
use super::repository::{label, open_folder};
use crate::bundle::limits::{Budget, LimitExceeded, Limits};
use crate::bundle::name::{hostile_fault, shown};
use crate::model::tree::{Entry, Tree};

/// Bytes of a raw object id.
const ID_BYTES: usize = 20;
/// Largest commit object read; the longest message in Linux has about 60 KB.
const COMMIT_BYTES: u64 = 1 << 20;
/// Largest tree object read: 65,536 entries of 128-byte names fit.
const TREE_BYTES: u64 = 16 << 20;

/// Reads the files of a commit below `path` (`None`: all of it) within the default limits.
///
/// # Errors
///
/// When the id is not a full one, the repository reads elsewhere or is too large, an object is
/// missing or damaged, or an entry is no plain file or folder.
pub fn read_commit(repo: &Path, commit: &str, path: Option<&str>) -> Result<Tree, GitError> {
    read_commit_within(repo, commit, path, Limits::DEFAULT)
}

/// Reads the files of a commit within the limits given.
///
/// # Errors
///
/// As [`read_commit`].
pub fn read_commit_within(
    repo: &Path,
    commit: &str,
    path: Option<&str>,
    limits: Limits,
) -> Result<Tree, GitError> {
    let id = full_id(commit)?;
    if path.is_some_and(|path| hostile_fault(path).is_some()) {
        return Err(no_folder(commit, path));
    }
    let repository = open_folder(&precheck(repo)?)?;
    let database = repository.odb().map_err(|source| GitError::Git {
        doing: "open the objects",
        repo: label(repo),
        source,
    })?;
    if !database.exists(id) {
        return Err(GitError::NoCommit {
            revision: commit.to_owned(),
            repo: label(repo),
        });
    }
    let reader = Reader {
        database,
        commit: commit.to_owned(),
    };
    let mut folder = reader.tree_of_commit(id)?;
    for component in path.into_iter().flat_map(|path| path.split('/')) {
        folder = reader
            .entries(folder, path.unwrap_or(""))?
            .into_iter()
            .find(|item| item.name == component && item.kind == Kind::Folder)
            .map(|item| item.id)
            .ok_or_else(|| no_folder(commit, path))?;
    }
    reader.files(folder, limits)
}

/// Reads 40 lower-case hex digits; a branch or tag may be called like a shorter one.
fn full_id(text: &str) -> Result<Oid, GitError> {
    let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_full = text.len() == 2 * ID_BYTES && text.bytes().all(digits);
    is_full
        .then(|| Oid::from_str(text).ok())
        .flatten()
        .ok_or_else(|| GitError::FullIdWanted { given: shown(text) })
}

fn no_folder(commit: &str, path: Option<&str>) -> GitError {
    GitError::NoFolder {
        commit: commit.to_owned(),
        path: shown(path.unwrap_or("")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Executable,
    Folder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    kind: Kind,
    name: String,
    id: Oid,
}

struct Reader<'a> {
    database: Odb<'a>,
    commit: String,
}

impl Reader<'_> {
    fn tree_of_commit(&self, id: Oid) -> Result<Oid, GitError> {
        let bytes = self.object(id, ObjectType::Commit, &self.commit, COMMIT_BYTES)?;
        bytes
            .strip_prefix(b"tree ")
            .and_then(|rest| rest.split_at_checked(2 * ID_BYTES))
            .filter(|(_, rest)| rest.starts_with(b"\n"))
            .and_then(|(hex, _)| str::from_utf8(hex).ok())
            .and_then(|hex| Oid::from_str(hex).ok())
            .ok_or_else(|| damaged(id, "does not begin with a tree, as a commit does"))
    }

    fn files(&self, root: Oid, limits: Limits) -> Result<Tree, GitError> {
        let mut budget = Budget::new(limits);
        let mut tree = Tree::new();
        let mut pending = vec![(root, String::new())];
        while let Some((id, folder)) = pending.pop() {
            for item in self.entries(id, &folder)? {
                let path = join(&folder, &item.name);
                budget.entry(&path)?;
                if item.kind == Kind::Folder {
                    pending.push((item.id, path));
                    continue;
                }
                let size = self.size(item.id, ObjectType::Blob, &path)?;
                budget.file(&path, size)?;
                let bytes = self.object(item.id, ObjectType::Blob, &path, size)?;
                let executable = item.kind == Kind::Executable;
                tree.insert(path, Entry { bytes, executable });
            }
        }
        Ok(tree)
    }

    fn entries(&self, id: Oid, folder: &str) -> Result<Vec<Item>, GitError> {
        let bytes = self.object(id, ObjectType::Tree, folder, TREE_BYTES)?;
        parse_tree(&bytes, id, folder)
    }

    /// Reads an object whose size was looked at first.
    fn object(
        &self,
        id: Oid,
        kind: ObjectType,
        path: &str,
        most: u64,
    ) -> Result<Vec<u8>, GitError> {
        let size = self.size(id, kind, path)?;
        if size > most {
            return Err(GitError::Limit(LimitExceeded {
                path: shown(path),
                what: "size of the object in bytes",
                found: size,
                limit: most,
            }));
        }
        let object = self.database.read(id).map_err(|error| {
            damaged(id, &format!("cannot be read ({})", shown(error.message())))
        })?;
        Ok(object.data().to_vec())
    }

    fn size(&self, id: Oid, wanted: ObjectType, path: &str) -> Result<u64, GitError> {
        let (size, kind) = self.database.read_header(id).map_err(|error| {
            let what = match error.code() {
                ErrorCode::NotFound => "is missing".to_owned(),
                _ => format!("cannot be read ({})", shown(error.message())),
            };
            damaged(id, &format!("({}) {what}", shown(path)))
        })?;
        if kind != wanted {
            let what = match wanted {
                ObjectType::Commit => "is not a commit but another object: give the commit's id",
                ObjectType::Tree => "is called a folder but is another object",
                _ => "is called a file but is another object",
            };
            return Err(entry("E-TREE", path, what));
        }
        Ok(u64::try_from(size).unwrap_or(u64::MAX))
    }
}

/// Reads `mode SP name NUL id` entries and refuses all that no plain tree has.
fn parse_tree(bytes: &[u8], id: Oid, folder: &str) -> Result<Vec<Item>, GitError> {
    let broken = || damaged(id, "is cut off or is no tree");
    let mut items = Vec::new();
    let mut seen = BTreeSet::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (mode, tail) = cut(rest, b' ').ok_or_else(broken)?;
        let (name, tail) = cut(tail, 0).ok_or_else(broken)?;
        let (raw, tail) = tail.split_at_checked(ID_BYTES).ok_or_else(broken)?;
        rest = tail;
        let lossy = String::from_utf8_lossy(name);
        let path = join(folder, &lossy);
        let Ok(name) = str::from_utf8(name) else {
            return Err(entry("E-NAME", &path, "has a name that is not UTF-8"));
        };
        // The name alone: a `/` inside of it must not pass as a separator.
        if name.contains('/') || matches!(name, "" | "." | "..") {
            return Err(entry("E-TREE", &path, "has a name that no folder can hold"));
        }
        if let Some(fault) = hostile_fault(name) {
            return Err(entry(fault.code, &path, fault.why));
        }
        let kind = match mode {
            b"100644" => Kind::Plain,
            b"100755" => Kind::Executable,
            b"40000" => Kind::Folder,
            b"120000" => return Err(entry("E-SYMLINK", &path, "is a symbolic link")),
            b"160000" => return Err(entry("E-TREE", &path, "is a submodule")),
            _ => {
                return Err(entry(
                    "E-TREE",
                    &path,
                    "has a mode other than 100644 and 100755",
                ));
            }
        };
        if !seen.insert(name) {
            return Err(entry("E-TREE", &path, "is there twice"));
        }
        let id = Oid::from_bytes(raw).map_err(|_| broken())?;
        let name = name.to_owned();
        items.push(Item { kind, name, id });
    }
    Ok(items)
}

/// Splits before and after the first `mark`.
fn cut(bytes: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == mark)?;
    let (before, rest) = bytes.split_at_checked(at)?;
    Some((before, rest.strip_prefix(&[mark])?))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn damaged(id: Oid, what: &str) -> GitError {
    GitError::Object {
        id: id.to_string(),
        what: what.to_owned(),
    }
}

fn entry(code: &'static str, path: &str, what: &'static str) -> GitError {
    GitError::Entry {
        code,
        path: shown(path),
        what,
    }
}

#[cfg(test)]
mod tests;
