//! The evidence tree: a valid bag, the same bytes everywhere, and no byte can change unseen.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise, and says how much it tried"
)]

mod common;

use std::path::{Path, PathBuf};

use common::{
    CASE_ID, answer, changed_since, clean, fresh_case, has, has_git, has_python, ingest_whole,
    published_bundle, published_case, read_tree, regbundle, run, snapshot, text, works, write_tree,
};
use regbundle::bundle::{IntegrityFinding, bundle_id, check};
use regbundle::edge::git::read_commit;
use regbundle::model::tree::Tree;
use serde_json::Value;

/// Any number: it makes the flipped bytes the same in every run.
const SEED: u64 = 0x5EED_0FF1_1B50;
const RANDOM_FLIPS: u64 = 500;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

fn flipped(tree: &Tree, path: &str, at: usize, mask: u8) -> Tree {
    let mut bad = tree.clone();
    bad.get_mut(path).unwrap().bytes[at] ^= mask;
    bad
}

#[track_caller]
fn names_it(findings: &[IntegrityFinding], path: &str, at: usize) {
    assert!(
        findings
            .iter()
            .any(|found| found.path == path || found.message.contains(path)),
        "{path} byte {at}: {findings:?}"
    );
}

/// Publishes a case as JSON.
fn publish(case: &Path, repo: &Path, arguments: &[&str]) -> Value {
    answer(
        regbundle()
            .arg("publish")
            .arg(case)
            .arg("--repo")
            .arg(repo)
            .args(arguments)
            .args(["--format", "json"]),
    )
    .expect(0)
    .json()
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    answer(
        clean("git")
            .current_dir(folder)
            .env("HOME", folder)
            .args(arguments),
    )
    .expect(0)
    .stdout
    .trim()
    .to_owned()
}

#[test]
fn sha256sum_accepts_both_manifests() {
    if !has("sha256sum", works("sha256sum", &["--version"])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, tree) = published_bundle(folder.path());
    let mut checked = 0;
    for manifest in ["manifest-sha256.txt", "tagmanifest-sha256.txt"] {
        let said = answer(
            clean("sha256sum")
                .current_dir(&tree)
                .args(["--strict", "-c", manifest]),
        )
        .expect(0);
        checked += said
            .stdout
            .lines()
            .filter(|line| line.ends_with(": OK"))
            .count();
    }
    // Every file but the tag manifest stands in one of the two.
    assert_eq!(checked, read_tree(&tree).len() - 1);
}

#[test]
fn bagit_python_accepts_the_tree() {
    if !has_python() || !has("bagit", works("python3", &["-c", "import bagit"])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, tree) = published_bundle(folder.path());
    answer(
        clean("python3")
            .args(["-m", "bagit", "--validate"])
            .arg(&tree),
    )
    .expect(0);
}

#[test]
fn an_untouched_tree_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let (_, tree) = published_bundle(folder.path());
    let said = run([Path::new("verify"), &tree]).expect(0);
    let id = bundle_id(&read_tree(&tree)).unwrap();
    assert!(said.stdout.contains(&id), "{}", said.stdout);
}

#[test]
fn one_flipped_byte_anywhere_is_found_and_its_file_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_, out) = published_bundle(folder.path());
    let good = read_tree(&out);
    assert_eq!(check(&good), []);
    let mut flips = 0_u32;
    for (path, entry) in &good {
        for at in [0, entry.bytes.len() - 1] {
            for mask in [0x01, 0x20, 0x80] {
                names_it(&check(&flipped(&good, path, at, mask)), path, at);
                flips += 1;
            }
        }
    }
    let ends = flips;
    let total: usize = good.values().map(|entry| entry.bytes.len()).sum();
    let mut random = Random(SEED);
    for _ in 0..RANDOM_FLIPS {
        let mut at = usize::try_from(random.below(u64::try_from(total).unwrap())).unwrap();
        let bit = random.below(8);
        let (path, _) = good
            .iter()
            .find(|(_, entry)| {
                let inside = at < entry.bytes.len();
                if !inside {
                    at -= entry.bytes.len();
                }
                inside
            })
            .unwrap();
        names_it(&check(&flipped(&good, path, at, 1 << bit)), path, at);
        flips += 1;
    }
    eprintln!(
        "{flips} flips in {} files of {total} bytes: {ends} at the ends, {RANDOM_FLIPS} random",
        good.len()
    );
    let wanted = 6 * good.len() + usize::try_from(RANDOM_FLIPS).unwrap();
    assert!(good.len() > 30);
    assert_eq!(usize::try_from(flips).unwrap(), wanted);
}

