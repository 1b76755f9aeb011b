//! What can go wrong with a repository, and which exit code it means.

use crate::bundle::limits::LimitExceeded;

/// Why a repository was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// No repository at that very path.
    #[error("no git repository at {repo} ({reason}): give its top folder, or its bare folder")]
    NotRepository {
        /// The path given.
        repo: String,
        /// What libgit2 said.
        reason: String,
    },
    /// Somebody else owns it.
    #[error(
        "repository {repo} belongs to user {owner}, not to you: if you trust it, run `git config --global --add safe.directory {repo}`"
    )]
    Owner {
        /// The folder to name in the configuration.
        repo: String,
        /// Numeric user id.
        owner: u32,
    },
    /// A feature that libgit2 does not know, such as SHA-256 ids.
    #[error(
        "repository {repo} needs a feature that is not supported here ({reason}): use a repository with SHA-1 ids and files as references"
    )]
    Unsupported {
        /// The path given.
        repo: String,
        /// What libgit2 said.
        reason: String,
    },
    /// Something in a foreign repository that would make git read elsewhere.
    #[error(
        "{place} {what}: a repository that sends its reader elsewhere is refused; make a plain copy with `git clone --bare --no-local`"
    )]
    Redirect {
        /// The file.
        place: String,
        /// What it does.
        what: &'static str,
    },
    /// Too large, too deep or too many.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Anything but a full commit id.
    #[error(
        "`{given}` is not a full commit id, wanted 40 lower-case hex digits: run `git rev-parse {given}`"
    )]
    FullIdWanted {
        /// What was given.
        given: String,
    },
    /// A commit that is not there.
    #[error("no commit `{revision}` in {repo}: fetch it first, or name another")]
    NoCommit {
        /// What was looked for.
        revision: String,
        /// Where.
        repo: String,
    },
    /// A path that the commit does not have, or has as something else.
    #[error(
        "commit {commit} has no folder `{path}`: list it with `git ls-tree -r --name-only {commit}`"
    )]
    NoFolder {
        /// Full id.
        commit: String,
        /// The path.
        path: String,
    },
    /// An object that is missing or is not what its id says.
    #[error("object {id} {what}: fetch again from the source")]
    Object {
        /// Full id.
        id: String,
        /// What is wrong.
        what: String,
    },
    /// A tree entry that no bundle has.
    #[error("`{path}` {what}: ask the author for a commit of plain files")]
    Entry {
        /// Finding code.
        code: &'static str,
        /// The path in the commit, escaped.
        path: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A commit without a parent here.
    #[error("commit {commit} has no parent in {repo}, {why}")]
    NoParent {
        /// Full id.
        commit: String,
        /// Where.
        repo: String,
        /// Root commit or shallow clone, and what to do.
        why: &'static str,
    },
    /// A merge.
    #[error(
        "commit {commit} is a merge of {count} parents, wanted a change with one: name the commit on the merged branch"
    )]
    Merge {
        /// Full id.
        commit: String,
        /// Number of parents.
        count: usize,
    },
    /// A name that git or a bundle cannot have.
    #[error("`{name}` {why}")]
    Name {
        /// The name, escaped.
        name: String,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// The branch is somebody's work tree at the moment.
    #[error(
        "branch {branch} is checked out in {place}, whose files would no longer match it: run `git -C {place} switch --detach`, or publish to another branch or a bare repository"
    )]
    CheckedOut {
        /// Branch name.
        branch: String,
        /// The work tree.
        place: String,
    },
    /// Someone else moved the branch in the meantime.
    #[error(
        "branch {branch} in {repo} moved while the commit was made: nothing was changed, try again"
    )]
    Moved {
        /// Branch name.
        branch: String,
        /// Where.
        repo: String,
    },
    /// The folder to create is there already.
    #[error(
        "{path} exists, wanted a new folder for the repository: choose another name, or publish into it as it is"
    )]
    Exists {
        /// The path.
        path: String,
    },
    /// libgit2 could not do a step.
    #[error("cannot {doing} in {repo}: {source}")]
    Git {
        /// What was tried.
        doing: &'static str,
        /// Where.
        repo: String,
        /// What libgit2 said.
        source: git2::Error,
    },
    /// The system said no.
    #[error("{path}: cannot read: {source}{}", crate::edge::advice::advice(.source))]
    Io {
        /// On what.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl GitError {
    /// The exit code that belongs to it: 2 rejected, 3 refused, 4 usage, environment or input and output.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Object { .. } | Self::Entry { .. } => 2,
            Self::Redirect { .. } | Self::Limit(_) => 3,
            _ => 4,
        }
    }

    /// The finding code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Object { .. } => "E-OBJECT",
            Self::Entry { code, .. } => code,
            Self::Redirect { .. } => "E-GITREDIRECT",
            Self::Limit(_) => "E-LIMIT",
            Self::FullIdWanted { .. } => "E-REV",
            Self::NoCommit { .. } | Self::NoParent { .. } | Self::Merge { .. } => "E-COMMIT",
            Self::Owner { .. } => "E-OWNER",
            Self::Exists { .. } => "E-EXISTS",
            _ => "E-GIT",
        }
    }
}
