//! Hostile commits, made of raw objects.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use git2::Repository;

use super::super::testing::Sandbox;
use super::super::{init_bare, publish::publish};
use super::*;

const PLAIN: &str = "100644";

struct Made {
    _sandbox: Sandbox,
    path: PathBuf,
    repository: Repository,
}

impl Made {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let path = sandbox.path("repo.git");
        init_bare(&path, "main").unwrap();
        let repository = Repository::open(&path).unwrap();
        Self {
            _sandbox: sandbox,
            path,
            repository,
        }
    }

    fn write(&self, kind: ObjectType, bytes: &[u8]) -> Oid {
        self.repository.odb().unwrap().write(kind, bytes).unwrap()
    }

    fn blob(&self, text: &str) -> Oid {
        self.write(ObjectType::Blob, text.as_bytes())
    }

    /// A tree object exactly as given, sorted or not, valid or not.
    fn tree(&self, items: &[(&str, &[u8], Oid)]) -> Oid {
        let mut bytes = Vec::new();
        for (mode, name, id) in items {
            bytes.extend(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend(*name);
            bytes.push(0);
            bytes.extend(id.as_bytes());
        }
        self.write(ObjectType::Tree, &bytes)
    }

    fn commit(&self, tree: Oid) -> String {
        let text = format!("tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nm\n");
        self.write(ObjectType::Commit, text.as_bytes()).to_string()
    }

    fn error(&self, commit: &str) -> (&'static str, u8, String) {
        let started = Instant::now();
        let error = read_commit(&self.path, commit, None).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(2));
        (error.code(), error.exit_code(), error.to_string())
    }

    fn error_of(&self, items: &[(&str, &[u8], Oid)]) -> (&'static str, u8, String) {
        self.error(&self.commit(self.tree(items)))
    }

    /// The file of a loose object.
    fn loose(&self, id: Oid) -> PathBuf {
        let hex = id.to_string();
        let (folder, file) = hex.split_at(2);
        self.path.join("objects").join(folder).join(file)
    }

    fn damage(&self, id: Oid, bytes: &[u8]) {
        let file = self.loose(id);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
}

#[test]
fn names_and_modes_that_no_plain_tree_has_are_rejected() {
    let made = Made::new();
    let blob = made.blob("x");
    let empty = made.tree(&[]);
    for (mode, name, id, code) in [
        (PLAIN, b"..".as_slice(), blob, "E-TREE"),
        (PLAIN, b".", blob, "E-TREE"),
        (PLAIN, b"", blob, "E-TREE"),
        (PLAIN, b"a/b", blob, "E-TREE"),
        ("40000", b".git", empty, "E-GITDIR"),
        ("40000", b".GIT", empty, "E-GITDIR"),
        (PLAIN, b".gitmodules", blob, "E-GITDIR"),
        (PLAIN, b"\xff", blob, "E-NAME"),
        (PLAIN, b"a\x1b[2J", blob, "E-NAME"),
        ("120000", b"link", blob, "E-SYMLINK"),
        ("160000", b"sub", blob, "E-TREE"),
        ("100664", b"f", blob, "E-TREE"),
        ("0100644", b"f", blob, "E-TREE"),
        ("100644", b"f", empty, "E-TREE"),
        ("40000", b"d", blob, "E-TREE"),
    ] {
        let (found, exit, text) = made.error_of(&[(mode, name, id)]);
        assert_eq!((found, exit), (code, 2), "{mode} {name:?}: {text}");
        assert!(
            text.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
            "{text}"
        );
    }
    let (code, _, text) = made.error_of(&[(PLAIN, b"f", blob), (PLAIN, b"f", blob)]);
    assert_eq!(code, "E-TREE");
    assert!(text.contains("twice"), "{text}");
    let cut_off = made.write(ObjectType::Tree, b"100644 f\0abc");
    assert_eq!(made.error(&made.commit(cut_off)).0, "E-OBJECT");
}

#[test]
fn missing_damaged_and_swapped_objects_are_rejected_with_their_id() {
    let made = Made::new();
    let (gone, swapped, torn) = (made.blob("gone"), made.blob("swapped"), made.blob("torn"));
    std::fs::remove_file(made.loose(gone)).unwrap();
    let other = std::fs::read(made.loose(made.blob("other!!"))).unwrap();
    made.damage(swapped, &other);
    made.damage(torn, b"\x78\x01garbage");
    for id in [gone, swapped, torn] {
        let commit = made.commit(made.tree(&[(PLAIN, b"f", id)]));
        let (code, exit, text) = made.error(&commit);
        assert_eq!((code, exit), ("E-OBJECT", 2), "{text}");
        assert!(text.contains(&id.to_string()), "{text}");
    }
}

#[test]
fn only_a_full_commit_id_names_a_commit() {
    let made = Made::new();
    let commit = made.commit(made.tree(&[(PLAIN, b"f", made.blob("x"))]));
    for given in [
        "HEAD",
        "main",
        commit.split_at(39).0,
        &commit.to_uppercase(),
        "HEAD@{0}",
        "",
    ] {
        let (code, exit, _) = made.error(given);
        assert_eq!((code, exit), ("E-REV", 4), "{given}");
    }
    let absent = "1".repeat(40);
    assert_eq!(made.error(&absent).1, 4);
    let tag = format!("object {commit}\ntype commit\ntag v\ntagger A <a> 1 +0000\n\nm\n");
    let tag = made.write(ObjectType::Tag, tag.as_bytes()).to_string();
    let (code, exit, text) = made.error(&tag);
    assert_eq!((code, exit), ("E-TREE", 2));
    assert!(text.contains("not a commit"), "{text}");
    let id = Oid::from_str(&commit).unwrap();
    // A branch called like another commit's id does not lead to this one.
    let confusing = format!("refs/heads/{absent}");
    made.repository
        .reference(&confusing, id, false, "")
        .unwrap();
    assert_eq!(made.error(&absent).0, "E-COMMIT");
}

