//! What the integration tests share: the program, the published case, outside tools.

#![allow(
    dead_code,
    reason = "every test file is a crate of its own and uses a part of this one"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at its first surprise, and says what it skipped"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use regbundle::bundle::{self, seal};
use regbundle::edge::tree::read_directory;
use regbundle::model::tree::Tree;
use serde_json::Value;

/// The id in the published case: the folder of its bundle.
pub const CASE_ID: &str = "io-uring-futex-waitv-accounted-allocation";
/// Points of the published case in boot order.
pub const POINTS: [&str; 3] = ["parent-a", "child", "parent-b"];
/// Implementations of its target.
pub const IMPLEMENTATIONS: [&str; 2] = ["formal", "standalone"];
/// Files that make a tree a bag and that sealing writes.
pub const BAG_FILES: [&str; 5] = [
    ".gitattributes",
    "bag-info.txt",
    "bagit.txt",
    "manifest-sha256.txt",
    "tagmanifest-sha256.txt",
];

/// What a program answered.
pub struct Answer {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Answer {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Everything it said.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Its standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.said()))
    }

    /// Fails the test unless the exit code is this.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.said());
        self
    }
}

/// A command in which nothing of the caller's environment steers git or dates.
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .env_remove("SOURCE_DATE_EPOCH")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

/// The program under test.
pub fn regbundle() -> Command {
    clean(env!("CARGO_BIN_EXE_regbundle"))
}

/// Runs a command to its end.
pub fn answer(command: &mut Command) -> Answer {
    Answer::of(command.output().unwrap())
}

/// Runs the program under test.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Answer {
    answer(regbundle().args(arguments))
}

/// Runs a command with this on its standard input.
pub fn feed(command: &mut Command, input: &[u8]) -> Answer {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Answer::of(child.wait_with_output().unwrap())
}

/// Says whether a test goes on without this tool: skipped, unless tools are required.
pub fn has(tool: &str, present: bool) -> bool {
    if !present {
        let required = std::env::var("REGBUNDLE_REQUIRE_TOOLS").as_deref() == Ok("1");
        assert!(!required, "{tool} is required and not on this machine");
        eprintln!("skipped: {tool} is not on this machine");
    }
    present
}

/// Says whether this command exists and ends well.
pub fn works(program: &str, arguments: &[&str]) -> bool {
    clean(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

pub fn has_git() -> bool {
    has("git", works("git", &["--version"]))
}

pub fn has_python() -> bool {
    has("python3", works("python3", &["--version"]))
}

/// The published case as it lies in this repository.
pub fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/futex-waitv-published")
}

/// Copies the published case, nothing ingested yet; `change` edits its `case.toml`.
pub fn fresh_case(folder: &Path, change: impl FnOnce(String) -> String) -> PathBuf {
    let case = folder.join("case");
    std::fs::create_dir(&case).unwrap();
    for entry in std::fs::read_dir(published()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), case.join(entry.file_name())).unwrap();
    }
    let file = case.join("case.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, change(text)).unwrap();
    case
}

/// Ingests one file of the case folder; `arguments` come before it.
pub fn ingest(case: &Path, arguments: &[&str], file: &str) -> Answer {
    answer(
        regbundle()
            .arg("ingest")
            .arg(case)
            .args(arguments)
            .arg(case.join(file)),
    )
}

/// Ingests the three tables whole.
pub fn ingest_whole(case: &Path) {
    for file in [
        "measured-rounds.tsv",
        "result-summary.tsv",
        "build-identity.tsv",
    ] {
        ingest(case, &[], file).expect(0);
    }
}

/// The published case with all of its evidence.
pub fn published_case(folder: &Path) -> PathBuf {
    let case = fresh_case(folder, |text| text);
    ingest_whole(&case);
    case
}

/// The published case and its bundle.
pub fn published_bundle(folder: &Path) -> (PathBuf, PathBuf) {
    let case = published_case(folder);
    let out = folder.join("tree");
    answer(regbundle().arg("bundle").arg(&case).arg("--out").arg(&out)).expect(0);
    (case, out)
}

/// Every file below a folder with its mode and content.
pub fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        let mode = std::fs::metadata(&next).unwrap().permissions().mode();
        files.insert(next.clone(), (mode, Vec::new()));
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let mode = std::fs::metadata(&path).unwrap().permissions().mode();
                let bytes = std::fs::read(&path).unwrap();
                files.insert(path, (mode, bytes));
            }
        }
    }
    files
}

/// Paths that are new, gone or changed since a snapshot.
pub fn changed_since(before: &BTreeMap<PathBuf, (u32, Vec<u8>)>, folder: &Path) -> Vec<PathBuf> {
    let now = snapshot(folder);
    before
        .keys()
        .chain(now.keys())
        .filter(|path| before.get(*path) != now.get(*path))
        .cloned()
        .collect()
}

/// Writes a tree as it is, intact or not.
pub fn write_tree(folder: &Path, tree: &Tree) {
    for (path, entry) in tree {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, &entry.bytes).unwrap();
    }
}

pub fn read_tree(folder: &Path) -> Tree {
    read_directory(folder).unwrap()
}

/// Redoes the manifests over changed content, with the pairs `bag-info.txt` had.
pub fn reseal(changed: &Tree) -> Tree {
    let info = String::from_utf8(changed.get("bag-info.txt").unwrap().bytes.clone()).unwrap();
    let pairs: Vec<(String, String)> = info
        .lines()
        .map(|line| line.split_once(": ").unwrap())
        .filter(|(label, _)| *label != bundle::OXUM)
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .collect();
    let content: Tree = changed
        .iter()
        .filter(|(path, _)| !BAG_FILES.contains(&path.as_str()))
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect();
    seal(&content, &pairs).unwrap()
}

/// The text of a file of a tree.
pub fn text(tree: &Tree, path: &str) -> String {
    String::from_utf8(tree.get(path).unwrap().bytes.clone()).unwrap()
}

/// Changes the digit at a byte offset of a text to another one.
pub fn other_digit(text: &str, at: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let byte = bytes.get_mut(at).unwrap();
    assert!(byte.is_ascii_digit(), "{text} at {at}");
    *byte = if *byte == b'9' { b'0' } else { *byte + 1 };
    String::from_utf8(bytes).unwrap()
}

/// Blanks and line ends as single blanks: what folding does not change.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
