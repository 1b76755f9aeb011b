//! Kernel regression evidence bundles: measure, check, report, publish, audit.
//!
//! Data flows down the list of modules below and never back: `model` holds the
//! nouns and imports nothing of ours; `stats`, `judge`, `render` and `gate` do no
//! input or output; only `cmd`, `engine` and `edge` touch the world.

pub mod audit;
pub mod bundle;
pub mod cli;
pub mod cmd;
pub mod edge;
pub mod engine;
pub mod error;
pub mod gate;
pub mod input;
pub mod judge;
pub mod model;
pub mod publish;
pub mod render;
pub mod stats;
pub mod ui;
pub mod workload;

/// Name and version, as every output carries them.
pub const TOOL: &str = concat!("regbundle ", env!("CARGO_PKG_VERSION"));
