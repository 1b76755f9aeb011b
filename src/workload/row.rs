//! One row of the row protocol as text, as the formal worker writes it.
//!
//! Everything in it is an integer as measured; nothing is derived or rounded.

use std::fmt::Write as _;

use super::RoundOutcome;
use super::canary::Canary;
use super::declaration::Declaration;
use super::harness::Usage;
use crate::model::protocol::{
    Clock, FIXED_COLUMNS, MAGIC, STATUS_COLUMN, STATUS_FAIL, STATUS_PASS, SYSCALL_CANARY_COLUMNS,
    VERSION,
};

/// The word in the first line of a stream this worker writes.
const IMPLEMENTATION: &str = "formal";

/// Everything recorded about one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `warmup` or `measured`.
    pub phase: &'static str,
    /// From 0 within the phase.
    pub round: u32,
    /// What the workload reported.
    pub outcome: RoundOutcome,
    /// CPU before the round.
    pub cpu_begin: usize,
    /// CPU after it.
    pub cpu_end: usize,
    /// What the round added to the thread's counters.
    pub usage: Usage,
    /// Canaries before the round.
    pub before: Canary,
    /// Canaries after it.
    pub after: Canary,
}

impl Row {
    /// Why the work does not count as done as specified; empty when it does. Of the
    /// task columns, `task_columns` many, only the presence is judged.
    pub fn faults(
        &self,
        declaration: &Declaration,
        task_columns: usize,
        cpu: usize,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let (ops, counters) = (self.outcome.ops, &self.outcome.counters);
        if ops == 0 {
            faults.push("no op".to_owned());
        }
        let (found, wanted) = (counters.len(), declaration.counters.len() + task_columns);
        if found != wanted {
            faults.push(format!("{found} counters, wanted {wanted}"));
        }
        for (counter, found) in declaration.counters.iter().zip(counters) {
            if let Some(wanted) = counter.expect.wanted(ops).filter(|wanted| wanted != found) {
                faults.push(format!("{} {found}, wanted {wanted}", counter.name));
            }
        }
        if self.cpu_begin != cpu || self.cpu_end != cpu {
            let (begin, end) = (self.cpu_begin, self.cpu_end);
            faults.push(format!("ran on cpu {begin} then {end}, wanted {cpu}"));
        }
        faults
    }

    /// Replaces `line` with the row, its line feed included.
    pub fn write(&self, pass: bool, line: &mut String) {
        line.clear();
        line.push_str(self.phase);
        cell(line, u64::from(self.round));
        cell(line, self.outcome.ops);
        cell(line, self.outcome.elapsed_ns);
        cell(line, count(self.cpu_begin));
        cell(line, count(self.cpu_end));
        cell(line, self.usage.nvcsw);
        cell(line, self.usage.nivcsw);
        cell(line, self.usage.minflt);
        cell(line, self.usage.run_delay_ns);
        cell(line, self.before.alu_ns);
        cell(line, self.after.alu_ns);
        cell(line, self.before.syscall_ns);
        cell(line, self.after.syscall_ns);
        for counter in &self.outcome.counters {
            cell(line, *counter);
        }
        line.push('\t');
        line.push_str(if pass { STATUS_PASS } else { STATUS_FAIL });
        line.push('\n');
    }
}

/// The two lines every stream begins with; `task_columns` follow the counters, and `clock`
/// is what one count of every reading stands for.
pub fn head(declaration: &Declaration, task_columns: &[String], clock: Clock) -> String {
    let columns: Vec<&str> = FIXED_COLUMNS
        .into_iter()
        .chain(SYSCALL_CANARY_COLUMNS)
        .chain(declaration.counters.iter().map(|counter| counter.name))
        .chain(task_columns.iter().map(String::as_str))
        .chain([STATUS_COLUMN])
        .collect();
    format!(
        "{MAGIC} {VERSION} {} {IMPLEMENTATION} {}\n{}\n",
        declaration.name,
        clock.word(),
        columns.join("\t")
    )
}

fn cell(line: &mut String, value: u64) {
    // Writing to a String cannot fail.
    let _ = write!(line, "\t{value}");
}

