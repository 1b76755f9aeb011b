//! Reading a directory that others wrote into a tree.
//!
//! Every name is opened below the root with `openat2`, first without any access
//! (`O_PATH`), so that a link is not followed and a FIFO or device is not touched;
//! size and kind are known before a byte is read, and are compared again afterwards.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2};
use rustix::io::Errno;

use super::TreeError;
use crate::bundle::limits::{Budget, Limits};
use crate::bundle::name::{hostile_fault, shown};
use crate::model::tree::{Entry, Tree};

/// What was read, and what is odd about it without being wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The files.
    pub tree: Tree,
    /// Files with more than one name, some perhaps outside of the tree (W-HARDLINK).
    pub hard_links: Vec<String>,
}

/// Reads a directory within the default limits.
///
/// # Errors
///
/// When something in it is a link or special file, changes while read, has a name that
/// no tree may have, exceeds a limit, or cannot be read.
pub fn read_directory(path: &Path) -> Result<Tree, TreeError> {
    read_directory_within(path, Limits::DEFAULT).map(|reading| reading.tree)
}

/// Reads a directory within the limits given.
///
/// # Errors
///
/// As [`read_directory`].
pub fn read_directory_within(path: &Path, limits: Limits) -> Result<Reading, TreeError> {
    let label = shown(&path.to_string_lossy());
    let root = open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| TreeError::Io {
        doing: "open the directory",
        path: label.clone(),
        source: errno.into(),
    })?;
    let mut reader = Reader {
        label,
        root,
        budget: Budget::new(limits),
        pending: vec![String::new()],
        reading: Reading {
            tree: Tree::new(),
            hard_links: Vec::new(),
        },
    };
    while let Some(folder) = reader.pending.pop() {
        reader.folder(&folder)?;
    }
    reader.reading.hard_links.sort();
    Ok(reader.reading)
}

struct Reader {
    /// The root as the user named it, for messages.
    label: String,
    root: OwnedFd,
    budget: Budget,
    /// Folders still to read, from the root; names rather than descriptors, which are few.
    pending: Vec<String>,
    reading: Reading,
}

