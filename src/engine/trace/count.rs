//! Events counted, and the counts against what is declared. Pure.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::input::trace::{TraceEvent, TraceLine, TraceTextError, field, function_of, read_line};
use crate::model::trace::{Answer, HitResult, SeenValues, Share};
use crate::workload::declaration::{Hit, Wanted};

/// The field whose value is a place in the kernel's code.
const CALL_SITE: &str = "call_site";

/// Why a buffer gives no counts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Uncountable {
    #[error(
        "the buffers lost {lost} events (overrun, or dropped), so a count would be too small; take smaller parameters"
    )]
    Lost { lost: u64 },
    #[error("the buffer says that it holds {kept} of {written} events, and {read} were read")]
    NotWhole { kept: u64, written: u64, read: u64 },
    #[error("the text of the buffer is not understood: {0}")]
    Text(#[from] TraceTextError),
    #[error("the program's own exec was not seen, so it was not followed")]
    NotFollowed,
}

/// The values of the shown fields, in their order.
type Values = Vec<String>;

/// What was counted in one buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// For each hit, how often each combination of its shown values was seen.
    hits: Vec<BTreeMap<Values, u64>>,
    /// Events whose call site the kernel printed as an address.
    unnamed: u64,
    witnesses: u64,
}

impl Tally {
    fn of(&self, index: usize) -> u64 {
        self.hits.get(index).map_or(0, |seen| seen.values().sum())
    }

    fn with(&self, index: usize, values: &Values) -> u64 {
        let seen = self.hits.get(index).and_then(|seen| seen.get(values));
        seen.copied().unwrap_or(0)
    }
}

/// Counts the events of a buffer's text.
pub(super) fn tally(text: &str, hits: &[Hit], witness: &str) -> Result<Tally, Uncountable> {
    let mut tally = Tally {
        hits: vec![BTreeMap::new(); hits.len()],
        ..Tally::default()
    };
    let mut entries = None;
    let mut read = 0;
    for line in text.lines() {
        match read_line(line)? {
            TraceLine::Remark => {}
            TraceLine::Entries(kept, written) => entries = Some((kept, written)),
            TraceLine::Lost => return Err(Uncountable::Lost { lost: 1 }),
            TraceLine::Event(event) => {
                read += 1;
                tally.add(&event, hits, witness);
            }
        }
    }
    match entries {
        Some((kept, written)) if kept == read && written == read => Ok(tally),
        found => {
            let (kept, written) = found.unwrap_or_default();
            Err(Uncountable::NotWhole {
                kept,
                written,
                read,
            })
        }
    }
}

/// An error when no run of the witness was seen.
pub(super) fn witness_missing(tally: &Tally) -> Result<(), Uncountable> {
    if tally.witnesses == 0 {
        return Err(Uncountable::NotFollowed);
    }
    Ok(())
}

impl Tally {
    fn add(&mut self, event: &TraceEvent<'_>, hits: &[Hit], witness: &str) {
        let site = field(event.text, CALL_SITE);
        if site.is_some_and(|site| function_of(site).is_none()) {
            self.unnamed += 1;
        }
        if is_event(witness, event) {
            self.witnesses += 1;
        }
        for (hit, seen) in hits.iter().zip(&mut self.hits) {
            if matches(hit, event) {
                let value = |name: &&str| field(event.text, name).unwrap_or("-").to_owned();
                *seen
                    .entry(hit.shows.iter().map(value).collect())
                    .or_insert(0) += 1;
            }
        }
    }
}

fn is_event(wanted: &str, event: &TraceEvent<'_>) -> bool {
    wanted
        .split_once(':')
        .is_some_and(|(_, name)| name == event.name)
}

fn matches(hit: &Hit, event: &TraceEvent<'_>) -> bool {
    is_event(hit.event, event)
        && hit.select.iter().all(|(name, wanted)| {
            let found = field(event.text, name);
            let found = if *name == CALL_SITE {
                found.and_then(function_of)
            } else {
                found
            };
            found == Some(*wanted)
        })
}

