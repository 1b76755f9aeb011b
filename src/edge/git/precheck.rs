//! Looking at a foreign repository's files before libgit2 does.
//!
//! libgit2 follows a `.git` file or link, alternates, core.worktree and include.path, and
//! waits forever on a FIFO in the place of a configuration. Here each of them is refused
//! with plain looks at names and small files; nothing found is followed or interpreted.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::GitError;
use super::repository::label;
use crate::bundle::limits::LimitExceeded;

/// Largest configuration read; that of a kernel clone with 100 remotes has 20 KB.
const CONFIG_BYTES: u64 = 1 << 20;
/// Largest list of references read; that of a kernel clone has 0.1 MB per 1,000 tags.
const PACKED_REFS_BYTES: u64 = 64 << 20;
/// Largest number of files below `objects` and `refs`: an unpacked kernel fetch stays below.
const FILES: u64 = 1_000_000;

/// Files at the top of a repository that libgit2 opens.
const OPENED: [&str; 5] = [
    "HEAD",
    "config",
    "config.worktree",
    "packed-refs",
    "shallow",
];
/// Files whose presence alone sends the reader elsewhere or changes what a commit is.
const REDIRECTS: [(&str, &str); 3] = [
    ("commondir", "names another folder to read from"),
    ("objects/info/alternates", "names other object folders"),
    ("info/grafts", "replaces the parents of commits"),
];
/// Configuration keys that do the same, in lower case.
const KEYS: [(&str, &str); 5] = [
    ("worktree", "sets a work tree elsewhere (core.worktree)"),
    ("worktreeconfig", "adds a second configuration"),
    (
        "promisor",
        "has a remote that objects are fetched from while reading",
    ),
    (
        "partialclone",
        "has a remote that objects are fetched from while reading",
    ),
    (
        "partialclonefilter",
        "has a remote that objects are fetched from while reading",
    ),
];

