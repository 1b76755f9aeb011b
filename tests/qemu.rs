//! Points as boots in qemu: two distribution kernels through to an audited bundle, and
//! guests that panic, hang, are killed, lack io_uring or run another kernel.
//!
//! The kernels are two linux-image packages, `oldest.deb` and `newest.deb`, in the folder
//! that `REGBUNDLE_TEST_KERNELS` names, else in `target/kernels` (`.ci/run` puts them there).

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Answer, answer, has, read_tree, regbundle, run, text, works};
use tempfile::TempDir;

const QEMU: &str = "qemu-system-x86_64";

/// The two packages; `None`, with the reason said, where the test cannot run.
fn kernels() -> Option<PathBuf> {
    if !has(QEMU, works(QEMU, &["--version"])) {
        return None;
    }
    let folder = std::env::var_os("REGBUNDLE_TEST_KERNELS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/kernels"),
        PathBuf::from,
    );
    let there = ["oldest.deb", "newest.deb"]
        .iter()
        .all(|name| folder.join(name).is_file());
    has(
        "a folder with oldest.deb and newest.deb (linux-image packages)",
        there,
    )
    .then_some(folder)
}

/// A case whose kernels are `parent` and `child` beside it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(engine: &str, workloads: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let case = folder.path().join("case");
        fs::create_dir(&case).unwrap();
        let text = format!(
            r#"format = 1
id = "two-kernels"
title = "two kernels"
[scope]
statement = "two kernels, each point a boot in an emulator"
[plan]
order = ["parent", "child", "parent"]
rounds = 5
primary = "syscall-getpid"
[engine.qemu]
kernels = {{ parent = "../parent", child = "../child" }}
{engine}
{workloads}
"#
        );
        fs::write(case.join("case.toml"), text).unwrap();
        Self { folder }
    }

    /// With the two packages as kernels.
    fn with_kernels(folder: &Path, engine: &str, workloads: &str) -> Self {
        let place = Self::new(engine, workloads);
        for (package, role) in [("oldest.deb", "parent"), ("newest.deb", "child")] {
            let target = fs::canonicalize(folder.join(package)).unwrap();
            std::os::unix::fs::symlink(target, place.folder.path().join(role)).unwrap();
        }
        place
    }

    fn case(&self) -> PathBuf {
        self.folder.path().join("case")
    }

    fn run(&self) -> Answer {
        answer(regbundle().arg("run").arg(self.case()))
    }

    fn has_rows(&self) -> bool {
        self.case().join("journal").exists()
    }
}

const GETPID: &str = r#"
[[workload]]
name = "syscall-getpid"
role = "target"
implementations = ["formal"]
params = { calls = 1024 }
"#;

