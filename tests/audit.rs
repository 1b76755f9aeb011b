//! One changed digit, with the manifests redone, is contradicted and named.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise, and says how much it changed"
)]

mod common;

use std::path::{Path, PathBuf};

use common::{
    Answer, CASE_ID, answer, other_digit, published_bundle, published_case, read_tree, regbundle,
    reseal, text, write_tree,
};
use regbundle::audit::own_tree::audit_tree;
use regbundle::audit::{Audit, ClaimVerdict};
use regbundle::bundle::check;
use regbundle::bundle::compare::verify;
use regbundle::model::claim::{Claim, Claims};
use regbundle::model::tree::{Entry, Tree};

/// The tree of the published case, and a folder for its changed copies.
struct Published {
    folder: tempfile::TempDir,
    tree: Tree,
    copies: std::cell::Cell<u32>,
}

impl Published {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (_, out) = published_bundle(folder.path());
        Self {
            tree: read_tree(&out),
            folder,
            copies: std::cell::Cell::new(0),
        }
    }

    fn claims(&self) -> Claims {
        serde_json::from_str(&text(&self.tree, "claims.json")).unwrap()
    }

    /// The tree with one file replaced and the manifests redone.
    fn with(&self, path: &str, content: impl Into<Vec<u8>>) -> Tree {
        let mut changed = self.tree.clone();
        let before = changed.insert(path.to_owned(), Entry::text(content));
        assert_ne!(before.as_ref(), changed.get(path), "{path} did not change");
        let sealed = reseal(&changed);
        assert_eq!(check(&sealed), []);
        sealed
    }

    /// The tree with other claims.
    fn with_claims(&self, change: impl FnOnce(&mut Vec<Claim>)) -> Tree {
        let mut claims = self.claims();
        change(&mut claims.claims);
        let mut json = serde_json::to_string_pretty(&claims).unwrap();
        json.push('\n');
        self.with("claims.json", json)
    }

    /// Writes a changed copy and runs a command on it.
    fn run(&self, command: &str, tree: &Tree) -> Answer {
        let number = self.copies.get();
        self.copies.set(number + 1);
        let folder = self.folder.path().join(format!("changed-{number}"));
        write_tree(&folder, tree);
        let said = answer(regbundle().arg(command).arg(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        said
    }

    /// Both commands say no, and `audit` names what was changed.
    #[track_caller]
    fn both_say_no(&self, tree: &Tree, named: &str) {
        let said = self.run("audit", tree).expect(1);
        let line = said
            .stdout
            .lines()
            .find(|line| line.starts_with("CONTRADICTED") && names(line, named));
        assert!(line.is_some(), "{named}: {}", said.stdout);
        let file = named.split(':').next().unwrap();
        let file = if tree.contains_key(file) {
            file
        } else {
            "claims.json"
        };
        let said = self.run("verify", tree).expect(1);
        let line = said
            .stdout
            .lines()
            .find(|line| line.starts_with("DIFFERS") && line.contains(file));
        assert!(line.is_some(), "{file}: {}", said.stdout);
    }
}

/// Whether a line of text names an id or place, as a whole word.
fn names(line: &str, named: &str) -> bool {
    line.split_whitespace()
        .any(|word| word.trim_end_matches(':') == named)
}

/// Fails unless the tree is contradicted where it was changed.
#[track_caller]
fn contradicts(tree: &Tree, id: &str, place: &str) -> Audit {
    let audit = audit_tree(tree).unwrap();
    assert_eq!(audit.exit_code(), 1, "{id} {place}");
    let found = audit.answers.iter().find(|answer| {
        let (file, line) = answer.place.split_once(':').unwrap_or((&answer.place, ""));
        let at_place = answer.place == place || (place == "claims.json" && file == place);
        // A line that is named is the one where the claim stands.
        let stands_there = file != "claims.json" || line.is_empty() || {
            let number: usize = line.parse().unwrap();
            let json = text(tree, file);
            let found = json.lines().nth(number - 1).unwrap();
            found.contains(&format!("\"{id}\""))
        };
        answer.verdict == ClaimVerdict::Contradicted && answer.id == id && at_place && stands_there
    });
    let bad: Vec<_> = audit
        .answers
        .iter()
        .filter(|answer| answer.verdict != ClaimVerdict::Confirmed)
        .collect();
    assert!(found.is_some(), "{id} {place}: {bad:#?}");
    audit
}

fn digits(text: &str) -> Vec<usize> {
    text.bytes()
        .enumerate()
        .filter(|(_, byte)| byte.is_ascii_digit())
        .map(|(at, _)| at)
        .collect()
}

fn is_numeric(claim: &Claim) -> bool {
    !claim.inputs.is_empty()
}

/// A line of a text, from 1, replaced.
fn with_line(text: &str, number: usize, line: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines[number - 1] = line;
    lines.join("\n")
}

#[test]
fn an_untouched_tree_is_confirmed_from_folder_and_commit_alike() {
    let folder = tempfile::tempdir().unwrap();
    let case = published_case(folder.path());
    let repo = folder.path().join("evidence.git");
    let out = folder.path().join("tree");
    answer(regbundle().arg("bundle").arg(&case).arg("--out").arg(&out)).expect(0);
    let published = answer(
        regbundle()
            .arg("publish")
            .arg(&case)
            .arg("--repo")
            .arg(&repo)
            .args(["--init", "--format", "json"]),
    )
    .expect(0)
    .json();
    let commit = published["commit"].as_str().unwrap();
    let place = format!("{}@{commit}:{CASE_ID}", repo.display());
    let audit = |place: &Path| {
        answer(
            regbundle()
                .arg("audit")
                .arg(place)
                .args(["--format", "json"]),
        )
        .expect(0)
        .json()
    };
    let of_folder = audit(&out);
    assert_eq!(of_folder, audit(&PathBuf::from(place)));
    assert_eq!(of_folder["summary"]["contradicted"], 0);
    assert_eq!(of_folder["summary"]["not_checkable"], 0);
    let claims = of_folder["claims"].as_array().unwrap();
    assert_eq!(of_folder["summary"]["confirmed"], claims.len());
    assert!(claims.len() > 100, "{}", claims.len());
    let text = answer(regbundle().arg("audit").arg(&out)).expect(0).stdout;
    assert!(!text.lines().any(|line| line.starts_with("CONTRADICTED")));
}

#[test]
fn manifests_redone_over_the_same_content_give_the_same_tree() {
    let published = Published::new();
    assert_eq!(reseal(&published.tree), published.tree);
}

#[test]
fn every_digit_of_every_numeric_claim_is_recomputed() {
    let published = Published::new();
    let claims = published.claims().claims;
    let (mut numeric, mut changed) = (0, 0);
    for (index, claim) in claims
        .iter()
        .enumerate()
        .filter(|(_, claim)| is_numeric(claim))
    {
        numeric += 1;
        let places = digits(&claim.value);
        for at in &places {
            let tree = published
                .with_claims(|claims| claims[index].value = other_digit(&claim.value, *at));
            contradicts(&tree, &claim.id, "claims.json");
            assert!(!verify(&tree).unwrap().differing.is_empty(), "{}", claim.id);
            changed += 1;
        }
        // Through the program once each, at another digit from claim to claim.
        let at = places[index % places.len()];
        let tree =
            published.with_claims(|claims| claims[index].value = other_digit(&claim.value, at));
        published.both_say_no(&tree, &claim.id);
    }
    eprintln!("{numeric} numeric claims, {changed} digits changed");
    // Three comparisons: two of rows with 3 x 2 + 9 figures, one of means with 3 + 7.
    assert_eq!(numeric, 2 * 15 + 10);
}

#[test]
fn no_digit_of_the_claims_file_can_be_another() {
    let published = Published::new();
    let json = text(&published.tree, "claims.json");
    let (mut changed, mut rejected, mut named) = (0, 0, 0);
    let mut start = 0;
    for line in json.split_inclusive('\n') {
        for at in digits(line) {
            let other = other_digit(&json, start + at);
            let tree = published.with("claims.json", other);
            changed += 1;
            match audit_tree(&tree) {
                Err(_) => rejected += 1,
                Ok(audit) => assert_eq!(audit.exit_code(), 1, "{line} at {at}"),
            }
        }
        // Through the program: a file and rows that are not there, and ones that are.
        let key = line.trim_start();
        let reference = key.starts_with("\"file\"") || key.starts_with("\"rows\"");
        if let Some(last) = digits(line).last().filter(|_| reference)
            && named < 8
        {
            let id = claim_at(&json, start);
            let tree = published.with("claims.json", other_digit(&json, start + last));
            published.both_say_no(&tree, &id);
            named += 1;
        }
        start += line.len();
    }
    eprintln!("{changed} digits changed, {rejected} of them rejected as another format");
    assert!(changed > 800 && rejected < 5 && named == 8);
}

/// The id of the claim that stands around a place of the file.
fn claim_at(json: &str, place: usize) -> String {
    let (before, _) = json.split_at(place);
    let (_, id) = before.rsplit_once("\"id\": \"").unwrap();
    id.split_once('"').unwrap().0.to_owned()
}

#[test]
fn a_counted_cell_of_every_point_is_compared_with_the_journal() {
    let published = Published::new();
    let mut changed = 0;
    let files: Vec<&String> = published
        .tree
        .keys()
        .filter(|path| path.ends_with("/rows.tsv"))
        .collect();
    assert_eq!(files.len(), 3);
    for path in files {
        let rows = text(&published.tree, path);
        let header: Vec<&str> = rows.lines().next().unwrap().split('\t').collect();
        let column = |name: &str| header.iter().position(|found| *found == name).unwrap();
        let (counted, per_op) = (column("counted"), column("per_op"));
        for (number, line) in (1..).zip(rows.lines()) {
            let mut cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
            if cells[counted] != "1" {
                continue;
            }
            // The last digit: too small for any printed figure, and still found.
            let last = cells[per_op].len() - 1;
            cells[per_op] = other_digit(&cells[per_op], last);
            let tree = published.with(path, with_line(&rows, number, &cells.join("\t")));
            let place = format!("{path}:{number}");
            contradicts(&tree, path, &place);
            changed += 1;
            if number == 2 {
                published.both_say_no(&tree, &place);
            }
        }
        // The first digit moves the figures of every claim on these rows.
        let line = rows.lines().nth(1).unwrap();
        let mut cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        cells[per_op] = other_digit(&cells[per_op], 0);
        let tree = published.with(path, with_line(&rows, 2, &cells.join("\t")));
        let said = published.run("audit", &tree).expect(1);
        let mean = published
            .claims()
            .claims
            .into_iter()
            .find(|claim| claim.formula == "mean" && claim.inputs[0].file == *path)
            .unwrap();
        let is_mean = |line: &str| line.starts_with("CONTRADICTED") && names(line, &mean.id);
        assert!(said.stdout.lines().any(is_mean), "{}", said.stdout);
    }
    eprintln!("{changed} counted cells changed");
    assert_eq!(changed, 90);
}

#[test]
fn every_figure_of_the_readme_is_compared_with_its_claim() {
    let published = Published::new();
    let readme = text(&published.tree, "README.md");
    let mut changed = 0;
    for (number, line) in (1..).zip(readme.lines()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", _, value, id, ""] = cells.as_slice() else {
            continue;
        };
        let Some(id) = id.strip_prefix("[c").and_then(|id| id.strip_suffix(']')) else {
            continue;
        };
        let id = format!("c{id}");
        let last = *digits(value).last().unwrap();
        let start = line.find(value).unwrap();
        let tree = published.with(
            "README.md",
            with_line(&readme, number, &other_digit(line, start + last)),
        );
        contradicts(&tree, &id, &format!("README.md:{number}"));
        assert!(!verify(&tree).unwrap().differing.is_empty(), "{line}");
        if changed % 7 == 0 {
            published.both_say_no(&tree, &format!("README.md:{number}"));
        }
        changed += 1;
    }
    eprintln!("{changed} figures of the README changed");
    assert!(changed >= 28, "{changed}");
}

