//! From a revision of the user's own kernel tree to the change it names.

use std::borrow::Cow;
use std::path::Path;

use git2::{ErrorCode, Time};

use super::GitError;
use super::repository::{label, open};
use crate::bundle::name::shown;
use crate::model::change::{Change, Moment, subject_of, trailers_of};

/// Resolves any revision of the repository at `tree`, bare or not, to a change with one parent.
///
/// # Errors
///
/// When there is no repository, the revision names no commit, or the commit is a merge or has
/// no parent here.
pub fn resolve_change(tree: &Path, child: &str) -> Result<Change, GitError> {
    let repository = open(tree)?;
    let no_commit = || GitError::NoCommit {
        revision: shown(child),
        repo: label(tree),
    };
    let commit = repository
        .revparse_single(child)
        .and_then(|object| object.peel_to_commit())
        .map_err(|error| match error.code() {
            ErrorCode::Ambiguous => GitError::Name {
                name: shown(child),
                why: "is the beginning of several ids: give more digits of it",
            },
            _ => no_commit(),
        })?;
    let id = commit.id().to_string();
    let parent = match commit.parent_ids().collect::<Vec<_>>().as_slice() {
        [parent] => parent.to_string(),
        [] => {
            let why = if repository.is_shallow() {
                "the clone is shallow: run `git fetch --deepen=1` there"
            } else {
                "it is a root commit: name a commit that changed something"
            };
            return Err(GitError::NoParent {
                commit: id,
                repo: label(tree),
                why,
            });
        }
        several => {
            return Err(GitError::Merge {
                commit: id,
                count: several.len(),
            });
        }
    };
    let author = commit.author();
    let mut lossy = false;
    let message = text(commit.message_bytes(), &mut lossy);
    let author_name = text(author.name_bytes(), &mut lossy);
    let author_email = text(author.email_bytes(), &mut lossy);
    let trailers = trailers_of(&message);
    let values = |wanted: &str| {
        trailers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.clone())
            .collect()
    };
    Ok(Change {
        child: id,
        parent,
        subject: subject_of(&message),
        author_name,
        author_email,
        author_date: moment(author.when()),
        commit_date: moment(commit.time()),
        links: values("Link"),
        fixes: values("Fixes"),
        trailers,
        lossy,
    })
}

fn text(bytes: &[u8], lossy: &mut bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    *lossy |= matches!(text, Cow::Owned(_));
    text.into_owned()
}

fn moment(time: Time) -> Moment {
    Moment {
        seconds: time.seconds(),
        offset_minutes: time.offset_minutes(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sandbox;
    use super::*;

    #[test]
    fn a_commit_is_resolved_with_its_trailers() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("linux");
        let parent = sandbox.commit(&repo, "first");
        let message = "mm: make it\nslower\n\nBody.\n\nFixes: 0123456789ab (\"mm: make\n it\")\nLink: https://lore.example/1\n[ax: typo]\nReviewed-by: R <r@example.org>\nLink: https://lore.example/2\nSigned-off-by: A U Thor <author@example.org>";
        let child = sandbox.commit(&repo, message);
        for revision in [
            "HEAD",
            "main",
            child.as_str(),
            child.split_at(10).0,
            "HEAD~0",
        ] {
            let change = resolve_change(&repo, revision).unwrap();
            assert_eq!((&change.child, &change.parent), (&child, &parent));
            assert_eq!(change.subject, "mm: make it slower");
            assert_eq!(change.author_name, "A U Thor");
            assert_eq!(change.author_email, "author@example.org");
            let moment = |seconds, offset_minutes| Moment {
                seconds,
                offset_minutes,
            };
            assert_eq!(change.author_date, moment(1_700_000_000, 60));
            assert_eq!(change.commit_date, moment(1_700_000_100, -150));
            assert_eq!(
                change.links,
                ["https://lore.example/1", "https://lore.example/2"]
            );
            assert_eq!(change.fixes, ["0123456789ab (\"mm: make it\")"]);
            assert_eq!(change.trailers.len(), 5);
            assert!(!change.lossy);
        }
        let bare = sandbox.path("bare.git");
        let paths = [repo.to_str().unwrap(), bare.to_str().unwrap()];
        sandbox.git(&["clone", "-q", "--bare", paths[0], paths[1]]);
        assert_eq!(resolve_change(&bare, "main").unwrap().child, child);
    }

    #[test]
    fn trailers_are_those_of_the_git_program() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("linux");
        sandbox.commit(&repo, "first");
        for body in [
            "Link: a\nCc: b\n  c\nSigned-off-by: d",
            "prose: is\nnot a trailer block at all",
            "text\n\nSigned-off-by: d\nnot one\nLink : a",
            "Closes: x\n\n\n",
        ] {
            sandbox.commit(&repo, &format!("second\n\n{body}"));
            let format = "--format=%(trailers:only,unfold)";
            let wanted = sandbox.git_in(&repo, &["log", "-1", format]);
            let found: Vec<String> = resolve_change(&repo, "HEAD")
                .unwrap()
                .trailers
                .iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            assert_eq!(found.join("\n"), wanted, "{body}");
        }
    }

    #[test]
    fn merge_root_and_unknown_revisions_say_what_they_are() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("linux");
        let root = sandbox.commit(&repo, "root");
        let error = resolve_change(&repo, &root).unwrap_err().to_string();
        assert!(
            error.contains("root commit") && error.contains(&root),
            "{error}"
        );
        sandbox.git_in(&repo, &["switch", "-q", "-c", "side"]);
        sandbox.commit(&repo, "side");
        sandbox.git_in(&repo, &["switch", "-q", "main"]);
        sandbox.commit(&repo, "main");
        sandbox.git_in(&repo, &["merge", "-q", "-m", "merge", "side"]);
        let error = resolve_change(&repo, "HEAD").unwrap_err();
        assert!(matches!(error, GitError::Merge { count: 2, .. }), "{error}");
        let error = resolve_change(&repo, "nothing").unwrap_err();
        assert!(matches!(error, GitError::NoCommit { .. }), "{error}");
        assert_eq!(error.exit_code(), 4);
    }

    #[test]
    fn the_edge_of_a_shallow_clone_is_not_called_a_root() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("linux");
        sandbox.commit(&repo, "first");
        sandbox.commit(&repo, "second");
        let shallow = sandbox.path("shallow");
        let url = format!("file://{}", repo.display());
        sandbox.git(&["clone", "-q", "--depth=1", &url, shallow.to_str().unwrap()]);
        let error = resolve_change(&shallow, "HEAD").unwrap_err().to_string();
        assert!(error.contains("--deepen"), "{error}");
    }

    #[test]
    fn text_that_is_not_utf8_is_marked() {
        let sandbox = Sandbox::new();
        let repo = sandbox.work_tree("linux");
        sandbox.commit(&repo, "first");
        let file = sandbox.path("message");
        std::fs::write(&file, b"caf\xe9: subject\n").unwrap();
        let args = [
            "-c",
            "i18n.commitEncoding=ISO-8859-1",
            "commit",
            "-q",
            "--allow-empty",
            "-F",
        ];
        let mut args = args.to_vec();
        args.push(file.to_str().unwrap());
        sandbox.git_in(&repo, &args);
        let change = resolve_change(&repo, "HEAD").unwrap();
        assert!(change.lossy);
        assert_eq!(change.subject, "caf\u{fffd}: subject");
    }
}
