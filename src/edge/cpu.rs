//! Which CPUs this process may run on.

use rustix::thread::{CpuSet, sched_getaffinity};
use thiserror::Error;

/// Why there is no CPU to measure on.
#[derive(Debug, Error)]
pub enum CpuError {
    /// The CPU is not in the allowed set.
    #[error(
        "found CPU {wanted} asked for (`machine.cpu` in case.toml), wanted one of the allowed CPUs: {allowed}; name one of these or widen the cpuset"
    )]
    NotAllowed {
        /// The CPU asked for.
        wanted: usize,
        /// The allowed ones.
        allowed: String,
    },
    /// The system does not say.
    #[error("cannot read the allowed CPUs: {source}")]
    Io {
        /// What the system says.
        source: std::io::Error,
    },
}

/// Returns the CPU to measure on: the one asked for, else the last allowed one.
///
/// # Errors
///
/// When the CPU asked for is not allowed.
pub fn choose(wanted: Option<u32>) -> Result<usize, CpuError> {
    let set = sched_getaffinity(None).map_err(|error| CpuError::Io {
        source: error.into(),
    })?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect();
    let list = || {
        allowed
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let refused = |wanted| CpuError::NotAllowed {
        wanted,
        allowed: list(),
    };
    match wanted {
        None => allowed.last().copied().ok_or_else(|| refused(0)),
        Some(wanted) => {
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            if allowed.contains(&wanted) {
                Ok(wanted)
            } else {
                Err(refused(wanted))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_cannot_be_is_refused_with_the_allowed_ones() {
        let message = choose(Some(999_999)).unwrap_err().to_string();
        let last = choose(None).unwrap().to_string();
        assert!(
            message.contains("999999") && message.contains(&last),
            "{message}"
        );
    }
}