#[test]
fn a_tree_that_unfolds_without_end_stops_at_the_limits() {
    let made = Made::new();
    let names: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
    let blob = made.blob("x");
    // Ten entries on each of eight levels: 10^8 files in nine objects.
    let mut below = made.tree(
        &names
            .iter()
            .map(|name| (PLAIN, name.as_bytes(), blob))
            .collect::<Vec<_>>(),
    );
    for _ in 0..7 {
        let items: Vec<_> = names
            .iter()
            .map(|name| ("40000", name.as_bytes(), below))
            .collect();
        below = made.tree(&items);
    }
    let started = Instant::now();
    let error = read_commit(&made.path, &made.commit(below), None).unwrap_err();
    assert_eq!((error.code(), error.exit_code()), ("E-LIMIT", 3));
    // Unoptimised and beside other tests; far from the 10^8 entries in any case.
    assert!(started.elapsed() < Duration::from_secs(20));
    let mut deep = made.tree(&[(PLAIN, b"f", blob)]);
    for _ in 0..3000 {
        deep = made.tree(&[("40000", b"d", deep)]);
    }
    let (code, exit, text) = made.error(&made.commit(deep));
    assert_eq!((code, exit), ("E-LIMIT", 3));
    assert!(text.contains("depth"), "{text}");
}

#[test]
fn an_object_larger_than_the_limit_is_refused_by_its_header() {
    let made = Made::new();
    let commit = made.commit(made.tree(&[(PLAIN, b"f", made.blob("12345"))]));
    let limits = |file_bytes| Limits {
        file_bytes,
        ..Limits::DEFAULT
    };
    assert!(read_commit_within(&made.path, &commit, None, limits(5)).is_ok());
    let error = read_commit_within(&made.path, &commit, None, limits(4)).unwrap_err();
    assert_eq!((error.code(), error.exit_code()), ("E-LIMIT", 3));
    // A loose object that claims 1 EiB: zlib, one stored block with the header alone.
    let claimed = made.blob("claimed");
    made.damage(claimed, &stored(b"blob 1152921504606846976\0"));
    let commit = made.commit(made.tree(&[(PLAIN, b"f", claimed)]));
    let (code, exit, text) = made.error(&commit);
    assert_eq!((code, exit), ("E-LIMIT", 3), "{text}");
    assert!(text.contains("1152921504606846976"), "{text}");
}

#[test]
fn a_folder_is_found_by_its_path_and_nothing_else_is() {
    let made = Made::new();
    let inner = made.tree(&[(PLAIN, b"f", made.blob("x"))]);
    let outer = made.tree(&[("40000", b"b", inner), (PLAIN, b"c", made.blob("y"))]);
    let commit = made.commit(made.tree(&[("40000", b"a", outer)]));
    let read = |path| read_commit(&made.path, &commit, Some(path));
    assert_eq!(read("a/b").unwrap().into_keys().collect::<Vec<_>>(), ["f"]);
    assert_eq!(
        read("a").unwrap().into_keys().collect::<Vec<_>>(),
        ["b/f", "c"]
    );
    for path in ["", "a/c", "x", "a/../a", "/a", "a/"] {
        let error = read(path).unwrap_err();
        assert!(
            matches!(error, GitError::NoFolder { .. }),
            "{path}: {error}"
        );
    }
}

#[test]
fn nothing_that_the_repository_configures_is_run() {
    let made = Made::new();
    let identity = super::super::Identity {
        name: "A".to_owned(),
        email: "a@example.org".to_owned(),
    };
    let mut content = Tree::new();
    content.insert("f".to_owned(), Entry::text("x\r\n"));
    content.insert(".gitattributes".to_owned(), Entry::text("* filter=evil\n"));
    let mark = made.path.join("mark");
    let touch = format!("touch {}", mark.display());
    let mut config = made.repository.config().unwrap();
    for key in [
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.external",
        "gpg.program",
    ] {
        config.set_str(key, &touch).unwrap();
    }
    let hooks = made.path.join("hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for hook in ["pre-commit", "reference-transaction", "post-update"] {
        let file = hooks.join(hook);
        std::fs::write(&file, format!("#!/bin/sh\n{touch}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
    }
    let published = publish(&made.path, "main", "case", &content, "m", &identity, 1).unwrap();
    let read = read_commit(&made.path, &published.commit, Some("case")).unwrap();
    assert_eq!(read, content);
    assert!(!mark.exists());
}

/// Bytes as a zlib stream of one stored block (RFC 1950, RFC 1951 section 3.2.4).
fn stored(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let (mut low, mut high) = (1_u32, 0_u32);
    for &byte in bytes {
        low = (low + u32::from(byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    let mut out = vec![0x78, 0x01, 0x01];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(bytes);
    out.extend(((high << 16) | low).to_be_bytes());
    out
}
