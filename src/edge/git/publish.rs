//! A tree becomes a commit on a branch, from memory.
//!
//! Objects go through the object database and tree builders, so that no filter, hook,
//! index or work tree takes part and the ids are those of the git program. The branch
//! moves last, and only from the commit the new one was built on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use git2::{
    Commit, ErrorCode, ObjectType, Oid, Reference, Repository, RepositoryInitOptions, Signature,
    Time,
};

use super::GitError;
use super::repository::{label, open, settle};
use crate::bundle::limits::{Limits, path_within};
use crate::bundle::name::{collisions, hostile_fault, profile_fault, shown};
use crate::model::tree::{Entry, Tree};

/// What was planned: a tree of another plan under the same case id is other evidence.
const PLAN: &str = "data/plan.json";

/// Tree entry modes of git: the only ones a bundle has.
const PLAIN: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;
const FOLDER: i32 = 0o040_000;

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// Address, without angle brackets.
    pub email: String,
}

/// What a publication led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Full id of the commit that holds the tree.
    pub commit: String,
    /// Full id of the published folder's tree.
    pub tree: String,
    /// Full id of the commit's first parent, when it has one.
    pub parent: Option<String>,
    /// Whether the commit is new; false when the branch held the same tree already.
    pub created: bool,
}

/// Commits `content` as the folder `path_in_repo` on top of `branch`; everything else there stays.
///
/// `seconds` since 1970 in UTC date both author and committer, so that the same call on the
/// same branch gives the same id.
///
/// # Errors
///
/// When the branch is checked out somewhere or moves meanwhile, a name is not acceptable, or
/// the repository cannot be written.
pub fn publish(
    repo: &Path,
    branch: &str,
    path_in_repo: &str,
    content: &Tree,
    message: &str,
    identity: &Identity,
    seconds: i64,
) -> Result<Published, GitError> {
    let (repository, reference_name) = open_branch(repo, branch, path_in_repo, content)?;
    let failed = |doing| failed(repo, doing);
    let (head, known) = replaceable(&repository, repo, &reference_name, path_in_repo, content)?;
    let files = content
        .iter()
        .map(|(path, entry)| (path.as_str(), entry))
        .collect();
    let tree = write_tree(&repository, &files).map_err(failed("write objects"))?;
    if let Some(commit) = &head
        && known == Some(tree)
    {
        return Ok(Published {
            commit: commit.id().to_string(),
            tree: tree.to_string(),
            parent: commit.parent_id(0).ok().map(|id| id.to_string()),
            created: false,
        });
    }
    let root = with_folder(&repository, head.as_ref(), path_in_repo, tree)
        .map_err(failed("write the tree"))?;
    let signature = signature(identity, seconds)?;
    let text = format!("{}\n", message.trim_end_matches('\n'));
    let commit = repository
        .find_tree(root)
        .and_then(|root| {
            let parents: Vec<&Commit<'_>> = head.iter().collect();
            repository.commit(None, &signature, &signature, &text, &root, &parents)
        })
        .map_err(failed("write the commit"))?;
    let expected = head.as_ref().map(Commit::id);
    move_branch(&repository, &reference_name, commit, expected).map_err(|source| {
        match source.code() {
            ErrorCode::Modified | ErrorCode::Exists | ErrorCode::Locked | ErrorCode::NotFound => {
                GitError::Moved {
                    branch: shown(branch),
                    repo: label(repo),
                }
            }
            _ => failed("move the branch")(source),
        }
    })?;
    Ok(Published {
        commit: commit.to_string(),
        tree: tree.to_string(),
        parent: expected.map(|id| id.to_string()),
        created: true,
    })
}

/// Says whether `publish` would take the same, as far as can be said without writing.
///
/// # Errors
///
/// As `publish`, but for what only writing shows: a branch that moves, a full disk.
pub fn check(
    repo: &Path,
    branch: &str,
    path_in_repo: &str,
    content: &Tree,
) -> Result<(), GitError> {
    let (repository, reference_name) = open_branch(repo, branch, path_in_repo, content)?;
    replaceable(&repository, repo, &reference_name, path_in_repo, content)?;
    Ok(())
}

/// Says whether `init_bare` would make this one; gives the full name of its branch.
///
/// # Errors
///
/// When the path exists or the branch name is no such name.
pub fn check_new(path: &Path, branch: &str) -> Result<String, GitError> {
    let reference_name = branch_reference(branch)?;
    if path.symlink_metadata().is_ok() {
        return Err(GitError::Exists { path: label(path) });
    }
    Ok(reference_name)
}

