//! `regbundle guest`: process 1 of a guest; the kernel starts it as `/init`.

use crate::cli::GuestArgs;
use crate::engine::qemu::{InitOptions, init};
use crate::error::CommandError;

/// Serves until the guest powers off.
///
/// # Errors
///
/// When the guest cannot be served: its kernel then panics, and says so.
pub fn run(args: &GuestArgs) -> Result<u8, CommandError> {
    if std::process::id() != 1 {
        return Err(CommandError::Argument {
            found: format!("process {}", std::process::id()),
            wanted: "process 1 of a guest that `regbundle run` boots: this mounts and powers off",
        });
    }
    let options = InitOptions {
        child_cgroup: args.cgroup == "child",
        settle_seconds: args.settle,
        on_grid: args.clock == "instructions",
    };
    init(&options).map_err(|source| CommandError::Io {
        path: "/init".to_owned(),
        action: "serve this guest",
        source,
    })?;
    Ok(0)
}
