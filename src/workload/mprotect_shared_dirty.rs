//! `mprotect-shared-dirty`: the protection of a dirty shared mapping taken away, given
//! back, and one write to each of its pages.
//!
//! The three parts are clocked apart, because a change of the kernel can move work
//! from one to another: what a write-protected page costs later is paid in the writes.
#![expect(
    unsafe_code,
    reason = "a mapping, its protection, raw writes to it and a child that must fault"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::harness::monotonic_raw_ns;
use super::parameters::Parameters;
use super::{Place, Prepared, RoundOutcome, Workload};

/// Name of the workload.
pub const NAME: &str = "mprotect-shared-dirty";

/// The one size of pages the figure is defined for, bytes.
const PAGE_BYTES: usize = 4096;

/// Pages of the preflight that are looked up in the page table.
const PAGES_LOOKED_UP: usize = 16;

/// "Bit 63: page present" (Documentation/admin-guide/mm/pagemap.rst).
const PAGE_PRESENT: u64 = 1 << 63;

/// Fields of smaps that say what is mapped by more than single pages.
const HUGE_FIELDS: [&str; 3] = ["ShmemPmdMapped:", "AnonHugePages:", "FilePmdMapped:"];

/// What the workload says about itself.
pub const DECLARATION: Declaration = Declaration {
    name: NAME,
    op: "one page made read-only, made writable again, and written once",
    op_word: "page",
    window: "one cycle over the whole mapping; two more clock reads divide it into its parts",
    figure: Figure::TimePerOp,
    parameters: &[
        Parameter {
            name: "mib",
            default: 64,
            min: 1,
            max: 1024,
            meaning: "size of the mapping, MiB",
        },
        Parameter {
            name: "cycles",
            // About 5 ms: a disturbance inside a long round is invisible to the canaries.
            default: 4,
            min: 1,
            max: 10_000,
            meaning: "cycles, hence timed windows, in one round; each is over the whole mapping",
        },
    ],
    counters: &[
        Counter {
            name: "pages_ok",
            expect: Expect::Ops,
            meaning: "pages that held, after each window, the value its cycle wrote",
        },
        Counter {
            name: "wrong_value",
            expect: Expect::Zero,
            meaning: "pages that held another value after a window",
        },
        Counter {
            name: "huge_pages",
            expect: Expect::Zero,
            meaning: "kB of the mapping in huge pages (smaps: ShmemPmdMapped, AnonHugePages, FilePmdMapped), read before the first round",
        },
        Counter {
            name: "part_protect",
            expect: Expect::Recorded,
            meaning: "ns of the windows spent in mprotect(PROT_READ)",
        },
        Counter {
            name: "part_restore",
            expect: Expect::Recorded,
            meaning: "ns of the windows spent in mprotect(PROT_READ | PROT_WRITE)",
        },
        Counter {
            name: "part_touch",
            expect: Expect::Recorded,
            meaning: "ns of the windows spent in one write per page, faults included",
        },
    ],
    needs: &[
        "pages of 4,096 bytes",
        "memory for the whole mapping, and /proc/self/smaps and /proc/self/pagemap (CONFIG_PROC_PAGE_MONITOR)",
    ],
    functions: &["do_mprotect_pkey", "mprotect_fixup", "change_protection"],
    hits: &[
        Hit::new(
            "syscalls:sys_enter_mprotect",
            &[],
            Wanted::PerRoundTimes(2, "cycles"),
        ),
        // Whether a page that is writable again faults is the kernel's choice.
        Hit::new("exceptions:page_fault_user", &[], Wanted::Recorded),
    ],
    trace_shape: &[("cycles", 2), ("mib", 2)],
    scope: "the protection of one shared anonymous mapping, all of it present, dirty and in small pages, changed and changed back by one thread that then writes one byte of each page: a synthetic micro-benchmark",
    not_shown: &[
        "the slowdown of any application",
        "private mappings, mappings of files, huge pages and pages that are not present",
        "processes of several threads, where other CPUs must be told of the change",
        "protections of parts of a mapping, which split it",
    ],
    control: None,
};

