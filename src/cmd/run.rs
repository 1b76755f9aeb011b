//! `regbundle run`: the next point, or all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Loaded, load, plan_text};
use crate::cli::RunArgs;
use crate::edge::cpu;
use crate::engine::host::run as measure;
use crate::engine::qemu::{GuestOptions, run as in_guests};
use crate::engine::run::{RunOptions, RunReport};
use crate::error::CommandError;
use crate::model::case::Boots;
use crate::model::plan::{Kernel, Role};
use crate::ui::{RunProgress, Ui, program};

/// Measures what the plan expects next.
///
/// # Errors
///
/// When the boot, kernel, CPU or a program is not what the plan wants.
pub fn run(args: &RunArgs, ui: &Ui) -> Result<u8, CommandError> {
    let loaded = load(&args.case)?;
    let _lock = loaded.folder.lock()?;
    let seconds = u64::from(loaded.case.plan.point_seconds);
    let report = measure_case(&loaded, Duration::from_secs(seconds), args.points, ui)?;
    for torn in &report.torn {
        ui.say(&format!("a write was cut off and is not counted: {torn}"));
    }
    let case = args.case.display();
    let program = program();
    let boots_itself = loaded.case.engine.qemu.is_some() || loaded.case.plan.boots == Boots::Same;
    let text = match (&report.next, report.measured.is_empty()) {
        // A guest is booted by the next run, and one boot for all needs no other.
        (Some((label, _)), _) if boots_itself => {
            format!("next: point {label}; run `{program} run {case}` again")
        }
        (Some((label, kernel)), _) => {
            format!("next: point {label}; boot {kernel} and run `{program} run {case}` again")
        }
        (None, true) => format!("every point is measured; next: `{program} analyze {case}`"),
        (None, false) => format!("that was the last point; next: `{program} analyze {case}`"),
    };
    let measured: Vec<_> = report
        .measured
        .iter()
        .map(|(label, attempt, reason)| {
            json!({"point": label, "attempt": attempt, "ended_because": reason})
        })
        .collect();
    let next = report
        .next
        .as_ref()
        .map(|(label, kernel)| json!({"point": label, "kernel": kernel}));
    ui.answer(
        &text,
        &json!({"format": 1, "tool": crate::TOOL, "measured": measured, "next": next, "torn": report.torn}),
    );
    Ok(0)
}

/// Measures the next points; the plan is written before the first.
pub(super) fn measure_case(
    loaded: &Loaded,
    point_time: Duration,
    most_points: usize,
    ui: &Ui,
) -> Result<RunReport, CommandError> {
    let engine = &loaded.case.engine;
    if let Some(qemu) = &engine.qemu {
        let options = GuestOptions {
            own: own_executable()?,
            engine: qemu.clone(),
            child_cgroup: loaded.case.machine.cgroup.as_deref() != Some("root"),
            point_time,
            most_points,
        };
        let warnings = unnamed_kernels("[engine.qemu.expect]", &qemu.expect);
        let mut progress = RunProgress::new(ui, warnings);
        let plan = plan_text(loaded)?;
        return Ok(in_guests(&loaded.folder, &plan, &options, &mut progress)?);
    }
    let Some(host) = &engine.host else {
        return Err(CommandError::NoEngine {
            file: loaded.folder.case_file().display().to_string(),
        });
    };
    let options = RunOptions {
        own: own_executable()?,
        cpu: cpu::choose(loaded.case.machine.cpu)?,
        point_time,
        most_points,
    };
    // Said when the first point begins: after all that may refuse it, before its rows.
    let mut progress = RunProgress::new(ui, unnamed_kernels("[engine.host]", &host.kernels));
    Ok(measure(
        &loaded.folder,
        &plan_text(loaded)?,
        &options,
        &mut progress,
    )?)
}

/// Says which roles have no expected kernel, so that whatever is booted is measured.
fn unnamed_kernels(section: &str, kernels: &BTreeMap<Role, Kernel>) -> Vec<String> {
    [Role::Parent, Role::Child]
        .into_iter()
        .filter(|role| !kernels.contains_key(role))
        .map(|role| {
            format!(
                "warning: {section} names no kernel for the role {}: whatever is booted is measured as it, and kernel-expected stays NOT-CHECKED",
                role.word()
            )
        })
        .collect()
}

pub(super) fn own_executable() -> Result<PathBuf, CommandError> {
    std::env::current_exe().map_err(|source| CommandError::Io {
        path: "/proc/self/exe".to_owned(),
        action: "find this executable",
        source,
    })
}
