//! Opening a repository so that only its own files decide what happens.
#![expect(
    unsafe_code,
    reason = "libgit2's process-wide options are set through unsafe functions"
)]

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use git2::{Config, ConfigLevel, ErrorCode, Repository, RepositoryOpenFlags, opts};

use super::GitError;
use crate::bundle::name::shown;

/// Opens the repository at exactly this path: no search upwards, no environment variable.
pub(super) fn open(path: &Path) -> Result<Repository, GitError> {
    open_with(path, RepositoryOpenFlags::empty())
}

/// Opens a folder that is itself the repository, and no work tree with it.
pub(super) fn open_folder(path: &Path) -> Result<Repository, GitError> {
    open_with(
        path,
        RepositoryOpenFlags::BARE | RepositoryOpenFlags::NO_DOTGIT,
    )
}

/// The address of the remote called `origin`, when there is one; it may hold credentials.
///
/// # Errors
///
/// When the repository cannot be opened.
pub fn remote_url(path: &Path) -> Result<Option<String>, GitError> {
    let repository = open(path)?;
    let Ok(remote) = repository.find_remote("origin") else {
        return Ok(None);
    };
    Ok(remote.url().ok().map(str::to_owned))
}

pub(super) fn label(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// Makes libgit2 deaf to the configuration of machine and user, once per process.
pub(super) fn settle() -> Result<(), GitError> {
    static SETTLED: OnceLock<Result<(), String>> = OnceLock::new();
    let outcome = SETTLED.get_or_init(|| set_options().map_err(|error| error.to_string()));
    outcome.clone().map_err(|reason| GitError::Git {
        doing: "prepare libgit2",
        repo: "this process".to_owned(),
        source: git2::Error::from_str(&reason),
    })
}

fn set_options() -> Result<(), git2::Error> {
    for level in [
        ConfigLevel::ProgramData,
        ConfigLevel::System,
        ConfigLevel::XDG,
        ConfigLevel::Global,
    ] {
        // SAFETY: called once, before any other use of libgit2 in this process, as this module
        // is its only home and every entry point comes here first.
        unsafe { opts::set_search_path(level, "")? };
    }
    // SAFETY: as above. `owned` checks the same and also reads the user's safe.directory, which
    // libgit2 cannot see any more.
    unsafe { opts::set_verify_owner_validation(false)? };
    opts::strict_hash_verification(true);
    opts::strict_object_creation(true);
    Ok(())
}

fn open_with(path: &Path, flags: RepositoryOpenFlags) -> Result<Repository, GitError> {
    settle()?;
    let flags = flags | RepositoryOpenFlags::NO_SEARCH;
    let repository = Repository::open_ext(path, flags, std::iter::empty::<&Path>())
        .map_err(|error| cannot_open(path, &error))?;
    owned(path, &repository)?;
    Ok(repository)
}

fn cannot_open(path: &Path, error: &git2::Error) -> GitError {
    let repo = label(path);
    let reason = shown(error.message());
    let feature = ["object format", "extension", "repository version"];
    if error.code() != ErrorCode::NotFound && feature.iter().any(|word| reason.contains(word)) {
        GitError::Unsupported { repo, reason }
    } else {
        GitError::NotRepository { repo, reason }
    }
}

/// Refuses a repository of somebody else unless the user's own configuration trusts it.
fn owned(given: &Path, repository: &Repository) -> Result<(), GitError> {
    let top = repository.workdir().unwrap_or_else(|| repository.path());
    for place in [top, repository.path(), repository.commondir()] {
        let metadata = place.metadata().map_err(|source| GitError::Io {
            path: label(place),
            source,
        })?;
        let owner = metadata.uid();
        if !is_me(owner) && !trusted(top) {
            let absolute = top.canonicalize().unwrap_or_else(|_| given.to_owned());
            return Err(GitError::Owner {
                repo: label(&absolute),
                owner,
            });
        }
    }
    Ok(())
}

/// Whether the user id is ours, or that of the user who called sudo, as git has it.
fn is_me(owner: u32) -> bool {
    let me = rustix::process::geteuid();
    let caller = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    owner == me.as_raw() || (me.is_root() && caller() == Some(owner))
}

/// Whether `safe.directory` of the machine or the user names the folder (git-config(1)).
fn trusted(folder: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let xdg = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| home.as_ref().map(|home| home.join(".config")));
    let files = [
        Some(PathBuf::from("/etc/gitconfig")),
        xdg.map(|folder| folder.join("git/config")),
        home.map(|folder| folder.join(".gitconfig")),
    ];
    let mut values = Vec::new();
    for file in files.into_iter().flatten().filter(|file| file.is_file()) {
        let Ok(config) = Config::open(&file) else {
            continue;
        };
        let Ok(entries) = config.multivar("safe.directory", None) else {
            continue;
        };
        let _ = entries.for_each(|entry| values.push(entry.value().unwrap_or("").to_owned()));
    }
    names(&values, folder)
}