/// One shared anonymous mapping, present and dirty.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> Result<Self, WorkloadError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED) }
                .map_err(|error| system("mmap")(error.into()))?;
        let mapping = Self {
            start: start.cast(),
            bytes,
        };
        // SAFETY: the range is the mapping; the advice changes no content.
        unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) }
            .map_err(|error| system("madvise(MADV_NOHUGEPAGE)")(error.into()))?;
        Ok(mapping)
    }

    const fn pages(&self) -> usize {
        self.bytes / PAGE_BYTES
    }

    #[inline]
    fn protect(&self, protection: MprotectFlags) -> Result<(), WorkloadError> {
        // SAFETY: the range is the mapping, to which no reference exists: it is read
        // and written through raw pointers only, never while it is not writable.
        unsafe { mprotect(self.start.cast(), self.bytes, protection) }
            .map_err(|error| system("mprotect")(error.into()))
    }

    /// The first byte of a page.
    #[inline]
    fn page(&self, page: usize) -> *mut u8 {
        debug_assert!(page < self.pages());
        self.start.wrapping_add(page * PAGE_BYTES)
    }

    fn value(&self, page: usize) -> u8 {
        // SAFETY: the page is one of the mapping, which is readable at all times.
        unsafe { self.page(page).read_volatile() }
    }

    /// Pages whose first byte is `value`.
    fn holding(&self, value: u8) -> u64 {
        let holding = (0..self.pages()).filter(|page| self.value(*page) == value);
        number(holding.count())
    }

    /// How many of some pages, spread over the mapping, are in the page table.
    fn present(&self) -> Result<usize, WorkloadError> {
        let table = File::open("/proc/self/pagemap").map_err(system("open /proc/self/pagemap"))?;
        let step = self.pages() / PAGES_LOOKED_UP;
        let mut present = 0;
        for page in (0..PAGES_LOOKED_UP).map(|nth| nth * step) {
            let mut entry = [0_u8; 8];
            let place = number(self.page(page).addr() / PAGE_BYTES) * 8;
            table
                .read_exact_at(&mut entry, place)
                .map_err(system("read of /proc/self/pagemap"))?;
            present += usize::from(u64::from_ne_bytes(entry) & PAGE_PRESENT != 0);
        }
        Ok(present)
    }

    /// kB of the mapping that are mapped by more than single pages.
    fn huge_kib(&self) -> Result<u64, WorkloadError> {
        let text = std::fs::read_to_string("/proc/self/smaps")
            .map_err(system("read of /proc/self/smaps"))?;
        huge_kib_in(&text, self.start.addr(), self.bytes).ok_or_else(|| {
            let absent = io::Error::new(
                io::ErrorKind::InvalidData,
                "the mapping, or one of ShmemPmdMapped, AnonHugePages and FilePmdMapped, is not in it",
            );
            system("looking for the mapping in /proc/self/smaps")(absent)
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping, and nothing refers to it any more. A
        // refusal leaves it mapped, which harms nobody.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// kB in huge pages of the mapping of exactly these addresses; `None` when it is not
/// in the text, or does not say.
fn huge_kib_in(smaps: &str, start: usize, bytes: usize) -> Option<u64> {
    let head = format!("{start:08x}-{:08x} ", start + bytes);
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head));
    lines.next()?;
    // The head of the next mapping begins with an address, fields with a capital.
    let fields: Vec<&str> = lines
        .take_while(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .collect();
    let kib = |name: &str| {
        let field = fields.iter().find_map(|line| line.strip_prefix(name))?;
        field.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    HUGE_FIELDS.into_iter().map(kib).sum()
}

/// What a child that writes to the mapping came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// It wrote and went on.
    Done,
    /// It died of SIGSEGV at the first attempt.
    Faulted,
    /// It ended otherwise; the status of `waitpid`.
    Other(i32),
}

impl Write {
    const fn words(self) -> &'static str {
        match self {
            Self::Done => "the write went through",
            Self::Faulted => "the write faulted (SIGSEGV)",
            Self::Other(_) => "the child that writes was ended by something else",
        }
    }
}

/// Writes `value` to one page in a child, which has the same mapping and protection.
fn write_in_child(mapping: &Mapping, page: usize, value: u8) -> Result<Write, WorkloadError> {
    let byte = mapping.page(page);
    // SAFETY: the child calls only async-signal-safe functions and ends by _exit or by
    // the signal, whose handler is the default one again; it writes to no memory but
    // the page in question and its own stack.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            let no_core = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            byte.write_volatile(value);
            libc::_exit(0);
        }
        child
    };
    if child < 0 {
        return Err(system("fork")(io::Error::last_os_error()));
    }
    let mut status = 0;
    // SAFETY: the pointer is to an int that outlives the call.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(system("waitpid")(io::Error::last_os_error()));
    }
    Ok(
        if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV {
            Write::Faulted
        } else if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            Write::Done
        } else {
            Write::Other(status)
        },
    )
}

/// One write to each page of a mapping; one with an error in it stands in for it in tests.
type Touch = fn(&Mapping, u8);

#[inline]
fn touch(mapping: &Mapping, value: u8) {
    for page in 0..mapping.pages() {
        // SAFETY: the page is one of the mapping, which is writable here; volatile, so
        // that the compiler keeps every write and its order.
        unsafe { mapping.page(page).write_volatile(value) };
    }
}

/// ns of the three parts of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Parts {
    protect_ns: u64,
    restore_ns: u64,
    touch_ns: u64,
}

const WRITABLE: MprotectFlags = MprotectFlags::READ.union(MprotectFlags::WRITE);

