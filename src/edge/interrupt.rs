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

/// From here on these signals are kept instead of ending this program.
///
/// # Errors
///
/// When the kernel refuses a handler.
pub fn hold() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = keep;
    SIGNALS
        .iter()
        .try_for_each(|signal| set(*signal, handler as libc::sighandler_t))
}

/// Says whether one of the signals came.
#[must_use]
pub fn came() -> bool {
    SEEN.load(Ordering::SeqCst) != 0
}

/// Gives the signals their default effect again, and this program the one that came, so
/// that whoever started it sees what ended it.
pub fn release() {
    for signal in SIGNALS {
        // What cannot be reset stays held; there is nobody left to tell.
        let _ = set(signal, libc::SIG_DFL);
    }
    let signal = SEEN.load(Ordering::SeqCst);
    if signal != 0 {
        // SAFETY: raise takes no pointer; the signal is one of ours.
        unsafe { libc::raise(signal) };
    }
}
