//! What every round needs from the machine: one CPU, a scheduler, a clock, counters.
//!
//! Input is the CPU wanted; outputs are readings. It measures nothing itself.
#![expect(
    unsafe_code,
    reason = "sched_setscheduler and getrusage of one thread have no safe wrapper here"
)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::canary::Canary;
use super::error::Kind;

/// Real-time threads may run 0.95 s of each second before the kernel throttles them
/// (`sched_rt_runtime_us`); resting an eighth of each round keeps below 0.9 s.
const REST_DIVISOR: u64 = 8;

/// An error of the machine's side.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The CPU is not one this process may use.
    #[error(
        "cpu {wanted} is not allowed here: allowed {allowed}, online {online}; choose an allowed one or widen the cpuset"
    )]
    CpuNotAllowed {
        /// The CPU asked for.
        wanted: usize,
        /// The process's affinity list.
        allowed: String,
        /// The machine's online list.
        online: String,
    },
    /// The pin did not hold when read back.
    #[error("pinned to cpu {wanted} but allowed on {allowed} and running on {running}")]
    PinNotHeld {
        /// The CPU asked for.
        wanted: usize,
        /// The list read back.
        allowed: String,
        /// The CPU the thread was on.
        running: usize,
    },
    /// A call failed that has no reason to.
    #[error("{call} failed")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        #[source]
        source: io::Error,
    },
}

impl HarnessError {
    /// Whose error it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::CpuNotAllowed { .. } => Kind::Usage,
            Self::PinNotHeld { .. } | Self::System { .. } => Kind::Failed,
        }
    }
}

/// The clock of every window, ns; read in user space, without a system call.
#[inline]
#[must_use]
pub fn monotonic_raw_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Counters of this thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Voluntary context switches.
    pub nvcsw: u64,
    /// Involuntary context switches.
    pub nivcsw: u64,
    /// Page faults served without input or output.
    pub minflt: u64,
    /// Time spent runnable but not running, ns.
    pub run_delay_ns: u64,
}

impl Usage {
    /// What was added since an earlier reading.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            nvcsw: self.nvcsw.saturating_sub(earlier.nvcsw),
            nivcsw: self.nivcsw.saturating_sub(earlier.nivcsw),
            minflt: self.minflt.saturating_sub(earlier.minflt),
            run_delay_ns: self.run_delay_ns.saturating_sub(earlier.run_delay_ns),
        }
    }
}

/// The calling thread, pinned.
#[derive(Debug)]
pub struct Machine {
    cpu: usize,
    cpus: Vec<usize>,
    fifo: bool,
    schedstat: Option<File>,
    notes: Vec<String>,
}

impl Machine {
    /// Pins the calling thread (to the last allowed CPU when none is named), reads the
    /// pin back, and asks for `SCHED_FIFO` priority 1.
    ///
    /// # Errors
    ///
    /// When the CPU is not allowed or the pin does not hold; not when the scheduler
    /// is refused, which is a note.
    pub fn settle(cpu: Option<usize>) -> Result<Self, HarnessError> {
        let allowed = affinity()?;
        let cpu = pin(cpu)?;
        let others = (0..CpuSet::MAX_CPU).filter(|other| *other != cpu && allowed.is_set(*other));
        let cpus = std::iter::once(cpu).chain(others).collect();
        let mut notes = Vec::new();
        let fifo = match set_fifo() {
            Ok(()) => {
                notes.push("sched=fifo1".to_owned());
                true
            }
            Err(error) => {
                notes.push(format!("sched=other ({})", refusal(&error)));
                false
            }
        };
        let schedstat = match File::open("/proc/thread-self/schedstat") {
            Ok(file) => Some(file),
            Err(error) => {
                notes.push(format!(
                    "run_delay_ns is not recorded and written as 0 (/proc/thread-self/schedstat: {error})"
                ));
                None
            }
        };
        Ok(Self {
            cpu,
            cpus,
            fifo,
            schedstat,
            notes,
        })
    }

    /// The CPU pinned to.
    #[must_use]
    pub const fn cpu(&self) -> usize {
        self.cpu
    }