/// Creates a bare repository in a new folder, without templates, for one branch.
///
/// # Errors
///
/// When the path exists, the branch name is no such name, or the folder cannot be made.
pub fn init_bare(path: &Path, branch: &str) -> Result<(), GitError> {
    let reference_name = check_new(path, branch)?;
    settle()?;
    let mut options = RepositoryInitOptions::new();
    options
        .bare(true)
        .no_reinit(true)
        .mkdir(true)
        .mkpath(false)
        .external_template(false)
        .initial_head(&reference_name);
    let failed = |source| GitError::Git {
        doing: "create a repository",
        repo: label(path),
        source,
    };
    // Made beside its place and renamed: what is killed leaves no half repository there.
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    Repository::init_opts(&partial, &options).map_err(failed)?;
    std::fs::rename(&partial, path).map_err(|error| {
        let _ = std::fs::remove_dir_all(&partial);
        failed(git2::Error::from_str(&error.to_string()))
    })
}

/// Opens the repository, and gives the full name of the branch, when both may be written to.
fn open_branch(
    repo: &Path,
    branch: &str,
    path_in_repo: &str,
    content: &Tree,
) -> Result<(Repository, String), GitError> {
    accept(path_in_repo, content)?;
    let reference_name = branch_reference(branch)?;
    let repository = open(repo)?;
    refuse_checked_out(&repository, branch, &reference_name)?;
    Ok((repository, reference_name))
}

fn failed(repo: &Path, doing: &'static str) -> impl FnOnce(git2::Error) -> GitError {
    move |source| GitError::Git {
        doing,
        repo: label(repo),
        source,
    }
}

/// Gives the branch's commit and the folder there that `content` would replace.
///
/// What is no earlier tree of the same measurements is not replaced.
fn replaceable<'a>(
    repository: &'a Repository,
    repo: &Path,
    reference_name: &str,
    path_in_repo: &str,
    content: &Tree,
) -> Result<(Option<Commit<'a>>, Option<Oid>), GitError> {
    let head = head_of(repository, reference_name).map_err(failed(repo, "read the branch"))?;
    let known = match &head {
        Some(commit) => folder_at(commit, path_in_repo)?,
        None => None,
    };
    let Some(folder) = known else {
        return Ok((head, None));
    };
    let why = if !is_bundle_of(repository, folder, path_in_repo) {
        "is a folder on that branch that is no tree of this case: choose another branch or case id"
    } else if file_in(repository, folder, PLAN).as_ref()
        != content.get(PLAN).map(|entry| &entry.bytes)
    {
        "is on that branch with another data/plan.json, so other measurements of the same case id: choose another case id, or another branch with --branch"
    } else {
        return Ok((head, known));
    };
    Err(GitError::Name {
        name: shown(path_in_repo),
        why,
    })
}

fn accept(path_in_repo: &str, content: &Tree) -> Result<(), GitError> {
    if path_in_repo.contains('/') || profile_fault(path_in_repo).is_some() {
        return Err(GitError::Name {
            name: shown(path_in_repo),
            why: "is no folder name: use one name of `A-Za-z0-9._+@=-` that begins with a letter or digit",
        });
    }
    if content.is_empty() {
        return Err(GitError::Name {
            name: shown(path_in_repo),
            why: "would be an empty folder, which git cannot hold: give it files",
        });
    }
    for path in content.keys() {
        path_within(path, &Limits::DEFAULT)?;
        if let Some(fault) = hostile_fault(path) {
            return Err(GitError::Name {
                name: shown(path),
                why: fault.why,
            });
        }
    }
    match collisions(content.keys().map(String::as_str)).first() {
        Some((path, _, why)) => Err(GitError::Name {
            name: shown(path),
            why,
        }),
        None => Ok(()),
    }
}

fn branch_reference(branch: &str) -> Result<String, GitError> {
    let name = format!("refs/heads/{branch}");
    let refused = branch.starts_with("refs/") || branch.starts_with('-') || branch == "HEAD";
    if refused || !Reference::is_valid_name(&name) {
        return Err(GitError::Name {
            name: shown(branch),
            why: "is no branch name: give it as `git branch` lists it",
        });
    }
    Ok(name)
}

fn signature(identity: &Identity, seconds: i64) -> Result<Signature<'static>, GitError> {
    Signature::new(&identity.name, &identity.email, &Time::new(seconds, 0)).map_err(|_| {
        GitError::Name {
            name: shown(&format!("{} <{}>", identity.name, identity.email)),
            why: "is no identity: give a name and an address without `<`, `>` and line feeds",
        }
    })
}

