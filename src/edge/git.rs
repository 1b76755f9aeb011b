//! Git through libgit2, and the only home of that crate.
//!
//! Inputs: a repository's path and a branch, commit or tree. Outputs: a change, a tree,
//! a commit. It never runs the git program, a hook, a filter or a signer, never uses
//! index or work tree, and no configuration but the repository's own has any effect; nothing
//! is sent anywhere.

mod change;
mod error;
mod precheck;
mod publish;
mod read;
mod repository;
#[cfg(test)]
mod testing;

pub use change::resolve_change;
pub use error::GitError;
pub use publish::{Identity, Published, check, check_new, init_bare, publish};
pub use read::{read_commit, read_commit_within};
pub use repository::remote_url;
