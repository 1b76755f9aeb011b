//! How a point comes about: the engine of this host, and the journal it writes.

pub mod host;
pub mod ingest;
pub mod journal;
pub mod program;
pub mod stream;
pub mod trace;
