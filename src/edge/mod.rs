//! The only code that touches the world: files, processes, host, git, clock.

pub mod host;
pub mod git;
pub mod tree;