#[test]
fn every_line_with_a_digit_of_the_report_is_compared_with_the_evidence() {
    let published = Published::new();
    let path = "report/report.txt";
    let report = text(&published.tree, path);
    let mut changed = 0;
    for (number, line) in (1..).zip(report.lines()) {
        let Some(at) = digits(line).last().copied() else {
            continue;
        };
        let tree = published.with(path, with_line(&report, number, &other_digit(line, at)));
        let place = format!("{path}:{number}");
        contradicts(&tree, path, &place);
        changed += 1;
        if line.contains("8.091") || line.contains("#regzbot introduced") {
            published.both_say_no(&tree, &place);
        }
    }
    eprintln!("{changed} lines of the report changed");
    assert!(changed > 20, "{changed}");
}

#[test]
fn a_claim_with_a_shorter_list_of_rows_is_contradicted() {
    let published = Published::new();
    let claims = published.claims().claims;
    let mut changed = 0;
    for (index, claim) in claims.iter().enumerate() {
        for (number, input) in claim.inputs.iter().enumerate() {
            // The first round of a point is left out, as if it had never counted.
            let Some((start, end)) = input.rows.split_once('-') else {
                continue;
            };
            let start: usize = start.parse().unwrap();
            let rows = format!("{}-{end}", start + 1);
            let tree = published.with_claims(|claims| claims[index].inputs[number].rows = rows);
            contradicts(&tree, &claim.id, "claims.json");
            if number == 0 && changed % 5 == 0 {
                published.both_say_no(&tree, &claim.id);
            }
            changed += 1;
        }
    }
    eprintln!("{changed} lists of rows shortened");
    // Per comparison of rows: six claims on one point, nine on three.
    assert_eq!(changed, 2 * (6 + 9 * 3));
}