    /// The CPU pinned to, then the others allowed when the thread was not yet pinned,
    /// ascending.
    #[must_use]
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Reads the canaries on the thread's own CPU and on each of `others` in turn, and
    /// returns the largest readings. The thread is on its own CPU afterwards, where the
    /// last reading is taken.
    ///
    /// # Errors
    ///
    /// When the thread cannot move to one of them or back.
    pub fn canary(&self, others: &[usize]) -> Result<Canary, HarnessError> {
        let mut largest = Canary::default();
        let mut moved = false;
        for other in others.iter().filter(|other| **other != self.cpu) {
            move_to(*other)?;
            moved = true;
            largest = largest.max(Canary::read());
        }
        if moved {
            move_to(self.cpu)?;
        }
        Ok(largest.max(Canary::read()))
    }

    /// What the reader of the rows should know, one clause each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads the thread's counters.
    ///
    /// # Errors
    ///
    /// When the kernel refuses them.
    pub fn usage(&self) -> Result<Usage, HarnessError> {
        let mut raw = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a whole rusage, which the call fills.
        let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, raw.as_mut_ptr()) };
        if result != 0 {
            return Err(HarnessError::System {
                call: "getrusage(RUSAGE_THREAD)",
                source: io::Error::last_os_error(),
            });
        }
        // SAFETY: zeroed is a valid rusage, and the call succeeded.
        let raw = unsafe { raw.assume_init() };
        Ok(Usage {
            nvcsw: u64::try_from(raw.ru_nvcsw).unwrap_or(0),
            nivcsw: u64::try_from(raw.ru_nivcsw).unwrap_or(0),
            minflt: u64::try_from(raw.ru_minflt).unwrap_or(0),
            run_delay_ns: self.schedstat.as_ref().map_or(Ok(0), run_delay_ns)?,
        })
    }

    /// Sleeps after a busy time so that a real-time thread is not throttled.
    pub fn rest(&self, busy_ns: u64) {
        if self.fifo {
            std::thread::sleep(Duration::from_nanos(busy_ns / REST_DIVISOR));
        }
    }
}

/// The CPU the calling thread is on.
#[inline]
#[must_use]
pub fn current_cpu() -> usize {
    sched_getcpu()
}

fn pin(cpu: Option<usize>) -> Result<usize, HarnessError> {
    let allowed = affinity()?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let wanted = cpu.or(last).unwrap_or(0);
    if wanted >= CpuSet::MAX_CPU || !allowed.is_set(wanted) {
        return Err(HarnessError::CpuNotAllowed {
            wanted,
            allowed: cpu_list(&allowed),
            online: online_list(),
        });
    }
    move_to(wanted)?;
    Ok(wanted)
}

/// Pins the calling thread to one CPU and reads the pin back.
fn move_to(wanted: usize) -> Result<(), HarnessError> {
    let mut one = CpuSet::new();
    one.set(wanted);
    sched_setaffinity(None, &one).map_err(|error| HarnessError::System {
        call: "sched_setaffinity",
        source: error.into(),
    })?;
    let (held, running) = (affinity()?, current_cpu());
    if held != one || running != wanted {
        return Err(HarnessError::PinNotHeld {
            wanted,
            allowed: cpu_list(&held),
            running,
        });
    }
    Ok(())
}

fn affinity() -> Result<CpuSet, HarnessError> {
    sched_getaffinity(None).map_err(|error| HarnessError::System {
        call: "sched_getaffinity",
        source: error.into(),
    })
}

fn online_list() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online")
        .map_or_else(|error| error.to_string(), |text| text.trim().to_owned())
}

/// A set in the kernel's list format, as in `0-3,8`.
fn cpu_list(set: &CpuSet) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let texts: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

fn set_fifo() -> io::Result<()> {
    let priority: libc::c_int = 1;
    // The raw call, because musl's wrapper always answers ENOSYS.
    // SAFETY: sched_param is one int, and the pointer is to one; pid 0 is this thread.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &raw const priority,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn refusal(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EPERM) {
        "EPERM".to_owned()
    } else {
        error.to_string()
    }
}

/// The second number of `schedstat`: time waited for the CPU, ns.
fn run_delay_ns(file: &File) -> Result<u64, HarnessError> {
    let mut buffer = [0_u8; 96];
    let length = rustix::io::pread(file, &mut buffer, 0).map_err(|error| HarnessError::System {
        call: "pread of /proc/thread-self/schedstat",
        source: error.into(),
    })?;
    let text = buffer.get(..length).unwrap_or_default();
    second_number(text).ok_or_else(|| HarnessError::System {
        call: "reading the second number of /proc/thread-self/schedstat",
        source: io::ErrorKind::InvalidData.into(),
    })
}

