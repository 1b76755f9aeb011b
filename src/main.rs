//! The command `regbundle`.

fn main() {}
