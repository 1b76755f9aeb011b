//! The nouns. Imports nothing of ours; does no input or output.

pub mod analysis;
pub mod case;
pub mod change;
pub mod claim;
pub mod digest;
pub mod evidence;
pub mod finding;
pub mod identity;
pub mod journal;
pub mod plan;
pub mod protocol;
pub mod redact;
pub mod row;
pub mod shown;
pub mod trace;
pub mod tree;
pub mod units;
