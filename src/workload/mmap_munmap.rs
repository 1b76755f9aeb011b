//! `mmap-munmap`: tasks that map and unmap untouched memory, anonymous or of a memfd.

#![expect(
    unsafe_code,
    reason = "mapping and unmapping memory are what is measured"
)]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use libc::{c_int, c_void};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::declaration::{Counter, Declaration, Expect, Figure, Hit, Parameter, Wanted};
use super::error::WorkloadError;
use super::parameters::Parameters;
use super::task_board::{Go, Slot, add};
use super::task_window::{FAILED_CALLS, OFF_CPU, OPS_OK, STUCK, TASKS, THREADS, TaskWindow};
use super::tasks::{Job, OVERSUBSCRIBE, columns, count, page_size, size};
use super::{Place, Prepared, RoundOutcome, Workload};

const NEEDS: &[&str] = &["memfd_create (Linux 3.17 or newer) in the scenario file"];

const PARAMETERS: &[Parameter] = &[
    TASKS,
    THREADS,
    Parameter {
        name: "mib",
        default: 128,
        min: 1,
        max: 4096,
        meaning: "MiB of one mapping",
    },
    Parameter {
        name: "window_ms",
        // A disturbance inside a long round is invisible to the canaries.
        default: 10,
        min: 1,
        max: 10_000,
        meaning: "length of the common window, ms",
    },
    OVERSUBSCRIBE,
];

const COUNTERS: &[Counter] = &[
    OPS_OK,
    FAILED_CALLS,
    Counter {
        name: "bad_address",
        expect: Expect::Zero,
        meaning: "mappings of the whole round at address 0 or not at the start of a page",
    },
    STUCK,
    OFF_CPU,
];

/// Counted with the function tracer on Linux 6.12.
const FUNCTIONS: &[&str] = &["ksys_mmap_pgoff", "do_mmap", "__vm_munmap"];

const NOT_SHOWN: &[&str] = &[
    "the slowdown of any application",
    "page faults, and the unmapping of memory that was touched",
    "how an op's time divides into mmap and munmap",
    "address spaces with many mappings, or with threads that fault meanwhile",
    "other numbers of tasks than the one recorded",
];

/// What the scenario `anon` says about itself.
pub const ANON: Declaration = Declaration {
    name: "mmap-munmap/anon",
    op: "one mmap of untouched private anonymous memory and its munmap",
    op_word: "op",
    window: "window_ms in which all tasks run; the sampler reads clock and counters at its ends",
    figure: Figure::OpsPerSecondOfTask,
    parameters: PARAMETERS,
    counters: COUNTERS,
    needs: &[],
    functions: FUNCTIONS,
    hits: &[
        Hit::new("syscalls:sys_enter_mmap", &[], Wanted::AtLeastPerOp(1)),
        Hit::new("syscalls:sys_enter_munmap", &[], Wanted::AtLeastPerOp(1)),
    ],
    // In a shorter window one of several tasks on a CPU may have no turn.
    trace_shape: &[("window_ms", 20)],
    scope: "mmap and munmap of untouched private anonymous memory by tasks that do nothing else, as the mean rate of one task: a synthetic micro-benchmark",
    not_shown: NOT_SHOWN,
    control: None,
};

/// What the scenario `file` says about itself.
pub const FILE: Declaration = Declaration {
    name: "mmap-munmap/file",
    op: "one shared mmap of an untouched memfd and its munmap",
    needs: NEEDS,
    scope: "mmap and munmap of an untouched shared memfd, one for each task, by tasks that do nothing else, as the mean rate of one task: a synthetic micro-benchmark",
    control: Some(ANON.name),
    ..ANON
};

/// The workload, in one of its scenarios.
pub struct MmapMunmap {
    declaration: &'static Declaration,
    is_file: bool,
}

impl MmapMunmap {
    /// The scenario `anon`.
    pub const ANON: Self = Self {
        declaration: &ANON,
        is_file: false,
    };
    /// The scenario `file`.
    pub const FILE: Self = Self {
        declaration: &FILE,
        is_file: true,
    };

    fn start<C: Calls>(
        &self,
        parameters: &Parameters,
        place: &Place,
        calls: C,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        let workload = self.declaration.name;
        let length = size(parameters, "mib")?.saturating_mul(1 << 20);
        let mapping = || {
            let file = self.is_file.then(|| memfd(length)).transpose();
            Ok(Mapping {
                calls,
                length,
                page: page_size(),
                file: file.map_err(|source| WorkloadError::System {
                    workload,
                    call: "memfd_create or ftruncate",
                    source,
                })?,
            })
        };
        Ok(Box::new(Mappings {
            workload,
            trial: mapping()?,
            window: TaskWindow::start(workload, parameters, place, mapping)?,
        }))
    }
}

