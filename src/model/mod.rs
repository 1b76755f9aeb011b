//! The nouns. Imports nothing of ours; does no input or output.

pub mod protocol;
pub mod tree;
