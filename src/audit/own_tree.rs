//! Audit of a tree of our own format: every claim in `claims.json` recomputed from
//! the rows it names, the rows compared with the journal, the texts with the claims.

use std::collections::BTreeMap;

use thiserror::Error;

use super::figures::{Tables, recompute};
use super::{Answer, Audit, ClaimVerdict};
use crate::bundle::assemble::{AssembleError, Derived, derive};
use crate::bundle::compare::{reproducer_faults, reproducer_unchecked, tag_faults, unknown_files};
use crate::model::claim::{CLAIMS_FORMAT, Claim, Claims};
use crate::model::finding::Outcome;
use crate::model::shown::printable;
use crate::model::tree::Tree;
use crate::render::template::TEMPLATE_FORMAT;

/// More claims than any case makes: 25 points, a dozen workloads, two implementations.
const MOST_CLAIMS: usize = 10_000;

/// Why a tree cannot be audited.
#[derive(Debug, Error)]
pub enum AuditError {
    /// `claims.json` is not there or not readable.
    #[error("claims.json: {message}; wanted the claims of a regbundle tree")]
    Claims {
        /// What was found.
        message: String,
    },
    /// The evidence below the claims is damaged.
    #[error(transparent)]
    Evidence(#[from] AssembleError),
}

/// Audits an intact tree.
///
/// # Errors
///
/// When there are no claims, or plan, journal or ingested files are damaged.
pub fn audit_tree(tree: &Tree) -> Result<Audit, AuditError> {
    let claims = read_claims(tree)?;
    let derived = derive(tree)?;
    let mut audit = Audit::default();
    let mut tables = Tables::default();
    for claim in &claims.claims {
        audit
            .answers
            .push(answer(claim, tree, &derived, &mut tables));
    }
    name_lines(tree, &mut audit);
    missing_claims(&claims, &derived, &mut audit);
    files(tree, &derived, &mut audit);
    for fault in reproducer_faults(tree, &derived) {
        audit.answers.push(Answer {
            id: "reproducer".to_owned(),
            place: "data/reproducer".to_owned(),
            quote: "the reproducer is the one written and measured".to_owned(),
            verdict: ClaimVerdict::Contradicted,
            claimed: "the same bytes".to_owned(),
            recomputed: Some(printable(&fault, 400)),
            definition: "regeneration, and the digest in the journal".to_owned(),
            missing: None,
        });
    }
    for unchecked in reproducer_unchecked(&derived) {
        audit.answers.push(Answer {
            id: "reproducer".to_owned(),
            place: unchecked.split(':').next().unwrap_or_default().to_owned(),
            quote: "the reproducer is the one written and measured".to_owned(),
            verdict: ClaimVerdict::NotCheckable,
            claimed: "the same bytes".to_owned(),
            recomputed: None,
            definition: "regeneration".to_owned(),
            missing: Some(format!("{unchecked}, which alone can make it again")),
        });
    }
    let mut faults = tag_faults(tree, &derived);
    faults.extend(unknown_files(tree, &derived));
    faults.extend(repeated_ids(&claims));
    if claims.tool != derived.tool.tool {
        faults.push(format!(
            "claims.json: found the tool `{}`, wanted `{}` as in data/tool.json",
            printable(&claims.tool, 60),
            derived.tool.tool
        ));
    }
    for fault in faults {
        audit.answers.push(Answer {
            id: "tag-files".to_owned(),
            place: fault.split(':').next().unwrap_or_default().to_owned(),
            quote: "the file says what the inputs say".to_owned(),
            verdict: ClaimVerdict::Contradicted,
            claimed: "the same".to_owned(),
            recomputed: Some(printable(&fault, 400)),
            definition: "regeneration".to_owned(),
            missing: None,
        });
    }
    readme(tree, &claims, &mut audit);
    remarks(&derived, &mut audit);
    audit.answers.sort_by_key(|answer| answer.verdict);
    Ok(audit)
}

fn read_claims(tree: &Tree) -> Result<Claims, AuditError> {
    let error = |message: String| AuditError::Claims { message };
    let entry = tree
        .get("claims.json")
        .ok_or_else(|| error("not found".to_owned()))?;
    let claims: Claims =
        serde_json::from_slice(&entry.bytes).map_err(|found| error(found.to_string()))?;
    if claims.claims.len() > MOST_CLAIMS {
        return Err(error(format!(
            "found {} claims, more than {MOST_CLAIMS}",
            claims.claims.len()
        )));
    }
    if claims.format != CLAIMS_FORMAT {
        return Err(error(format!(
            "found format {}, wanted {CLAIMS_FORMAT}",
            claims.format
        )));
    }
    Ok(claims)
}

fn quote(claim: &Claim) -> String {
    let mut text = claim.statement.clone();
    if !claim.workload.is_empty() {
        text.push_str(&format!(" ({}, {})", claim.workload, claim.implementation));
    }
    printable(&text, 200)
}

/// Answers one claim: its figure from its own inputs, and its inputs from the evidence.
fn answer(claim: &Claim, tree: &Tree, derived: &Derived, tables: &mut Tables) -> Answer {
    let mut answer = Answer {
        id: printable(&claim.id, 40),
        place: "claims.json".to_owned(),
        quote: quote(claim),
        verdict: ClaimVerdict::NotCheckable,
        claimed: printable(&claim.value, 80),
        recomputed: None,
        definition: printable(&claim.formula, 80),
        missing: None,
    };
    let own = derived.claims.iter().find(|own| own.id == claim.id);
    let recomputed = if claim.formula == "verdict" {
        Ok(derived.analysis.verdict.word().to_owned())
    } else if let Some(gate) = claim.formula.strip_prefix("gate:") {
        derived
            .analysis
            .findings
            .iter()
            .find(|finding| finding.gate == gate)
            .map(|finding| finding.outcome.word().to_owned())
            .ok_or_else(|| {
                format!(
                    "the gate `{}` is not known to this version",
                    printable(gate, 60)
                )
            })
    } else {
        recompute(claim, tree, tables).map_err(|error| error.to_string())
    };
    match recomputed {
        Ok(text) => {
            answer.verdict = if text == claim.value {
                ClaimVerdict::Confirmed
            } else {
                ClaimVerdict::Contradicted
            };
            answer.recomputed = Some(text);
        }
        Err(missing) => answer.missing = Some(missing),
    }
    let Some(own) = own else {
        // A formula of a later version may say what this one cannot derive.
        if answer.recomputed.is_some() || derived.tool.tool == crate::TOOL {
            answer.verdict = ClaimVerdict::Contradicted;
            answer.missing = Some("no such claim follows from the evidence".to_owned());
        }
        return answer;
    };
    if !same_subject(own, claim) {
        // Also when the file or rows it names are not there: it should not have named them.
        answer.verdict = ClaimVerdict::Contradicted;
        answer.missing = Some(other_subject(own, claim));
    } else if own.value != claim.value && answer.verdict == ClaimVerdict::Confirmed {
        // The rows the claim names give it; the evidence in the journal does not.
        answer.verdict = ClaimVerdict::Contradicted;
        answer.recomputed = Some(own.value.clone());
        answer.missing = Some("the journal gives another figure than the rows named".to_owned());
    }
    answer
}

/// Says what a claim names and what the evidence counts for it, where the two differ.
fn other_subject(own: &Claim, claim: &Claim) -> String {
    let inputs = |claim: &Claim| -> String {
        let all: Vec<String> = claim
            .inputs
            .iter()
            .map(|input| {
                let (file, rows) = (printable(&input.file, 120), printable(&input.rows, 60));
                format!("{file} rows {rows}")
            })
            .collect();
        all.join(" and ")
    };
    let (found, wanted) = (inputs(claim), inputs(own));
    let difference = if found == wanted {
        String::new()
    } else {
        format!("; found {found}")
    };
    format!(
        "the claim is not about what the evidence counts; wanted {}, {}, {wanted}{difference}",
        own.formula,
        quote(own),
    )
}

/// Says whether two claims with one id speak of the same rows, formula and unit.
fn same_subject(own: &Claim, claim: &Claim) -> bool {
    own.formula == claim.formula
        && own.inputs == claim.inputs
        && own.workload == claim.workload
        && own.implementation == claim.implementation
        && own.statement == claim.statement
        && own.unit == claim.unit
        && own.digits == claim.digits
}

/// An id that stands for two claims leads a reader of the README to either.
fn repeated_ids(claims: &Claims) -> Vec<String> {
    let mut ids: Vec<&str> = claims
        .claims
        .iter()
        .map(|claim| claim.id.as_str())
        .collect();
    ids.sort_unstable();
    let mut repeated: Vec<&str> = ids
        .windows(2)
        .filter_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        })
        .collect();
    repeated.dedup();
    repeated
        .iter()
        .map(|id| format!("claims.json: the id {} stands twice", printable(id, 40)))
        .collect()
}

