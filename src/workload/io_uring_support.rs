//! Whether this kernel has `io_uring` and the operations a workload needs, and why not.

use std::io;

use io_uring::{IoUring, Probe};

use super::error::WorkloadError;

/// Asks the kernel for operations, each with the release that brought it.
pub fn support(
    workload: &'static str,
    operations: &[(u8, &'static str, &'static str)],
) -> Result<(), WorkloadError> {
    let ring = IoUring::new(1).map_err(setup_error(workload))?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|source| WorkloadError::System {
            workload,
            call: "io_uring_register(IORING_REGISTER_PROBE)",
            source,
        })?;
    for (code, operation, since) in operations {
        if !probe.is_supported(*code) {
            return Err(WorkloadError::NotOnThisKernel { operation, since });
        }
    }
    Ok(())
}

/// Turns an error of `io_uring_setup` into its cause.
pub fn setup_error(workload: &'static str) -> impl Fn(io::Error) -> WorkloadError {
    move |source| {
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        classify_setup(workload, source, disabled, memlock_bytes())
    }
}

/// The soft limit of locked memory, bytes; `None` when there is none, or for root.
fn memlock_bytes() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    limit.filter(|_| !rustix::process::geteuid().is_root())
}

fn classify_setup(
    workload: &'static str,
    source: io::Error,
    disabled: io::Result<String>,
    memlock_bytes: Option<u64>,
) -> WorkloadError {
    match source.raw_os_error() {
        Some(libc::ENOSYS) => WorkloadError::IoUringAbsent,
        Some(libc::EPERM | libc::EACCES) => {
            let sysctl = disabled.map_or_else(
                |error| format!("not readable ({error})"),
                |text| text.trim().to_owned(),
            );
            let hint = match sysctl.as_str() {
                "0" => "a seccomp filter or security module refuses it: run outside the container",
                "1" => "run as root, as a member of kernel.io_uring_group, or set it to 0",
                _ => "try: sysctl kernel.io_uring_disabled=0",
            };
            WorkloadError::IoUringNotPermitted { sysctl, hint }
        }
        // An unlimited process that gets ENOMEM met a machine without memory.
        Some(libc::ENOMEM) if memlock_bytes.is_some() => WorkloadError::MemlockTooLow {
            found: memlock_bytes.map_or_else(String::new, |bytes| format!("{bytes} bytes")),
        },
        _ => WorkloadError::System {
            workload,
            call: "io_uring_setup",
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(errno: i32, sysctl: &str) -> WorkloadError {
        let source = io::Error::from_raw_os_error(errno);
        classify_setup("some-workload", source, Ok(sysctl.to_owned()), None)
    }

    #[test]
    fn a_refusal_names_the_sysctl_and_its_value() {
        for value in ["0", "1", "2"] {
            let error = classify(libc::EPERM, &format!("{value}\n"));
            let message = error.to_string();
            assert!(
                message.contains(&format!("kernel.io_uring_disabled is {value};")),
                "{message}"
            );
            assert_eq!(error.kind().exit_code(), 4);
        }
    }

    #[test]
    fn a_kernel_without_io_uring_is_a_skip_and_a_full_one_is_a_failure() {
        assert_eq!(classify(libc::ENOSYS, "0").kind().exit_code(), 4);
        assert_eq!(classify(libc::ENOMEM, "0").kind().exit_code(), 1);
    }

    #[test]
    fn a_limit_of_locked_memory_is_a_skip_that_names_it() {
        let source = io::Error::from_raw_os_error(libc::ENOMEM);
        let error = classify_setup("some-workload", source, Ok("0".to_owned()), Some(0));
        assert_eq!(error.kind().exit_code(), 4);
        let message = error.to_string();
        assert!(
            message.contains("0 bytes (RLIMIT_MEMLOCK)") && message.contains("ulimit -l"),
            "{message}"
        );
    }

    #[test]
    fn an_operation_no_kernel_has_is_named() {
        match support("some-workload", &[(254, "IORING_OP_OF_NO_KERNEL", "9.9")]) {
            Err(error @ WorkloadError::NotOnThisKernel { .. }) => {
                let message = error.to_string();
                assert!(
                    message.starts_with("not on this kernel: IORING_OP_OF_NO_KERNEL"),
                    "{message}"
                );
                assert_eq!(error.kind().exit_code(), 4);
            }
            Err(error) if std::env::var_os("REGBUNDLE_REQUIRE_IO_URING").is_none() => {
                println!("skipped: {error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