fn memfd(length: usize) -> io::Result<OwnedFd> {
    let file = memfd_create("regbundle-mmap", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, count(length))?;
    Ok(file)
}

impl Workload for MmapMunmap {
    fn declaration(&self) -> &'static Declaration {
        self.declaration
    }

    fn support(&self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        let mib = size(parameters, "mib")?;
        let tasks = size(parameters, TASKS.name)?;
        leave_a_gap(
            self.declaration.name,
            tasks.saturating_mul((mib << 20) + GAP_SPARE),
        )?;
        self.start(parameters, place, System)
    }

    fn task_columns(&self, parameters: &Parameters) -> Vec<String> {
        columns(parameters.get(TASKS.name).unwrap_or(0), "ops")
    }
}

/// Pages on either side of the gap, every other one of its own kind: 32 areas.
const EDGE_PAGES: usize = 32;
/// Room that alignment may take, for each task.
const GAP_SPARE: usize = 4 << 20;

/// Leaves a gap of `length` bytes among areas of this function's own, high up, where the
/// kernel looks first.
///
/// The kernel keeps areas in leaves of 16. Where a mapping comes to lie in a full one it is
/// split and joined again with every op: 1.7 times the price (6.18: five nodes allocated for
/// an op, not two), decided by how many areas the C library and this program happen to have.
fn leave_a_gap(workload: &'static str, length: usize) -> Result<(), WorkloadError> {
    let page = page_size();
    let edge = EDGE_PAGES * page;
    let failed = |call| WorkloadError::System {
        workload,
        call,
        source: io::Error::last_os_error(),
    };
    // SAFETY: a new mapping at an address the kernel chooses overlaps nothing, and nothing
    // else knows of its parts, which are given back or made readable.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            edge + length + edge,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if at == libc::MAP_FAILED {
            return Err(failed("mmap of the gap"));
        }
        if libc::munmap(at.byte_add(edge), length) != 0 {
            return Err(failed("munmap of the gap"));
        }
        for start in [0, edge + length] {
            // Neighbours that are alike would be one area.
            for page_number in (0..EDGE_PAGES).step_by(2) {
                let one = at.byte_add(start + page_number * page);
                if libc::mprotect(one, page, libc::PROT_READ) != 0 {
                    return Err(failed("mprotect beside the gap"));
                }
            }
        }
    }
    Ok(())
}

/// The two calls of an op; a test puts wrong ones in their place.
trait Calls: Copy + Send + 'static {
    fn map(&self, length: usize, flags: c_int, file: c_int) -> *mut c_void {
        // SAFETY: a new mapping at an address the kernel chooses overlaps nothing.
        unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                file,
                0,
            )
        }
    }

    /// # Safety
    ///
    /// Nothing may refer to the memory.
    unsafe fn unmap(&self, address: *mut c_void, length: usize) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { libc::munmap(address, length) }
    }
}

/// The calls as they are.
#[derive(Clone, Copy)]
struct System;

impl Calls for System {}

/// What one task maps.
struct Mapping<C> {
    calls: C,
    length: usize,
    page: usize,
    file: Option<OwnedFd>,
}

impl<C: Calls> Mapping<C> {
    #[inline]
    fn map(&self) -> *mut c_void {
        match &self.file {
            Some(file) => self
                .calls
                .map(self.length, libc::MAP_SHARED, file.as_raw_fd()),
            None => {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                self.calls.map(self.length, flags, -1)
            }
        }
    }

    /// One op.
    #[inline]
    fn op(&self, slot: &Slot) {
        let address = self.map();
        let mapped = address != libc::MAP_FAILED;
        let valid = mapped && !address.is_null() && address.addr().is_multiple_of(self.page);
        // SAFETY: the mapping was made just now, and nothing refers to it.
        let unmapped = mapped && unsafe { self.calls.unmap(address, self.length) } == 0;
        if !mapped || !unmapped {
            add(&slot.failed_calls, 1);
        }
        if mapped && !valid {
            add(&slot.bad_address, 1);
        }
        slot.count(valid && unmapped);
    }

