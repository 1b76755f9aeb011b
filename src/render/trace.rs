//! The counts of a trace as text for a person.

use super::number::fixed;
use super::table::{Align, layout};
use crate::model::trace::{Answer, HitResult, ProgramTrace, TraceReport};

/// Returns a block per program, and a last line that counts the answers.
#[must_use]
pub fn trace_text(report: &TraceReport) -> String {
    let mut text = String::new();
    for program in &report.programs {
        text.push_str(&block(program));
        text.push('\n');
    }
    let counts: Vec<String> = [
        Answer::Pass,
        Answer::Fail,
        Answer::NotChecked,
        Answer::Recorded,
    ]
    .into_iter()
    .map(|answer| format!("{} {}", report.count(answer), answer.word()))
    .collect();
    let kernel = report.kernel.as_deref().unwrap_or("of unknown release");
    text.push_str(&format!("kernel {kernel}: {}\n", counts.join(", ")));
    text
}

fn block(program: &ProgramTrace) -> String {
    let parameters: Vec<String> = program
        .parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut text = format!(
        "{} ({}), untimed: {}\n",
        program.workload,
        program.implementation,
        parameters.join(" ")
    );
    if program.hits.is_empty() {
        text.push_str(&format!("  NOT-CHECKED: {}\n", program.reason));
        return text;
    }
    let head = [
        "event",
        "expected",
        "per op",
        "in rounds",
        "preflight and start-up",
        "answer",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(program.hits.iter().map(row));
    let aligns = [
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ];
    text.push_str(&layout(&rows, &aligns, "  "));
    if let Some(reason) = common_reason(&program.hits) {
        text.push_str(&format!("  NOT-CHECKED, all: {reason}\n"));
        return text;
    }
    for hit in &program.hits {
        text.push_str(&details(hit));
    }
    text
}

/// The reason why none of several hits could be checked, when it is one.
fn common_reason(hits: &[HitResult]) -> Option<&str> {
    let (first, rest) = hits.split_first()?;
    let all = !rest.is_empty()
        && hits
            .iter()
            .all(|hit| hit.answer == Answer::NotChecked && hit.reason == first.reason);
    all.then_some(first.reason.as_str())
}

fn row(hit: &HitResult) -> Vec<String> {
    let seen = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    vec![
        hit.event.clone(),
        hit.expected.clone(),
        hit.seen
            .map_or("-".to_owned(), |seen| per_op(seen.in_rounds, hit.ops)),
        seen(hit.seen.map(|seen| seen.in_rounds)),
        seen(hit.seen.map(|seen| seen.elsewhere)),
        hit.answer.word().to_owned(),
    ]
}

/// Whole numbers without decimals, others with three.
fn per_op(count: u64, ops: u64) -> String {
    match (count.checked_div(ops), count.checked_rem(ops)) {
        (Some(whole), Some(0)) => whole.to_string(),
        (Some(_), Some(_)) => {
            // Counts of a run are far below 2^53.
            let value = |number: u64| u32::try_from(number).map_or(f64::MAX, f64::from);
            fixed(value(count) / value(ops), 3)
        }
        _ => "-".to_owned(),
    }
}

fn details(hit: &HitResult) -> String {
    let mut text = String::new();
    if !hit.reason.is_empty() {
        let answer = hit.answer.word();
        text.push_str(&format!("  {answer} {}: {}\n", hit.event, hit.reason));
    }
    for seen in &hit.values {
        let fields: Vec<String> = seen
            .fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        text.push_str(&format!(
            "  {}: {} ({} in rounds, {} in preflight and start-up)\n",
            hit.event,
            fields.join(" "),
            seen.share.in_rounds,
            seen.share.elsewhere
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_per_op_is_whole_or_has_three_decimals() {
        assert_eq!(per_op(32, 32), "1");
        assert_eq!(per_op(0, 32), "0");
        assert_eq!(per_op(5, 2), "2.500");
        assert_eq!(per_op(5, 0), "-");
    }
}
