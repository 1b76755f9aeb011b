//! The only code that touches the world: files, processes, host, git, clock.

pub mod advice;
pub mod case_folder;
pub mod clock;
pub mod cpu;
pub mod git;
pub mod host;
pub mod interrupt;
pub mod process;
pub mod tracefs;
pub mod tree;