    /// Maps once and looks: the first and the last page can be written, no page is there
    /// before it is touched, and none is left after the munmap.
    fn prove(&self, workload: &'static str) -> Result<(), WorkloadError> {
        let failed = |call| {
            let source = io::Error::last_os_error();
            move || WorkloadError::System {
                workload,
                call,
                source,
            }
        };
        let wrong = |what, found, wanted| {
            Err(WorkloadError::PreflightOp {
                workload,
                what,
                found,
                wanted,
            })
        };
        let address = self.map();
        if address == libc::MAP_FAILED {
            return Err(failed("mmap")());
        }
        let Some(before) = self.resident(address) else {
            return Err(failed("mincore")());
        };
        for offset in [0, self.length - self.page] {
            // SAFETY: both pages lie in the mapping, which is writable; nothing else
            // refers to it.
            unsafe { address.cast::<u8>().add(offset).write_volatile(1) };
        }
        let after = self.resident(address);
        // SAFETY: nothing refers to the mapping any more.
        if unsafe { self.calls.unmap(address, self.length) } != 0 {
            return Err(failed("munmap")());
        }
        if before != 0 {
            return wrong(
                "the number of pages present in an untouched mapping",
                before,
                0,
            );
        }
        // A huge page makes more than the two written present.
        match after {
            Some(after) if after >= 2 => {}
            after => {
                return wrong(
                    "the number of pages present after writing two",
                    after.unwrap_or(0),
                    2,
                );
            }
        }
        match self.resident(address) {
            None => Ok(()),
            Some(_) => wrong("the mapping being there after munmap", 1, 0),
        }
    }

    /// Pages of the mapping at `address` that are present; `None` when part of it is not
    /// mapped.
    fn resident(&self, address: *mut c_void) -> Option<u64> {
        let mut pages = vec![0_u8; self.length / self.page];
        // SAFETY: the vector has a byte for each page; the call reads no memory behind
        // `address`.
        let result = unsafe { libc::mincore(address, self.length, pages.as_mut_ptr()) };
        let present = pages.iter().filter(|page| **page & 1 == 1).count();
        (result == 0).then(|| count(present))
    }
}

impl<C: Calls> Job for Mapping<C> {
    fn warm(&mut self, slot: &Slot, _go: &Go<'_>) {
        self.op(slot);
    }

    fn round(&mut self, slot: &Slot, go: &Go<'_>) {
        while go.on() {
            self.op(slot);
        }
    }
}

struct Mappings<C> {
    workload: &'static str,
    window: TaskWindow,
    /// Like those of the tasks, with a file of its own: the preflight writes to it.
    trial: Mapping<C>,
}

impl<C: Calls> Prepared for Mappings<C> {
    fn requests(&self) -> u64 {
        self.window.requests()
    }

    fn preflight(&mut self) -> Result<(), WorkloadError> {
        self.trial.prove(self.workload)
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        let sample = self.window.sample()?;
        let bad_address = self.window.team.sum(|slot| &slot.bad_address);
        let right = sample.right.iter().sum();
        Ok(self.window.outcome(&sample, right, bad_address))
    }

