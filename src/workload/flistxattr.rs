//! `flistxattr`: the names of the extended attributes of one open file on a tmpfs.
//!
//! The buffer's size is part of the quantity, because the kernel allocates one of the
//! same size for each call; it is the same for every number of names.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, XattrFlags, flistxattr, fsetxattr, fstatfs, open};
use rustix::io::Errno;

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::harness::monotonic_raw_ns;
use super::parameters::Parameters;
use super::{Place, Prepared, RoundOutcome, Workload};

/// Name of the workload.
pub const NAME: &str = "flistxattr";

/// `TMPFS_MAGIC` of the kernel's `magic.h`, as `statfs` reports it.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Bytes offered to each call: one page. The 64 names allowed take 1,152 of it, so
/// that a name too many is a wrong length and not an error.
const LIST_BYTES: usize = 4096;

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: NAME,
    op: "one flistxattr call that returns every attribute name of an open tmpfs file",
    op_word: "call",
    window: "all calls of a round",
    figure: Figure::TimePerOp,
    parameters: &[
        Parameter {
            name: "names",
            default: 16,
            min: 1,
            max: 64,
            meaning: "user.* attributes of the file, with names of 17 bytes",
        },
        Parameter {
            name: "calls",
            // About 4 ms: a disturbance inside a long round is invisible to the canaries.
            default: 8_192,
            min: 64,
            max: 1_000_000,
            meaning: "calls in one round, in one timed window",
        },
    ],
    counters: &[
        Counter {
            name: "calls_ok",
            expect: Expect::Ops,
            meaning: "calls that returned the exact length of the list",
        },
        Counter {
            name: "wrong_length",
            expect: Expect::Zero,
            meaning: "calls that failed or returned another length",
        },
        Counter {
            name: "wrong_names",
            expect: Expect::Zero,
            meaning: "names missing from the last call's list, in it twice, or never given to the file",
        },
    ],
    needs: &["user.* attributes on tmpfs (Linux 6.6 or newer, CONFIG_TMPFS_XATTR)"],
    functions: &[
        "listxattr",
        "vfs_listxattr",
        "shmem_listxattr",
        "simple_xattr_list",
    ],
    hits: &[Hit::new(
        "syscalls:sys_enter_flistxattr",
        &[],
        Wanted::PerOp(1),
    )],
    trace_shape: &[("calls", 64)],
    scope: "the flistxattr system call of one thread on one open tmpfs file that nobody else uses, into a buffer of 4,096 bytes: a synthetic micro-benchmark",
    not_shown: &[
        "the slowdown of any application",
        "other file systems, and looking a file up by its path",
        "reading, setting or removing attributes, and lists that change meanwhile",
        "other numbers of names than the one recorded",
    ],
    control: None,
};

/// Where a tmpfs is looked for, in this order.
fn places() -> Vec<PathBuf> {
    let given = std::env::var_os("TMPDIR").filter(|text| !text.is_empty());
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(given.map(PathBuf::from));
    places.push(PathBuf::from("/tmp"));
    places
}

/// A file without a name, in the first of `places` that is a tmpfs with user.* attributes.
fn file_in(places: &[PathBuf]) -> Result<OwnedFd, WorkloadError> {
    let mut looked = String::new();
    for place in places {
        match try_place(place) {
            Ok(file) => return Ok(file),
            Err(reason) => {
                let separator = if looked.is_empty() { "" } else { ", " };
                // Writing to a String cannot fail.
                let _ = write!(looked, "{separator}{} ({reason})", place.display());
            }
        }
    }
    Err(WorkloadError::NoTmpfsAttributes { looked })
}

/// A file in one place, or why not.
fn try_place(place: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let directory =
        open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(reason("open"))?;
    let kind = fstatfs(&directory).map_err(reason("fstatfs"))?.f_type;
    if u64::try_from(kind) != Ok(TMPFS_MAGIC) {
        return Err("no tmpfs".to_owned());
    }
    let file = open(place, flags, Mode::RUSR | Mode::WUSR).map_err(reason("open O_TMPFILE"))?;
    // Tried on a file of its own, so that the one that is measured has no other name.
    let trial = open(place, flags, Mode::RUSR | Mode::WUSR).map_err(reason("open O_TMPFILE"))?;
    fsetxattr(&trial, "user.regbundle", b"", XattrFlags::CREATE).map_err(reason("fsetxattr"))?;
    Ok(file)
}