fn count(cpu: usize) -> u64 {
    u64::try_from(cpu).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::io_uring_futex_waitv::DECLARATION;

    fn row() -> Row {
        Row {
            phase: "measured",
            round: 4,
            outcome: RoundOutcome {
                ops: 16,
                elapsed_ns: 21_600,
                counters: vec![16, 16, 0, 0, 0, 0],
            },
            cpu_begin: 1,
            cpu_end: 1,
            usage: Usage {
                nvcsw: 2,
                nivcsw: 3,
                minflt: 5,
                run_delay_ns: 7,
            },
            before: Canary {
                alu_ns: 41_000,
                syscall_ns: 28_000,
            },
            after: Canary {
                alu_ns: 41_001,
                syscall_ns: 28_001,
            },
        }
    }

    #[test]
    fn a_stream_begins_with_the_fixed_columns_and_ends_its_rows_with_status() {
        assert_eq!(
            head(&DECLARATION, &[], Clock::Ns),
            "#regbundle-rows 1 io-uring-futex-waitv formal ns\n\
             phase\tround\tops\telapsed\tcpu_begin\tcpu_end\tnvcsw\tnivcsw\tminflt\trun_delay_ns\t\
             canary_before\tcanary_after\tcanary_syscall_before\tcanary_syscall_after\t\
             waits_ok\twakes_ok\tbad_result\tstray\toverflow\tresidual\tstatus\n"
        );
        let mut line = "rest of the row before".to_owned();
        row().write(true, &mut line);
        assert_eq!(
            line,
            "measured\t4\t16\t21600\t1\t1\t2\t3\t5\t7\t41000\t41001\t28000\t28001\t\
             16\t16\t0\t0\t0\t0\tpass\n"
        );
    }

    #[test]
    fn the_clock_changes_one_word_of_the_first_line_and_nothing_else() {
        let ns = head(&DECLARATION, &[], Clock::Ns);
        let instructions = head(&DECLARATION, &[], Clock::Instructions);
        assert!(
            instructions
                .starts_with("#regbundle-rows 1 io-uring-futex-waitv formal instructions\n"),
            "{instructions}"
        );
        assert_eq!(instructions.replacen(" instructions\n", " ns\n", 1), ns);
    }

    #[test]
    fn every_counter_that_is_not_what_it_must_be_is_a_fault() {
        assert_eq!(row().faults(&DECLARATION, 0, 1), Vec::<String>::new());
        for (position, counter) in DECLARATION.counters.iter().enumerate() {
            let mut wrong = row();
            wrong.outcome.counters[position] += 1;
            let faults = wrong.faults(&DECLARATION, 0, 1);
            assert_eq!(faults.len(), 1);
            assert!(faults[0].starts_with(counter.name), "{faults:?}");
        }
    }

    #[test]
    fn task_columns_follow_the_counters_and_are_not_judged() {
        let columns = ["tasks", "task_cpus", "task0_ops"].map(str::to_owned);
        let head = head(&DECLARATION, &columns, Clock::Ns);
        assert!(
            head.ends_with("\toverflow\tresidual\ttasks\ttask_cpus\ttask0_ops\tstatus\n"),
            "{head}"
        );
        let mut wide = row();
        wide.outcome.counters.extend([1, 1, 99]);
        assert_eq!(wide.faults(&DECLARATION, 3, 1), Vec::<String>::new());
        wide.outcome.counters.pop();
        assert_eq!(wide.faults(&DECLARATION, 3, 1), ["8 counters, wanted 9"]);
    }

    #[test]
    fn a_missing_counter_or_another_cpu_is_a_fault() {
        let mut short = row();
        short.outcome.counters.pop();
        assert_eq!(short.faults(&DECLARATION, 0, 1), ["5 counters, wanted 6"]);
        let mut moved = row();
        moved.cpu_end = 0;
        assert_eq!(
            moved.faults(&DECLARATION, 0, 1),
            ["ran on cpu 1 then 0, wanted 1"]
        );
        assert_eq!(row().faults(&DECLARATION, 0, 0).len(), 1);
    }
}
