//! Writes the standalone C program of a workload: one file that `cc` alone compiles.
//!
//! Input is the text below `reproducer/`, compiled into this binary; output is that
//! text with the harness put in place of its `#include`. Nothing is generated or
//! rewritten, so what a reader compiles is what this project's tests compile.

use super::declaration::split_scenario;

const SPDX: &str = "// SPDX-License-Identifier:";

/// Workload name to C text, in the order of the catalogue.
const SOURCES: [(&str, &str); 11] = [
    (
        "io-uring-futex-waitv",
        include_str!("../../reproducer/io-uring-futex-waitv.c"),
    ),
    (
        "io-uring-futex-scalar",
        include_str!("../../reproducer/io-uring-futex-scalar.c"),
    ),
    (
        "syscall-getpid",
        include_str!("../../reproducer/syscall-getpid.c"),
    ),
    (
        "io-uring-nop",
        include_str!("../../reproducer/io-uring-nop.c"),
    ),
    ("flistxattr", include_str!("../../reproducer/flistxattr.c")),
    (
        "io-uring-msg-ring-send-fd",
        include_str!("../../reproducer/io-uring-msg-ring-send-fd.c"),
    ),
    (
        "mprotect-shared-dirty",
        include_str!("../../reproducer/mprotect-shared-dirty.c"),
    ),
    (
        "mmap-munmap",
        include_str!("../../reproducer/mmap-munmap.c"),
    ),
    ("page-fault", include_str!("../../reproducer/page-fault.c")),
    (
        "thread-pool",
        include_str!("../../reproducer/thread-pool.c"),
    ),
    (
        "inotify-watch",
        include_str!("../../reproducer/inotify-watch.c"),
    ),
];

/// The headers a C text may include by quoted name; none includes another.
const HEADERS: [(&str, &str); 5] = [
    ("regbundle.h", include_str!("../../reproducer/regbundle.h")),
    (
        "regbundle-ring.h",
        include_str!("../../reproducer/regbundle-ring.h"),
    ),
    (
        "regbundle-futex.h",
        include_str!("../../reproducer/regbundle-futex.h"),
    ),
    (
        "regbundle-tasks.h",
        include_str!("../../reproducer/regbundle-tasks.h"),
    ),
    (
        "regbundle-window.h",
        include_str!("../../reproducer/regbundle-window.h"),
    ),
];

/// The names of the workloads that have a C program.
pub fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|(name, _)| *name)
}

/// Returns the C program of the workload `name`; `None` when it has none.
///
/// The scenarios of a workload share its program.
/// The text has one SPDX line, the first, and includes system headers only.
#[must_use]
pub fn source(name: &str) -> Option<String> {
    let text = lookup(&SOURCES, split_scenario(name).0)?;
    let mut out = String::new();
    for line in text.lines() {
        match included(line) {
            Some(header) => header
                .lines()
                .filter(|inner| !inner.starts_with(SPDX))
                .for_each(|inner| push_line(&mut out, inner)),
            None => push_line(&mut out, line),
        }
    }
    Some(out)
}

/// Returns the Makefile beside the C programs of `names`: one rule builds each.
#[must_use]
pub fn makefile(names: &[&str]) -> String {
    format!(
        "CFLAGS = -O2 -Wall -Wextra\n\n\
         all: {}\n\n\
         %: %.c\n\
         \t$(CC) -std=gnu11 $(CFLAGS) -o $@ $<\n",
        names.join(" ")
    )
}

fn included(line: &str) -> Option<&'static str> {
    let name = line.strip_prefix("#include \"")?.strip_suffix('"')?;
    lookup(&HEADERS, name)
}

fn lookup(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, text)| *text)
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quoted_include_is_replaced_by_its_header_once() {
        for name in names() {
            let text = source(name).unwrap();
            assert!(!text.contains("#include \""), "{name}");
            assert_eq!(text.matches("#define _GNU_SOURCE").count(), 1, "{name}");
            assert_eq!(text.matches(SPDX).count(), 1, "{name}");
            assert!(text.starts_with(SPDX), "{name}");
        }
    }

    /// Five scenarios and a second ring take the room of another program.
    fn most_lines(name: &str) -> usize {
        match name {
            "io-uring-msg-ring-send-fd" => 800,
            "mmap-munmap" | "page-fault" => 625,
            "inotify-watch" => 705,
            _ => 600,
        }
    }

    #[test]
    fn an_emitted_file_is_at_most_600_or_800_lines_of_80_columns_with_tabs_of_8() {
        for name in names() {
            let text = source(name).unwrap();
            let lines = text.lines().count();
            assert!(lines <= most_lines(name), "{name} has {lines} lines");
            for line in text.lines() {
                let width = line.chars().fold(0, |column, character| match character {
                    '\t' => (column / 8 + 1) * 8,
                    _ => column + 1,
                });
                assert!(width <= 80, "{name}: {width} columns: {line}");
            }
        }
    }

    #[test]
    fn the_control_carries_no_text_of_the_target() {
        let control = source("io-uring-futex-scalar").unwrap();
        assert!(!control.contains("struct waitv"));
        for name in ["syscall-getpid", "flistxattr", "mprotect-shared-dirty"] {
            assert!(!source(name).unwrap().contains("io_uring"), "{name}");
        }
    }

    #[test]
    fn an_unknown_workload_has_no_program() {
        assert_eq!(source("regbundle.h"), None);
    }
}
