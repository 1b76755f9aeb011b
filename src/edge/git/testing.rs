//! The git program in a clean environment, as the outside oracle of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::model::tree::{Entry, Tree};

/// A folder that is also the home of the git program, so that nothing of the machine counts.
pub(super) struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    pub(super) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs git and returns what it wrote, without the last line feed.
    pub(super) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.root.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.root.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([
                ("GIT_AUTHOR_NAME", "A U Thor"),
                ("GIT_AUTHOR_EMAIL", "author@example.org"),
                ("GIT_AUTHOR_DATE", "1700000000 +0100"),
                ("GIT_COMMITTER_NAME", "C O Mitter"),
                ("GIT_COMMITTER_EMAIL", "committer@example.org"),
                ("GIT_COMMITTER_DATE", "1700000100 -0230"),
            ])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {errors}");
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    pub(super) fn git_in(&self, repo: &Path, args: &[&str]) -> String {
        let mut all = vec!["-C", repo.to_str().unwrap()];
        all.extend(args);
        self.git(&all)
    }

    /// A new repository with a work tree on branch `main`, without a commit.
    pub(super) fn work_tree(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        self.git(&["init", "-q", "-b", "main", path.to_str().unwrap()]);
        path
    }

    /// Makes a commit without a file and returns its id.
    pub(super) fn commit(&self, repo: &Path, message: &str) -> String {
        self.git_in(repo, &["commit", "-q", "--allow-empty", "-m", message]);
        self.git_in(repo, &["rev-parse", "HEAD"])
    }
}

/// A small tree with folders, an executable file and names that git sorts unlike strings.
pub(super) fn sample() -> Tree {
    let mut tree = Tree::new();
    for path in [
        "README.md",
        "data/a",
        "data/a.b/c",
        "data/a-b",
        "data/a0",
        ".gitattributes",
    ] {
        tree.insert(path.to_owned(), Entry::text(format!("{path}\r\n")));
    }
    let script = Entry {
        bytes: b"#!/bin/sh\n".to_vec(),
        executable: true,
    };
    tree.insert("data/run.sh".to_owned(), script);
    tree
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
