//! `regbundle worker`: the formal implementation, one process per stream.

use std::collections::BTreeMap;
use std::io::{Write as _, stderr, stdin, stdout};

use crate::cli::WorkerArgs;
use crate::error::CommandError;
use crate::workload::worker::{self, WorkerOptions};

/// Runs the worker.
///
/// # Errors
///
/// When the workload cannot be measured here.
pub fn run(args: &WorkerArgs) -> Result<u8, CommandError> {
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
    let options = WorkerOptions {
        workload: args.workload.clone(),
        parameters,
        cpu: args.cpu,
        warmup: args.warmup,
        rounds: args.rounds,
        step: args.step,
    };
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
