//! `regbundle trace`: untimed counts of the events a workload declares.

use std::path::Path;

use serde_json::json;

use super::run::own_executable;
use super::{load, planned};
use crate::cli::CaseArgs;
use crate::edge::host::HostReader;
use crate::edge::{cpu, interrupt};
use crate::engine::trace::{TraceError, TraceOptions, trace};
use crate::error::{CommandError, exit};
use crate::model::trace::Answer;
use crate::render::trace::trace_text;
use crate::ui::Ui;

/// Runs every program of a case with tracepoints on.
///
/// # Errors
///
/// When there is no tracefs or no permission, or a program cannot be compiled.
pub fn run(args: &CaseArgs, ui: &Ui) -> Result<u8, CommandError> {
    let loaded = load(&args.case)?;
    // Programs are compiled into the case's folder, and a measurement would be disturbed.
    let _lock = loaded.folder.lock()?;
    let cpu = cpu::choose(loaded.case.machine.cpu)?;
    let options = TraceOptions {
        own: own_executable()?,
        build: loaded.folder.path().join("build"),
        cpu,
        kernel: HostReader::new(Path::new("/")).read(cpu).kernel.release,
    };
    let traced = trace(&planned(&loaded)?, &options, &mut |text| ui.say(text));
    if matches!(traced, Err(TraceError::Interrupted)) {
        ui.say("interrupted; the instance of tracefs is removed");
        interrupt::release();
    }
    let report = traced?;
    ui.answer(
        &trace_text(&report),
        &json!({
            "format": 1,
            "tool": crate::TOOL,
            "kernel": report.kernel,
            "programs": report.programs,
        }),
    );
    Ok(if report.count(Answer::Fail) > 0 {
        exit::NO
    } else if report.count(Answer::Pass) > 0 {
        exit::YES
    } else {
        exit::NO_ANSWER
    })
}