impl Reader {
    fn folder(&mut self, folder: &str) -> Result<(), TreeError> {
        let name = if folder.is_empty() { "." } else { folder };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = self.open(self.root.as_fd(), name, flags, folder)?;
        let listing = Dir::read_from(&handle)
            .map_err(|errno| self.io("list the directory", folder, errno))?;
        for item in listing {
            let item = item.map_err(|errno| self.io("list the directory", folder, errno))?;
            if matches!(item.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            self.item(&handle, folder, item.file_name())?;
        }
        Ok(())
    }

    fn item(&mut self, folder_fd: &OwnedFd, folder: &str, raw: &CStr) -> Result<(), TreeError> {
        let lossy = raw.to_string_lossy();
        let path = if folder.is_empty() {
            lossy.clone().into_owned()
        } else {
            format!("{folder}/{lossy}")
        };
        let Ok(name) = raw.to_str() else {
            return Err(self.rejected("E-NAME", &path, "has a name that is not UTF-8: rename it"));
        };
        self.budget.entry(&path)?;
        if let Some(fault) = hostile_fault(&path) {
            let why = match (fault.code, folder) {
                ("E-GITDIR", "") => {
                    "is a git repository in the place of a bundle: name the bundle's folder inside of it, or give REPOSITORY@COMMIT"
                }
                ("E-GITDIR", _) => "has a name that git acts on: take it out of the tree",
                _ => "has a control, direction or invisible character in its name: rename it",
            };
            return Err(self.rejected(fault.code, &path, why));
        }
        // Opening with O_PATH touches neither a FIFO nor a device.
        let probe = self.open(
            folder_fd.as_fd(),
            name,
            OFlags::PATH | OFlags::NOFOLLOW,
            &path,
        )?;
        let seen = self.stat(&probe, &path)?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::Directory => self.pending.push(path),
            FileType::RegularFile => self.file(folder_fd, name, &path, &seen)?,
            FileType::Symlink => return Err(self.symlink(&path)),
            _ => {
                return Err(self.rejected(
                    "E-NOTREG",
                    &path,
                    "is a FIFO, socket or device, a bundle holds plain files: take it out",
                ));
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        folder_fd: &OwnedFd,
        name: &str,
        path: &str,
        seen: &Stat,
    ) -> Result<(), TreeError> {
        let size = u64::try_from(seen.st_size).unwrap_or(u64::MAX);
        self.budget.file(path, size)?;
        // NONBLOCK: should the name be a FIFO by now, this must not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = self.open(folder_fd.as_fd(), name, flags, path)?;
        let mut file = File::from(handle);
        let before = self.stat(&file, path)?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let wanted = size.saturating_add(1);
        if same(seen, &before) {
            (&mut file)
                .take(wanted)
                .read_to_end(&mut bytes)
                .map_err(|source| TreeError::Io {
                    doing: "read",
                    path: self.place(path),
                    source,
                })?;
        }
        let after = self.stat(&file, path)?;
        if !same(seen, &before)
            || !same(&before, &after)
            || u64::try_from(bytes.len()).ok() != Some(size)
        {
            let why = "changed while it was read: wait until nothing writes it, then try again";
            return Err(self.rejected("E-CHANGED", path, why));
        }
        if after.st_nlink > 1 {
            self.reading.hard_links.push(path.to_owned());
        }
        // Git looks at the owner's bit alone.
        let executable = Mode::from_raw_mode(after.st_mode).contains(Mode::XUSR);
        let entry = Entry { bytes, executable };
        self.reading.tree.insert(path.to_owned(), entry);
        Ok(())
    }

    fn open(
        &self,
        folder: BorrowedFd<'_>,
        name: &str,
        flags: OFlags,
        path: &str,
    ) -> Result<OwnedFd, TreeError> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let opened = openat2(
            folder,
            name,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        );
        opened.map_err(|errno| match errno {
            Errno::LOOP => self.symlink(path),
            Errno::XDEV => TreeError::OtherMount {
                path: self.place(path),
            },
            Errno::NXIO => self.rejected(
                "E-NOTREG",
                path,
                "is a socket or device, a bundle holds plain files: take it out",
            ),
            other => self.io("open", path, other),
        })
    }

    fn stat(&self, handle: impl AsFd, path: &str) -> Result<Stat, TreeError> {
        fstat(handle).map_err(|errno| self.io("examine", path, errno))
    }

    fn symlink(&self, path: &str) -> TreeError {
        let why = "is a symbolic link, a bundle holds plain files: put the content in its place";
        self.rejected("E-SYMLINK", path, why)
    }

    fn rejected(&self, code: &'static str, path: &str, why: &'static str) -> TreeError {
        TreeError::Rejected {
            code,
            path: self.place(path),
            why,
        }
    }

    fn io(&self, doing: &'static str, path: &str, errno: Errno) -> TreeError {
        TreeError::Io {
            doing,
            path: self.place(path),
            source: errno.into(),
        }
    }

    fn place(&self, path: &str) -> String {
        let root = self.label.trim_end_matches('/');
        if path.is_empty() {
            self.label.clone()
        } else {
            format!("{root}/{}", shown(path))
        }
    }
}

/// Whether two looks saw one file that nobody wrote to in between.
fn same(one: &Stat, other: &Stat) -> bool {
    let key = |stat: &Stat| {
        (
            (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_size),
            (stat.st_mtime, stat.st_mtime_nsec),
            (stat.st_ctime, stat.st_ctime_nsec),
        )
    };
    key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    /// A directory with one good file, after `change`, read.
    fn read_after(change: impl FnOnce(&Path)) -> Result<Tree, TreeError> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        fs::write(root.path().join("data/a"), "1").unwrap();
        change(root.path());
        read_directory(root.path())
    }

