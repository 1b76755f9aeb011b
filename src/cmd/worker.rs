//! `regbundle worker`: the formal implementation, one process per stream.

use std::collections::BTreeMap;
use std::io::{Write as _, stderr, stdin, stdout};

use crate::cli::WorkerArgs;
use crate::error::CommandError;
use crate::model::protocol::Clock;
use crate::workload::worker::{self, WorkerOptions};

/// Runs the worker.
///
/// # Errors
///
/// When the workload cannot be measured here.
pub fn run(args: &WorkerArgs) -> Result<u8, CommandError> {
    let options = options(args)?;
    let mut output = stdout().lock();
    let summary = worker::run(
        &options,
        &mut stdin().lock(),
        &mut output,
        &mut stderr().lock(),
    )
    .map_err(CommandError::Worker)?;
    let _ = output.flush();
    Ok(summary.exit_code())
}

/// What the worker is asked to do; words the catalogue and the protocol know are read here.
fn options(args: &WorkerArgs) -> Result<WorkerOptions, CommandError> {
    let mut parameters = BTreeMap::new();
    for text in &args.parameters {
        let parsed = text
            .split_once('=')
            .and_then(|(name, value)| Some((name.to_owned(), value.parse::<u64>().ok()?)));
        let (name, value) = parsed.ok_or_else(|| CommandError::Argument {
            found: text.clone(),
            wanted: "a parameter such as cycles=512",
        })?;
        parameters.insert(name, value);
    }
    let clock = Clock::from_word(&args.clock).ok_or_else(|| CommandError::Argument {
        found: args.clock.clone(),
        wanted: "a clock of the row protocol: ns or instructions",
    })?;
    Ok(WorkerOptions {
        workload: args.workload.clone(),
        parameters,
        cpu: args.cpu,
        warmup: args.warmup,
        rounds: args.rounds,
        step: args.step,
        clock,
        settle_seconds: args.settle,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn asked(arguments: &[&str]) -> Result<WorkerOptions, CommandError> {
        let all = ["regbundle", "worker", "syscall-getpid"];
        let cli = Cli::try_parse_from(all.iter().chain(arguments)).unwrap();
        let Command::Worker(args) = cli.command else {
            unreachable!("the word after regbundle is worker");
        };
        options(&args)
    }

    #[test]
    fn a_worker_counts_ns_and_does_not_settle_unless_it_is_asked_to() {
        let plain = asked(&[]).unwrap();
        assert_eq!((plain.clock, plain.settle_seconds), (Clock::Ns, 0));
        let other = asked(&["--clock", "instructions", "--settle", "20"]).unwrap();
        assert_eq!(
            (other.clock, other.settle_seconds),
            (Clock::Instructions, 20)
        );
        assert_eq!(asked(&["--clock", "ns"]).unwrap(), plain);
    }

    #[test]
    fn a_clock_that_the_row_protocol_does_not_have_is_refused_with_those_it_has() {
        let error = asked(&["--clock", "cycles"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "found `cycles`, wanted a clock of the row protocol: ns or instructions"
        );
    }
}