    fn cpus(&self) -> &[usize] {
        self.window.cpus()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{Named, named, place, resolve};

    const SCENARIOS: [MmapMunmap; 2] = [MmapMunmap::ANON, MmapMunmap::FILE];

    fn prepared<C: Calls>(
        scenario: &MmapMunmap,
        calls: C,
        more: &[(&str, u64)],
    ) -> Box<dyn Prepared> {
        let mut given = vec![("mib", 1), ("window_ms", 2), ("oversubscribe", 1)];
        given.extend(more);
        let parameters = resolve(scenario.declaration, &given);
        scenario.start(&parameters, &place(), calls).unwrap()
    }

    fn round(scenario: &MmapMunmap, calls: impl Calls, more: &[(&str, u64)]) -> (u64, Named) {
        let mut prepared = prepared(scenario, calls, more);
        // A busy machine may keep a task from its CPU for a whole window.
        let outcome = (0..50)
            .map(|_| prepared.round().unwrap())
            .find(|outcome| outcome.ops > 0)
            .unwrap();
        let tasks = more.iter().find(|(name, _)| *name == "tasks");
        let columns = columns(tasks.map_or(1, |(_, tasks)| *tasks), "ops");
        (outcome.ops, named(scenario.declaration, &columns, &outcome))
    }

    #[test]
    fn every_scenario_maps_with_one_and_two_tasks_as_processes_and_threads() {
        for scenario in SCENARIOS {
            for (tasks, threads) in [(1, 0), (2, 0), (1, 1), (2, 1)] {
                let more = [("tasks", tasks), ("threads", threads)];
                let mut prepared = prepared(&scenario, System, &more);
                prepared.preflight().unwrap();
                // A busy machine may keep a task from its CPU for a whole window.
                let unstuck = (0..50).any(|_| {
                    let outcome = prepared.round().unwrap();
                    let counters = named(scenario.declaration, &columns(tasks, "ops"), &outcome);
                    assert!(outcome.elapsed_ns >= 2_000_000);
                    assert_eq!(counters["ops_ok"], outcome.ops);
                    for name in ["failed_calls", "bad_address", "off_cpu"] {
                        assert_eq!(counters[name], 0, "{name}");
                    }
                    assert_eq!(counters["tasks"], tasks);
                    assert_eq!(counters["task_cpus"], count(prepared.cpus().len()));
                    let of_tasks: Vec<u64> = (0..tasks)
                        .map(|task| counters[&format!("task{task}_ops")])
                        .collect();
                    assert_eq!(of_tasks.iter().sum::<u64>(), outcome.ops);
                    let stuck = of_tasks.iter().filter(|ops| **ops == 0).count();
                    assert_eq!(counters["stuck"], count(stuck));
                    stuck == 0
                });
                assert!(unstuck, "{} {more:?}", scenario.declaration.name);
            }
        }
    }

    #[test]
    fn more_tasks_than_cpus_are_refused_with_both_numbers_unless_asked_for() {
        let cpus = place().cpus.len();
        let tasks = count(cpus) + 1;
        let refused = resolve(&ANON, &[("tasks", tasks)]);
        let error = MmapMunmap::ANON.prepare(&refused, &place()).err().unwrap();
        assert_eq!(error.kind().exit_code(), 64);
        let message = error.to_string();
        for part in [
            format!("is {tasks},"),
            format!("{cpus} CPUs"),
            "oversubscribe 1".to_owned(),
        ] {
            assert!(message.contains(&part), "{message}");
        }
        let (ops, counters) = round(&MmapMunmap::ANON, System, &[("tasks", tasks)]);
        assert_eq!(ops, counters["ops_ok"]);
        assert_eq!(counters["tasks"], tasks);
        assert_eq!(counters["task_cpus"], count(cpus));
    }

    /// Leaves every mapping where it is.
    #[derive(Clone, Copy)]
    struct NeverUnmaps;

    impl Calls for NeverUnmaps {
        unsafe fn unmap(&self, _address: *mut c_void, _length: usize) -> c_int {
            -1
        }
    }

    /// Says an address one byte after the true one.
    #[derive(Clone, Copy)]
    struct Misaligned;

    impl Calls for Misaligned {
        fn map(&self, length: usize, flags: c_int, file: c_int) -> *mut c_void {
            System.map(length, flags, file).wrapping_byte_add(1)
        }

        unsafe fn unmap(&self, address: *mut c_void, length: usize) -> c_int {
            // SAFETY: as the caller promises.
            unsafe { System.unmap(address.wrapping_byte_sub(1), length) }
        }
    }

    /// Cannot map.
    #[derive(Clone, Copy)]
    struct NeverMaps;

    impl Calls for NeverMaps {
        fn map(&self, _length: usize, _flags: c_int, _file: c_int) -> *mut c_void {
            libc::MAP_FAILED
        }
    }

    #[test]
    fn a_munmap_that_fails_is_counted_in_failed_calls_and_is_no_right_op() {
        for scenario in SCENARIOS {
            let (ops, counters) = round(&scenario, NeverUnmaps, &[]);
            assert!(counters["failed_calls"] >= ops);
            assert_eq!(counters["ops_ok"], 0);
            assert_eq!(counters["bad_address"], 0);
        }
    }

    #[test]
    fn a_mmap_that_fails_is_counted_in_failed_calls_and_is_no_right_op() {
        let (ops, counters) = round(&MmapMunmap::ANON, NeverMaps, &[("threads", 1)]);
        assert!(counters["failed_calls"] >= ops);
        assert_eq!(counters["ops_ok"], 0);
        let error = prepared(&MmapMunmap::ANON, NeverMaps, &[]).preflight();
        assert!(error.unwrap_err().to_string().contains("mmap failed"));
    }

    #[test]
    fn a_misaligned_address_is_counted_in_bad_address_and_is_no_right_op() {
        for scenario in SCENARIOS {
            let (ops, counters) = round(&scenario, Misaligned, &[]);
            assert!(counters["bad_address"] >= ops);
            assert_eq!(counters["ops_ok"], 0);
            assert_eq!(counters["failed_calls"], 0);
        }
    }

    /// Populates what must be untouched.
    #[derive(Clone, Copy)]
    struct Populates;

    impl Calls for Populates {
        fn map(&self, length: usize, flags: c_int, file: c_int) -> *mut c_void {
            System.map(length, flags | libc::MAP_POPULATE, file)
        }
    }

    #[test]
    fn a_populated_mapping_is_seen_by_the_preflight_only() {
        for scenario in SCENARIOS {
            let mut prepared = prepared(&scenario, Populates, &[]);
            let message = prepared.preflight().unwrap_err().to_string();
            assert!(message.contains("untouched mapping is 256"), "{message}");
            let outcome = prepared.round().unwrap();
            assert_eq!(outcome.counters[0], outcome.ops);
        }
    }
}