/// Finds the folder of the repository at `path` and refuses it when it reads elsewhere.
pub(super) fn precheck(path: &Path) -> Result<PathBuf, GitError> {
    let inner = path.join(".git");
    let folder = match inner.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => inner,
        Ok(_) => return Err(redirect(&inner, "is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(source) => return Err(failed(&inner, source)),
    };
    for name in OPENED {
        plain(&folder.join(name))?;
    }
    for (name, what) in REDIRECTS {
        if folder.join(name).symlink_metadata().is_ok() {
            return Err(redirect(&folder.join(name), what));
        }
    }
    for name in ["config", "config.worktree"] {
        let place = folder.join(name);
        if let Some(text) = small(&place, CONFIG_BYTES)?
            && let Some(what) = config_redirect(&text)
        {
            return Err(redirect(&place, what));
        }
    }
    let packed = folder.join("packed-refs");
    let replaced =
        small(&packed, PACKED_REFS_BYTES)?.is_some_and(|text| text.contains(" refs/replace/"));
    if replaced {
        return Err(redirect(&packed, "replaces objects by others"));
    }
    walk(&folder)?;
    Ok(folder)
}

/// Refuses links and special files wherever libgit2 looks for objects and references.
fn walk(folder: &Path) -> Result<(), GitError> {
    let mut pending: Vec<PathBuf> = ["objects", "refs", "info"]
        .iter()
        .map(|name| folder.join(name))
        .collect();
    let replace = folder.join("refs/replace");
    let mut files = 0_u64;
    while let Some(place) = pending.pop() {
        match place.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(redirect(&place, "is not a folder")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(failed(&place, source)),
        }
        for entry in fs::read_dir(&place).map_err(|source| failed(&place, source))? {
            let entry = entry.map_err(|source| failed(&place, source))?;
            let kind = entry
                .file_type()
                .map_err(|source| failed(&entry.path(), source))?;
            files = files.saturating_add(1);
            if files > FILES {
                return Err(limit(&place, "number of files", files, FILES));
            }
            if kind.is_dir() {
                pending.push(entry.path());
            } else if !kind.is_file() {
                return Err(redirect(&entry.path(), "is a link or a special file"));
            } else if entry.path().starts_with(&replace) {
                return Err(redirect(&entry.path(), "replaces an object by another"));
            }
        }
    }
    Ok(())
}

/// Refuses a file that is there but not a plain one.
fn plain(place: &Path) -> Result<(), GitError> {
    match place.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(redirect(place, "is not a plain file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(failed(place, source)),
    }
}

/// Reads a small plain file as text; `None` when it is absent.
fn small(place: &Path, most: u64) -> Result<Option<String>, GitError> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(place);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(place, source)),
    };
    let metadata = file.metadata().map_err(|source| failed(place, source))?;
    if !metadata.is_file() {
        return Err(redirect(place, "is not a plain file"));
    }
    let mut bytes = Vec::new();
    if metadata.len() <= most {
        file.take(most.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| failed(place, source))?;
    }
    let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if metadata.len().max(read) > most {
        return Err(limit(
            place,
            "size in bytes",
            metadata.len().max(read),
            most,
        ));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Looks for keys and sections rather than parsing, so that no odd spelling slips through; a
/// false alarm costs the reader a plain copy, a miss would let the repository choose its files.
fn config_redirect(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let spaceless: String = lower
        .chars()
        .filter(|character| !matches!(character, ' ' | '\t' | '\r' | '\u{b}' | '\u{c}'))
        .collect();
    if spaceless.contains("[include") {
        return Some("includes another file (include.path)");
    }
    KEYS.iter()
        .find(|(key, _)| has_key(&spaceless, key))
        .map(|&(_, what)| what)
}

/// Whether the word stands where a key can: after a line's or section's begin, before `=` or the end.
fn has_key(spaceless: &str, key: &str) -> bool {
    spaceless.match_indices(key).any(|(at, _)| {
        let (before, rest) = spaceless.split_at_checked(at).unwrap_or(("", ""));
        let after = rest.strip_prefix(key).unwrap_or("");
        let begins = before.is_empty() || before.ends_with(['\n', ']', '\u{feff}']);
        let ends = after.is_empty() || after.starts_with(['=', '\n', '#', ';', '\\']);
        begins && ends
    })
}

fn redirect(place: &Path, what: &'static str) -> GitError {
    GitError::Redirect {
        place: label(place),
        what,
    }
}

fn limit(place: &Path, what: &'static str, found: u64, most: u64) -> GitError {
    GitError::Limit(LimitExceeded {
        path: label(place),
        what,
        found,
        limit: most,
    })
}

fn failed(place: &Path, source: io::Error) -> GitError {
    GitError::Io {
        path: label(place),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::super::testing::Sandbox;
    use super::*;

    /// A repository with one commit, changed, then looked at.
    fn verdict(change: impl FnOnce(&Sandbox, &Path)) -> (&'static str, u8, String) {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("repo");
        sandbox.commit(&repo, "first");
        assert_eq!(precheck(&repo).unwrap(), repo.join(".git"));
        change(&sandbox, &repo);
        let started = Instant::now();
        let error = precheck(&repo).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(2));
        (error.code(), error.exit_code(), error.to_string())
    }

    fn replace_config(make: impl Fn(&Path)) -> (&'static str, u8, String) {
        verdict(|_, repo| {
            let place = repo.join(".git/config");
            fs::remove_file(&place).unwrap();
            make(&place);
        })
    }

    #[test]
    fn each_way_to_read_elsewhere_is_refused() {
        let settings = [
            ["core.worktree", "/tmp"],
            ["include.path", "/etc/passwd"],
            ["includeIf.gitdir:/.path", "/etc/passwd"],
            ["remote.origin.promisor", "true"],
            ["extensions.partialClone", "origin"],
            ["extensions.worktreeConfig", "true"],
        ];
        for [key, value] in settings {
            let (code, exit, text) = verdict(|sandbox, repo| {
                let file = repo.join(".git/config");
                sandbox.git(&["config", "--file", file.to_str().unwrap(), key, value]);
            });
            assert_eq!((code, exit), ("E-GITREDIRECT", 3), "{key}: {text}");
        }
        let files = [
            "commondir",
            "objects/info/alternates",
            "info/grafts",
            "refs/replace/1111111111111111111111111111111111111111",
        ];
        for name in files {
            let (code, exit, text) = verdict(|_, repo| {
                let place = repo.join(".git").join(name);
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(&place, "x\n").unwrap();
            });
            assert_eq!((code, exit), ("E-GITREDIRECT", 3), "{name}");
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn odd_spellings_of_the_configuration_do_not_slip_through() {
        for text in [
            "[core] worktree = /x",
            "[ core ]\n\tWORKTREE=/x",
            "[core]\nworktree\t= /x",
            "[CORE]worktree=/x\r\n",
            "[core]\nbare = false [x]\n[Include]\npath=/x",
            "\u{feff}[include]path=/x",
            "[includeIf \"a]b\"] path = x",
            "[core]\nworktree = \\\n/x",
        ] {
            assert!(config_redirect(text).is_some(), "{text:?}");
        }
        for text in [
            "",
            "[branch \"worktree\"]\n\tremote = origin\n\tmerge = refs/heads/worktree\n",
            "[core]\n\tbare = true\n\tfilemode = true\n",
            "[remote \"promisor\"]\n\turl = https://x/include\n",
        ] {
            assert_eq!(config_redirect(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_git_file_or_link_in_place_of_the_folder_is_refused() {
        for link in [true, false] {
            let (code, exit, _) = verdict(|_, repo| {
                let (inner, moved) = (repo.join(".git"), repo.join("moved"));
                fs::rename(&inner, &moved).unwrap();
                if link {
                    symlink(&moved, &inner).unwrap();
                } else {
                    fs::write(&inner, "gitdir: moved\n").unwrap();
                }
            });
            assert_eq!((code, exit), ("E-GITREDIRECT", 3));
        }
    }

    #[test]
    fn a_configuration_that_blocks_or_never_ends_is_refused_at_once() {
        let (code, exit, _) = replace_config(|place| mkfifoat(CWD, place, Mode::RUSR).unwrap());
        assert_eq!((code, exit), ("E-GITREDIRECT", 3));
        let (code, exit, _) = replace_config(|place| symlink("/dev/zero", place).unwrap());
        assert_eq!((code, exit), ("E-GITREDIRECT", 3));
        let (code, exit, text) =
            replace_config(|place| fs::File::create(place).unwrap().set_len(1 << 30).unwrap());
        assert_eq!((code, exit), ("E-LIMIT", 3));
        assert!(text.contains("1073741824"), "{text}");
    }

    #[test]
    fn links_and_special_files_among_the_objects_are_refused() {
        let (code, ..) = verdict(|_, repo| {
            mkfifoat(CWD, repo.join(".git/objects/pack/x.idx"), Mode::RUSR).unwrap();
        });
        assert_eq!(code, "E-GITREDIRECT");
        let (code, ..) = verdict(|_, repo| {
            symlink("/etc", repo.join(".git/refs/heads/etc")).unwrap();
        });
        assert_eq!(code, "E-GITREDIRECT");
        let (code, ..) = verdict(|sandbox, repo| {
            sandbox.commit(repo, "second");
            sandbox.git_in(repo, &["replace", "HEAD", "HEAD~1"]);
            sandbox.git_in(repo, &["pack-refs", "--all"]);
        });
        assert_eq!(code, "E-GITREDIRECT");
    }
}
