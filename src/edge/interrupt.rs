//! Signals that ask this program to end, kept until what it made outside of itself is
//! taken away again.
#![expect(unsafe_code, reason = "signal handlers are raw system interfaces")]

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signals by which a person or a service ends a program.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The last of them that came; 0 when none did.
static SEEN: AtomicI32 = AtomicI32::new(0);

extern "C" fn keep(signal: libc::c_int) {
    SEEN.store(signal, Ordering::SeqCst);
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: a zeroed sigaction is valid (empty mask); the handler is a disposition or
    // has the signature the kernel calls and only stores to an atomic.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        // The programs started meanwhile are read from; a read must not end early.
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Says whether a signal has no effect on this program, as under nohup.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a zeroed sigaction is valid; without a new action this only reads the old.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// From here on these signals are kept instead of ending this program; those it ignores
/// stay ignored.
///
/// # Errors
///
/// When the kernel refuses a handler.
pub fn hold() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = keep;
    SIGNALS
        .into_iter()
        .filter(|signal| !is_ignored(*signal))
        .try_for_each(|signal| set(signal, handler as libc::sighandler_t))
}

/// Says whether one of the signals came.
#[must_use]
pub fn came() -> bool {
    SEEN.load(Ordering::SeqCst) != 0
}

/// Gives the signal that came its default effect again, and this program the signal, so
/// that whoever started it sees what ended it; does nothing when none came.
pub fn release() {
    let signal = SEEN.load(Ordering::SeqCst);
    // A signal that cannot be reset stays held, and the caller's error ends the program.
    if signal != 0 && set(signal, libc::SIG_DFL).is_ok() {
        // SAFETY: raise takes no pointer; the signal is one of ours.
        unsafe { libc::raise(signal) };
    }
}