fn reason(call: &'static str) -> impl Fn(Errno) -> String {
    move |error| format!("{call}: {}", io::Error::from(error))
}

fn system_error(call: &'static str) -> impl Fn(Errno) -> WorkloadError {
    move |error| WorkloadError::System {
        workload: NAME,
        call,
        source: error.into(),
    }
}

/// The name of one attribute; all are equally long.
fn name(number: u64) -> String {
    format!("user.regbundle.{number:02}")
}

/// The timed part: every call of the round; returns ns, the calls that returned the
/// wanted length, and what the last one returned (0 when it failed).
fn window(file: &OwnedFd, list: &mut [u8], calls: u64, wanted: usize) -> (u64, u64, usize) {
    let (mut right, mut last) = (0, 0);
    let begin = monotonic_raw_ns();
    for _ in 0..calls {
        last = flistxattr(file, &mut *list).unwrap_or(0);
        right += u64::from(last == wanted);
    }
    (monotonic_raw_ns().saturating_sub(begin), right, last)
}

/// Names of a list as the kernel writes it, each ended by a zero byte.
fn names_in(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split_inclusive(|byte| *byte == 0)
}

/// How many names are missing from a list, in it twice, or in it without being wanted.
fn wrong_names(list: &[u8], wanted: &BTreeSet<Vec<u8>>) -> u64 {
    let mut missing: BTreeSet<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    let surplus = names_in(list).filter(|name| !missing.remove(name)).count();
    u64::try_from(surplus + missing.len()).unwrap_or(u64::MAX)
}

/// The workload.
pub struct Flistxattr;

struct Calls {
    file: OwnedFd,
    list: Vec<u8>,
    /// Names with their zero byte.
    names: BTreeSet<Vec<u8>>,
    calls: u64,
}

impl Workload for Flistxattr {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    fn support(&self) -> Result<(), WorkloadError> {
        file_in(&places()).map(drop)
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        _place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        let (names, calls) = (parameters.get("names")?, parameters.get("calls")?);
        Ok(Box::new(Calls::new(file_in(&places())?, names, calls)?))
    }
}

impl Calls {
    fn new(file: OwnedFd, count: u64, calls: u64) -> Result<Self, WorkloadError> {
        let mut list = vec![0; LIST_BYTES];
        // A security module may have named the new file already (security.selinux);
        // such a name is in every list and belongs to what is expected.
        let length = flistxattr(&file, list.as_mut_slice()).map_err(system_error("flistxattr"))?;
        let given = list.get(..length).unwrap_or_default();
        let mut names: BTreeSet<Vec<u8>> = names_in(given).map(<[u8]>::to_vec).collect();
        for number in 0..count {
            let name = name(number);
            fsetxattr(&file, name.as_str(), b"", XattrFlags::CREATE)
                .map_err(system_error("fsetxattr"))?;
            names.insert([name.as_bytes(), b"\0"].concat());
        }
        Ok(Self {
            file,
            list,
            names,
            calls,
        })
    }

    /// Length of the list the kernel must return, bytes.
    fn length(&self) -> usize {
        self.names.iter().map(Vec::len).sum()
    }
}

impl Prepared for Calls {
    fn requests(&self) -> u64 {
        self.calls
    }

