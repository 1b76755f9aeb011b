//! `regbundle new`: a commented case.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::cli::NewArgs;
use crate::edge::case_folder::{CASE_FILE, create_whole};
use crate::edge::git::resolve_change;
use crate::error::CommandError;
use crate::input::case::read_case;
use crate::model::change::{Change, Moment};
use crate::render::mail::PLACEHOLDER;
use crate::render::template::{Template, render};
use crate::ui::Ui;

/// What the template of a new case sees: TOML strings, quoted.
#[derive(Debug, Serialize)]
struct NewCase {
    id: String,
    title: String,
    change: Option<NewChange>,
}

#[derive(Debug, Serialize)]
struct NewChange {
    tree: String,
    parent: String,
    child: String,
    subject: String,
    author: String,
    date: String,
    links: String,
    fixes: String,
    area: Option<String>,
    to: String,
    cc: String,
    in_reply_to: Option<String>,
}

/// Writes a new case.
///
/// # Errors
///
/// When the folder holds a case already, or the commit cannot be resolved.
pub fn run(args: &NewArgs, ui: &Ui) -> Result<u8, CommandError> {
    let name = args
        .case
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let change = match (&args.tree, &args.child) {
        (Some(tree), Some(child)) => Some(new_change(tree, &resolve_change(tree, child)?)),
        _ => None,
    };
    let context = NewCase {
        id: quoted(&id_of(&name)),
        title: quoted(&format!("{PLACEHOLDER} what got slower, one line")),
        change,
    };
    let text = render(Template::NewCase, &context)
        .map_err(crate::bundle::assemble::AssembleError::from)?;
    // What is written is read back first: a scaffold that does not parse is no help.
    read_case(&text, CASE_FILE)?;
    let path = create_whole(&args.case.join(CASE_FILE), text.as_bytes())?;
    ui.answer(
        &format!(
            "{}: edit it, then `regbundle run {}` or `regbundle ingest {} FILE`",
            path.display(),
            args.case.display(),
            args.case.display()
        ),
        &json!({"format": 1, "tool": crate::TOOL, "case": path.display().to_string()}),
    );
    Ok(0)
}

/// Makes an id from a folder's name: what an id may not hold becomes a hyphen.
fn id_of(name: &str) -> String {
    let id: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(100)
        .collect();
    let id = id.trim_start_matches(['.', '_', '-']).to_owned();
    if id.is_empty() { "case".to_owned() } else { id }
}

/// Quotes a text as a TOML string.
fn quoted(text: &str) -> String {
    let shown: String = text
        .chars()
        .map(|c| {
            if crate::model::shown::is_shown(c) {
                c
            } else {
                ' '
            }
        })
        .collect();
    toml::Value::String(shown).to_string()
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| quoted(&item)).collect();
    format!("[{}]", items.join(", "))
}

fn new_change(tree: &Path, change: &Change) -> NewChange {
    let author = format!("{} <{}>", change.author_name, change.author_email);
    let area = change
        .subject
        .rsplit_once(": ")
        .map(|(area, _)| quoted(area));
    NewChange {
        tree: quoted(&tree.display().to_string()),
        parent: quoted(&change.parent),
        child: quoted(&change.child),
        subject: quoted(&change.subject),
        author: quoted(&author),
        date: quoted(&date(change.author_date)),
        links: list(change.links.clone()),
        fixes: list(change.fixes.clone()),
        area,
        to: list([author.clone()]),
        cc: list(copies(change, &author)),
        in_reply_to: change
            .links
            .iter()
            .find_map(|link| message_id(link))
            .map(|id| quoted(&id)),
    }
}

/// Writes a moment as RFC 3339 with its own offset.
fn date(moment: Moment) -> String {
    let local = moment.seconds + i64::from(moment.offset_minutes) * 60;
    let sign = if moment.offset_minutes < 0 { '-' } else { '+' };
    let minutes = moment.offset_minutes.unsigned_abs();
    let text = jiff::Timestamp::from_second(local)
        .unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%S")
        .to_string();
    format!("{text}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Everyone in the trailers, once; the documents ask to copy them.
fn copies(change: &Change, author: &str) -> Vec<String> {
    let mut copies: Vec<String> = Vec::new();
    for (key, value) in &change.trailers {
        let is_person = key.to_ascii_lowercase().ends_with("-by") || key.eq_ignore_ascii_case("cc");
        let is_address =
            value.matches('@').count() == 1 && value.ends_with('>') && !value.contains('#');
        if is_person && is_address && value != author && !copies.contains(value) {
            copies.push(value.clone());
        }
    }
    copies
}

/// Returns the Message-ID of a link to a posting in a public archive.
fn message_id(link: &str) -> Option<String> {
    let known = [
        "https://patch.msgid.link/",
        "https://lore.kernel.org/r/",
        "https://lore.kernel.org/all/",
        "https://lkml.kernel.org/r/",
    ];
    let id = known.iter().find_map(|prefix| link.strip_prefix(prefix))?;
    let id = id.split(['/', ' ', '#', '?']).next().unwrap_or_default();
    (id.contains('@')).then(|| format!("<{id}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_id_is_taken_from_every_archive_link() {
        for link in [
            "https://patch.msgid.link/a-1@example.org",
            "https://lore.kernel.org/r/a-1@example.org",
            "https://lore.kernel.org/all/a-1@example.org/",
            "https://lkml.kernel.org/r/a-1@example.org",
        ] {
            assert_eq!(
                message_id(link).as_deref(),
                Some("<a-1@example.org>"),
                "{link}"
            );
        }
        assert_eq!(message_id("https://example.org/a@b"), None);
        assert_eq!(message_id("https://lore.kernel.org/r/nothing"), None);
    }

    #[test]
    fn a_date_keeps_its_offset() {
        // 6e0d71c288fd of linux: commit date 2026-01-25T10:07:09-07:00.
        let moment = Moment {
            seconds: 1_769_360_829,
            offset_minutes: -420,
        };
        assert_eq!(date(moment), "2026-01-25T10:07:09-07:00");
    }

    #[test]
    fn a_folder_name_becomes_an_id() {
        assert_eq!(id_of("my case!"), "my-case-");
        assert_eq!(id_of("..."), "case");
    }
}
