//! Bytes become the model: `case.toml`, rows, tables made elsewhere, journals.
//!
//! Strict readers: what is not understood is an error that names the place.

pub mod case;
mod case_check;
pub mod cell;
pub mod evidence;
pub mod ingest;
mod ingest_table;
mod journal_fold;
pub mod rows;
pub mod table;
pub mod trace;
