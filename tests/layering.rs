//! Data flows down the list of modules and never back: the `crate::` paths of every
//! source file against a table of arrows, and one home per third-party crate.

#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules each module may use, besides itself. A new arrow is a decision: it
/// is added here, with the rule of the list in mind.
const ARROWS: [(&str, &[&str]); 18] = [
    ("model", &[]),
    ("workload", &["model"]),
    ("stats", &["model", "workload"]),
    ("input", &["model", "workload"]),
    ("gate", &["model", "stats", "workload"]),
    ("judge", &["gate", "model", "stats"]),
    ("render", &["gate", "judge", "model", "stats", "workload"]),
    (
        "bundle",
        &["input", "judge", "model", "render", "stats", "workload"],
    ),
    (
        "audit",
        &["bundle", "input", "model", "render", "stats", "workload"],
    ),
    ("publish", &["bundle"]),
    ("edge", &["bundle", "model"]),
    ("engine", &["edge", "input", "model", "stats", "workload"]),
    (
        "error",
        &[
            "audit", "bundle", "edge", "engine", "input", "publish", "render", "workload",
        ],
    ),
    ("ui", &["engine", "model"]),
    ("cli", &["ui"]),
    (
        "cmd",
        &[
            "audit", "bundle", "cli", "edge", "engine", "error", "input", "judge", "model",
            "publish", "render", "stats", "ui", "workload",
        ],
    ),
    ("lib", &[]),
    ("main", &[]),
];

/// Modules that compute and do nothing else.
const PURE: [&str; 4] = ["stats", "judge", "render", "gate"];

/// What a pure module must not reach for.
const WORLD: [&str; 8] = [
    "std::fs",
    "std::process",
    "std::net",
    "std::env",
    "std::io",
    "std::thread",
    "SystemTime",
    "Instant",
];

/// Crate to the files or folders it may be used in.
const HOMES: [(&str, &[&str]); 8] = [
    ("git2", &["edge/"]),
    ("minijinja", &["render/"]),
    ("clap", &["cli.rs", "ui.rs", "cmd/"]),
    ("sha2", &["model/digest.rs"]),
    ("statrs", &["stats/"]),
    ("indicatif", &["ui.rs"]),
    ("toml", &["input/", "cmd/", "bundle/"]),
    ("io_uring", &["workload/"]),
];

/// Path from `src/`, and its code without comments and without its tests.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut open = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
                found.push((name.to_owned(), code(&fs::read_to_string(&path).unwrap())));
            }
        }
    }
    found.retain(|(name, _)| !is_test_file(name));
    found.sort();
    assert!(found.len() > 80, "{} files", found.len());
    found
}

/// Tests may use what stands above them.
fn is_test_file(name: &str) -> bool {
    name.ends_with("tests.rs") || name.ends_with("testing.rs")
}

/// Drops comment lines and the module of tests.
fn code(text: &str) -> String {
    let (body, tests) = text
        .split_once("#[cfg(test)]\nmod tests {\n")
        .unwrap_or((text, ""));
    let after = tests.split_once("\n}\n").map_or("", |(_, after)| after);
    body.lines()
        .chain(after.lines())
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn module(name: &str) -> &str {
    name.split(['/', '.']).next().unwrap()
}

/// The first words after each `prefix` in the code, groups in braces taken apart.
fn words_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code.get(..at).unwrap().chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = code.get(at + prefix.len()..).unwrap();
        match rest.strip_prefix('{') {
            None => {
                found.insert(word(rest));
            }
            Some(group) => {
                let mut depth = 1;
                let mut starts = true;
                for (index, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => starts = true,
                        _ if starts && !c.is_whitespace() => {
                            found.insert(word(group.get(index..).unwrap()));
                            starts = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    found
}

fn allowed(module: &str) -> &'static [&'static str] {
    ARROWS
        .iter()
        .find(|(name, _)| *name == module)
        .unwrap_or_else(|| unreachable!("src/{module} is not in the table of this test"))
        .1
}

#[test]
fn no_module_uses_what_stands_above_it() {
    let modules: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut new = Vec::new();
    for (name, code) in sources() {
        let from = module(&name);
        for to in words_after(&code, "crate::") {
            // `crate::TOOL` and other items of the root are no module.
            if !modules.contains(to.as_str()) || to == from {
                continue;
            }
            if !allowed(from).contains(&to.as_str()) {
                new.push(format!("src/{name}: {from} -> {to}"));
            }
        }
    }
    assert!(
        new.is_empty(),
        "arrows not in the table:\n{}",
        new.join("\n")
    );
}

#[test]
fn every_arrow_of_the_table_is_used() {
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for (name, code) in sources() {
        for to in words_after(&code, "crate::") {
            used.insert((module(&name).to_owned(), to));
        }
    }
    for (from, arrows) in ARROWS {
        for to in arrows {
            assert!(
                used.contains(&(from.to_owned(), (*to).to_owned())),
                "{from} -> {to} is in the table and nowhere else"
            );
        }
    }
}

#[test]
fn the_arrows_have_no_cycle() {
    // Removing what only uses removed modules must empty the table.
    let mut left: Vec<(&str, &[&str])> = ARROWS.to_vec();
    while !left.is_empty() {
        let names: BTreeSet<&str> = left.iter().map(|(name, _)| *name).collect();
        let before = left.len();
        left.retain(|(_, uses)| uses.iter().any(|used| names.contains(used)));
        assert!(left.len() < before, "a cycle among {names:?}");
    }
}

#[test]
fn edge_knows_nothing_of_commands_engines_or_texts() {
    for above in ["cmd", "engine", "render", "cli", "ui"] {
        assert!(!allowed("edge").contains(&above), "{above}");
    }
    assert!(allowed("model").is_empty());
}

#[test]
fn what_computes_does_not_touch_the_world() {
    for (name, code) in sources() {
        if !PURE.contains(&module(&name)) {
            continue;
        }
        for word in WORLD {
            assert!(!code.contains(word), "src/{name} uses {word}");
        }
        let grouped = words_after(&code, "std::");
        for word in ["fs", "process", "net", "env", "io", "thread"] {
            assert!(!grouped.contains(word), "src/{name} uses std::{word}");
        }
    }
}

#[test]
fn each_third_party_crate_stays_in_its_home() {
    for (name, code) in sources() {
        for (crate_name, homes) in HOMES {
            let uses = !words_after(&code, &format!("{crate_name}::")).is_empty();
            let home = homes
                .iter()
                .any(|home| name == *home || (home.ends_with('/') && name.starts_with(home)));
            // The folder's own root: src/edge/git.rs and src/render.rs alike.
            assert!(!uses || home, "src/{name} uses {crate_name}");
        }
    }
}

#[test]
fn the_reader_of_paths_takes_groups_apart() {
    let code =
        "use crate::{model::{a, b}, gate};\nlet x = crate::stats::mean();\nother_crate::no();";
    let found: Vec<String> = words_after(code, "crate::").into_iter().collect();
    assert_eq!(found, ["gate", "model", "stats"]);
}
