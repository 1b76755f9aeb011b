//! The catalogue of workloads as Markdown: the part of docs/workloads.md that follows from
//! the declarations.

use super::markdown::markdown;
use crate::model::protocol::Clock;
use crate::stats::figure::Measure;
use crate::workload::declaration::{Declaration, Expect, split_scenario};

/// Says what a semantic counter must be.
#[must_use]
pub fn expectation(expect: Expect) -> String {
    match expect {
        Expect::Zero => "0".to_owned(),
        Expect::Ops => "equal to ops".to_owned(),
        Expect::PerOp(times) => format!("{times} per op"),
        Expect::Recorded => "recorded".to_owned(),
    }
}

/// Says which way is better.
#[must_use]
pub const fn direction(declaration: &Declaration) -> &'static str {
    if declaration.figure.higher_is_better() {
        "higher is better"
    } else {
        "lower is better"
    }
}

/// Returns a section per workload; what its scenarios share stands in the first one alone.
pub fn catalogue<'a>(declarations: impl Iterator<Item = &'a Declaration>) -> String {
    let mut text = String::new();
    let mut first: Option<&Declaration> = None;
    for declaration in declarations {
        let (name, scenario) = split_scenario(declaration.name);
        let shared = first.filter(|first| split_scenario(first.name).0 == name);
        if shared.is_none() {
            first = Some(declaration);
            text.push_str(&format!("## {name}\n\n"));
        }
        if let Some(scenario) = scenario {
            text.push_str(&format!("### {scenario}\n\n"));
        }
        section(declaration, shared, &mut text);
    }
    text
}

fn section(declaration: &Declaration, shared: Option<&Declaration>, text: &mut String) {
    let mut item = |key: &str, value: &str| {
        text.push_str(&format!("* **{key}**: {}\n", markdown(value)));
    };
    item("op", declaration.op);
    item("window", declaration.window);
    let unit = Measure::new(declaration.name, Clock::Ns).unit();
    item("unit", &format!("{unit}; {}", direction(declaration)));
    item("scope", declaration.scope);
    item("control", declaration.control.unwrap_or("none"));
    let differs = |of: fn(&Declaration) -> &'static [&'static str]| {
        shared.is_none_or(|shared| of(shared) != of(declaration))
    };
    if differs(|known| known.not_shown) {
        item("not shown", &declaration.not_shown.join("; "));
    }
    if differs(|known| known.needs) && !declaration.needs.is_empty() {
        item("needs", &declaration.needs.join("; "));
    }
    if differs(|known| known.functions) && !declaration.functions.is_empty() {
        item("functions", &declaration.functions.join(", "));
    }
    text.push('\n');
    let parameters = parameters(declaration);
    if shared.is_none_or(|shared| self::parameters(shared) != parameters) {
        text.push_str(&parameters);
    }
    let counters = counters(declaration);
    if shared.is_none_or(|shared| self::counters(shared) != counters) {
        text.push_str(&counters);
    }
}

fn parameters(declaration: &Declaration) -> String {
    let mut text =
        "| parameter | default | limits | meaning |\n| --- | ---: | --- | --- |\n".to_owned();
    for parameter in declaration.parameters {
        text.push_str(&format!(
            "| `{}` | {} | {} to {} | {} |\n",
            parameter.name,
            parameter.default,
            parameter.min,
            parameter.max,
            markdown(parameter.meaning)
        ));
    }
    text.push('\n');
    text
}

fn counters(declaration: &Declaration) -> String {
    let mut text = "| counter | must be | counts |\n| --- | --- | --- |\n".to_owned();
    for counter in declaration.counters {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            counter.name,
            expectation(counter.expect),
            markdown(counter.meaning)
        ));
    }
    if declaration.has_tasks() {
        text.push_str("| `tasks`, `task_cpus`, `taskN_...` | recorded | tasks, the CPUs they had, and the ops or ns of each task |\n");
    }
    text.push('\n');
    text
}
