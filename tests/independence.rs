//! The two implementations share no text and speak the same interface.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops at its first surprise, and says what it skipped"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regbundle::workload::declaration::split_scenario;
use regbundle::workload::{emit, registry};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_formal_worker_neither_compiles_links_nor_reads_the_c_files() {
    assert!(!root().join("build.rs").exists());
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for word in ["build-dependencies", "links =", "build ="] {
        assert!(!manifest.contains(word), "Cargo.toml: {word}");
    }
    let mut readers = Vec::new();
    for entry in walkdir::WalkDir::new(root().join("src")) {
        let entry = entry.unwrap();
        if !entry.file_type().is_file() {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let includes = text.contains("include_str!(\"../../reproducer")
            || text.contains("include_bytes!")
            || text.contains("extern \"C\" {");
        if includes {
            readers.push(entry.path().strip_prefix(root()).unwrap().to_owned());
        }
    }
    // It holds the C texts to hand them out; no implementation calls it.
    assert_eq!(readers, [PathBuf::from("src/workload/emit.rs")]);
    for entry in std::fs::read_dir(root().join("src/workload")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let is_module = path.file_name().is_some_and(|name| name == "mod.rs");
        assert!(is_module || !text.contains("emit::"), "{}", path.display());
    }
}

fn compiled(folder: &Path, workload: &str) -> PathBuf {
    let (name, _) = split_scenario(workload);
    let program = folder.join(name);
    if !program.exists() {
        let source = folder.join(format!("{name}.c"));
        std::fs::write(&source, emit::source(name).unwrap()).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-o"])
            .arg(&program)
            .arg(&source);
        assert!(cc.status().unwrap().success(), "{name}");
    }
    program
}

/// `--name: MIN to MAX, default N` of a C program's help.
fn parameters_of_c(help: &str) -> BTreeMap<String, (u64, u64, u64)> {
    let mut found = BTreeMap::new();
    for line in help.lines() {
        let Some((name, rest)) = line
            .trim()
            .strip_prefix("--")
            .and_then(|l| l.split_once(": "))
        else {
            continue;
        };
        let numbers: Vec<u64> = rest
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        if let [min, max, default] = numbers.as_slice() {
            found.insert(name.to_owned(), (*min, *max, *default));
        }
    }
    for common in ["cpu", "warmup", "rounds"] {
        assert!(found.remove(common).is_some(), "{common}: {help}");
    }
    found
}

#[test]
fn both_implementations_have_the_same_parameters_with_the_same_limits() {
    let folder = tempfile::tempdir().unwrap();
    for declaration in registry::declarations() {
        let program = compiled(folder.path(), declaration.name);
        let output = Command::new(program).arg("--help").output().unwrap();
        let found = parameters_of_c(&String::from_utf8(output.stdout).unwrap());
        let wanted: BTreeMap<String, (u64, u64, u64)> = declaration
            .parameters
            .iter()
            .map(|known| {
                // Its C help says so in words: the table of a C program has one default.
                let default = match (declaration.name, known.name) {
                    ("io-uring-msg-ring-send-fd/register-install", "cycles") => 8,
                    _ => known.default,
                };
                (known.name.to_owned(), (known.min, known.max, default))
            })
            .collect();
        assert_eq!(found, wanted, "{}", declaration.name);
    }
}

/// The first two lines of a stream; `None` when the machine cannot do it.
fn head(output: &Output, name: &str) -> Option<(String, String)> {
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(4) {
        let required = std::env::var("REGBUNDLE_REQUIRE_IO_URING").as_deref() == Ok("1");
        assert!(!required, "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let (first, second) = (lines.next(), lines.next());
    assert!(first.is_some(), "{name}: {said}");
    Some((first?, second?))
}

#[test]
fn both_implementations_write_the_same_columns() {
    let folder = tempfile::tempdir().unwrap();
    let rounds = ["--warmup", "0", "--rounds", "1"];
    for declaration in registry::declarations() {
        let name = declaration.name;
        let mut formal = Command::new(env!("CARGO_BIN_EXE_regbundle"));
        formal.args(["worker", name]).args(rounds);
        let mut standalone = Command::new(compiled(folder.path(), name));
        standalone.args(rounds);
        if let (_, Some(scenario)) = split_scenario(name) {
            standalone.args(["--scenario", scenario]);
        }
        if declaration.has_tasks() {
            formal.args(["--param", "oversubscribe=1"]);
            standalone.args(["--oversubscribe", "1"]);
        }
        let heads = (
            head(&formal.output().unwrap(), name),
            head(&standalone.output().unwrap(), name),
        );
        let (Some((first, columns)), Some((c_first, c_columns))) = heads else {
            continue;
        };
        assert_eq!(columns, c_columns, "{name}");
        assert_eq!(first.replace(" formal ", " standalone "), c_first);
    }
}
