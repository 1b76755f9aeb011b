//! `io-uring-msg-ring-send-fd`: files installed into the sparse table of another ring
//! by `IORING_OP_MSG_RING` with `IORING_MSG_SEND_FD`, in five scenarios.
//!
//! The scenarios differ in what the table went through before the installs and in
//! what of that is timed. Requests and checks are in `send_fd_rings`; what the
//! scenarios say about themselves in `send_fd_declarations`; here are the windows and
//! the order of a round.

use io_uring::opcode;

use super::declaration::Declaration;
use super::error::WorkloadError;
use super::harness::monotonic_raw_ns;
use super::io_uring_support;
use super::parameters::Parameters;
use super::send_fd_declarations::{
    FIRST_FILL, REGISTER_FILL, REGISTER_INSTALL, REMOVE_REFILL, WARM_REFILL,
};
use super::send_fd_ledger::Tally;
use super::send_fd_rings::{Install, NAME, Shape, Source, Target};
use super::{Place, Prepared, RoundOutcome, Workload};

/// What the table went through before the installs, and what of it is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// A fresh ring per cycle, opened with its table before the first window.
    FirstFill,
    /// One ring; emptying the table and filling it again are timed.
    RemoveRefill,
    /// One ring; registering a table and filling it are timed.
    RegisterFill,
    /// One ring; registering a table and a few installs are timed.
    RegisterInstall,
    /// One ring; emptied before each window, which is the fill alone.
    WarmRefill,
}

impl Scenario {
    /// Whether the table is unregistered between cycles and registered in windows.
    const fn registers(self) -> bool {
        matches!(self, Self::RegisterFill | Self::RegisterInstall)
    }

    /// Whether the table is full when a cycle begins.
    const fn removes(self) -> bool {
        matches!(self, Self::RemoveRefill | Self::WarmRefill)
    }

    /// Whether one op is one install and not a whole cycle.
    const fn counts_installs(self) -> bool {
        matches!(self, Self::FirstFill | Self::WarmRefill)
    }
}

/// What one window gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    /// ns of what is timed before the installs: emptying or registering.
    first_ns: u64,
    /// ns of the installs.
    fill_ns: u64,
    /// Slots of the table that were empty when the installs began.
    empty: usize,
}

/// Fills the first slots of a table; one with an error in it stands in for it in tests.
type Fill = fn(&mut Source, &Target, usize) -> Result<(), WorkloadError>;

fn fill(source: &mut Source, target: &Target, slots: usize) -> Result<(), WorkloadError> {
    source.fill(target, slots, Install::request)
}

/// The timed part of `first-fill` and `warm-refill`, on a table with `empty` empty slots.
fn fill_window(rounds: &mut Sizes, target: &Target, empty: usize) -> Result<Window, WorkloadError> {
    let begin = monotonic_raw_ns();
    (rounds.fill)(&mut rounds.source, target, rounds.filled)?;
    let end = monotonic_raw_ns();
    Ok(Window {
        first_ns: 0,
        fill_ns: end.saturating_sub(begin),
        empty,
    })
}

/// The timed part of `remove-refill`.
fn remove_window(rounds: &mut Sizes, target: &Target) -> Result<Window, WorkloadError> {
    let begin = monotonic_raw_ns();
    let empty = target.remove()?;
    let middle = monotonic_raw_ns();
    (rounds.fill)(&mut rounds.source, target, rounds.filled)?;
    let end = monotonic_raw_ns();
    Ok(Window {
        first_ns: middle.saturating_sub(begin),
        fill_ns: end.saturating_sub(middle),
        empty,
    })
}

/// The timed part of `register-fill` and `register-install`.
fn register_window(rounds: &mut Sizes, target: &Target) -> Result<Window, WorkloadError> {
    let begin = monotonic_raw_ns();
    target.register()?;
    let middle = monotonic_raw_ns();
    (rounds.fill)(&mut rounds.source, target, rounds.filled)?;
    let end = monotonic_raw_ns();
    Ok(Window {
        first_ns: middle.saturating_sub(begin),
        fill_ns: end.saturating_sub(middle),
        empty: rounds.shape.slots,
    })
}

/// One scenario of the workload.
pub struct MsgRingSendFd {
    scenario: Scenario,
    declaration: &'static Declaration,
}

impl MsgRingSendFd {
    /// The scenario and what it says about itself.
    #[must_use]
    pub const fn new(scenario: Scenario) -> Self {
        let declaration = match scenario {
            Scenario::FirstFill => &FIRST_FILL,
            Scenario::RemoveRefill => &REMOVE_REFILL,
            Scenario::RegisterFill => &REGISTER_FILL,
            Scenario::RegisterInstall => &REGISTER_INSTALL,
            Scenario::WarmRefill => &WARM_REFILL,
        };
        Self {
            scenario,
            declaration,
        }
    }
}

