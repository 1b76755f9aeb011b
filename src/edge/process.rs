//! Processes that must not outlive this one.

#![expect(
    unsafe_code,
    reason = "code between fork and exec is a raw system interface"
)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the command's process be killed when the thread that starts it dies.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing, which is all that
    // is allowed between fork and exec.
    unsafe { command.pre_exec(prepare) };
}
