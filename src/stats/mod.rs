//! Statistics: location, sandwich, boot-level interval. Pure; no input or output,
//! no random numbers: the same rows give the same figures everywhere.
//!
//! Definitions and sources: docs/statistics.md.

pub mod comparison;
pub mod figure;
pub mod interval;
pub mod location;
pub mod sandwich;
pub mod selection;
