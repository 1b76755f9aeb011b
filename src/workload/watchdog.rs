//! Ends a worker that hangs: a wait that no wake reaches would last for ever.
//!
//! A plain `alarm`, armed per round and never inside one, so that the timed calls
//! are the plain ones, without a timeout argument. The handler says why and exits.
#![expect(unsafe_code, reason = "signal handlers are raw system interfaces")]

use std::io;

/// Seconds that every round may take, whatever its size: two orders above a slow one.
const FLOOR_SECONDS: u64 = 30;
/// Requests per second below which a round counts as hung: a hundredth of the speed
/// measured for the slowest request, to leave room for emulators.
const REQUESTS_PER_SECOND: u64 = 10_000;

const MESSAGE: &[u8] = b"regbundle worker: no progress: a round or the preflight hangs (a wait \
that no wake reaches, or a stopped machine); ended by the watchdog\n";

/// Installs the handler.
///
/// # Errors
///
/// When the kernel refuses it.
pub fn install() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = expired;
    // SAFETY: a zeroed sigaction is valid (no flags, empty mask); the handler has the
    // signature the kernel calls and does only async-signal-safe calls.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Starts the time allowed for this many requests.
pub fn arm(requests: u64) {
    let seconds = FLOOR_SECONDS.saturating_add(requests / REQUESTS_PER_SECOND);
    alarm(u32::try_from(seconds).unwrap_or(u32::MAX));
}

/// Stops it.
pub fn disarm() {
    alarm(0);
}

fn alarm(seconds: u32) {
    // SAFETY: alarm takes no pointer.
    unsafe { libc::alarm(seconds) };
}

extern "C" fn expired(_signal: libc::c_int) {
    // SAFETY: write and _exit are async-signal-safe; the buffer is static.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(i32::from(super::error::Kind::Failed.exit_code()));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Set by the test that starts this executable again to see it hang.
    const HANG: &str = "REGBUNDLE_TEST_HANG";

    #[test]
    fn an_armed_watchdog_is_pending_until_it_is_disarmed() {
        if std::env::var_os(HANG).is_some() {
            super::install().unwrap();
            super::alarm(1);
            loop {
                std::thread::park();
            }
        }
        // No handler is needed: 40 seconds do not pass between arming and disarming.
        super::arm(100_000);
        // SAFETY: alarm takes no pointer.
        let pending = || unsafe { libc::alarm(0) };
        let left = pending();
        // 30 seconds and one per 10,000 requests, less what the test took.
        assert!((31..=40).contains(&left), "{left}");
        super::arm(0);
        super::disarm();
        assert_eq!(pending(), 0);
    }

    #[test]
    fn a_hanging_process_ends_with_code_1_and_says_why() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "workload::watchdog::tests::an_armed_watchdog_is_pending_until_it_is_disarmed",
                "--nocapture",
            ])
            .env(HANG, "1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("ended by the watchdog"), "{message}");
    }
}
