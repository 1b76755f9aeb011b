//! Reads the formats of single files below `/proc` and `/sys`; pure, and total over any input.

/// What `/proc/version` says that is not private.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub release: String,
    pub compiler: Option<String>,
    pub version: Option<String>,
}

/// Parses `Linux version RELEASE (USER@HOST) (COMPILER) #1 SMP ...`; user and host are dropped.
pub(super) fn version(text: &str) -> Option<Version> {
    let rest = text.trim().strip_prefix("Linux version ")?.trim_start();
    let (release, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    // The compiler's own text may hold parentheses, and the host may be `(none)`.
    let (builder_and_compiler, version) = match rest.split_once(") #") {
        Some((left, right)) => (format!("{left})"), Some(format!("#{right}"))),
        None => (rest.to_owned(), None),
    };
    let compiler = after_group(builder_and_compiler.trim()).and_then(|rest| {
        let inner = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
        (!inner.is_empty()).then(|| inner.to_owned())
    });
    (!release.is_empty()).then(|| Version {
        release: release.to_owned(),
        compiler,
        version,
    })
}

/// What follows the first balanced group in parentheses; `None` when the text does not
/// begin with one, for then nothing says where the private part ends.
fn after_group(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return if index == 0 {
                None
            } else {
                text.get(index + 1..)
            };
        }
    }
    None
}

/// The word between two marks, as in `none voluntary (full) lazy`.
pub(super) fn marked(text: &str, open: char, close: char) -> Option<&str> {
    let (_, rest) = text.split_once(open)?;
    let (word, _) = rest.split_once(close)?;
    (!word.is_empty()).then_some(word)
}

/// How many CPUs a list such as `0-3,8` holds.
pub(super) fn cpu_count(list: &str) -> Option<usize> {
    list.trim()
        .split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => {
                let first: usize = first.parse().ok()?;
                let last: usize = last.parse().ok()?;
                last.checked_sub(first)?.checked_add(1)
            }
            None => part.parse::<usize>().ok().map(|_| 1),
        })
        .try_fold(0_usize, |sum, count| sum.checked_add(count?))
}

/// `MemTotal` of `/proc/meminfo` in GiB, rounded up: the kernel keeps some memory for
/// itself, and two kernels on one machine keep different amounts.
pub(super) fn memory_gib(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()?;
    Some(kib.div_ceil(1024 * 1024))
}

/// The first value of a key in lines of `key : value`.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(name, value)| (name.trim() == key).then(|| value.trim()))
        .filter(|value| !value.is_empty())
}

/// The GNU build id in a file of ELF notes, lower-case hex; `None` when there is none or the file is torn before it.
pub(super) fn build_id(notes: &[u8]) -> Option<String> {
    /// `NT_GNU_BUILD_ID` of elf.h.
    const BUILD_ID_TYPE: u32 = 3;
    let mut rest = notes;
    loop {
        let (name_size, tail) = word(rest)?;
        let (description_size, tail) = word(tail)?;
        let (kind, tail) = word(tail)?;
        let (name, tail) = padded(tail, name_size)?;
        let (description, tail) = padded(tail, description_size)?;
        if kind == BUILD_ID_TYPE && name == b"GNU\0" && !description.is_empty() {
            return Some(
                description
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            );
        }
        rest = tail;
    }
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*word), rest))
}

/// `size` bytes and what follows their padding to four; the last padding of a file may be missing.
fn padded(bytes: &[u8], size: u32) -> Option<(&[u8], &[u8])> {
    let size = usize::try_from(size).ok()?;
    let (content, rest) = bytes.split_at_checked(size)?;
    let padding = size.wrapping_neg() % 4;
    Some((content, rest.get(padding..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for size in [name.len(), description.len()] {
            bytes.extend(u32::try_from(size).unwrap().to_ne_bytes());
        }
        bytes.extend(kind.to_ne_bytes());
        for part in [name, description] {
            bytes.extend(part);
            while !bytes.len().is_multiple_of(4) {
                bytes.push(0);
            }
        }
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut bytes = note(b"Xen\0", 3, &[9, 9, 9]);
        bytes.extend(note(b"Linux\0", 0x100, b"6.1.102-1.182.amzn2023.x86_64\0"));
        bytes.extend(note(b"GNU\0", 3, &[0xde, 0xad, 0x00, 0x0f]));
        assert_eq!(build_id(&bytes).as_deref(), Some("dead000f"));
    }

    #[test]
    fn notes_torn_anywhere_give_no_build_id() {
        let mut bytes = note(b"Linux\0", 6, &[0; 7]);
        bytes.extend(note(b"GNU\0", 3, &[0xab; 20]));
        for length in 0..bytes.len() {
            assert_eq!(build_id(&bytes[..length]), None, "{length}");
        }
        assert_eq!(build_id(&bytes), Some("ab".repeat(20)));
    }

    #[test]
    fn sizes_beyond_the_file_give_no_build_id() {
        let mut bytes = note(b"GNU\0", 3, &[0xab; 20]);
        bytes[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(build_id(&bytes), None);
        bytes[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(build_id(&bytes), None);
    }

    #[test]
    fn the_builder_is_dropped_from_the_version() {
        let found = version(
            "Linux version 6.12.117+deb13-cloud-amd64 (debian-kernel@lists.debian.org) \
             (x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) \
             #1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-06-01)\n",
        )
        .unwrap();
        assert_eq!(found.release, "6.12.117+deb13-cloud-amd64");
        assert_eq!(
            found.compiler.as_deref(),
            Some(
                "x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44"
            )
        );
        assert_eq!(
            found.version.as_deref(),
            Some("#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-06-01)")
        );
    }

    #[test]
    fn a_builder_with_parentheses_is_dropped_whole() {
        let found = version("Linux version 6.1.0 (carol@(none)) (gcc 12) #2 SMP").unwrap();
        assert_eq!(found.compiler.as_deref(), Some("gcc 12"));
        let torn = version("Linux version 6.1.0 (carol@(none) (gcc 12) #2 SMP").unwrap();
        assert_eq!(torn.compiler, None);
        assert_eq!(torn.version.as_deref(), Some("#2 SMP"));
        assert_eq!(version("Darwin 1.0"), None);
        assert_eq!(version("Linux version "), None);
    }

    #[test]
    fn cpus_of_a_list_are_counted() {
        assert_eq!(cpu_count("0\n"), Some(1));
        assert_eq!(cpu_count("0-3,8,10-11\n"), Some(7));
        for bad in ["", "a", "3-1", "0-", "0,,1", "0-18446744073709551615"] {
            assert_eq!(cpu_count(bad), None, "{bad}");
        }
    }

    #[test]
    fn memory_is_rounded_up_to_gib() {
        assert_eq!(
            memory_gib("MemTotal:       16096420 kB\nMemFree: 1 kB\n"),
            Some(16)
        );
        assert_eq!(memory_gib("MemTotal: 1048576 kB"), Some(1));
        assert_eq!(memory_gib("MemFree: 1048576 kB"), None);
    }

    #[test]
    fn the_marked_word_is_the_running_one() {
        assert_eq!(
            marked("none voluntary (full) lazy\n", '(', ')'),
            Some("full")
        );
        assert_eq!(
            marked("always [madvise] never\n", '[', ']'),
            Some("madvise")
        );
        assert_eq!(marked("none voluntary full", '(', ')'), None);
    }
}