#[test]
fn verify_rejects_a_flipped_byte_of_each_file_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_, out) = published_bundle(folder.path());
    let good = read_tree(&out);
    for (path, entry) in &good {
        let mut bytes = entry.bytes.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x01;
        std::fs::write(out.join(path), &bytes).unwrap();
        for command in ["verify", "audit"] {
            let said = run([Path::new(command), &out]).expect(2);
            assert!(
                said.said().contains(path),
                "{command} {path}: {}",
                said.said()
            );
        }
        std::fs::write(out.join(path), &entry.bytes).unwrap();
    }
    run([Path::new("verify"), &out]).expect(0);
}

#[test]
fn a_file_too_many_or_too_few_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_, out) = published_bundle(folder.path());
    std::fs::write(out.join("data/extra.txt"), "x\n").unwrap();
    let said = run([Path::new("verify"), &out]).expect(2);
    assert!(said.stdout.contains("data/extra.txt"), "{}", said.stdout);
    std::fs::remove_file(out.join("data/extra.txt")).unwrap();
    std::fs::remove_file(out.join("data/plan.json")).unwrap();
    let said = run([Path::new("verify"), &out]).expect(2);
    assert!(said.stdout.contains("data/plan.json"), "{}", said.stdout);
}

#[test]
fn folder_umask_zone_language_and_home_change_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let inside = case.file_name().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut answers = Vec::new();
    for (index, (umask, zone, language, home, user)) in [
        ("002", "UTC", "C", "/nonexistent", "nobody"),
        (
            "022",
            "Asia/Kathmandu",
            "de_DE.UTF-8",
            "/home/reporter",
            "reporter",
        ),
        (
            "077",
            "America/St_Johns",
            "tr_TR.UTF-8",
            "/home/maintainer",
            "maintainer",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (cwd, named) = if index == 1 {
            (elsewhere.as_path(), case.clone())
        } else {
            (folder.path(), PathBuf::from(inside))
        };
        let surrounded = |arguments: &[&str]| {
            let mut command = clean("/bin/sh");
            command
                .current_dir(cwd)
                .args(["-c", "umask \"$0\"; exec \"$@\"", umask])
                .arg(env!("CARGO_BIN_EXE_regbundle"))
                .args(["--format", "json"])
                .args(arguments)
                .env("TZ", zone)
                .env("LANG", language)
                .env("LC_ALL", language)
                .env("HOME", home)
                .env("USER", user)
                .env("LOGNAME", user)
                .env_remove("SUDO_USER");
            command
        };
        let out = folder.path().join(format!("tree-{index}"));
        let bundled = answer(surrounded(&["bundle"]).arg(&named).arg("--out").arg(&out));
        let bundled = bundled.expect(0).json();
        let repo = folder.path().join(format!("{index}.git"));
        let published = answer(
            surrounded(&["publish", "--init"])
                .arg(&named)
                .arg("--repo")
                .arg(&repo),
        );
        let published = published.expect(0).json();
        assert_eq!(bundled["bundle_id"], published["bundle_id"]);
        let commit = published["commit"].as_str().unwrap().to_owned();
        let committed = read_commit(&repo, &commit, Some(CASE_ID)).unwrap();
        assert_eq!(committed, read_tree(&out));
        answers.push((
            bundled["bundle_id"].clone(),
            published["tree"].clone(),
            commit.clone(),
            committed,
        ));
        if has_git() {
            let tree = git(&repo, &["rev-parse", &format!("{commit}:{CASE_ID}")]);
            assert_eq!(published["tree"], tree);
            git(&repo, &["fsck", "--strict"]);
        }
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn source_date_epoch_is_the_date_of_everything() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let bundled = |name: &str, epoch: Option<&str>| {
        let out = folder.path().join(name);
        let mut command = regbundle();
        command.arg("bundle").arg(&case).arg("--out").arg(&out);
        if let Some(epoch) = epoch {
            command.env("SOURCE_DATE_EPOCH", epoch);
        }
        answer(&mut command).expect(0);
        read_tree(&out)
    };
    // 1700000000 is 14 November 2023, 22:13:20 UTC (date -u -d @1700000000).
    let (one, two) = (
        bundled("one", Some("1700000000")),
        bundled("two", Some("1700000000")),
    );
    assert_eq!(one, two);
    assert!(text(&one, "bag-info.txt").contains("Bagging-Date: 2023-11-14\n"));
    let tool: Value = serde_json::from_str(&text(&one, "data/tool.json")).unwrap();
    assert_eq!(tool["date_seconds"], 1_700_000_000);
    // Without it the date is that of the last record: the journal's, not that of bundling.
    assert_eq!(bundled("three", None), bundled("four", None));
    assert_ne!(bundle_id(&bundled("five", None)), bundle_id(&one));
    let mail = answer(
        regbundle()
            .arg("report")
            .arg(&case)
            .env("SOURCE_DATE_EPOCH", "1700000000"),
    )
    .expect(0)
    .stdout;
    assert!(
        mail.contains("\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n"),
        "{mail}"
    );
}

#[test]
fn a_source_date_epoch_that_is_no_number_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let before = snapshot(folder.path());
    for wrong in ["yesterday", "", "1.5", "-1", "99999999999999"] {
        let said = answer(
            regbundle()
                .arg("bundle")
                .arg(&case)
                .arg("--out")
                .arg(folder.path().join("tree"))
                .env("SOURCE_DATE_EPOCH", wrong),
        )
        .expect(4);
        assert!(said.stderr.contains("SOURCE_DATE_EPOCH"), "{}", said.stderr);
    }
    assert!(changed_since(&before, folder.path()).is_empty());
}

