//! `regbundle workload`: the catalogue.

use serde_json::{Value, json};

use crate::cli::WorkloadAction;
use crate::error::CommandError;
use crate::model::protocol::Clock;
use crate::render::catalogue::{catalogue, direction, expectation};
use crate::render::table::{Align, layout};
use crate::stats::figure::Measure;
use crate::ui::Ui;
use crate::workload::declaration::Declaration;
use crate::workload::error::WorkloadError;
use crate::workload::{emit, registry};

/// Lists, shows or emits.
///
/// # Errors
///
/// When there is no such workload.
pub fn run(action: &WorkloadAction, ui: &Ui) -> Result<u8, CommandError> {
    match action {
        WorkloadAction::List => list(ui),
        WorkloadAction::Docs => ui.data(&catalogue(registry::declarations())),
        WorkloadAction::Show { name } => {
            let declaration = registry::get(name)?.declaration();
            ui.answer(&text(declaration), &to_json(declaration));
        }
        WorkloadAction::Emit { name } => {
            let source = emit::source(name).ok_or_else(|| WorkloadError::UnknownWorkload {
                name: name.clone(),
                known: emit::names().collect::<Vec<_>>().join(", "),
            })?;
            ui.data(&source);
        }
    }
    Ok(0)
}

fn list(ui: &Ui) {
    let rows: Vec<Vec<String>> = registry::declarations()
        .map(|known| vec![known.name.to_owned(), format!("one op: {}", known.op)])
        .collect();
    let value = json!({
        "format": 1,
        "tool": crate::TOOL,
        "workloads": registry::declarations().map(to_json).collect::<Vec<_>>(),
    });
    ui.answer(&layout(&rows, &[Align::Left, Align::Left], ""), &value);
}

fn to_json(known: &Declaration) -> Value {
    json!({
        "name": known.name,
        "op": known.op,
        "window": known.window,
        "unit": Measure::new(known.name, Clock::Ns).unit(),
        "direction": direction(known),
        "parameters": known.parameters.iter().map(|parameter| json!({
            "name": parameter.name, "default": parameter.default,
            "min": parameter.min, "max": parameter.max, "meaning": parameter.meaning,
        })).collect::<Vec<_>>(),
        "counters": known.counters.iter().map(|counter| json!({
            "name": counter.name, "must_be": expectation(counter.expect),
            "meaning": counter.meaning,
        })).collect::<Vec<_>>(),
        "needs": known.needs,
        "functions": known.functions,
        "scope": known.scope,
        "not_shown": known.not_shown,
        "control": known.control,
    })
}

fn text(known: &Declaration) -> String {
    let mut text = format!(
        "{}\n\none op    {}\nwindow    {}\nunit      {} on the clock `ns`; {}\nscope     {}\n",
        known.name,
        known.op,
        known.window,
        Measure::new(known.name, Clock::Ns).unit(),
        direction(known),
        known.scope
    );
    for item in known.not_shown {
        text.push_str(&format!("not shown {item}\n"));
    }
    text.push_str(&format!("control   {}\n", known.control.unwrap_or("none")));
    for need in known.needs {
        text.push_str(&format!("needs     {need}\n"));
    }
    if !known.functions.is_empty() {
        text.push_str(&format!("functions {}\n", known.functions.join(", ")));
    }
    let parameters: Vec<Vec<String>> = known
        .parameters
        .iter()
        .map(|parameter| {
            vec![
                parameter.name.to_owned(),
                parameter.default.to_string(),
                format!("{} to {}", parameter.min, parameter.max),
                parameter.meaning.to_owned(),
            ]
        })
        .collect();
    text.push_str("\nparameters: default, limits, meaning\n");
    text.push_str(&layout(
        &parameters,
        &[Align::Left, Align::Right, Align::Left, Align::Left],
        "  ",
    ));
    let counters: Vec<Vec<String>> = known
        .counters
        .iter()
        .map(|counter| {
            vec![
                counter.name.to_owned(),
                expectation(counter.expect),
                counter.meaning.to_owned(),
            ]
        })
        .collect();
    text.push_str("\nsemantic counters of a row: what each must be\n");
    text.push_str(&layout(
        &counters,
        &[Align::Left, Align::Left, Align::Left],
        "  ",
    ));
    text
}
