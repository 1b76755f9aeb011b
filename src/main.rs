//! The command `regbundle`.

use std::process::ExitCode;

fn main() -> ExitCode {
    regbundle::cmd::main()
}
