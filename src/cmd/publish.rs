//! `regbundle publish`: commit, permanent link, final mail.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::bundle::{Assembled, assemble};
use super::load;
use super::report::render_mail;
use crate::cli::PublishArgs;
use crate::edge::case_folder::replace_whole;
use crate::edge::git::{self, Identity, Published};
use crate::error::{CommandError, exit};
use crate::model::case::Case;
use crate::publish::permalink::{Forge, permanent_link};
use crate::render::context::Links;
use crate::render::mail::MailError;
use crate::ui::Ui;

/// Name of the final mail, beside the tree.
pub(super) const MAIL_FILE: &str = "mail.eml";

/// What a publication left behind.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) published: Published,
    pub(super) links: Links,
    pub(super) mail: Option<PathBuf>,
    pub(super) no_mail: Option<String>,
}

/// Commits an assembled tree and writes the final mail.
pub(super) fn publish_case(
    folder: &Path,
    case: &Case,
    assembled: &Assembled,
    repo: &Path,
    branch: &str,
) -> Result<Outcome, CommandError> {
    let id = &case.id;
    let message = format!(
        "{id}: evidence tree\n\n{}.\n\nBundle-Id: {}\n",
        assembled.derived.analysis.sentence, assembled.id
    );
    // Author and date follow from the case: the same tree gives the same commit.
    let identity = identity(case);
    let published = git::publish(
        repo,
        branch,
        id,
        &assembled.tree,
        &message,
        &identity,
        assembled.derived.tool.date_seconds,
    )?;
    let links = links(case, repo, &published.commit)?;
    let (mail, no_mail) = match render_mail(assembled, Some(links.clone())) {
        Ok(text) => (
            Some(replace_whole(&folder.join(MAIL_FILE), text.as_bytes())?),
            None,
        ),
        // The tree is public either way; what keeps the mail back is said, not hidden.
        Err(CommandError::Mail(error)) => (None, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    Ok(Outcome {
        published,
        links,
        mail,
        no_mail,
    })
}

fn identity(case: &Case) -> Identity {
    let from = case.report.from.as_deref().unwrap_or_default();
    let (name, email) = match from.split_once('<') {
        Some((name, email)) => (name.trim().trim_matches('"'), email.trim_end_matches('>')),
        None => ("", from),
    };
    let or = |text: &str, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text.to_owned()
        }
    };
    Identity {
        name: or(name, "regbundle"),
        email: or(email, "nobody@example.invalid"),
    }
}

/// Returns the permanent links, or says in words where the commit is.
fn links(case: &Case, repo: &Path, commit: &str) -> Result<Links, CommandError> {
    let path = &case.id;
    let remote = match &case.publish.url {
        Some(url) => Some(url.clone()),
        None => git::remote_url(repo)?,
    };
    let Some(remote) = remote else {
        let words = |path: String| {
            format!("commit {commit}, path {path}, of a repository that has no public address yet")
        };
        return Ok(Links {
            evidence: words(path.clone()),
            reproducer: words(format!("{path}/data/reproducer")),
        });
    };
    let forge = case.publish.forge.as_deref().map(forge_of).transpose()?;
    Ok(Links {
        evidence: permanent_link(&remote, forge, commit, path)?,
        reproducer: permanent_link(&remote, forge, commit, &format!("{path}/data/reproducer"))?,
    })
}

fn forge_of(word: &str) -> Result<Forge, CommandError> {
    Forge::from_word(word).ok_or_else(|| CommandError::Argument {
        found: format!("publish.forge = \"{word}\" in case.toml"),
        wanted: "github, gitlab, forgejo, cgit or sourcehut",
    })
}

/// Publishes a case.
///
/// # Errors
///
/// When the tree cannot be assembled or the repository does not take it.
pub fn run(args: &PublishArgs, ui: &Ui) -> Result<u8, CommandError> {
    let loaded = load(&args.case)?;
    let assembled = assemble(&args.case)?;
    let repo = args.repo.display();
    let make = args.init && !args.repo.exists();
    let mut steps = Vec::new();
    if make {
        steps.push(format!("make the bare repository {repo}"));
    }
    steps.push(format!(
        "commit {} files as {}/ on the branch {} of {repo}",
        assembled.tree.len(),
        loaded.case.id,
        args.branch
    ));
    steps.push(format!("write {}", args.case.join(MAIL_FILE).display()));
    // What the mail lacks, and a link that cannot be made, are found before anything is
    // written. Evidence that is no report is published all the same, without a mail.
    match render_mail(&assembled, None) {
        Err(CommandError::Mail(error @ MailError::Missing { .. })) => return Err(error.into()),
        Ok(_) | Err(CommandError::Mail(MailError::Invalid { .. })) => {}
        Err(error) => return Err(error),
    }
    if loaded.case.publish.url.is_some() || args.repo.exists() {
        links(&loaded.case, &args.repo, &"0".repeat(40))?;
    }
    if args.dry_run {
        if make {
            git::check_new(&args.repo, &args.branch)?;
        } else {
            git::check(&args.repo, &args.branch, &loaded.case.id, &assembled.tree)?;
        }
        ui.answer(
            &steps.join("\n"),
            &json!({"format": 1, "tool": crate::TOOL, "steps": steps}),
        );
        return Ok(0);
    }
    if make {
        git::init_bare(&args.repo, &args.branch)?;
    }
    let outcome = publish_case(
        &args.case,
        &loaded.case,
        &assembled,
        &args.repo,
        &args.branch,
    )?;
    let state = if outcome.published.created {
        "committed"
    } else {
        "was there already"
    };
    let mut text = format!(
        "{state}: {}\nBundle-Id {}\nevidence   {}\nreproducer {}\n",
        outcome.published.commit, assembled.id, outcome.links.evidence, outcome.links.reproducer
    );
    if let Some(mail) = &outcome.mail {
        text.push_str(&format!("mail       {}\n", mail.display()));
    }
    if let Some(why) = &outcome.no_mail {
        text.push_str(&format!("no mail    {why}\n"));
    }
    text.push_str(&format!(
        "next       {} audit {repo}@{}:{}\n           then push the branch {} of {repo}{}\n",
        crate::ui::program(),
        outcome.published.commit,
        loaded.case.id,
        args.branch,
        match &outcome.mail {
            Some(mail) => format!(", and send {}", mail.display()),
            None => String::new(),
        }
    ));
    ui.answer(
        &text,
        &json!({
            "format": 1,
            "tool": crate::TOOL,
            "commit": outcome.published.commit,
            "tree": outcome.published.tree,
            "created": outcome.published.created,
            "bundle_id": assembled.id,
            "evidence": outcome.links.evidence,
            "reproducer": outcome.links.reproducer,
            "mail": outcome.mail.as_ref().map(|path| path.display().to_string()),
            "no_mail": outcome.no_mail,
        }),
    );
    // The tree is published; that it is not a report is the answer no.
    Ok(if outcome.mail.is_some() {
        exit::YES
    } else {
        exit::NO
    })
}