    fn verdict(change: impl FnOnce(&Path)) -> (&'static str, u8, String) {
        let started = Instant::now();
        let error = read_after(change).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(2));
        (error.code(), error.exit_code(), error.to_string())
    }

    #[test]
    fn plain_files_are_read_with_their_mode() {
        let tree = read_after(|root| {
            fs::write(root.join("run"), "x").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(root.join("run"), mode).unwrap();
            fs::create_dir(root.join("empty")).unwrap();
        })
        .unwrap();
        assert_eq!(tree.keys().collect::<Vec<_>>(), ["data/a", "run"]);
        assert!(tree["run"].executable);
        assert!(!tree["data/a"].executable);
    }

    #[test]
    fn no_symbolic_link_is_followed_wherever_it_points() {
        for (target, link) in [
            ("/etc/passwd", "data/out"),
            ("/etc", "data/folder"),
            ("a", "data/inside"),
            ("data/a", "README.md"),
            ("nowhere", "manifest-sha256.txt"),
        ] {
            let (code, exit, text) = verdict(|root| symlink(target, root.join(link)).unwrap());
            assert_eq!((code, exit), ("E-SYMLINK", 2));
            assert!(text.contains(link), "{text}");
        }
    }

    #[test]
    fn a_fifo_or_socket_is_rejected_without_waiting_for_it() {
        let (code, exit, text) =
            verdict(|root| mkfifoat(CWD, root.join("data/f"), Mode::RUSR).unwrap());
        assert_eq!((code, exit), ("E-NOTREG", 2));
        assert!(text.contains("data/f"), "{text}");
        let (code, exit, _) = verdict(|root| {
            UnixListener::bind(root.join("data/s")).unwrap();
        });
        assert_eq!((code, exit), ("E-NOTREG", 2));
    }

    #[test]
    fn an_oversize_sparse_file_is_refused_before_it_is_read() {
        let (code, exit, text) = verdict(|root| {
            let file = File::create(root.join("data/big")).unwrap();
            file.set_len(1 << 40).unwrap();
        });
        assert_eq!((code, exit), ("E-LIMIT", 3));
        assert!(
            text.contains("data/big") && text.contains("67108864"),
            "{text}"
        );
    }

    #[test]
    fn a_folder_too_deep_is_refused_and_the_limit_itself_is_read() {
        let make = |depth: usize| {
            move |root: &Path| {
                let folder = root.join(vec!["d"; depth - 1].join("/"));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("f"), "x").unwrap();
            }
        };
        assert_eq!(read_after(make(16)).unwrap().len(), 2);
        assert_eq!(verdict(make(17)).0, "E-LIMIT");
    }

    #[test]
    fn the_number_of_entries_is_counted_while_listing() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(root.path().join(name), "x").unwrap();
        }
        let limits = |entries| Limits {
            entries,
            ..Limits::DEFAULT
        };
        assert!(read_directory_within(root.path(), limits(3)).is_ok());
        let error = read_directory_within(root.path(), limits(2)).unwrap_err();
        assert_eq!(error.code(), "E-LIMIT");
    }

    #[test]
    fn a_repository_is_not_taken_for_a_bundle() {
        for name in [".git", "data/.git", "data/.GIT"] {
            let (code, exit, text) = verdict(|root| fs::create_dir(root.join(name)).unwrap());
            assert_eq!((code, exit), ("E-GITDIR", 2));
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn names_that_lie_on_a_screen_are_rejected_and_shown_escaped() {
        use std::os::unix::ffi::OsStrExt as _;
        for raw in [
            b"a\x1b[2J".as_slice(),
            b"a\nb",
            b"\xff",
            "a\u{202e}b".as_bytes(),
        ] {
            let (code, exit, text) = verdict(|root| {
                let name = std::ffi::OsStr::from_bytes(raw);
                fs::write(root.join("data").join(name), "x").unwrap();
            });
            assert_eq!((code, exit), ("E-NAME", 2));
            assert!(
                text.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_with_a_second_name_is_noted() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new_in(root.path().parent().unwrap()).unwrap();
        fs::hard_link(outside.path(), root.path().join("linked")).unwrap();
        let reading = read_directory_within(root.path(), Limits::DEFAULT).unwrap();
        assert_eq!(reading.hard_links, ["linked"]);
    }

    #[test]
    fn a_file_that_grows_between_the_looks_is_not_the_same() {
        let mut file = tempfile::tempfile().unwrap();
        let before = fstat(&file).unwrap();
        assert!(same(&before, &fstat(&file).unwrap()));
        std::io::Write::write_all(&mut file, b"more").unwrap();
        assert!(!same(&before, &fstat(&file).unwrap()));
    }

    #[test]
    fn a_missing_directory_and_a_file_are_named_with_what_the_system_said() {
        for path in ["/nonexistent/bundle", "/etc/passwd"] {
            let error = read_directory(Path::new(path)).unwrap_err();
            assert_eq!(error.exit_code(), 4);
            assert!(error.to_string().contains(path), "{error}");
        }
    }

    #[test]
    fn another_file_system_inside_is_refused() {
        // /dev holds the mounts /dev/pts and /dev/shm on every Linux; links and devices may
        // come first, so the mount is opened alone.
        let root = open("/dev", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let reader = Reader {
            label: "/dev".to_owned(),
            root,
            budget: Budget::new(Limits::DEFAULT),
            pending: Vec::new(),
            reading: Reading {
                tree: Tree::new(),
                hard_links: Vec::new(),
            },
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let error = reader
            .open(reader.root.as_fd(), "pts", flags, "pts")
            .unwrap_err();
        assert_eq!((error.code(), error.exit_code()), ("E-MOUNT", 3));
    }
}