fn head_of<'a>(
    repository: &'a Repository,
    reference_name: &str,
) -> Result<Option<Commit<'a>>, git2::Error> {
    match repository.find_reference(reference_name) {
        Ok(reference) => match reference.target() {
            Some(id) => repository.find_commit(id).map(Some),
            None => Err(git2::Error::from_str(
                "the branch is a symbolic reference, wanted a plain one",
            )),
        },
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the objects of one folder and all below it; the depth is bounded by `accept`.
fn write_tree(repository: &Repository, files: &BTreeMap<&str, &Entry>) -> Result<Oid, git2::Error> {
    let database = repository.odb()?;
    let mut builder = repository.treebuilder(None)?;
    let mut folders: BTreeMap<&str, BTreeMap<&str, &Entry>> = BTreeMap::new();
    for (&path, &entry) in files {
        if let Some((folder, rest)) = path.split_once('/') {
            folders.entry(folder).or_default().insert(rest, entry);
            continue;
        }
        let blob = database.write(ObjectType::Blob, &entry.bytes)?;
        let mode = if entry.executable { EXECUTABLE } else { PLAIN };
        builder.insert(path, blob, mode)?;
    }
    for (folder, files) in &folders {
        let tree = write_tree(repository, files)?;
        builder.insert(*folder, tree, FOLDER)?;
    }
    builder.write()
}

/// Whether a folder is an evidence tree of this case, by its `bag-info.txt`.
fn is_bundle_of(repository: &Repository, folder: Oid, case_id: &str) -> bool {
    let wanted = format!("External-Identifier: {case_id}");
    file_in(repository, folder, "bag-info.txt").is_some_and(|text| {
        text.split(|byte| *byte == b'\n')
            .any(|line| line == wanted.as_bytes())
    })
}

/// The content of a file of a folder; `None` when there is no such file.
fn file_in(repository: &Repository, folder: Oid, path: &str) -> Option<Vec<u8>> {
    let tree = repository.find_tree(folder).ok()?;
    let entry = tree.get_path(Path::new(path)).ok()?;
    let blob = repository.find_blob(entry.id()).ok()?;
    Some(blob.content().to_vec())
}

/// The tree id of a folder in a commit; an error when the name is a file there.
fn folder_at(commit: &Commit<'_>, name: &str) -> Result<Option<Oid>, GitError> {
    let failed = |source| GitError::Git {
        doing: "read the branch's tree",
        repo: commit.id().to_string(),
        source,
    };
    let root = commit.tree().map_err(failed)?;
    match root.get_name(name) {
        None => Ok(None),
        Some(entry) if entry.kind() == Some(ObjectType::Tree) => Ok(Some(entry.id())),
        Some(_) => Err(GitError::Name {
            name: shown(name),
            why: "is a file on that branch: choose another folder name",
        }),
    }
}

fn with_folder(
    repository: &Repository,
    head: Option<&Commit<'_>>,
    name: &str,
    tree: Oid,
) -> Result<Oid, git2::Error> {
    let root = head.map(Commit::tree).transpose()?;
    let mut builder = repository.treebuilder(root.as_ref())?;
    builder.insert(name, tree, FOLDER)?;
    builder.write()
}

/// Moves the branch from `expected` (absent: it must not exist) to `commit`.
fn move_branch(
    repository: &Repository,
    reference_name: &str,
    commit: Oid,
    expected: Option<Oid>,
) -> Result<(), git2::Error> {
    let log = "regbundle: publish";
    match expected {
        Some(old) => repository.reference_matching(reference_name, commit, true, old, log),
        None => repository.reference(reference_name, commit, false, log),
    }
    .map(drop)
}

/// Refuses a branch that a work tree shows, also an unborn one, also in a linked work tree.
fn refuse_checked_out(
    repository: &Repository,
    branch: &str,
    reference_name: &str,
) -> Result<(), GitError> {
    let common = repository.commondir();
    let mut places: Vec<(PathBuf, PathBuf)> = Vec::new();
    let bare = repository
        .config()
        .and_then(|config| config.get_bool("core.bare"))
        .unwrap_or(false);
    if !bare {
        let top = match common.file_name() {
            Some(name) if name == ".git" => common.parent().unwrap_or(common),
            _ => repository.workdir().unwrap_or(common),
        };
        places.push((common.join("HEAD"), top.to_owned()));
    }
    if let Ok(entries) = fs::read_dir(common.join("worktrees")) {
        for entry in entries.flatten() {
            let link = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
            let link = Path::new(link.trim_end());
            let top = link.parent().unwrap_or(link).to_owned();
            places.push((entry.path().join("HEAD"), top));
        }
    }
    let wanted = format!("ref: {reference_name}");
    for (head, place) in places {
        if fs::read_to_string(&head).is_ok_and(|text| text.trim_end() == wanted) {
            return Err(GitError::CheckedOut {
                branch: shown(branch),
                place: label(&place),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
