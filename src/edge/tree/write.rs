//! Writing a tree of ours into a new directory, whole or not at all.
//!
//! The files are written into a temporary sibling, made durable, and renamed into
//! place; modes do not depend on the umask. An existing target is never touched.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::TreeError;
use crate::bundle::name::{collisions, hostile_fault, shown};
use crate::model::tree::{Entry, Tree};

/// Mode of a folder and of an executable file, the only ones git knows of besides [`PLAIN`].
const EXECUTABLE: u32 = 0o755;
/// Mode of any other file.
const PLAIN: u32 = 0o644;

/// Writes a tree into a new directory; on any error nothing is left behind.
///
/// # Errors
///
/// When the target exists, a path in the tree is no plain relative path, or the system
/// refuses a step.
pub fn write_directory(path: &Path, tree: &Tree) -> Result<(), TreeError> {
    accept(tree)?;
    let Some(name) = path.file_name() else {
        return Err(TreeError::Exists { path: label(path) });
    };
    if path.symlink_metadata().is_ok() {
        return Err(TreeError::Exists { path: label(path) });
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".partial-{}", std::process::id()));
    let mut partial = Partial::create(parent.join(hidden))?;
    fill(&partial.path, tree)?;
    rename(&partial.path, path)?;
    partial.placed = true;
    sync(parent)
}

/// The temporary sibling; removed when dropped before it is in place.
struct Partial {
    path: PathBuf,
    placed: bool,
}

