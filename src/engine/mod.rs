//! How a point comes about: the engines of this host and of qemu, ingestion, and
//! the journal they write.

pub mod host;
pub mod ingest;
pub mod journal;
mod point;
pub mod process;
pub mod program;
pub mod qemu;
pub mod run;
pub mod stream;
pub mod trace;
