//! `regbundle demo`: the whole pipeline on this kernel, as a null run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bundle::{assemble, default_target, write};
use super::publish::{Outcome as Publication, publish_case};
use super::run::measure_case;
use super::{audit, load, load_evidence};
use crate::audit::ClaimVerdict;
use crate::audit::own_tree::audit_tree;
use crate::bundle::check;
use crate::bundle::compare::verify;
use crate::cli::DemoArgs;
use crate::edge::case_folder::{CASE_FILE, create_whole};
use crate::edge::cpu;
use crate::edge::git::{init_bare, read_commit};
use crate::edge::host::HostReader;
use crate::edge::tree::read_directory;
use crate::error::{CommandError, exit};
use crate::judge::analyze;
use crate::model::analysis::Analysis;
use crate::model::case::{
    Boots, Case, Engine, GateSection, HostEngine, Implementation, Machine, PlanSection,
    PublishSection, ReportKind, ReportSection, Scope, WorkloadRole, WorkloadSection,
};
use crate::model::finding::Outcome;
use crate::model::plan::{Kernel, Role};
use crate::render::analysis::comparison_table;
use crate::ui::{Ui, program, seconds};
use crate::workload::registry;

/// Longest time for one point. Three of them and what surrounds them stay under a minute.
const POINT_TIME: Duration = Duration::from_secs(13);
/// Name of the demonstration's case.
const ID: &str = "demo-null-run";

/// Runs the demonstration.
///
/// # Errors
///
/// When a stage cannot run here.
pub fn run(args: &DemoArgs, ui: &Ui) -> Result<u8, CommandError> {
    let out = out_folder(args.out.as_deref())?;
    let mut stages = Stages {
        ui,
        number: 0,
        began: Instant::now(),
        stage: Instant::now(),
    };
    let folder = out.join("case");
    let (case, why) = demo_case()?;
    let text = toml::to_string(&case).unwrap_or_default();
    create_whole(&folder.join(CASE_FILE), text.as_bytes())?;
    stages.done("case", &why);

    let loaded = load(&folder)?;
    let report = measure_case(&loaded, POINT_TIME, usize::MAX, ui)?;
    stages.done("run", &format!("{} points", report.measured.len()));

    let (_, evidence) = load_evidence(&folder)?;
    let analysis = analyze(&evidence);
    stages.done("gates and analysis", &clean_rounds(&analysis));

    let assembled = assemble(&folder)?;
    let tree_path = default_target(&folder, &assembled);
    write(&tree_path, &assembled.tree)?;
    stages.done("bundle", &format!("{} files", assembled.tree.len()));

    let repo = out.join("evidence.git");
    init_bare(&repo, "main")?;
    let outcome = publish_case(&folder, &loaded.case, &assembled, &repo, "main")?;
    stages.done(
        "publish and mail",
        &format!("commit {}", outcome.published.commit),
    );

    let read = read_directory(&tree_path)?;
    let intact = check(&read).is_empty() && verify(&read)?.differing.is_empty();
    stages.done(
        "verify",
        if intact {
            "intact, derived files the same"
        } else {
            "DIFFERS"
        },
    );

    let from_commit = read_commit(&repo, &outcome.published.commit, Some(ID))?;
    let audited = audit_tree(&from_commit)?;
    let contradicted = audited.count(ClaimVerdict::Contradicted);
    stages.done(
        "audit of the commit",
        &format!(
            "{} answers CONFIRMED, {contradicted} CONTRADICTED",
            audited.count(ClaimVerdict::Confirmed)
        ),
    );

    let good = intact && contradicted == 0 && from_commit == read;
    let paths = Paths {
        out: &out,
        tree: &tree_path,
        repo: &repo,
    };
    ui.answer(
        &screen(&analysis, &paths, &outcome, &stages),
        &screen_json(&analysis, &paths, &outcome, audit::to_json(&audited)),
    );
    Ok(if good { exit::YES } else { exit::NO })
}

/// Says whether the machine was quiet enough for the planned rounds.
fn clean_rounds(analysis: &Analysis) -> String {
    let finding = analysis
        .findings
        .iter()
        .find(|finding| finding.gate == "clean-rounds");
    match finding {
        Some(finding) if finding.outcome == Outcome::Fail => {
            format!(
                "noisy machine, fewer clean rounds than planned ({})",
                finding.reason
            )
        }
        Some(finding) => finding.reason.clone(),
        None => "no gate clean-rounds".to_owned(),
    }
}

/// Progress of the demonstration: one line per stage.
struct Stages<'a> {
    ui: &'a Ui,
    number: usize,
    began: Instant,
    stage: Instant,
}

impl Stages<'_> {
    fn done(&mut self, name: &str, result: &str) {
        self.number += 1;
        self.ui.say(&format!(
            "[{}/7] {name}: {result} ({}, {} in all)",
            self.number,
            seconds(self.stage.elapsed()),
            seconds(self.began.elapsed())
        ));
        self.stage = Instant::now();
    }
}