impl Partial {
    fn create(path: PathBuf) -> Result<Self, TreeError> {
        // A partial of this very process id can only be left from a crash before a reboot,
        // or be in use by another thread: it is not ours to remove.
        fs::create_dir(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => TreeError::Exists { path: label(&path) },
            _ => failed("create", &path, source),
        })?;
        Ok(Self {
            path,
            placed: false,
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.placed {
            // The error that led here is the one to report.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn accept(tree: &Tree) -> Result<(), TreeError> {
    for path in tree.keys() {
        if let Some(fault) = hostile_fault(path) {
            return Err(TreeError::Unwritable {
                path: shown(path),
                why: fault.why,
            });
        }
    }
    match collisions(tree.keys().map(String::as_str)).first() {
        Some((path, _, _)) => Err(TreeError::Unwritable {
            path: shown(path),
            why: "collides with another name of the tree, or with one that differs only in case",
        }),
        None => Ok(()),
    }
}

fn fill(root: &Path, tree: &Tree) -> Result<(), TreeError> {
    let mut folders = vec![root.to_owned()];
    for (path, entry) in tree {
        let mut folder = root.to_owned();
        if let Some((folders_of_path, _)) = path.rsplit_once('/') {
            for component in folders_of_path.split('/') {
                folder.push(component);
                match fs::create_dir(&folder) {
                    Ok(()) => folders.push(folder.clone()),
                    Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(source) => return Err(failed("create", &folder, source)),
                }
            }
        }
        let target = root.join(path);
        write_file(&target, entry).map_err(|source| failed("write", &target, source))?;
    }
    // Deepest first: a folder is durable only with what it holds.
    for folder in folders.iter().rev() {
        fs::set_permissions(folder, Permissions::from_mode(EXECUTABLE))
            .map_err(|source| failed("set the mode of", folder, source))?;
        sync(folder)?;
    }
    Ok(())
}

fn write_file(path: &Path, entry: &Entry) -> io::Result<()> {
    let mode = if entry.executable { EXECUTABLE } else { PLAIN };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&entry.bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn rename(from: &Path, to: &Path) -> Result<(), TreeError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(TreeError::Exists { path: label(to) }),
        // A file system without the flag (some network ones): the check at the start must do;
        // rename itself still refuses a file and a folder with content.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::rename(from, to).map_err(|source| failed("rename into place", to, source))
        }
        Err(errno) => Err(failed("rename into place", to, errno.into())),
    }
}

fn sync(folder: &Path) -> Result<(), TreeError> {
    File::open(folder)
        .and_then(|handle| handle.sync_all())
        .map_err(|source| failed("make durable", folder, source))
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> TreeError {
    TreeError::Io {
        doing,
        path: label(path),
        source,
    }
}

fn label(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::edge::tree::read_directory;

    fn sample() -> Tree {
        let mut tree = Tree::new();
        for path in ["README.md", ".gitattributes", "data/a/b/c.tsv", "data/a/d"] {
            tree.insert(path.to_owned(), Entry::text(path));
        }
        let script = Entry {
            bytes: b"\0\xff binary".to_vec(),
            executable: true,
        };
        tree.insert("data/run.sh".to_owned(), script);
        tree
    }

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_written_is_read_back() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("out");
        write_directory(&target, &sample()).unwrap();
        assert_eq!(read_directory(&target).unwrap(), sample());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_existing_target_is_left_alone_whatever_it_is() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "kept").unwrap();
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for target in [&file, &folder, &link, Path::new("/"), Path::new("..")] {
            let error = write_directory(target, &sample()).unwrap_err();
            assert_eq!((error.code(), error.exit_code()), ("E-EXISTS", 4));
            assert!(error.to_string().contains(target.to_str().unwrap()));
        }
        assert_eq!(fs::read(&file).unwrap(), b"kept");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_path_out_of_the_directory_is_never_written() {
        let root = tempfile::tempdir().unwrap();
        for path in ["../x", "/tmp/x", "a/../../x", "a//x", "", ".git/hooks/x"] {
            let mut tree = sample();
            tree.insert(path.to_owned(), Entry::text("x"));
            let error = write_directory(&root.path().join("out"), &tree).unwrap_err();
            assert_eq!(error.exit_code(), 4, "{path}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut tree = sample();
        // One byte over NAME_MAX: the step fails in the middle, with the real system's error.
        tree.insert(format!("data/{}", "z".repeat(256)), Entry::text("x"));
        let error = write_directory(&root.path().join("out"), &tree).unwrap_err();
        assert!(
            matches!(error, TreeError::Io { doing: "write", .. }),
            "{error}"
        );
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_parent_that_takes_no_folder_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        for parent in [
            root.path().join("file"),
            root.path().join("absent"),
            "/proc".into(),
        ] {
            let error = write_directory(&parent.join("out"), &sample()).unwrap_err();
            assert_eq!(error.exit_code(), 4);
            assert!(
                error.to_string().contains(parent.to_str().unwrap()),
                "{error}"
            );
        }
    }

    #[test]
    fn modes_do_not_depend_on_the_umask() {
        // The umask belongs to the whole process, so each one gets a process of its own:
        // this test again, told by a variable to write only.
        const TARGET: &str = "REGBUNDLE_TEST_UMASK_TARGET";
        if let Some(target) = std::env::var_os(TARGET) {
            let mask = std::env::var("REGBUNDLE_TEST_UMASK").unwrap();
            let mask = u32::from_str_radix(&mask, 8).unwrap();
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
            write_directory(Path::new(&target), &sample()).unwrap();
            return;
        }
        let root = tempfile::tempdir().unwrap();
        for mask in ["002", "022", "077"] {
            let target = root.path().join(mask);
            let output = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "edge::tree::write::tests::modes_do_not_depend_on_the_umask",
                ])
                .env(TARGET, &target)
                .env("REGBUNDLE_TEST_UMASK", mask)
                .output()
                .unwrap();
            assert!(output.status.success());
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
            assert_eq!(mode(&target), 0o755);
            assert_eq!(mode(&target.join("data/a")), 0o755);
            assert_eq!(mode(&target.join("data/run.sh")), 0o755);
            assert_eq!(mode(&target.join("README.md")), 0o644);
        }
    }

    #[test]
    fn coreutils_alone_can_check_a_written_bundle() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("out");
        let mut content = sample();
        content.remove(".gitattributes");
        write_directory(&target, &crate::bundle::seal(&content, &[]).unwrap()).unwrap();
        for manifest in ["manifest-sha256.txt", "tagmanifest-sha256.txt"] {
            let output = Command::new("sha256sum")
                .args(["--strict", "--check", manifest])
                .current_dir(&target)
                .output()
                .unwrap();
            assert!(output.status.success(), "{manifest}");
            assert!(!output.stdout.is_empty());
        }
    }
}