#[test]
fn an_output_that_exists_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine.txt"), "mine\n").unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine\n").unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&empty, &link).unwrap();
    let before = snapshot(folder.path());
    for taken in [&full, &file, &empty, &link] {
        let said = answer(regbundle().arg("bundle").arg(&case).arg("--out").arg(taken)).expect(4);
        let name = taken.file_name().unwrap().to_str().unwrap();
        assert!(said.stderr.contains(name), "{}", said.stderr);
        let changed = changed_since(&before, folder.path());
        assert!(changed.is_empty(), "{name}: {changed:?}");
    }
}

#[test]
fn a_dry_run_refuses_what_the_real_one_refuses_and_writes_nothing() {
    let (first, other, bare) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let case = published_case(first.path());
    let repo = first.path().join("evidence.git");
    let absent = first.path().join("absent.git");
    publish(&case, &repo, &["--init"]);
    // The same case id and rows under another plan.
    let changed = fresh_case(other.path(), |text| {
        text.replacen("cv_pct = 3.0", "cv_pct = 2.5", 1)
    });
    ingest_whole(&changed);
    let lacking = fresh_case(bare.path(), |text| text);
    let publication = |case: &Path, repo: &Path, more: &[&str]| {
        answer(
            regbundle()
                .arg("publish")
                .arg(case)
                .arg("--repo")
                .arg(repo)
                .args(more),
        )
    };
    let before = snapshot(first.path());
    for (case, repo, more, part) in [
        (&changed, &repo, &[][..], "another data/plan.json"),
        (&case, &absent, &[][..], "absent.git"),
        (
            &case,
            &absent,
            &["--init", "--branch", "refs/x"][..],
            "no branch name",
        ),
        (&lacking, &repo, &[][..], "found no rows"),
    ] {
        let dry = publication(case, repo, &[more, &["--dry-run"]].concat());
        assert_ne!(dry.code, 0, "{part}: {}", dry.said());
        assert!(dry.stderr.contains(part), "{part}: {}", dry.stderr);
        let real = publication(case, repo, more);
        assert_eq!((dry.code, &dry.stderr), (real.code, &real.stderr), "{part}");
    }
    for (repo, more) in [(&repo, &[][..]), (&absent, &["--init"][..])] {
        let dry = publication(&case, repo, &[more, &["--dry-run"]].concat()).expect(0);
        assert!(dry.stdout.contains("commit 31 files"), "{}", dry.stdout);
    }
    assert!(changed_since(&before, first.path()).is_empty());
}

