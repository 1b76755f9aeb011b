//! The files of a point: every row of every attempt, and the identity of its boot.

use std::collections::BTreeSet;

use serde_json::json;

use super::claims::RowPlaces;
use crate::model::claim::Input;
use crate::model::evidence::{Attempt, Evidence, Point, Segment};
use crate::model::row::{Metric, Row};
use crate::model::tree::{Entry, Tree};
use crate::render::tsv::push_line;
use crate::stats::figure::Measure;
use crate::stats::selection::{Floors, select};

/// Columns of `rows.tsv`.
const COLUMNS: [&str; 21] = [
    "attempt",
    "segment",
    "workload",
    "implementation",
    "clock",
    "counted",
    "clean",
    "phase",
    "round",
    "ops",
    "elapsed",
    "per_op",
    "cpu_begin",
    "cpu_end",
    "nvcsw",
    "nivcsw",
    "minflt",
    "run_delay_ns",
    "canaries",
    "counters",
    "status",
];

/// Adds the files of every point to a tree and returns where the counted rows stand.
pub fn add_points(tree: &mut Tree, evidence: &Evidence, floors: &Floors) -> Vec<RowPlaces> {
    let mut places = Vec::new();
    for point in &evidence.points {
        let folder = format!("data/points/{}", point.folder());
        let file = format!("{folder}/rows.tsv");
        let (text, found) = rows_tsv(evidence, point, floors, &file);
        tree.insert(file, Entry::text(text));
        tree.insert(format!("{folder}/boot.json"), Entry::text(boot_json(point)));
        places.extend(found);
    }
    places
}