/// A claim that was taken out is a claim changed.
fn missing_claims(claims: &Claims, derived: &Derived, audit: &mut Audit) {
    for own in &derived.claims {
        if claims.claims.iter().any(|claim| claim.id == own.id) {
            continue;
        }
        audit.answers.push(Answer {
            id: own.id.clone(),
            place: "claims.json".to_owned(),
            quote: quote(own),
            verdict: ClaimVerdict::Contradicted,
            claimed: "absent".to_owned(),
            recomputed: Some(own.value.clone()),
            definition: own.formula.clone(),
            missing: None,
        });
    }
}

/// Gives the answers on claims their line in `claims.json`.
fn name_lines(tree: &Tree, audit: &mut Audit) {
    let Some(entry) = tree.get("claims.json") else {
        return;
    };
    let text = String::from_utf8_lossy(&entry.bytes);
    // One pass over the file: a scan per claim would be quadratic in a hostile tree.
    let lines: BTreeMap<&str, usize> = text
        .lines()
        .zip(1..)
        .filter_map(|(line, number)| {
            let id = line.trim().strip_prefix("\"id\": \"")?;
            Some((id.trim_end_matches(',').strip_suffix('"')?, number))
        })
        .collect();
    for answer in &mut audit.answers {
        if let Some(line) = lines.get(answer.id.as_str()) {
            answer.place = format!("claims.json:{line}");
        }
    }
}