#[test]
fn a_shorter_list_with_the_figure_that_fits_it_is_contradicted() {
    let published = Published::new();
    let claims = published.claims().claims;
    // 15 rounds are 2-16; the last 14 give the author's drop-first figure.
    let index = claims
        .iter()
        .position(|claim| claim.formula == "delta" && claim.implementation == "formal")
        .unwrap();
    let tree = published.with_claims(|claims| {
        let claim = &mut claims[index];
        for input in &mut claim.inputs {
            input.rows = input.rows.replace("2-", "3-");
        }
        claim.value = "+8.080%".to_owned();
    });
    published.both_say_no(&tree, &claims[index].id);
}

#[test]
fn a_claim_taken_out_is_missed() {
    let published = Published::new();
    let claims = published.claims().claims;
    for (index, claim) in claims.iter().enumerate() {
        let tree = published.with_claims(|claims| {
            claims.remove(index);
        });
        contradicts(&tree, &claim.id, "claims.json");
        if index % 10 == 0 {
            published.both_say_no(&tree, &claim.id);
        }
    }
    eprintln!("{} claims taken out", claims.len());
    assert!(claims.len() > 60);
}

#[test]
fn a_claim_put_in_is_not_believed() {
    let published = Published::new();
    let tree = published.with_claims(|claims| {
        let mut more = claims[7].clone();
        assert_eq!(more.formula, "delta");
        more.id = "c999".to_owned();
        more.value = "+18.091%".to_owned();
        claims.push(more);
    });
    published.both_say_no(&tree, "c999");
}