    fn preflight(&mut self) -> Result<(), WorkloadError> {
        let found =
            flistxattr(&self.file, self.list.as_mut_slice()).map_err(system_error("flistxattr"))?;
        let wrong = wrong_names(self.list.get(..found).unwrap_or_default(), &self.names);
        let wanted = self.length();
        if wrong == 0 && found == wanted {
            return Ok(());
        }
        Err(WorkloadError::PreflightList {
            workload: NAME,
            found,
            wanted,
            wrong,
        })
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        // What an earlier round left must not pass for what this one's calls wrote.
        self.list.fill(0);
        let wanted = self.length();
        let (elapsed_ns, right, last) = window(&self.file, &mut self.list, self.calls, wanted);
        let wrong = wrong_names(self.list.get(..last).unwrap_or_default(), &self.names);
        Ok(RoundOutcome {
            ops: self.calls,
            elapsed_ns,
            counters: vec![right, self.calls.saturating_sub(right), wrong],
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::fremovexattr;

    use super::*;

    /// `None`, with the reason printed, where no tmpfs takes such attributes.
    fn calls(names: u64) -> Option<Calls> {
        match file_in(&places()) {
            Ok(file) => Some(Calls::new(file, names, 64).unwrap()),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    /// Whether the row of such a round has status `pass`.
    fn passes(outcome: &RoundOutcome) -> bool {
        DECLARATION
            .counters
            .iter()
            .zip(&outcome.counters)
            .all(|(counter, found)| counter.expect.wanted(outcome.ops) == Some(*found))
    }

    #[test]
    fn every_call_returns_every_name_from_the_fewest_to_the_most() {
        for names in [1, 16, 64] {
            let Some(mut calls) = calls(names) else {
                return;
            };
            calls.preflight().unwrap();
            for _ in 0..2 {
                let outcome = calls.round().unwrap();
                assert_eq!(outcome.ops, 64);
                assert!(outcome.elapsed_ns > 0);
                assert_eq!(outcome.counters, [64, 0, 0], "{names} names");
                assert!(passes(&outcome));
            }
        }
    }

    #[test]
    fn one_name_more_or_less_than_declared_is_a_wrong_length_in_every_call() {
        let Some(mut calls) = calls(16) else {
            return;
        };
        fsetxattr(&calls.file, "user.more", b"", XattrFlags::CREATE).unwrap();
        let outcome = calls.round().unwrap();
        assert_eq!(outcome.counters, [0, 64, 1]);
        assert!(!passes(&outcome));
        let message = calls.preflight().unwrap_err().to_string();
        // 16 names of 17 bytes and a zero byte each; "user.more" takes ten.
        assert!(
            message.contains("298 bytes") && message.contains("288"),
            "{message}"
        );
        fremovexattr(&calls.file, "user.more").unwrap();
        assert_eq!(calls.round().unwrap().counters, [64, 0, 0]);
        fremovexattr(&calls.file, name(3)).unwrap();
        assert_eq!(calls.round().unwrap().counters, [0, 64, 1]);
    }

    #[test]
    fn another_name_of_the_same_length_is_seen_though_the_length_is_right() {
        let Some(mut calls) = calls(16) else {
            return;
        };
        fremovexattr(&calls.file, name(3)).unwrap();
        fsetxattr(&calls.file, name(16), b"", XattrFlags::CREATE).unwrap();
        let outcome = calls.round().unwrap();
        assert_eq!(outcome.counters, [64, 0, 2]);
        assert!(!passes(&outcome));
        assert!(calls.preflight().is_err());
    }

    #[test]
    fn a_call_that_fails_is_counted_and_leaves_no_names() {
        let Some(mut calls) = calls(16) else {
            return;
        };
        // Too short by one byte: ERANGE.
        calls.list.truncate(calls.length() - 1);
        assert_eq!(calls.round().unwrap().counters, [0, 64, 16]);
    }

    #[test]
    fn wrong_names_counts_missing_double_and_unknown_ones_whatever_their_order() {
        let wanted = BTreeSet::from([b"a\0".to_vec(), b"b\0".to_vec()]);
        for (list, wrong) in [
            (b"b\0a\0".as_slice(), 0),
            (b"a\0", 1),
            (b"", 2),
            (b"a\0b\0b\0", 1),
            (b"a\0a\0", 2),
            (b"a\0c\0", 2),
            // The last name is cut short.
            (b"a\0b", 2),
        ] {
            assert_eq!(wrong_names(list, &wanted), wrong, "{list:?}");
        }
    }

    #[test]
    fn no_tmpfs_is_a_skip_that_says_where_it_was_looked_for() {
        let places = ["/proc", "/nowhere/at/all"].map(PathBuf::from);
        let error = file_in(&places).unwrap_err();
        let message = error.to_string();
        for part in ["user.*", "6.6", "/proc (no tmpfs)", "/nowhere/at/all (open"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(error.kind().exit_code(), 4);
    }
}