#[test]
fn publishing_twice_makes_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let repo = folder.path().join("evidence.git");
    let first = publish(&case, &repo, &["--init"]);
    assert_eq!(first["created"], true);
    let mail = std::fs::read(case.join("mail.eml")).unwrap();
    let before = snapshot(&repo);
    let second = publish(&case, &repo, &[]);
    assert_eq!(second["created"], false);
    for key in ["commit", "tree", "bundle_id", "evidence", "reproducer"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    assert!(changed_since(&before, &repo).is_empty());
    assert_eq!(std::fs::read(case.join("mail.eml")).unwrap(), mail);
    let said = answer(
        regbundle()
            .arg("publish")
            .arg(&case)
            .arg("--repo")
            .arg(&repo),
    )
    .expect(0);
    assert!(said.stdout.contains("already"), "{}", said.stdout);
    if has_git() {
        assert_eq!(git(&repo, &["rev-list", "--count", "main"]), "1");
    }
}

#[test]
fn a_clone_verifies_whatever_it_does_to_line_ends() {
    if !has_git() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let repo = folder.path().join("evidence.git");
    let published = publish(&case, &repo, &["--init"]);
    for convert in ["true", "false"] {
        let clone = folder.path().join(convert);
        let clone_name = clone.to_str().unwrap();
        git(
            folder.path(),
            &[
                "-c",
                &format!("core.autocrlf={convert}"),
                "clone",
                "-q",
                "evidence.git",
                clone_name,
            ],
        );
        git(&clone, &["config", "core.autocrlf", convert]);
        assert_eq!(published["commit"], git(&clone, &["rev-parse", "HEAD"]));
        let tree = clone.join(CASE_ID);
        run([Path::new("verify"), &tree]).expect(0);
        run([Path::new("audit"), &tree]).expect(0);
        assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    }
}

#[test]
fn the_links_of_the_mail_lead_to_folders_of_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let repo = folder.path().join("evidence.git");
    let published = publish(&case, &repo, &["--init"]);
    let commit = published["commit"].as_str().unwrap();
    let mail = std::fs::read_to_string(case.join("mail.eml")).unwrap();
    let links: Vec<&str> = mail
        .split_whitespace()
        .filter(|word| word.starts_with("https://forge.example/"))
        .collect();
    assert_eq!(links.len(), 2, "{mail}");
    for (link, file) in [(links[0], "claims.json"), (links[1], "Makefile")] {
        let (_, place) = link.split_once("/tree/").unwrap();
        let (named, path) = place.split_once('/').unwrap();
        assert_eq!(named, commit);
        let tree = read_commit(&repo, named, Some(path)).unwrap();
        assert!(tree.contains_key(file), "{link}: {:?}", tree.keys());
        if has_git() {
            let kind = git(&repo, &["cat-file", "-t", &format!("{named}:{path}")]);
            assert_eq!(kind, "tree");
        }
    }
}

#[test]
fn a_tree_of_a_commit_written_out_again_is_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let repo = folder.path().join("evidence.git");
    let published = publish(&case, &repo, &["--init"]);
    let commit = published["commit"].as_str().unwrap();
    let tree = read_commit(&repo, commit, Some(CASE_ID)).unwrap();
    let out = folder.path().join("again");
    write_tree(&out, &tree);
    assert_eq!(read_tree(&out), tree);
    run([Path::new("verify"), &out]).expect(0);
}
