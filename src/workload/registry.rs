//! The workloads there are. Adding one adds one line here.

use super::Workload;
use super::declaration::Declaration;
use super::error::WorkloadError;
use super::flistxattr::Flistxattr;
use super::inotify_watch::InotifyWatch;
use super::io_uring_futex_scalar::IoUringFutexScalar;
use super::io_uring_futex_waitv::IoUringFutexWaitv;
use super::io_uring_msg_ring_send_fd::{MsgRingSendFd, Scenario};
use super::io_uring_nop::IoUringNop;
use super::mmap_munmap::MmapMunmap;
use super::mprotect_shared_dirty::MprotectSharedDirty;
use super::page_fault::PageFault;
use super::syscall_getpid::SyscallGetpid;
use super::thread_pool::ThreadPool;

static ALL: [&dyn Workload; 18] = [
    &IoUringFutexWaitv,
    &IoUringFutexScalar,
    &Flistxattr,
    &SyscallGetpid,
    &IoUringNop,
    &MsgRingSendFd::new(Scenario::FirstFill),
    &MsgRingSendFd::new(Scenario::RemoveRefill),
    &MsgRingSendFd::new(Scenario::RegisterFill),
    &MsgRingSendFd::new(Scenario::RegisterInstall),
    &MsgRingSendFd::new(Scenario::WarmRefill),
    &MprotectSharedDirty,
    &MmapMunmap::ANON,
    &MmapMunmap::FILE,
    &PageFault,
    &ThreadPool,
    &InotifyWatch::DISTINCT,
    &InotifyWatch::SHARED,
    &InotifyWatch::PAIR,
];

/// Every workload, in the order of the catalogue.
#[must_use]
pub fn all() -> &'static [&'static dyn Workload] {
    &ALL
}

/// The workload of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    ALL.iter()
        .copied()
        .find(|workload| workload.declaration().name == name)
}

/// What every workload says about itself, in the order of the catalogue.
pub fn declarations() -> impl Iterator<Item = &'static Declaration> {
    ALL.iter().map(|workload| workload.declaration())
}

/// What the workload of this name says about itself.
#[must_use]
pub fn declaration(name: &str) -> Option<&'static Declaration> {
    find(name).map(Workload::declaration)
}

/// The workload of this name, or an error that lists the names there are.
///
/// # Errors
///
/// When there is none.
pub fn get(name: &str) -> Result<&'static dyn Workload, WorkloadError> {
    find(name).ok_or_else(|| WorkloadError::UnknownWorkload {
        name: name.to_owned(),
        known: ALL
            .iter()
            .map(|workload| workload.declaration().name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Asks the running kernel for what a workload needs.
///
/// # Errors
///
/// When there is no such workload, or the kernel lacks or refuses what it needs.
pub fn support(name: &str) -> Result<(), WorkloadError> {
    get(name)?.support()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<_> = all().iter().map(|w| w.declaration().name).collect();
        assert_eq!(names.len(), all().len());
        for name in names {
            assert_eq!(find(name).unwrap().declaration().name, name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        assert!(find("io-uring-futex").is_none());
        let error = support("io-uring-futex").unwrap_err();
        let message = error.to_string();
        for workload in all() {
            assert!(message.contains(workload.declaration().name), "{message}");
        }
        assert_eq!(error.kind().exit_code(), 64);
    }

    #[test]
    fn every_control_is_in_the_catalogue_and_counts_the_same_op_word() {
        for workload in all() {
            let declaration = workload.declaration();
            if let Some(control) = declaration.control {
                let control = find(control).unwrap().declaration();
                assert_eq!(control.op_word, declaration.op_word);
                assert_ne!(control.name, declaration.name);
            }
        }
    }
}