/// Returns a folder that does not exist yet or is empty.
fn out_folder(wanted: Option<&Path>) -> Result<PathBuf, CommandError> {
    let io_error = |path: &Path, action| {
        let path = path.display().to_string();
        move |source| CommandError::Io {
            path,
            action,
            source,
        }
    };
    let out = match wanted {
        Some(path) => {
            if path.symlink_metadata().is_ok() {
                let mut entries = fs::read_dir(path).map_err(io_error(path, "list"))?;
                if entries.next().is_some() {
                    return Err(CommandError::OutTaken {
                        path: path.display().to_string(),
                    });
                }
            }
            path.to_owned()
        }
        None => (1_u32..)
            .map(|number| match number {
                1 => PathBuf::from("regbundle-demo"),
                _ => PathBuf::from(format!("regbundle-demo-{number}")),
            })
            .find(|path| path.symlink_metadata().is_err())
            .unwrap_or_default(),
    };
    fs::create_dir_all(&out).map_err(io_error(&out, "create the folder"))?;
    Ok(out)
}

/// Makes the case: io_uring where it is permitted, else the floor, and says why.
fn demo_case() -> Result<(Case, String), CommandError> {
    let cpu = cpu::choose(None)?;
    let identity = HostReader::new(Path::new("/")).read(cpu);
    let kernel = Kernel {
        release: identity.kernel.release.unwrap_or_default(),
        build_id: identity.kernel.build_id,
    };
    let both = vec![Implementation::Formal, Implementation::Standalone];
    let section = |name: &str, role| WorkloadSection {
        name: name.to_owned(),
        role,
        implementations: both.clone(),
        params: std::collections::BTreeMap::new(),
        command: Vec::new(),
    };
    let target = "io-uring-futex-waitv";
    let control = "io-uring-futex-scalar";
    let refused = registry::support(target).and_then(|()| registry::support(control));
    let (primary, workload, why) = match refused {
        Ok(()) => (
            target,
            vec![
                section(target, WorkloadRole::Target),
                section(control, WorkloadRole::Control),
            ],
            format!("{target} and its control {control}, both implementations"),
        ),
        Err(cause) => (
            "syscall-getpid",
            vec![section("syscall-getpid", WorkloadRole::Target)],
            format!("syscall-getpid, because io_uring cannot be measured here: {cause}"),
        ),
    };
    let case = Case {
        format: 1,
        id: ID.to_owned(),
        title: format!("null run of {primary} on one kernel"),
        question: None,
        scope: Scope {
            statement: format!("{primary}, the same kernel at every point, one boot"),
            not_claimed: vec!["anything about a change to the kernel".to_owned()],
        },
        change: None,
        plan: PlanSection {
            order: vec![Role::Parent, Role::Child, Role::Parent],
            warmup_rounds: 3,
            rounds: 15,
            primary: primary.to_owned(),
            boots: Boots::Same,
            point_seconds: 13,
        },
        engine: Engine {
            host: Some(HostEngine {
                kernels: [(Role::Parent, kernel.clone()), (Role::Child, kernel)].into(),
            }),
            qemu: None,
        },
        workload,
        machine: Machine {
            cpu: u32::try_from(cpu).ok(),
            ..Machine::default()
        },
        gates: GateSection::default(),
        report: ReportSection {
            kind: ReportKind::Demo,
            ..ReportSection::default()
        },
        publish: PublishSection::default(),
        table: Vec::new(),
    };
    Ok((case, why))
}

struct Paths<'a> {
    out: &'a Path,
    tree: &'a Path,
    repo: &'a Path,
}

/// The closing screen: at most 25 lines.
fn screen(
    analysis: &Analysis,
    paths: &Paths<'_>,
    outcome: &Publication,
    stages: &Stages<'_>,
) -> String {
    let all: Vec<_> = analysis.comparisons.iter().collect();
    let unit = all
        .first()
        .map_or("", |comparison| comparison.unit.as_str());
    let mut text = format!(
        "Null run: one kernel measured as parent, child and parent, in one boot. It shows\n\
         that the pipeline works here; it says nothing about any change to the kernel.\n\n{}",
        comparison_table(&all, true, "  ")
    );
    text.push_str(&format!(
        "  unit {unit}, lower is better; environment {}\n\n",
        analysis.environment
    ));
    text.push_str(&format!("{}.\n", analysis.sentence));
    if let Some(verdict) = analysis.without_boots_distinct {
        text.push_str(&format!(
            "boots-distinct fails by construction; without that gate: {}.\n",
            verdict.word()
        ));
    }
    let others: Vec<String> = analysis
        .findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::Fail && finding.gate != "boots-distinct")
        .map(|finding| finding.gate.clone())
        .collect();
    if !others.is_empty() {
        text.push_str(&format!(
            "FAIL here too: {} (signal-bound must: there is no change to find).\n",
            others.join(", ")
        ));
    }
    text.push_str(&format!(
        "\ntree    {}\nmail    {} (marked: must not be sent)\ncommit  {} in {}\ntime    {}\n\nnext: {} audit {}\n",
        paths.tree.display(),
        outcome.mail.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
        outcome.published.commit,
        paths.repo.display(),
        seconds(stages.began.elapsed()),
        program(),
        paths.tree.display(),
    ));
    text
}

fn screen_json(
    analysis: &Analysis,
    paths: &Paths<'_>,
    outcome: &Publication,
    audit: Value,
) -> Value {
    json!({
        "format": 1,
        "tool": crate::TOOL,
        "verdict": analysis.verdict.word(),
        "verdict_without_boots_distinct":
            analysis.without_boots_distinct.map(|verdict| verdict.word()),
        "out": paths.out.display().to_string(),
        "tree": paths.tree.display().to_string(),
        "repository": paths.repo.display().to_string(),
        "commit": outcome.published.commit,
        "mail": outcome.mail.as_ref().map(|path| path.display().to_string()),
        "audit": audit,
    })
}