impl Workload for MsgRingSendFd {
    fn declaration(&self) -> &'static Declaration {
        self.declaration
    }

    fn check(&self, parameters: &Parameters) -> Result<(), WorkloadError> {
        let (installs, slots) = (parameters.get("installs")?, parameters.get("slots")?);
        if installs > slots {
            return Err(WorkloadError::InstallsBeyondSlots { installs, slots });
        }
        Ok(())
    }

    /// The probe knows operations only; a kernel with the newest of them has the
    /// sparse tables and SEND_FD, which are older.
    fn support(&self) -> Result<(), WorkloadError> {
        io_uring_support::support(
            NAME,
            &[
                (
                    opcode::MsgRingSendFd::CODE,
                    "IORING_OP_MSG_RING with IORING_MSG_SEND_FD",
                    "6.0",
                ),
                (
                    opcode::FixedFdInstall::CODE,
                    "IORING_OP_FIXED_FD_INSTALL",
                    "6.8",
                ),
            ],
        )
    }

    fn prepare(
        &self,
        parameters: &Parameters,
        _place: &Place,
    ) -> Result<Box<dyn Prepared>, WorkloadError> {
        self.check(parameters)?;
        Ok(Box::new(SendFdRounds::new(self.scenario, parameters)?))
    }
}

/// The source ring and what a fill is.
struct Sizes {
    source: Source,
    shape: Shape,
    /// Slots filled in one cycle.
    filled: usize,
    fill: Fill,
}

impl Sizes {
    /// The window of one cycle; `empty` is how many slots of a table just emptied,
    /// or never filled, are so.
    fn window(
        &mut self,
        scenario: Scenario,
        target: &Target,
        empty: usize,
    ) -> Result<Window, WorkloadError> {
        self.source.begin();
        match scenario {
            Scenario::FirstFill | Scenario::WarmRefill => fill_window(self, target, empty),
            Scenario::RemoveRefill => remove_window(self, target),
            Scenario::RegisterFill | Scenario::RegisterInstall => register_window(self, target),
        }
    }

    /// An untimed fill of `count` slots, and what is wrong anywhere in the table.
    fn try_fill(
        &mut self,
        target: &mut Target,
        count: usize,
        what: &'static str,
    ) -> Result<(), WorkloadError> {
        let mut tally = Tally::default();
        self.source.begin();
        (self.fill)(&mut self.source, target, count)?;
        let slots = self.shape.slots;
        self.source.judge(target, count, slots, &mut tally)?;
        nothing_wrong(what, tally)
    }

    /// Empties a table and looks at every slot.
    fn try_remove(&mut self, target: &mut Target) -> Result<(), WorkloadError> {
        let (mut tally, slots) = (Tally::default(), self.shape.slots);
        let removed = target.remove()?;
        if removed != slots {
            return Err(WorkloadError::PreflightCheck {
                workload: NAME,
                what: "emptying the table",
                found: format!("{removed} slots emptied"),
                wanted: slots.to_string(),
            });
        }
        self.source.begin();
        self.source.judge(target, 0, slots, &mut tally)?;
        nothing_wrong("the emptied table", tally)
    }
}

fn nothing_wrong(what: &'static str, tally: Tally) -> Result<(), WorkloadError> {
    if tally == Tally::default() {
        return Ok(());
    }
    Err(WorkloadError::PreflightCheck {
        workload: NAME,
        what,
        found: tally.to_string(),
        wanted: "0 of each".to_owned(),
    })
}

struct SendFdRounds {
    scenario: Scenario,
    cycles: u64,
    sizes: Sizes,
    /// The one target ring; of `first-fill` there is one per cycle instead.
    target: Option<Target>,
    totals: Totals,
}

/// What the cycles of a round add up to.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    ops_ok: u64,
    first_ns: u64,
    fill_ns: u64,
    tally: Tally,
}

impl SendFdRounds {
    fn new(scenario: Scenario, parameters: &Parameters) -> Result<Self, WorkloadError> {
        let size = |name| {
            let value = parameters.get(name)?;
            Ok::<_, WorkloadError>(usize::try_from(value).unwrap_or(usize::MAX))
        };
        let (slots, cycles) = (size("slots")?, size("cycles")?);
        let first_fill = scenario == Scenario::FirstFill;
        let shape = Shape {
            slots,
            batch: size("batch")?,
            sources: size("sources")?,
            target_completions: 2 * slots,
            // One more is the one the preflight uses.
            targets: if first_fill { cycles + 1 } else { 2 },
        };
        let filled = match scenario {
            Scenario::RegisterInstall => size("installs")?,
            _ => slots,
        };
        Self::with_shape(scenario, parameters.get("cycles")?, shape, filled)
    }

