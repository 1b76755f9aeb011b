//! Publication against the git program.

use super::super::read_commit;
use super::super::testing::{Sandbox, sample};
use super::*;
use crate::edge::tree::write_directory;

const SECONDS: i64 = 1_700_000_000;

fn identity() -> Identity {
    Identity {
        name: "A U Thor".to_owned(),
        email: "author@example.org".to_owned(),
    }
}

fn put(repo: &Path, branch: &str, folder: &str, tree: &Tree) -> Result<Published, GitError> {
    let message = "bundle: add\n\nBundle-Id: x\n";
    publish(repo, branch, folder, tree, message, &identity(), SECONDS)
}

fn bare(sandbox: &Sandbox, name: &str) -> PathBuf {
    let path = sandbox.path(name);
    init_bare(&path, "main").unwrap();
    path
}

#[test]
fn tree_and_commit_ids_are_those_of_the_git_program() {
    let sandbox = Sandbox::new();
    let repo = bare(&sandbox, "repo.git");
    let published = put(&repo, "main", "case", &sample()).unwrap();
    let oracle = sandbox.work_tree("oracle");
    write_directory(&oracle.join("case"), &sample()).unwrap();
    // The sample's attributes file is text of its own name, so git finds no rule in it.
    sandbox.git_in(&oracle, &["add", "-A"]);
    let root = sandbox.git_in(&oracle, &["write-tree"]);
    let folder = sandbox.git_in(&oracle, &["rev-parse", &format!("{root}:case")]);
    assert_eq!(published.tree, folder);
    let raw = format!(
        "tree {root}\nauthor A U Thor <author@example.org> {SECONDS} +0000\ncommitter A U Thor <author@example.org> {SECONDS} +0000\n\nbundle: add\n\nBundle-Id: x\n"
    );
    let file = sandbox.path("raw");
    fs::write(&file, raw).unwrap();
    let wanted = sandbox.git(&[
        "hash-object",
        "-t",
        "commit",
        "--literally",
        file.to_str().unwrap(),
    ]);
    assert_eq!(published.commit, wanted);
    assert_eq!(sandbox.git_in(&repo, &["rev-parse", "main"]), wanted);
    sandbox.git_in(&repo, &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn the_same_inputs_give_the_same_commit_in_another_repository() {
    let sandbox = Sandbox::new();
    let first = put(&bare(&sandbox, "a"), "main", "case", &sample()).unwrap();
    let second_repo = bare(&sandbox, "b");
    // Settings that would change what the git program does.
    for (key, value) in [
        ("commit.gpgsign", "true"),
        ("gpg.program", "/nonexistent"),
        ("core.autocrlf", "true"),
        ("core.hooksPath", "/nonexistent"),
        ("user.name", "Other"),
        ("i18n.commitEncoding", "ISO-8859-1"),
    ] {
        sandbox.git_in(&second_repo, &["config", key, value]);
    }
    let second = put(&second_repo, "main", "case", &sample()).unwrap();
    assert_eq!(first, second);
    assert!(first.created);
    assert_eq!(first.parent, None);
}

#[test]
fn what_is_published_is_read_back() {
    let sandbox = Sandbox::new();
    let repo = bare(&sandbox, "repo.git");
    let published = put(&repo, "main", "case", &sample()).unwrap();
    assert_eq!(
        read_commit(&repo, &published.commit, Some("case")).unwrap(),
        sample()
    );
    let whole = read_commit(&repo, &published.commit, None).unwrap();
    assert_eq!(whole.len(), sample().len());
    assert!(whole.contains_key("case/data/run.sh"));
}

#[test]
fn publishing_the_same_tree_again_makes_no_commit() {
    let sandbox = Sandbox::new();
    let repo = bare(&sandbox, "repo.git");
    let mut tree = sample();
    let bag_info = "External-Identifier: case\n".as_bytes().to_vec();
    tree.insert("bag-info.txt".to_owned(), Entry::text(bag_info));
    let first = put(&repo, "main", "case", &tree).unwrap();
    let again = put(&repo, "main", "case", &tree).unwrap();
    assert!(!again.created);
    assert_eq!(again.commit, first.commit);
    let count = sandbox.git_in(&repo, &["rev-list", "--count", "main"]);
    assert_eq!(count, "1");
}

#[test]
fn other_paths_of_the_branch_stay_and_the_folder_is_replaced() {
    let sandbox = Sandbox::new();
    let repo = sandbox.work_tree("repo");
    fs::write(repo.join("NOTES"), "kept").unwrap();
    std::os::unix::fs::symlink("NOTES", repo.join("link")).unwrap();
    fs::create_dir(repo.join("case")).unwrap();
    fs::write(repo.join("case/old"), "gone").unwrap();
    fs::write(
        repo.join("case/bag-info.txt"),
        "Bagging-Date: 2026-01-01\nExternal-Identifier: case\n",
    )
    .unwrap();
    sandbox.git_in(&repo, &["add", "-A"]);
    let base = sandbox.commit(&repo, "base");
    sandbox.git_in(&repo, &["switch", "-q", "--detach"]);
    let published = put(&repo, "main", "case", &sample()).unwrap();
    assert_eq!(published.parent.as_deref(), Some(base.as_str()));
    let list = sandbox.git_in(&repo, &["ls-tree", "-r", "main"]);
    assert!(
        list.contains("100644 blob") && list.contains("\tNOTES"),
        "{list}"
    );
    assert!(
        list.contains("120000 blob") && list.contains("\tlink"),
        "{list}"
    );
    assert!(!list.contains("case/old"), "{list}");
    // Neither index nor work tree took part.
    assert_eq!(sandbox.git_in(&repo, &["status", "--porcelain"]), "");
    assert!(repo.join("case/old").exists());
}

#[test]
fn a_folder_of_the_same_name_that_is_no_tree_of_the_case_is_never_replaced() {
    let sandbox = Sandbox::new();
    let repo = sandbox.work_tree("repo");
    fs::create_dir(repo.join("case")).unwrap();
    for (file, text) in [
        ("case/thesis.tex", "years of work"),
        ("case/bag-info.txt", "External-Identifier: another-case\n"),
    ] {
        fs::write(repo.join(file), text).unwrap();
        sandbox.git_in(&repo, &["add", "-A"]);
        let base = sandbox.commit(&repo, file);
        sandbox.git_in(&repo, &["switch", "-q", "--detach"]);
        let error = put(&repo, "main", "case", &sample()).unwrap_err();
        assert!(matches!(error, GitError::Name { .. }), "{error}");
        assert_eq!(sandbox.git_in(&repo, &["rev-parse", "main"]), base);
        sandbox.git_in(&repo, &["switch", "-q", "main"]);
    }
}

#[test]
fn measurements_of_another_plan_are_never_replaced() {
    let sandbox = Sandbox::new();
    let repo = bare(&sandbox, "repo.git");
    let planned = |plan: &str, note: &str| {
        let mut tree = Tree::new();
        for (path, text) in [
            ("bag-info.txt", "External-Identifier: case\n"),
            ("data/plan.json", plan),
            ("data/note", note),
        ] {
            let entry = Entry {
                bytes: text.as_bytes().to_vec(),
                executable: false,
            };
            tree.insert(path.to_owned(), entry);
        }
        tree
    };
    let first = put(&repo, "main", "case", &planned("{1}", "a")).unwrap();
    let error = put(&repo, "main", "case", &planned("{2}", "a")).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("data/plan.json") && message.contains("--branch"),
        "{message}"
    );
    let head = sandbox.git_in(&repo, &["rev-parse", "main"]);
    assert_eq!(head, first.commit);
    // The same plan with more in the tree, and another branch, are ways on.
    let more = put(&repo, "main", "case", &planned("{1}", "b")).unwrap();
    assert_eq!(more.parent, Some(first.commit));
    assert!(
        put(&repo, "other", "case", &planned("{2}", "a"))
            .unwrap()
            .created
    );
}

#[test]
fn a_branch_that_a_work_tree_shows_is_refused_with_the_command_to_use() {
    let sandbox = Sandbox::new();
    let repo = sandbox.work_tree("repo");
    let refused = |branch: &str, place: &Path| {
        let error = put(&repo, branch, "case", &sample()).unwrap_err();
        assert!(matches!(error, GitError::CheckedOut { .. }), "{error}");
        let place = place.canonicalize().unwrap();
        let command = format!("git -C {} switch --detach", place.display());
        assert!(
            error
                .to_string()
                .replace("/ switch", " switch")
                .contains(&command),
            "{error}"
        );
    };
    // Unborn, then with a commit, then in a linked work tree.
    refused("main", &repo);
    let head = sandbox.commit(&repo, "first");
    refused("main", &repo);
    let linked = sandbox.path("linked");
    sandbox.git_in(
        &repo,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "side",
            linked.to_str().unwrap(),
        ],
    );
    refused("side", &linked);
    assert_eq!(
        sandbox.git_in(&repo, &["rev-parse", "main", "side"]),
        format!("{head}\n{head}")
    );
    assert!(put(&repo, "evidence", "case", &sample()).unwrap().created);
}