#[test]
fn two_distribution_kernels_go_through_to_an_audited_bundle() {
    let Some(kernels) = kernels() else { return };
    let workloads = r#"
[[workload]]
name = "io-uring-futex-waitv"
role = "target"
params = { cycles = 64 }
[[workload]]
name = "io-uring-futex-scalar"
role = "control"
params = { cycles = 64 }
"#;
    let place = Place::with_kernels(&kernels, "", workloads);
    let file = place.case().join("case.toml");
    let case = fs::read_to_string(&file)
        .unwrap()
        .replace("\"syscall-getpid\"", "\"io-uring-futex-waitv\"")
        .replace("rounds = 5", "rounds = 15");
    fs::write(&file, case).unwrap();
    place.run().expect(0);
    let analysis = run([
        "analyze",
        "--format",
        "json",
        place.case().to_str().unwrap(),
    ]);
    // Whether these two kernels differ is not what is tested: 1 and 5 are answers too.
    assert!([0, 1, 5].contains(&analysis.code), "{}", analysis.said());
    let analysis = analysis.json();
    let comparisons = analysis["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 4);
    for comparison in comparisons {
        // 0.4 % is what such a guest must hold after settling. Boots of one kernel differ by
        // more than rounds do: each places the futex words in other buckets of the hash.
        let cv = comparison["cv_max_pct"].as_f64().unwrap();
        assert!(cv > 0.0 && cv < 0.4, "{comparison}");
        let drift = comparison["drift_pct"].as_f64().unwrap();
        assert!(drift.abs() < 1.0, "{comparison}");
    }
    let bundle = place.folder.path().join("tree");
    answer(
        regbundle()
            .arg("bundle")
            .arg(place.case())
            .arg("--out")
            .arg(&bundle),
    )
    .expect(0);
    answer(regbundle().arg("verify").arg(&bundle)).expect(0);
    let audit = answer(regbundle().args(["audit", "--format", "json"]).arg(&bundle));
    let summary = &audit.expect(0).json()["summary"];
    assert_eq!(summary["contradicted"], 0);
    assert!(summary["confirmed"].as_u64().unwrap() > 50, "{summary}");
    let tree = read_tree(&bundle);
    let (mut boots, mut releases) = (BTreeSet::new(), BTreeSet::new());
    for path in tree.keys().filter(|path| path.contains("journal/")) {
        let journal = text(&tree, path);
        let opening = journal.lines().next().unwrap();
        boots.insert(between(opening, "\"boot_id\":\"", "\"").to_owned());
        releases.insert(between(opening, "\"release\":\"", "\"").to_owned());
        assert!(
            opening.contains(r#""environment":{"value":"emulated"}"#),
            "{opening}"
        );
        assert!(
            opening.contains(r#""cgroup":{"value":"child (v2)"}"#),
            "{opening}"
        );
    }
    assert_eq!((boots.len(), releases.len()), (3, 2));
    let readme = text(&tree, "README.md");
    assert!(
        readme.contains("instructions") && readme.contains("emulat"),
        "{readme}"
    );
    for unit in [" ns/", " ns per", " ns "] {
        assert!(!readme.contains(unit), "`{unit}` in {readme}");
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(after).unwrap().0
}

#[test]
fn a_kernel_that_panics_is_quoted_and_leaves_no_rows() {
    let Some(kernels) = kernels() else { return };
    let place = Place::with_kernels(&kernels, "append = \"rdinit=/none root=/dev/none\"", GETPID);
    let said = place.run().expect(4).said();
    assert!(
        said.contains("parent-a") && said.contains("Kernel panic"),
        "{said}"
    );
    assert!(
        said.contains("trying once more") && said.contains("tried twice"),
        "{said}"
    );
    assert!(!place.has_rows());
}

/// Sixteen-bit code at the entry of a bzImage that jumps to itself
/// (Documentation/arch/x86/boot.rst): a kernel that never says a word.
fn hanging_image() -> Vec<u8> {
    let mut image = vec![0_u8; 4096];
    image[0x1f1] = 1; // one setup sector
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x200..0x202].copy_from_slice(&[0xeb, 0xfe]); // jmp .
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&[0x0c, 0x02]);
    image[0x211] = 1; // loaded high
    image[0x22c..0x230].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes()); // for the initrd
    image
}

#[test]
fn a_kernel_that_hangs_is_found_by_its_silence() {
    if !has(QEMU, works(QEMU, &["--version"])) {
        return;
    }
    let place = Place::new("boot_seconds = 8", GETPID);
    for role in ["parent", "child"] {
        fs::write(place.folder.path().join(role), hanging_image()).unwrap();
    }
    let said = place.run().expect(4).said();
    assert!(
        said.contains("hangs") && said.contains("nothing for 4 s"),
        "{said}"
    );
    assert!(said.contains("tried twice"), "{said}");
    assert!(!place.has_rows());
}

#[test]
fn a_kernel_without_io_uring_says_so_and_another_kernel_is_refused() {
    let Some(kernels) = kernels() else { return };
    let nop = GETPID
        .replace("syscall-getpid", "io-uring-nop")
        .replace("calls = 1024", "ops = 64");
    let place = Place::with_kernels(
        &kernels,
        "append = \"sysctl.kernel.io_uring_disabled=2\"",
        &nop,
    );
    let file = place.case().join("case.toml");
    let case = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        case.replace("primary = \"syscall-getpid\"", "primary = \"io-uring-nop\""),
    )
    .unwrap();
    let said = place.run().expect(4).said();
    assert!(said.contains("io_uring_disabled"), "{said}");

    let expect = "[engine.qemu.expect]\nparent = { release = \"1.2.3\" }";
    let place = Place::with_kernels(&kernels, expect, GETPID);
    let said = place.run().expect(4).said();
    assert!(
        said.contains("wanted 1.2.3") && said.contains("found kernel 6."),
        "{said}"
    );
    assert!(!place.has_rows() && !place.case().join("plan.json").exists());
}

/// Processes whose command line names this file.
fn processes(word: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.starts_with(QEMU) && line.contains(word) {
            found.push(id);
        }
    }
    found
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(id: u32) {
    let status = Command::new("kill").args(["-9", &id.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Rows of the journals, as written.
fn rows(place: &Place) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place.case().join("journal")) else {
        return Vec::new();
    };
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    let mut rows = Vec::new();
    for name in names {
        let text = fs::read_to_string(name).unwrap();
        rows.extend(
            text.lines()
                .filter(|line| line.split('\t').nth(1) == Some("row"))
                .map(str::to_owned),
        );
    }
    rows
}

#[test]
fn a_killed_qemu_and_a_killed_run_lose_no_row_and_count_none_twice() {
    let Some(kernels) = kernels() else { return };
    let place = Place::with_kernels(&kernels, "", GETPID);
    let initramfs = place.case().join("build/initramfs.cpio");
    let initramfs = initramfs.to_str().unwrap();
    let start = || {
        regbundle()
            .arg("run")
            .arg(place.case())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let child = start();
    wait_for("a row", || (rows(&place).len() >= 2).then_some(()));
    let qemu = processes(initramfs);
    assert_eq!(qemu.len(), 1);
    kill(qemu[0]);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("signal: 9") && said.contains("run again"),
        "{said}"
    );
    let kept = rows(&place);

    let mut child = start();
    wait_for("more rows", || {
        (rows(&place).len() >= kept.len() + 2).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("qemu's end", || {
        processes(initramfs).is_empty().then_some(())
    });
    let more = rows(&place);
    assert_eq!(more[..kept.len()], kept);

    place.run().expect(0);
    assert_eq!(rows(&place)[..more.len()], more);
    let check = run(["check", "--format", "json", place.case().to_str().unwrap()]);
    let check = check.json();
    let findings = check["gates"].as_array().unwrap();
    let complete = findings
        .iter()
        .find(|finding| finding["gate"] == "rows-complete");
    assert_eq!(complete.unwrap()["outcome"], "PASS", "{check}");
}