/// The counts of the two runs of one program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Observed {
    /// Rounds of the shorter run; the longer one has twice as many.
    pub(super) rounds: usize,
    /// Events this kernel has not.
    pub(super) absent: Vec<String>,
    /// The shorter run, from start to end.
    pub(super) short: Tally,
    /// The longer run, from start to end.
    pub(super) long: Tally,
    /// The longer run up to the end of its first half of rounds.
    pub(super) first_half: Tally,
    /// The longer run up to the end of its last round.
    pub(super) before_end: Tally,
    /// Ops of the shorter run.
    pub(super) ops_short: u64,
    /// Ops of the longer run.
    pub(super) ops_long: u64,
    /// Ops of the longer run's first half of rounds.
    pub(super) ops_first_half: u64,
}

impl Observed {
    /// The part of the rounds, by the difference of the runs, and the rest; `None` when
    /// one count is no such sum.
    fn share(&self, count: impl Fn(&Tally) -> u64) -> Option<Share> {
        let in_rounds = count(&self.long).checked_sub(count(&self.short))?;
        Some(Share {
            in_rounds,
            elsewhere: count(&self.short).checked_sub(in_rounds)?,
        })
    }

    /// The second half of the longer run's rounds, and what is left of that run without
    /// twice as many; `None` when the first half had fewer.
    ///
    /// For counts that chance has a part in: start-up differs from run to run.
    fn share_recorded(&self, count: impl Fn(&Tally) -> u64) -> Option<Share> {
        let in_rounds = count(&self.before_end).checked_sub(count(&self.first_half))?;
        Some(Share {
            in_rounds,
            elsewhere: count(&self.long).checked_sub(in_rounds.checked_mul(2)?)?,
        })
    }

    /// The second half of the longer run's rounds, and the rest but the ops of the first
    /// half's windows.
    ///
    /// How long tasks go on outside of their windows differs from run to run, so runs
    /// cannot be subtracted; within one run each half holds the ops of its own windows.
    fn share_within(&self, index: usize, per_op: u64) -> Option<Share> {
        let first = self.first_half.of(index);
        let before_end = self.before_end.of(index);
        let end = self.long.of(index).checked_sub(before_end)?;
        let windows = per_op.saturating_mul(self.ops_first_half);
        Some(Share {
            in_rounds: before_end.checked_sub(first)?,
            // Fewer than the ops of the windows: `judge` fails that.
            elsewhere: first.saturating_sub(windows).saturating_add(end),
        })
    }

    fn ops(&self, wanted: Wanted) -> Option<u64> {
        let before = match wanted {
            Wanted::AtLeastPerOp(_) | Wanted::Recorded => self.ops_first_half,
            _ => self.ops_short,
        };
        self.ops_long.checked_sub(before)
    }
}

/// Says in words what is wanted.
fn expectation(wanted: Wanted, params: &BTreeMap<String, u64>) -> String {
    match wanted {
        Wanted::PerOp(count) => format!("{count} per op"),
        Wanted::PerOpAndInRound(more) => format!("1 per op, up to {more} more per round"),
        Wanted::PerOpOf(parameter, more) => {
            let value = params.get(parameter).map_or(0, |value| value + more);
            let more = if more == 0 {
                String::new()
            } else {
                format!(" + {more}")
            };
            format!("{value} per op ({parameter}{more})")
        }
        Wanted::PerRoundTimes(count, parameter) => {
            let value = params.get(parameter).copied().unwrap_or(0);
            format!(
                "{} per round ({count} x {parameter})",
                count.saturating_mul(value)
            )
        }
        Wanted::AtLeastPerOp(count) => format!("at least {count} per op"),
        Wanted::Recorded => "recorded".to_owned(),
    }
}

/// How many are wanted in the rounds.
fn wanted_in_rounds(
    wanted: Wanted,
    params: &BTreeMap<String, u64>,
    ops: u64,
    rounds: usize,
) -> Option<u64> {
    match wanted {
        Wanted::PerOp(count) | Wanted::AtLeastPerOp(count) => Some(count.saturating_mul(ops)),
        Wanted::PerOpAndInRound(_) => Some(ops),
        Wanted::PerOpOf(parameter, more) => params
            .get(parameter)
            .map(|value| value.saturating_add(more).saturating_mul(ops)),
        Wanted::PerRoundTimes(count, parameter) => {
            let rounds = u64::try_from(rounds).ok()?;
            params
                .get(parameter)
                .map(|value| count.saturating_mul(*value).saturating_mul(rounds))
        }
        Wanted::Recorded => None,
    }
}

