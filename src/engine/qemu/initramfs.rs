//! The guest's first file system: a cpio archive (newc) made in memory.
//!
//! Input: executables of this machine and where they go. Output: the archive with them,
//! their interpreter and libraries at the paths they have here, and a console. It is not
//! compressed: an emulated CPU takes longer to inflate than to copy (docs/decisions.md).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use thiserror::Error;

/// Mode bits of a folder, a regular file and a character device (inode(7)).
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;
/// Folders that `/init` mounts on.
const MOUNT_POINTS: [&str; 5] = ["dev", "proc", "sys", "tmp", "run"];

/// Why there is no archive.
#[derive(Debug, Error)]
pub enum InitramfsError {
    /// A file cannot be read.
    #[error("{path}: cannot read it for the guest: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The loader does not name the libraries.
    #[error(
        "{path}: its loader `{loader} --list` names no libraries: {message}; wanted a program of this machine"
    )]
    Libraries {
        /// The program.
        path: String,
        /// The loader.
        loader: String,
        /// What it says.
        message: String,
    },
}

/// Collects files and writes the archive.
#[derive(Debug, Default)]
pub(super) struct Initramfs {
    /// Path without leading slash, to mode and content; sorted, so folders come first.
    entries: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Initramfs {
    /// An archive with mount points and a console.
    pub(super) fn new() -> Self {
        let mut archive = Self::default();
        for folder in MOUNT_POINTS {
            archive
                .entries
                .insert(folder.to_owned(), (FOLDER, Vec::new()));
        }
        archive
            .entries
            .insert("dev/console".to_owned(), (DEVICE, Vec::new()));
        archive
    }

    /// Adds an executable and what its loader needs; `place` is its path in the guest.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or the loader does not answer.
    pub(super) fn add_program(&mut self, path: &Path, place: &str) -> Result<(), InitramfsError> {
        let bytes = read(path)?;
        if let Some(loader) = interpreter(&bytes) {
            for library in libraries(path, &loader)? {
                let bytes = read(Path::new(&library))?;
                self.add_file(&library, loaded_part(bytes));
            }
            let bytes = read(Path::new(&loader))?;
            self.add_file(&loader, loaded_part(bytes));
        }
        self.add_file(place, loaded_part(bytes));
        Ok(())
    }

    fn add_file(&mut self, place: &str, bytes: Vec<u8>) {
        let place = place.trim_start_matches('/');
        for (at, _) in place.match_indices('/') {
            if let Some(folder) = place.get(..at) {
                let folder = (folder.to_owned(), (FOLDER, Vec::new()));
                self.entries.entry(folder.0).or_insert(folder.1);
            }
        }
        self.entries.insert(place.to_owned(), (FILE, bytes));
    }

    /// Returns the archive.
    pub(super) fn archive(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (inode, (path, (mode, bytes))) in (1..).zip(&self.entries) {
            push_entry(&mut out, inode, path, *mode, bytes);
        }
        push_entry(&mut out, 0, "TRAILER!!!", 0, &[]);
        out
    }
}

fn read(path: &Path) -> Result<Vec<u8>, InitramfsError> {
    fs::read(path).map_err(|source| InitramfsError::Read {
        path: path.display().to_string(),
        source,
    })
}

/// One header of 13 numbers, eight hex digits each, the name and the content, both padded
/// to four bytes (Documentation/driver-api/early-userspace/buffer-format.rst).
fn push_entry(out: &mut Vec<u8>, inode: u32, path: &str, mode: u32, bytes: &[u8]) {
    // The console is the only device: major 5, minor 1 (admin-guide/devices.txt).
    let (major, minor) = if mode == DEVICE { (5, 1) } else { (0, 0) };
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let name_size = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
    let numbers = [
        inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0,
    ];
    out.extend_from_slice(b"070701");
    for number in numbers {
        out.extend_from_slice(format!("{number:08X}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(bytes);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    while !out.len().is_multiple_of(4) {
        out.push(0);
    }
}

/// A program header of a 64-bit little-endian ELF file: type, offset and size in the file.
struct Segment {
    kind: u32,
    offset: usize,
    size: usize,
}

const PT_INTERP: u32 = 3;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Reads the program headers (elf(5)); `None` for what is not such an ELF file.
fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    if number::<6>(bytes, 0)? != *b"\x7fELF\x02\x01" {
        return None;
    }
    let wide =
        |at| -> Option<usize> { usize::try_from(u64::from_le_bytes(number(bytes, at)?)).ok() };
    let half = |at| -> Option<usize> { Some(usize::from(u16::from_le_bytes(number(bytes, at)?))) };
    let (table, size, count) = (wide(0x20)?, half(0x36)?, half(0x38)?);
    (0..count)
        .map(|index| {
            let at = table.checked_add(index.checked_mul(size)?)?;
            Some(Segment {
                kind: u32::from_le_bytes(number(bytes, at)?),
                offset: wide(at.checked_add(8)?)?,
                size: wide(at.checked_add(32)?)?,
            })
        })
        .collect()
}

/// Returns the loader an executable asks for; `None` for a static one.
fn interpreter(bytes: &[u8]) -> Option<String> {
    let segment = segments(bytes)?
        .into_iter()
        .find(|segment| segment.kind == PT_INTERP)?;
    let end = segment.offset.checked_add(segment.size)?;
    let text = bytes.get(segment.offset..end)?;
    let text = std::str::from_utf8(text).ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}

/// Returns the part of an ELF file that is ever loaded: what follows its last segment is
/// symbols and debug information, which the guest would only have to copy.
fn loaded_part(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = segments(&bytes).and_then(|segments| {
        segments
            .iter()
            .filter_map(|segment| segment.offset.checked_add(segment.size))
            .max()
    });
    let Some(end) = end.filter(|end| (0x40..bytes.len()).contains(end)) else {
        return bytes;
    };
    bytes.truncate(end);
    // The table of sections is gone: its place, its count and its names with it.
    for range in [0x28..0x30, 0x3c..0x40] {
        if let Some(place) = bytes.get_mut(range) {
            place.fill(0);
        }
    }
    bytes
}

/// Asks the loader for the libraries of a program.
fn libraries(path: &Path, loader: &str) -> Result<Vec<String>, InitramfsError> {
    let failed = |message: String| InitramfsError::Libraries {
        path: path.display().to_string(),
        loader: loader.to_owned(),
        message,
    };
    let output = Command::new(loader)
        .arg("--list")
        .arg(path)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(failed(text.trim().to_owned()));
    }
    Ok(listed(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads `name => /path (address)` and `/path (address)`; the kernel's own has no path.
fn listed(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let rest = line.split_once("=>").map_or(line, |(_, rest)| rest);
            let word = rest.split_whitespace().next()?;
            word.starts_with('/').then(|| word.to_owned())
        })
        .collect()
}

#[cfg(test)]
#[path = "initramfs_tests.rs"]
mod tests;