#[test]
fn a_changed_digit_of_an_ingested_table_is_rejected() {
    let published = Published::new();
    let mut changed = 0;
    for path in published.tree.keys() {
        if !path.starts_with("data/ingested/") {
            continue;
        }
        let table = text(&published.tree, path);
        let at = digits(&table);
        for at in [at[at.len() / 2], at[at.len() - 1]] {
            let tree = published.with(path, other_digit(&table, at));
            for command in ["verify", "audit"] {
                let said = published.run(command, &tree).expect(2);
                let name = path.strip_prefix("data/").unwrap();
                assert!(said.said().contains(name), "{command}: {}", said.said());
                assert!(said.said().contains("journal/"), "{}", said.said());
            }
            changed += 1;
        }
    }
    assert_eq!(changed, 6);
}

#[test]
fn a_changed_digit_in_any_line_of_a_journal_breaks_the_chain() {
    let published = Published::new();
    let mut changed = 0;
    for path in published.tree.keys() {
        if !path.starts_with("data/journal/") {
            continue;
        }
        let journal = text(&published.tree, path);
        for (number, line) in (1..).zip(journal.lines()) {
            let cells: Vec<&str> = line.split('\t').collect();
            // The last digit of what is recorded, and the last of the record's own digest.
            let content = cells[..cells.len() - 2].join("\t");
            let inside = digits(&content).pop().unwrap();
            let last = digits(line).pop().unwrap();
            assert!(last > line.rfind('\t').unwrap(), "{line}");
            for at in [inside, last] {
                let bad = with_line(&journal, number, &other_digit(line, at));
                let tree = published.with(path, bad);
                let said = published.run("audit", &tree).expect(2);
                let place = path.strip_prefix("data/").unwrap();
                let place = format!("{place}:{number}");
                assert!(said.said().contains(&place), "{place}: {}", said.said());
                changed += 1;
            }
            let bad = with_line(&journal, number, &other_digit(line, inside));
            published
                .run("verify", &published.with(path, bad))
                .expect(2);
        }
    }
    eprintln!("{changed} digits of journals changed");
    assert_eq!(changed, 3 * 3 * 2);
}