    fn with_shape(
        scenario: Scenario,
        cycles: u64,
        shape: Shape,
        filled: usize,
    ) -> Result<Self, WorkloadError> {
        let source = Source::new(&shape)?;
        let target = match scenario {
            Scenario::FirstFill => None,
            _ if scenario.registers() => Some(Target::new(&shape)?),
            _ => Some(Target::with_table(&shape)?),
        };
        Ok(Self {
            scenario,
            cycles,
            sizes: Sizes {
                source,
                shape,
                filled,
                fill,
            },
            target,
            totals: Totals::default(),
        })
    }

    /// One window and its judgement; the files are looked at after the round's last.
    fn cycle(
        &mut self,
        target: &mut Target,
        empty: usize,
        last: bool,
    ) -> Result<(), WorkloadError> {
        let filled = self.sizes.filled;
        let window = self.sizes.window(self.scenario, target, empty)?;
        let mut tally = Tally::default();
        let checked = if last { filled } else { 0 };
        let right = self
            .sizes
            .source
            .judge(target, filled, checked, &mut tally)?;
        self.totals.first_ns += window.first_ns;
        self.totals.fill_ns += window.fill_ns;
        self.totals.tally.add(tally);
        // An install that replaced a file is another op than one into an empty slot.
        let replaced = number(filled.saturating_sub(window.empty));
        self.totals.ops_ok += if self.scenario.counts_installs() {
            right.saturating_sub(replaced)
        } else {
            let whole = right == number(filled) && replaced == 0 && tally == Tally::default();
            u64::from(whole)
        };
        Ok(())
    }

    /// All target rings open before the first window, and closed after the last.
    fn first_fill_cycles(&mut self) -> Result<(), WorkloadError> {
        let shape = self.sizes.shape;
        let mut targets = (0..self.cycles)
            .map(|_| Target::with_table(&shape))
            .collect::<Result<Vec<_>, _>>()?;
        let last = targets.len().saturating_sub(1);
        for (cycle, target) in targets.iter_mut().enumerate() {
            self.cycle(target, shape.slots, cycle == last)?;
        }
        Ok(())
    }

    /// All cycles on one target ring.
    fn cycles_on(&mut self, target: &mut Target) -> Result<(), WorkloadError> {
        for cycle in 1..=self.cycles {
            let empty = match self.scenario {
                Scenario::WarmRefill => target.remove()?,
                _ => self.sizes.shape.slots,
            };
            self.cycle(target, empty, cycle == self.cycles)?;
            if self.scenario.registers() {
                target.unregister()?;
            }
        }
        Ok(())
    }
}

impl Prepared for SendFdRounds {
    fn requests(&self) -> u64 {
        let slots = number(self.sizes.shape.slots);
        // At most four tables are filled or looked at besides the cycles.
        (number(self.sizes.filled).saturating_mul(self.cycles)).saturating_add(4 * slots)
    }

    /// A small fill of a ring of its own, with every slot looked at, also those that
    /// must still be empty. Where windows begin with a full table, it is filled here,
    /// and emptying is tried: no counter can see a slot that was not emptied.
    fn preflight(&mut self) -> Result<(), WorkloadError> {
        let small = self.sizes.filled.min(64);
        let mut trial = Target::with_table(&self.sizes.shape)?;
        self.sizes.try_fill(&mut trial, small, "a small fill")?;
        if self.scenario.removes()
            && let Some(target) = &mut self.target
        {
            self.sizes.try_remove(&mut trial)?;
            let slots = self.sizes.shape.slots;
            self.sizes.try_fill(target, slots, "the first fill")?;
        }
        Ok(())
    }

    fn round(&mut self) -> Result<RoundOutcome, WorkloadError> {
        self.totals = Totals::default();
        match self.target.take() {
            None => self.first_fill_cycles()?,
            Some(mut target) => {
                self.cycles_on(&mut target)?;
                self.target = Some(target);
            }
        }
        let ops = match self.scenario.counts_installs() {
            true => self.cycles * number(self.sizes.filled),
            false => self.cycles,
        };
        let Totals {
            ops_ok,
            first_ns,
            fill_ns,
            tally,
        } = self.totals;
        Ok(RoundOutcome {
            ops,
            elapsed_ns: first_ns + fill_ns,
            counters: vec![
                ops_ok,
                tally.bad_result,
                tally.stray,
                tally.missing,
                tally.wrong_file,
                tally.overflow,
                first_ns,
                fill_ns,
            ],
        })
    }
}

fn number(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "io_uring_msg_ring_send_fd_tests.rs"]
mod tests;
