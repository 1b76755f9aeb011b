//! The nouns. Imports nothing of ours; does no input or output.

pub mod identity;
pub mod change;
pub mod protocol;
pub mod redact;
pub mod tree;