/// Compares the derived files with what follows from the journal.
fn files(tree: &Tree, derived: &Derived, audit: &mut Audit) {
    for (path, wanted) in &derived.files {
        // Claims are answered one by one.
        if path == "claims.json" {
            continue;
        }
        let is_text = !path.starts_with("data/");
        let other_format = is_text && derived.tool.template_format != TEMPLATE_FORMAT;
        let (verdict, place, recomputed, missing) = match tree.get(path) {
            _ if other_format => (
                ClaimVerdict::NotCheckable,
                path.clone(),
                None,
                Some(format!(
                    "rendered by template format {}",
                    derived.tool.template_format
                )),
            ),
            None => (
                ClaimVerdict::Contradicted,
                path.clone(),
                Some("a file".to_owned()),
                None,
            ),
            Some(found) if found.bytes == wanted.bytes => (
                ClaimVerdict::Confirmed,
                path.clone(),
                Some("the same bytes".to_owned()),
                None,
            ),
            Some(found) => {
                let (line, text) = first_difference(&found.bytes, &wanted.bytes);
                (
                    ClaimVerdict::Contradicted,
                    format!("{path}:{line}"),
                    Some(text),
                    None,
                )
            }
        };
        audit.answers.push(Answer {
            id: path.clone(),
            claimed: match verdict {
                ClaimVerdict::Contradicted => tree.get(path).map_or_else(
                    || "absent".to_owned(),
                    |found| first_difference(&wanted.bytes, &found.bytes).1,
                ),
                _ => "follows from the journal".to_owned(),
            },
            place,
            quote: "the file follows from plan and journal".to_owned(),
            verdict,
            recomputed,
            definition: "regeneration".to_owned(),
            missing,
        });
    }
}

/// Returns the first line that differs, from 1, and the text of `wanted` there.
fn first_difference(found: &[u8], wanted: &[u8]) -> (usize, String) {
    let found: Vec<&[u8]> = found.split(|byte| *byte == b'\n').collect();
    let wanted: Vec<&[u8]> = wanted.split(|byte| *byte == b'\n').collect();
    let index = found
        .iter()
        .zip(&wanted)
        .position(|(one, other)| one != other)
        .unwrap_or_else(|| found.len().min(wanted.len()));
    let text = wanted.get(index).map_or_else(
        || "end of file".to_owned(),
        |line| printable(&String::from_utf8_lossy(line), 120),
    );
    (index + 1, text)
}

/// Compares each figure of the README with the claim whose id stands beside it.
fn readme(tree: &Tree, claims: &Claims, audit: &mut Audit) {
    let Some(entry) = tree.get("README.md") else {
        return;
    };
    let text = String::from_utf8_lossy(&entry.bytes);
    for (number, line) in (1..).zip(text.lines()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, value, id, ""] = cells.as_slice() else {
            continue;
        };
        let Some(id) = id.strip_prefix('[').and_then(|id| id.strip_suffix(']')) else {
            continue;
        };
        let claim = claims.claims.iter().find(|claim| claim.id == id);
        let (verdict, recomputed, missing) = match claim {
            Some(claim) if claim.value == *value => {
                (ClaimVerdict::Confirmed, Some(claim.value.clone()), None)
            }
            Some(claim) => (ClaimVerdict::Contradicted, Some(claim.value.clone()), None),
            None => (
                ClaimVerdict::NotCheckable,
                None,
                Some("no claim with this id".to_owned()),
            ),
        };
        audit.answers.push(Answer {
            id: printable(id, 40),
            place: format!("README.md:{number}"),
            quote: printable(name, 120),
            verdict,
            claimed: printable(value, 80),
            recomputed: recomputed.map(|text| printable(&text, 80)),
            definition: "as claimed in claims.json".to_owned(),
            missing,
        });
    }
}

fn remarks(derived: &Derived, audit: &mut Audit) {
    audit.remarks.push(derived.analysis.sentence.clone());
    audit.remarks.push(format!(
        "environment: {}; {} points",
        derived.analysis.environment,
        derived.evidence.points.len()
    ));
    for torn in &derived.evidence.torn {
        audit.remarks.push(format!(
            "the journal has a torn tail, passed over: {}",
            printable(torn, 120)
        ));
    }
    for finding in &derived.analysis.findings {
        if finding.outcome == Outcome::Fail {
            audit.remarks.push(format!(
                "gate {} fails: {}",
                finding.gate,
                printable(&finding.reason, 300)
            ));
        }
    }
}
