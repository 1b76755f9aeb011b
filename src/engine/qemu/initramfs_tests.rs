use std::process::Stdio;

use super::*;

#[test]
fn the_loader_s_list_is_read() {
    let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\
                \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
    assert_eq!(
        listed(text),
        [
            "/lib/x86_64-linux-gnu/libgcc_s.so.1",
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2"
        ]
    );
}

/// The header of the format's description, by hand: a file `a` with two bytes.
#[test]
fn an_entry_is_a_header_a_name_and_the_content_padded() {
    let mut out = Vec::new();
    push_entry(&mut out, 1, "a", FILE, b"xy");
    let header = "07070100000001000081ED0000000000000000000000010000000000000002\
                  000000000000000000000000000000000000000200000000";
    let mut wanted = header.as_bytes().to_vec();
    assert_eq!(wanted.len(), 110);
    wanted.extend_from_slice(b"a\0xy\0\0");
    assert_eq!(out, wanted);
}

#[test]
fn every_folder_comes_before_what_is_in_it() {
    let mut archive = Initramfs::new();
    archive.add_file("/lib/x86/libc.so.6", vec![1]);
    let paths: Vec<&str> = archive.entries.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "dev",
            "dev/console",
            "lib",
            "lib/x86",
            "lib/x86/libc.so.6",
            "proc",
            "run",
            "sys",
            "tmp"
        ]
    );
}

/// This test program, cut, still starts: nothing that is loaded was lost.
#[test]
fn a_program_without_its_tail_is_smaller_and_still_starts() {
    let own = std::env::current_exe().unwrap();
    let whole = fs::read(&own).unwrap();
    let cut = loaded_part(whole.clone());
    assert!(cut.len() < whole.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    fs::write(&path, &cut).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    let status = Command::new(&path)
        .arg("--help")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn what_is_no_elf_file_stays_as_it_is() {
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01"] {
        assert_eq!(loaded_part(bytes.to_vec()), bytes);
        assert_eq!(interpreter(bytes), None);
    }
}

proptest::proptest! {
    /// Damaged headers: any answer but a panic.
    #[test]
    fn no_bytes_after_the_magic_are_read_with_a_panic(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.extend(tail);
        let _ = interpreter(&bytes);
        let _ = loaded_part(bytes);
    }
}
