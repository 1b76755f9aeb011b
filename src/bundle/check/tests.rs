//! Every fault a bundle can have, one by one.

use super::*;
use crate::bundle::seal;
use crate::model::tree::Entry;

fn sealed() -> Tree {
    let content: Tree = [
        ("README.md", "# A case\n\nNumbers.\n"),
        ("report/report.txt", "body\n"),
        ("data/rows.tsv", "1\t2\n3\t4\n"),
        ("data/points/1-parent-a/rows.tsv", "x\n"),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), Entry::text(text)))
    .collect();
    seal(
        &content,
        &[("Bag-Software-Agent".to_owned(), "t 1".to_owned())],
    )
    .unwrap()
}

/// Seals again by hand after a change, so that only the change itself is at fault.
fn resealed(mut tree: Tree, change: impl FnOnce(&mut Tree)) -> Tree {
    change(&mut tree);
    for kind in [Kind::Payload, Kind::Tag] {
        let text = manifest::render(
            tree.iter()
                .filter(|(path, _)| kind.lists(path))
                .map(|(path, entry)| (path.as_str(), entry.bytes.as_slice())),
        );
        tree.insert(kind.file().to_owned(), Entry::text(text));
    }
    tree
}

fn put(path: &'static str, text: &'static str) -> impl FnOnce(&mut Tree) {
    move |tree| {
        tree.insert(path.to_owned(), Entry::text(text));
    }
}

fn codes(tree: &Tree) -> Vec<&'static str> {
    check(tree).iter().map(|found| found.code).collect()
}

#[test]
fn every_flipped_byte_is_found_and_its_file_named() {
    let good = sealed();
    assert_eq!(check(&good), []);
    let mut flips = 0;
    for (path, entry) in &good {
        for at in 0..entry.bytes.len() {
            for mask in [0x01, 0x20, 0x80] {
                let mut bad = good.clone();
                bad.get_mut(path).unwrap().bytes[at] ^= mask;
                let findings = check(&bad);
                assert!(
                    findings
                        .iter()
                        .any(|found| found.path == *path || found.message.contains(path)),
                    "{path} byte {at} mask {mask:#x}: {findings:?}"
                );
                flips += 1;
            }
        }
    }
    let bytes: usize = good.values().map(|entry| entry.bytes.len()).sum();
    assert_eq!(flips, 3 * bytes);
}

#[test]
fn a_changed_digest_in_the_tag_manifest_names_line_and_file() {
    let mut bad = sealed();
    let bytes = &mut bad.get_mut(TAG_MANIFEST).unwrap().bytes;
    bytes[0] = if bytes[0] == b'0' { b'1' } else { b'0' };
    let findings = check(&bad);
    assert_eq!(findings.len(), 1);
    let message = &findings[0].message;
    assert!(message.contains(".gitattributes"), "{message}");
    assert!(
        message.contains("tagmanifest-sha256.txt line 1"),
        "{message}"
    );
}

#[test]
fn a_checkout_with_carriage_returns_is_called_that_for_every_file() {
    let bad: Tree = sealed()
        .into_iter()
        .map(|(path, entry)| {
            let text = String::from_utf8(entry.bytes).unwrap();
            (path, Entry::text(text.replace('\n', "\r\n")))
        })
        .collect();
    let findings = check(&bad);
    for path in bad.keys() {
        assert!(
            findings.iter().any(|found| found.path == *path
                && found.message.contains("differs only in line endings")),
            "{path}: {findings:?}"
        );
    }
    assert!(!codes(&bad).contains(&"E-MISSING"));
    assert!(!codes(&bad).contains(&"E-UNLISTED"));
}

#[test]
fn unlisted_files_are_found_on_both_sides() {
    for path in ["data/extra", "extra", "report/extra.svg"] {
        let mut bad = sealed();
        bad.insert(path.to_owned(), Entry::text("x"));
        let findings = check(&bad);
        assert!(
            findings
                .iter()
                .any(|found| found.code == "E-UNLISTED" && found.path == path)
        );
    }
}

#[test]
fn a_renamed_file_is_recognised_by_its_content() {
    let mut bad = sealed();
    let entry = bad.remove("README.md").unwrap();
    bad.insert("README".to_owned(), entry);
    let findings = check(&bad);
    assert_eq!(codes(&bad), ["E-MISSING", "E-UNLISTED"]);
    assert!(findings[1].message.contains("content of README.md"));
}

#[test]
fn files_that_carry_the_bag_must_exist_and_be_listed() {
    for (path, code) in [
        (DECLARATION, "E-MISSING"),
        (INFO, "E-MISSING"),
        (ATTRIBUTES, "E-MISSING"),
        (MANIFEST, "E-MISSING"),
        (TAG_MANIFEST, "E-NOTAG"),
    ] {
        let mut bad = sealed();
        bad.remove(path);
        assert!(codes(&bad).contains(&code), "{path}");
    }
    let mut bad = sealed();
    let text = String::from_utf8(bad[TAG_MANIFEST].bytes.clone()).unwrap();
    let kept: String = text
        .split_inclusive('\n')
        .filter(|line| !line.contains("  bagit.txt"))
        .collect();
    bad.insert(TAG_MANIFEST.to_owned(), Entry::text(kept));
    assert_eq!(codes(&bad), ["E-INCOMPLETE"]);
}

#[test]
fn a_tree_sealed_again_over_a_fault_still_shows_the_fault() {
    let utf16 = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-16\n";
    let utf7 = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-7\n";
    let spaced = "BagIt-Version : 1.0\nTag-File-Character-Encoding: UTF-8\n";
    let old = "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n";
    let bom = "\u{feff}BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
    let oxum = "Payload-Oxum: 9.2\n";
    for (path, text, code) in [
        (DECLARATION, utf16, "E-ENCODING"),
        (DECLARATION, utf7, "E-ENCODING"),
        (DECLARATION, spaced, "E-DECL"),
        (DECLARATION, old, "E-DECL"),
        (DECLARATION, bom, "E-DECL"),
        (DECLARATION, "", "E-DECL"),
        (INFO, oxum, "E-OXUM"),
        (INFO, "A: b\n", "E-OXUM"),
        (INFO, "Payload-Oxum: 12.2\nPayload-Oxum: 12.2\n", "E-OXUM"),
        (INFO, "Payload-Oxum: 12.2\n  more\n", "E-SYNTAX"),
        (ATTRIBUTES, "* text=auto\n", "E-ATTR"),
        ("data/.gitattributes", ATTRIBUTES_TEXT, "E-ATTR"),
        (FETCH, "http://x 1 data/x\n", "E-FETCH"),
        ("manifest-md5.txt", "", "E-WEAK"),
        ("manifest-sha512.txt", "", "E-ALG"),
        ("tagmanifest-x.txt", "", "E-ALG"),
        ("data/.git/config", "", "E-GITDIR"),
        (".gitmodules", "", "E-GITDIR"),
        ("data/a b", "", "E-NAME"),
        ("data/Rows.tsv", "", "E-COLLIDE"),
    ] {
        let found = codes(&resealed(sealed(), put(path, text)));
        assert!(found.contains(&code), "{path}: {found:?}");
    }
}

#[test]
fn a_bare_repository_inside_the_payload_is_found() {
    let bad = resealed(sealed(), |tree| {
        for path in [
            "data/r/HEAD",
            "data/r/objects/info/x",
            "data/r/refs/heads/x",
        ] {
            tree.insert(path.to_owned(), Entry::text(""));
        }
    });
    assert!(codes(&bad).contains(&"E-GITDIR"));
}