/// The timed part: one cycle over the whole mapping.
fn window(rounds: &Rounds, value: u8) -> Result<Parts, WorkloadError> {
    let begin = monotonic_raw_ns();
    rounds.mapping.protect(rounds.protection)?;
    let protected = monotonic_raw_ns();
    rounds.mapping.protect(WRITABLE)?;
    let restored = monotonic_raw_ns();
    (rounds.touch)(&rounds.mapping, value);
    let end = monotonic_raw_ns();
    Ok(Parts {
        protect_ns: protected.saturating_sub(begin),
        restore_ns: restored.saturating_sub(protected),
        touch_ns: end.saturating_sub(restored),
    })
}

/// The workload.
pub struct MprotectSharedDirty;

struct Rounds {
    mapping: Mapping,
    cycles: u64,
    /// What the pages hold: the value of the last cycle.
    value: u8,
    huge_kib: u64,
    /// What windows and preflight set for `PROT_READ`.
    protection: MprotectFlags,
    touch: Touch,
}

impl Workload for MprotectSharedDirty {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    fn support(&self) -> Result<(), WorkloadError> {
        // SAFETY: sysconf takes no pointer.
        let found = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        check_page_size(usize::try_from(found).unwrap_or(0))
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        _place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        let (mib, cycles) = (parameters.get("mib")?, parameters.get("cycles")?);
        Ok(Box::new(Rounds::new(mib, cycles)?))
    }
}

const fn check_page_size(found: usize) -> Result<(), WorkloadError> {
    if found == PAGE_BYTES {
        return Ok(());
    }
    Err(WorkloadError::PageSize {
        found,
        wanted: PAGE_BYTES,
    })
}

impl Rounds {
    fn new(mib: u64, cycles: u64) -> Result<Self, WorkloadError> {
        let bytes = usize::try_from(mib << 20).unwrap_or(usize::MAX);
        let mapping = Mapping::new(bytes)?;
        let value = next(0);
        touch(&mapping, value);
        Ok(Self {
            huge_kib: mapping.huge_kib()?,
            mapping,
            cycles,
            value,
            protection: MprotectFlags::READ,
            touch,
        })
    }

    /// One write by a child to the last page, which must come to `wanted`.
    fn expect_write(&self, what: &'static str, wanted: Write) -> Result<(), WorkloadError> {
        let last = self.mapping.pages() - 1;
        let found = write_in_child(&self.mapping, last, self.value)?;
        if found == wanted {
            return Ok(());
        }
        let status = match found {
            Write::Other(status) => format!(" (status {status:#x})"),
            _ => String::new(),
        };
        Err(WorkloadError::PreflightCheck {
            workload: NAME,
            what,
            found: format!("{}{status}", found.words()),
            wanted: wanted.words().to_owned(),
        })
    }
}

/// The value of the next cycle: never that of the one before, never 0.
const fn next(value: u8) -> u8 {
    if value == u8::MAX { 1 } else { value + 1 }
}

impl Prepared for Rounds {
    fn requests(&self) -> u64 {
        number(self.mapping.pages()).saturating_mul(self.cycles)
    }

    /// Whether the protection is real, which no value in memory can show: a write
    /// faults while it is taken away and goes through when it is back.
    fn preflight(&mut self) -> Result<(), WorkloadError> {
        self.mapping.protect(self.protection)?;
        let refused = self.expect_write("a write under PROT_READ", Write::Faulted);
        self.mapping.protect(WRITABLE)?;
        refused?;
        self.expect_write("a write after PROT_READ | PROT_WRITE", Write::Done)?;
        touch(&self.mapping, self.value);
        let present = self.mapping.present()?;
        if present == PAGES_LOOKED_UP {
            return Ok(());
        }
        Err(WorkloadError::PreflightCheck {
            workload: NAME,
            what: "pages present in /proc/self/pagemap",
            found: present.to_string(),
            wanted: PAGES_LOOKED_UP.to_string(),
        })
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let (mut total, mut right) = (Parts::default(), 0);
        for _ in 0..self.cycles {
            self.value = next(self.value);
            let parts = window(self, self.value)?;
            total.protect_ns += parts.protect_ns;
            total.restore_ns += parts.restore_ns;
            total.touch_ns += parts.touch_ns;
            right += self.mapping.holding(self.value);
        }
        let ops = number(self.mapping.pages()) * self.cycles;
        Ok(RoundOutcome {
            ops,
            elapsed_ns: total.protect_ns + total.restore_ns + total.touch_ns,
            counters: vec![
                right,
                ops.saturating_sub(right),
                self.huge_kib,
                total.protect_ns,
                total.restore_ns,
                total.touch_ns,
            ],
        })
    }
}

fn system(call: &'static str) -> impl Fn(io::Error) -> WorkloadError {
    move |source| WorkloadError::System {
        workload: NAME,
        call,
        source,
    }
}

fn number(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "mprotect_shared_dirty_tests.rs"]
mod tests;