fn boot_json(point: &Point) -> String {
    let attempts: Vec<_> = point
        .attempts
        .iter()
        .map(|attempt| {
            json!({
                "attempt": attempt.number,
                "finished": attempt.finished,
                "ended_because": attempt.ended_because,
                "boot": attempt.identity,
                "programs": attempt.segments.iter().map(|segment| json!({
                    "workload": segment.workload,
                    "implementation": segment.implementation.word(),
                    "sha256": segment.program_sha256,
                    "aborted": segment.aborted,
                    "worker": segment.notes.iter()
                        .map(|(key, value)| format!("{key}={value}"))
                        .collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
            })
        })
        .collect();
    let value = json!({
        "format": 1,
        "position": point.position,
        "label": point.label,
        "role": point.role.word(),
        "attempts": attempts,
    });
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

fn rows_tsv(
    evidence: &Evidence,
    point: &Point,
    floors: &Floors,
    file: &str,
) -> (String, Vec<RowPlaces>) {
    let mut text = String::new();
    push_line(&mut text, COLUMNS);
    let mut line = 1;
    let counted = counted_rows(evidence, point, floors);
    let mut lines: Vec<(
        String,
        crate::model::case::Implementation,
        &'static str,
        Vec<usize>,
    )> = Vec::new();
    for attempt in &point.attempts {
        for (number, segment) in attempt.segments.iter().enumerate() {
            for (index, row) in segment.rows.iter().enumerate() {
                line += 1;
                let counts = counted.contains(&(attempt.number, number, index));
                let clean = floors.is_clean(
                    segment.implementation,
                    &attempt.identity,
                    row,
                    evidence.plan.thresholds.canary_pct,
                );
                push_line(
                    &mut text,
                    cells(attempt, number, segment, row, counts, clean),
                );
                if counts {
                    note_line(&mut lines, segment, row, line);
                }
            }
        }
    }
    let places = lines
        .into_iter()
        .map(|(workload, implementation, column, lines)| RowPlaces {
            label: point.label.clone(),
            workload,
            implementation,
            input: Input {
                point: point.label.clone(),
                role: point.role,
                file: file.to_owned(),
                rows: ranges(&lines),
                column: column.to_owned(),
            },
        })
        .collect();
    (text, places)
}

fn note_line(
    lines: &mut Vec<(
        String,
        crate::model::case::Implementation,
        &'static str,
        Vec<usize>,
    )>,
    segment: &Segment,
    row: &Row,
    line: usize,
) {
    let known = lines.iter_mut().find(|(workload, implementation, _, _)| {
        *workload == segment.workload && *implementation == segment.implementation
    });
    if let Some((_, _, _, list)) = known {
        list.push(line);
        return;
    }
    let column = match row.metric {
        Metric::Elapsed { .. } => Measure::new(&segment.workload, segment.clock).expression(),
        Metric::PerOp { .. } => "per_op",
    };
    lines.push((
        segment.workload.clone(),
        segment.implementation,
        column,
        vec![line],
    ));
}

/// Returns attempt, segment and row numbers of the rows that count.
fn counted_rows(
    evidence: &Evidence,
    point: &Point,
    floors: &Floors,
) -> BTreeSet<(u32, usize, usize)> {
    let mut counted = BTreeSet::new();
    let Some(attempt) = point.counted() else {
        return counted;
    };
    for workload in &evidence.plan.workloads {
        for implementation in &workload.implementations {
            let selection = select(
                attempt,
                &workload.name,
                *implementation,
                floors,
                evidence.plan.thresholds.canary_pct,
                usize::try_from(evidence.plan.rounds).unwrap_or(usize::MAX),
            );
            counted.extend(
                selection
                    .counted
                    .iter()
                    .map(|placed| (attempt.number, placed.segment, placed.index)),
            );
        }
    }
    counted
}

fn cells(
    attempt: &Attempt,
    number: usize,
    segment: &Segment,
    row: &Row,
    counted: bool,
    clean: Option<bool>,
) -> Vec<String> {
    let dash = || "-".to_owned();
    let flag = |value: bool| if value { "1" } else { "0" }.to_owned();
    let (ops, elapsed, per_op) = match &row.metric {
        Metric::Elapsed { elapsed, ops } => (ops.to_string(), elapsed.to_string(), dash()),
        Metric::PerOp { text, ops, .. } => (
            ops.map_or_else(dash, |ops| ops.to_string()),
            dash(),
            text.clone(),
        ),
    };
    let mut cells = vec![
        attempt.number.to_string(),
        (number + 1).to_string(),
        segment.workload.clone(),
        segment.implementation.word().to_owned(),
        segment.clock.word().to_owned(),
        flag(counted),
        clean.map_or_else(dash, flag),
        row.phase.word().to_owned(),
        row.round.to_string(),
        ops,
        elapsed,
        per_op,
    ];
    match row.usage {
        Some(usage) => cells.extend(
            [
                usage.cpu_begin,
                usage.cpu_end,
                usage.nvcsw,
                usage.nivcsw,
                usage.minflt,
                usage.run_delay_ns,
            ]
            .map(|value| value.to_string()),
        ),
        None => cells.extend(std::iter::repeat_with(dash).take(6)),
    }
    cells.push(row.canary.map_or_else(dash, |canary| {
        let mut text = format!("{} {}", canary.alu_before, canary.alu_after);
        if let Some((before, after)) = canary.syscall {
            text.push_str(&format!(" {before} {after}"));
        }
        text
    }));
    cells.push(if row.counters.is_empty() {
        dash()
    } else {
        row.counters
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    });
    cells.push(match row.passed {
        Some(true) => "pass".to_owned(),
        Some(false) => "fail".to_owned(),
        None => dash(),
    });
    cells
}

/// Writes line numbers as ranges: `5-9,12`.
pub(crate) fn ranges(lines: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for line in lines {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == *line => *end = *line,
            _ => parts.push((*line, *line)),
        }
    }
    parts
        .iter()
        .map(|(start, end)| {
            if start == end {
                start.to_string()
            } else {
                format!("{start}-{end}")
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_become_ranges() {
        assert_eq!(ranges(&[5, 6, 7, 9, 12, 13]), "5-7,9,12-13");
        assert_eq!(ranges(&[]), "");
    }
}