fn event_text(hit: &Hit) -> String {
    let mut text = hit.event.to_owned();
    for (name, value) in hit.select {
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

/// Answers one declared hit.
pub(super) fn answer(
    hit: &Hit,
    index: usize,
    params: &BTreeMap<String, u64>,
    observed: &Observed,
) -> HitResult {
    let ops = observed.ops(hit.wanted);
    let expected = ops.and_then(|ops| wanted_in_rounds(hit.wanted, params, ops, observed.rounds));
    let seen = match hit.wanted {
        Wanted::AtLeastPerOp(per_op) => observed.share_within(index, per_op),
        Wanted::Recorded => observed.share_recorded(|tally| tally.of(index)),
        _ => observed.share(|tally| tally.of(index)),
    };
    let (answer, reason) = judge(hit, index, observed, ops.zip(seen), expected);
    let counted = answer != Answer::NotChecked;
    HitResult {
        event: event_text(hit),
        expected: expectation(hit.wanted, params),
        expected_in_rounds: expected,
        seen: seen.filter(|_| counted),
        ops: ops.unwrap_or(0),
        answer,
        reason,
        values: if counted {
            values(hit, index, observed)
        } else {
            Vec::new()
        },
    }
}

fn judge(
    hit: &Hit,
    index: usize,
    observed: &Observed,
    counts: Option<(u64, Share)>,
    expected: Option<u64>,
) -> (Answer, String) {
    let not_checked = |reason: String| (Answer::NotChecked, reason);
    if observed.absent.iter().any(|event| event == hit.event) {
        return not_checked("this kernel has no such event".to_owned());
    }
    let unnamed = observed.short.unnamed + observed.long.unnamed;
    if unnamed > 0 && hit.select.iter().any(|(name, _)| *name == CALL_SITE) {
        return not_checked(format!(
            "the kernel printed {unnamed} call sites as addresses (kernel.kptr_restrict, or no CONFIG_KALLSYMS)"
        ));
    }
    let Some((ops, seen)) = counts else {
        return not_checked("the counts do not divide into rounds and the rest".to_owned());
    };
    if ops == 0 {
        return not_checked("the rounds had no ops".to_owned());
    }
    if hit.wanted == Wanted::Recorded {
        return (Answer::Recorded, String::new());
    }
    let Some(expected) = expected else {
        return not_checked("the program has no parameter that says how many".to_owned());
    };
    let found = seen.in_rounds;
    let (most, bound) = match hit.wanted {
        Wanted::AtLeastPerOp(per_op) => {
            let first = observed.first_half.of(index);
            let windows = per_op.saturating_mul(observed.ops_first_half);
            if first < windows {
                let reason = format!(
                    "found {first} up to the end of the first rounds, wanted at least {windows}"
                );
                return (Answer::Fail, reason);
            }
            (u64::MAX, "at least ".to_owned())
        }
        Wanted::PerOpAndInRound(more) => {
            let rounds = u64::try_from(observed.rounds).unwrap_or(u64::MAX);
            let more = more.saturating_mul(rounds);
            (
                expected.saturating_add(more),
                format!("up to {more} more than "),
            )
        }
        _ => (expected, String::new()),
    };
    if (expected..=most).contains(&found) {
        return (Answer::Pass, String::new());
    }
    (
        Answer::Fail,
        format!("found {found} in the rounds, wanted {bound}{expected}"),
    )
}

fn values(hit: &Hit, index: usize, observed: &Observed) -> Vec<SeenValues> {
    let seen = observed.long.hits.get(index);
    seen.into_iter()
        .flat_map(BTreeMap::keys)
        .filter(|values| !values.is_empty())
        .filter_map(|values| {
            let count = |tally: &Tally| tally.with(index, values);
            let share = match hit.wanted {
                Wanted::Recorded => observed.share_recorded(count)?,
                _ => observed.share(count)?,
            };
            let fields = hit.shows.iter().map(|name| (*name).to_owned());
            Some(SeenValues {
                fields: fields.zip(values.iter().cloned()).collect(),
                share,
            })
        })
        .collect()
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