fn second_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn a_list_of_cpus_is_written_as_the_kernel_writes_it() {
        assert_eq!(cpu_list(&set(&[])), "");
        assert_eq!(cpu_list(&set(&[2])), "2");
        assert_eq!(cpu_list(&set(&[0, 1, 2, 5, 7, 8])), "0-2,5,7-8");
    }

    #[test]
    fn a_cpu_outside_the_allowed_set_is_refused_with_both_lists() {
        let allowed = cpu_list(&sched_getaffinity(None).unwrap());
        for wanted in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let error = Machine::settle(Some(wanted)).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(&format!("allowed {allowed},")),
                "{message}"
            );
            assert!(
                message.contains(&format!("online {}", online_list())),
                "{message}"
            );
            assert_eq!(error.kind().exit_code(), 64);
        }
    }

    #[test]
    fn the_default_cpu_is_the_last_allowed_one_and_the_pin_is_real() {
        let allowed = sched_getaffinity(None).unwrap();
        let machine = Machine::settle(None).unwrap();
        let last = (0..CpuSet::MAX_CPU)
            .filter(|cpu| allowed.is_set(*cpu))
            .max();
        assert_eq!(Some(machine.cpu()), last);
        assert_eq!(sched_getaffinity(None).unwrap(), set(&[machine.cpu()]));
        assert_eq!(current_cpu(), machine.cpu());
    }

    #[test]
    fn canaries_are_read_on_every_cpu_of_the_tasks_and_the_thread_comes_back() {
        let machine = Machine::settle(None).unwrap();
        assert_eq!(machine.cpus().first(), Some(&machine.cpu()));
        let canary = machine.canary(machine.cpus()).unwrap();
        assert!(canary.alu_ns > 0 && canary.syscall_ns > 0);
        assert_eq!(current_cpu(), machine.cpu());
        // A CPU that cannot be: had it been skipped, no error would say so.
        assert!(machine.canary(&[CpuSet::MAX_CPU - 1]).is_err());
    }

    #[test]
    fn the_run_delay_is_the_second_number() {
        assert_eq!(second_number(b"2046 58353 1\n"), Some(58353));
        assert_eq!(second_number(b"2046\n"), None);
        assert_eq!(second_number(b"2046 -1 1\n"), None);
    }

    #[test]
    fn a_page_written_for_the_first_time_is_counted_as_a_fault() {
        let machine = Machine::settle(None).unwrap();
        let before = machine.usage().unwrap();
        let mut block = vec![0_u8; 64 << 20];
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&block);
        let added = machine.usage().unwrap().since(before);
        assert!(added.minflt >= 16, "{added:?}");
    }

    #[test]
    fn a_real_time_thread_rests_an_eighth_of_its_busy_time_and_others_do_not() {
        let mut machine = Machine::settle(None).unwrap();
        for (fifo, least_ms) in [(true, 100), (false, 0)] {
            machine.fifo = fifo;
            let begin = monotonic_raw_ns();
            machine.rest(8 * 100_000_000);
            let rested_ms = (monotonic_raw_ns() - begin) / 1_000_000;
            assert!(rested_ms >= least_ms, "{rested_ms} ms");
            assert!(fifo || rested_ms < 100, "{rested_ms} ms");
        }
    }

    #[test]
    fn the_clock_does_not_go_back_and_is_cheaper_than_a_system_call() {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = std::fs::read_to_string(source).unwrap_or_default();
        if !["tsc", "kvm-clock", "arch_sys_counter"].contains(&source.trim()) {
            println!("skipped: clock source '{}' is a system call", source.trim());
            return;
        }
        let smallest = |read: &dyn Fn()| {
            (0..2_000)
                .map(|_| {
                    let begin = monotonic_raw_ns();
                    (0..10).for_each(|_| read());
                    monotonic_raw_ns().checked_sub(begin).unwrap()
                })
                .min()
                .unwrap()
        };
        let clock = smallest(&|| {
            std::hint::black_box(monotonic_raw_ns());
        });
        let call = smallest(&|| {
            std::hint::black_box(rustix::process::getppid());
        });
        assert!(clock < call, "clock {clock} ns, getppid {call} ns per 10");
    }
}