#[test]
fn a_branch_that_moved_meanwhile_is_not_overwritten() {
    let sandbox = Sandbox::new();
    let path = bare(&sandbox, "repo.git");
    let first = put(&path, "main", "case", &sample()).unwrap();
    let second = put(&path, "main", "other", &sample()).unwrap();
    let repository = open(&path).unwrap();
    let id = |text: &str| Oid::from_str(text).unwrap();
    let (old, new) = (id(&first.commit), id(&second.commit));
    let name = "refs/heads/main";
    let stale = move_branch(&repository, name, old, Some(old)).unwrap_err();
    assert_eq!(stale.code(), ErrorCode::Modified);
    let exists = move_branch(&repository, name, old, None).unwrap_err();
    assert_eq!(exists.code(), ErrorCode::Exists);
    assert_eq!(repository.refname_to_id(name).unwrap(), new);
}

#[test]
fn names_that_git_or_the_format_cannot_hold_are_refused_before_anything_is_written() {
    let sandbox = Sandbox::new();
    let repo = bare(&sandbox, "repo.git");
    for (branch, folder) in [
        ("main", "a/b"),
        ("main", ".git"),
        ("main", ""),
        ("main", ".."),
        ("refs/heads/main", "case"),
        ("a..b", "case"),
        ("-x", "case"),
        ("", "case"),
    ] {
        let error = put(&repo, branch, folder, &sample()).unwrap_err();
        assert_eq!(error.exit_code(), 4, "{branch} {folder}");
    }
    for path in ["../x", "a/.git/x", "data/a/b"] {
        let mut tree = sample();
        tree.insert(path.to_owned(), Entry::text("x"));
        assert!(put(&repo, "main", "case", &tree).is_err(), "{path}");
    }
    let nobody = Identity {
        name: "<>".to_owned(),
        email: String::new(),
    };
    let error = publish(&repo, "main", "case", &sample(), "m", &nobody, SECONDS).unwrap_err();
    assert!(matches!(error, GitError::Name { .. }), "{error}");
    assert_eq!(sandbox.git_in(&repo, &["for-each-ref"]), "");
}