/// Whether the values of `safe.directory` name the folder; an empty one forgets those before it.
fn names(values: &[String], folder: &Path) -> bool {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut named = false;
    for value in values {
        named = match value.as_str() {
            "" => false,
            "*" => true,
            other => {
                let is_named = other.strip_suffix("/*").map_or_else(
                    || real == Path::new(other),
                    |parent| real.starts_with(parent) && real != Path::new(parent),
                );
                named || is_named
            }
        };
    }
    named
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Sandbox, is_root};
    use super::*;

    #[test]
    fn a_folder_inside_a_work_tree_is_not_the_repository() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("repo");
        std::fs::create_dir(repo.join("below")).unwrap();
        let error = open(&repo.join("below")).err().unwrap();
        assert!(matches!(error, GitError::NotRepository { .. }), "{error}");
        assert!(open(&repo).is_ok());
    }

    #[test]
    fn a_sha256_repository_is_refused_in_one_clear_line() {
        let sandbox = Sandbox::new();
        let repo = sandbox.path("repo");
        sandbox.git(&[
            "init",
            "-q",
            "--bare",
            "--object-format=sha256",
            repo.to_str().unwrap(),
        ]);
        let error = open(&repo).err().unwrap();
        assert!(matches!(error, GitError::Unsupported { .. }), "{error}");
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().contains("SHA-1"));
    }

    #[test]
    fn a_repository_of_somebody_else_is_named_with_the_line_that_trusts_it() {
        if !is_root() {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("repo");
        // Any id that is neither root's nor the caller's of sudo.
        std::os::unix::fs::chown(repo.join(".git"), Some(54_321), None).unwrap();
        let error = open(&repo).err().unwrap();
        let real = repo.canonicalize().unwrap();
        let line = format!(
            "git config --global --add safe.directory {}",
            real.display()
        );
        assert!(error.to_string().contains(&line), "{error}");
        assert_eq!(error.exit_code(), 4);
    }

    #[test]
    fn trusted_folders_are_named_one_by_one_by_parent_or_all() {
        let folder = Path::new("/nonexistent/a/b");
        let says = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
            names(&values, folder)
        };
        assert!(says(&["/nonexistent/a/b"]));
        assert!(says(&["/nonexistent/a/*"]));
        assert!(says(&["*"]));
        assert!(!says(&["*", ""]));
        assert!(!says(&["/nonexistent/a"]));
        assert!(!says(&["/nonexistent/a/b/*"]));
        assert!(!says(&[]));
    }

    #[test]
    fn the_address_of_origin_is_read_as_written() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("repo");
        assert_eq!(remote_url(&repo).unwrap(), None);
        sandbox.git_in(
            &repo,
            &["remote", "add", "origin", "git@host.example:a/b.git"],
        );
        assert_eq!(
            remote_url(&repo).unwrap().as_deref(),
            Some("git@host.example:a/b.git")
        );
    }
}
