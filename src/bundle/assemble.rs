//! Assembling: inputs become a tree, the same way for `bundle`, `verify` and `audit`.
//!
//! `data/case.toml`, `plan.json`, `journal/`, `ingested/`, `reproducer/` and
//! `tool.json` are inputs; everything else follows from them byte for byte.

use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use super::claims::claims;
use super::points::add_points;
use crate::input::case::{CaseError, plan_of, read_case};
use crate::input::evidence::{EvidenceError, JOURNAL_FOLDER, fold};
use crate::judge::analyze;
use crate::model::analysis::Analysis;
use crate::model::case::Case;
use crate::model::claim::{CLAIMS_FORMAT, Claim, Claims};
use crate::model::evidence::Evidence;
use crate::model::shown::printable;
use crate::model::tree::{Entry, Tree};
use crate::render::analysis::{comparison_tsv, gates_tsv, points_tsv, to_json};
use crate::render::context::{Links, Sources, context};
use crate::render::template::{TEMPLATE_FORMAT, Template, TemplateError, render};
use crate::render::wrap::{PROSE, fold_prose};
use crate::stats::selection::Floors;
use crate::workload::declaration::split_scenario;
use crate::workload::emit;

/// Number of the format of `data/tool.json`.
const TOOL_FORMAT: u32 = 1;

/// Why a tree was not assembled.
#[derive(Debug, Error)]
pub enum AssembleError {
    /// The case is not readable.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Plan or journals are not evidence.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// A template failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// An input is missing or not readable.
    #[error("{path}: {message}")]
    Input {
        /// The file.
        path: String,
        /// What was found and wanted.
        message: String,
    },
}

/// `data/tool.json`: what rendered the tree.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFile {
    /// Version of this file's format.
    pub format: u32,
    /// Name and version of the program.
    pub tool: String,
    /// Number of the template format.
    pub template_format: u32,
    /// Seconds since 1970 that dates are made of.
    pub date_seconds: i64,
}

/// What a tree says, computed.
#[derive(Debug, Clone)]
pub struct Derived {
    /// The case.
    pub case: Case,
    /// Plan and rows.
    pub evidence: Evidence,
    /// What follows from them.
    pub analysis: Analysis,
    /// Every claim.
    pub claims: Vec<Claim>,
    /// The tool file.
    pub tool: ToolFile,
    /// Every derived file.
    pub files: Tree,
    /// The folder of the C files, as this version makes it.
    pub reproducer: Tree,
}

/// Makes the inputs of a tree from a case and its files (`plan.json`, `journal/…`).
///
/// The path of the user's kernel tree is left out: it is private.
///
/// # Errors
///
/// When the case cannot be written as TOML or a template fails.
pub fn inputs(
    case: &Case,
    evidence: &Evidence,
    files: &Tree,
    tool: &str,
    date_seconds: i64,
) -> Result<Tree, AssembleError> {
    let mut public = case.clone();
    if let Some(change) = public.change.as_mut() {
        change.tree = None;
    }
    let text = toml::to_string(&public).map_err(|error| AssembleError::Input {
        path: "case.toml".to_owned(),
        message: error.to_string(),
    })?;
    let mut tree = Tree::new();
    tree.insert("data/case.toml".to_owned(), Entry::text(text));
    for (path, entry) in files {
        tree.insert(format!("data/{path}"), entry.clone());
    }
    let tool_file = ToolFile {
        format: TOOL_FORMAT,
        tool: tool.to_owned(),
        template_format: TEMPLATE_FORMAT,
        date_seconds,
    };
    tree.insert("data/tool.json".to_owned(), Entry::text(pretty(&tool_file)));
    tree.extend(reproducer(evidence, tool)?);
    Ok(tree)
}

/// Makes the folder of the C files; `tool` is named in its README.
fn reproducer(evidence: &Evidence, tool: &str) -> Result<Tree, AssembleError> {
    let mut tree = Tree::new();
    let plan = &evidence.plan;
    let cpu = evidence
        .points
        .iter()
        .filter_map(crate::model::evidence::Point::counted)
        .flat_map(|attempt| &attempt.segments)
        .flat_map(|segment| &segment.rows)
        .find_map(|row| row.usage)
        .map_or_else(|| "N".to_owned(), |usage| usage.cpu_begin.to_string());
    let (mut programs, mut externals) = (Vec::new(), Vec::new());
    let mut names: Vec<&str> = Vec::new();
    for workload in &plan.workloads {
        let Some(source) = emit::source(&workload.name).filter(|_| workload.command.is_empty())
        else {
            externals.push(workload.name.clone());
            continue;
        };
        let (name, scenario) = split_scenario(&workload.name);
        if !names.contains(&name) {
            names.push(name);
            tree.insert(format!("data/reproducer/{name}.c"), Entry::text(source));
        }
        let mut options = scenario.map_or_else(String::new, |word| format!(" --scenario {word}"));
        for (name, value) in &workload.params {
            options.push_str(&format!(" --{name} {value}"));
        }
        options.push_str(&format!(
            " --warmup {} --rounds {}",
            plan.warmup_rounds, plan.rounds
        ));
        programs.push(json!({"name": name, "cpu": cpu, "options": options}));
    }
    tree.insert(
        "data/reproducer/Makefile".to_owned(),
        Entry::text(emit::makefile(&names)),
    );
    let readme = render(
        Template::Reproducer,
        &json!({
            "programs": programs, "externals": externals, "tool": tool,
            "measured": evidence.plan_before_rows,
        }),
    )?;
    tree.insert("data/reproducer/README.md".to_owned(), Entry::text(readme));
    Ok(tree)
}

fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Says whether a text names this program and a version, and nothing that a reader of
/// Markdown or a terminal would take for something else.
fn is_tool(text: &str) -> bool {
    let version = text.strip_prefix("regbundle ").unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    (1..=40).contains(&version.len()) && version.bytes().all(plain)
}

/// Returns the pairs of `bag-info.txt` before the payload's size.
#[must_use]
pub fn bag_info(derived: &Derived) -> [(String, String); 3] {
    let date = jiff::Timestamp::from_second(derived.tool.date_seconds)
        .unwrap_or_default()
        .strftime("%Y-%m-%d")
        .to_string();
    [
        ("Bagging-Date", date),
        ("Bag-Software-Agent", derived.tool.tool.clone()),
        ("External-Identifier", derived.case.id.clone()),
    ]
    .map(|(label, value)| (label.to_owned(), value))
}

/// Says whether a path of a tree is an input: the case, its plan, a journal (the fold has
/// read them all), or an ingested file that a journal names.
#[must_use]
pub fn is_input(path: &str, evidence: &Evidence) -> bool {
    let Some(inner) = path.strip_prefix("data/") else {
        return false;
    };
    ["case.toml", "plan.json", "tool.json"].contains(&inner)
        || inner.starts_with(JOURNAL_FOLDER)
        || evidence.ingested.contains(inner)
}

/// Computes everything that follows from the inputs of a tree.
///
/// # Errors
///
/// When an input is missing, damaged or not understood.
pub fn derive(tree: &Tree) -> Result<Derived, AssembleError> {
    let text = |path: &str| {
        let entry = tree.get(path).ok_or_else(|| AssembleError::Input {
            path: path.to_owned(),
            message: "not found, wanted in every bundle".to_owned(),
        })?;
        String::from_utf8(entry.bytes.clone()).map_err(|_| AssembleError::Input {
            path: path.to_owned(),
            message: "found bytes that are not UTF-8, wanted text".to_owned(),
        })
    };
    let case = read_case(&text("data/case.toml")?, "data/case.toml")?;
    let tool: ToolFile =
        serde_json::from_str(&text("data/tool.json")?).map_err(|error| AssembleError::Input {
            path: "data/tool.json".to_owned(),
            message: error.to_string(),
        })?;
    if tool.format != TOOL_FORMAT {
        return Err(AssembleError::Input {
            path: "data/tool.json".to_owned(),
            message: format!("found format {}, wanted {TOOL_FORMAT}", tool.format),
        });
    }
    if !is_tool(&tool.tool) || jiff::Timestamp::from_second(tool.date_seconds).is_err() {
        return Err(AssembleError::Input {
            path: "data/tool.json".to_owned(),
            message: format!(
                "found the tool `{}` and the date {}, wanted `regbundle VERSION` and seconds since 1970",
                printable(&tool.tool, 60),
                tool.date_seconds
            ),
        });
    }
    // An older format is known and its texts are left unchecked; any other number would
    // be a way around the check.
    if !(1..=TEMPLATE_FORMAT).contains(&tool.template_format) {
        return Err(AssembleError::Input {
            path: "data/tool.json".to_owned(),
            message: format!(
                "found template format {}, wanted 1 to {TEMPLATE_FORMAT}; read the tree with the version that made it",
                tool.template_format
            ),
        });
    }
    let files: Tree = tree
        .iter()
        .filter_map(|(path, entry)| {
            path.strip_prefix("data/")
                .map(|path| (path.to_owned(), entry.clone()))
        })
        .collect();
    let (evidence, _) = fold(&files)?;
    if plan_of(&case, "data/case.toml")? != evidence.plan {
        return Err(AssembleError::Input {
            path: "data/plan.json".to_owned(),
            message: "found another plan than data/case.toml makes; the two are one decision, taken before the first row".to_owned(),
        });
    }
    derive_parts(case, evidence, tool)
}

fn derive_parts(case: Case, evidence: Evidence, tool: ToolFile) -> Result<Derived, AssembleError> {
    let analysis = analyze(&evidence);
    let floors = Floors::of(&evidence);
    let mut files = Tree::new();
    let places = add_points(&mut files, &evidence, &floors);
    let claims = claims(&evidence, &analysis, &places);
    let mut put = |path: &str, text: String| files.insert(path.to_owned(), Entry::text(text));
    put("data/analysis/points.tsv", points_tsv(&analysis));
    put("data/analysis/comparison.tsv", comparison_tsv(&analysis));
    put("data/analysis/gates.tsv", gates_tsv(&analysis));
    put(
        "data/analysis/analysis.json",
        pretty(&to_json(&analysis, &tool.tool)),
    );
    put(
        "claims.json",
        pretty(&Claims {
            format: CLAIMS_FORMAT,
            tool: tool.tool.clone(),
            claims: claims.clone(),
        }),
    );
    let sources = Sources {
        case: &case,
        evidence: &evidence,
        analysis: &analysis,
        claims: &claims,
        tool: &tool.tool,
    };
    let shown = context(&sources, None);
    put("README.md", render(Template::Readme, &shown)?);
    put(
        "report/report.txt",
        fold_prose(&render(Template::Report, &shown)?, PROSE),
    );
    Ok(Derived {
        reproducer: reproducer(&evidence, &tool.tool)?,
        case,
        evidence,
        analysis,
        claims,
        tool,
        files,
    })
}

/// Renders the body of the mail with links into the published tree.
///
/// # Errors
///
/// When the template fails.
pub fn mail_body(derived: &Derived, links: Option<Links>) -> Result<String, AssembleError> {
    let sources = Sources {
        case: &derived.case,
        evidence: &derived.evidence,
        analysis: &derived.analysis,
        claims: &derived.claims,
        tool: &derived.tool.tool,
    };
    let text = render(Template::Report, &context(&sources, links))?;
    Ok(fold_prose(&text, PROSE))
}