#[test]
fn a_new_repository_takes_no_existing_place() {
    let sandbox = Sandbox::new();
    let repo = bare(&sandbox, "repo.git");
    assert_eq!(
        sandbox.git_in(&repo, &["symbolic-ref", "HEAD"]),
        "refs/heads/main"
    );
    let error = init_bare(&repo, "main").unwrap_err();
    assert!(matches!(error, GitError::Exists { .. }), "{error}");
    let error = init_bare(&repo.join("config/repo.git"), "main").unwrap_err();
    assert!(matches!(error, GitError::Git { .. }), "{error}");
    assert!(init_bare(&sandbox.path("other.git"), "a..b").is_err());
    assert!(!sandbox.path("other.git").exists());
}

#[test]
fn nothing_of_the_users_environment_or_configuration_counts() {
    let sandbox = Sandbox::new();
    let config = "[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n[init]\n\tdefaultBranch = odd\n\ttemplateDir = /nonexistent\n[i18n]\n\tcommitEncoding = UTF-16\n";
    fs::write(sandbox.path(".gitconfig"), config).unwrap();
    // The environment belongs to the whole process: other tests again, in a process of their own.
    for test in [
        "tree_and_commit_ids_are_those_of_the_git_program",
        "what_is_published_is_read_back",
        "a_new_repository_takes_no_existing_place",
    ] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("edge::git::publish::tests::{test}")])
            .envs([
                ("GIT_DIR", "/nonexistent"),
                ("GIT_WORK_TREE", "/nonexistent"),
                ("GIT_INDEX_FILE", "/nonexistent"),
                ("GIT_OBJECT_DIRECTORY", "/nonexistent"),
                ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "/nonexistent"),
                ("GIT_AUTHOR_NAME", "Other"),
                ("GIT_COMMITTER_DATE", "1 +0900"),
                ("GIT_NAMESPACE", "other"),
                ("TZ", "Asia/Tokyo"),
                ("LC_ALL", "C"),
            ])
            .env("HOME", sandbox.path(""))
            .env("GIT_CONFIG_GLOBAL", sandbox.path(".gitconfig"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }
}
