//! An instance of tracefs of our own: events of one program and its children, in
//! buffers that nobody else reads or fills.
//!
//! Inputs are names of events and a command; outputs are the texts of the buffer and of
//! its statistics. The instance is removed when the value is dropped. It parses and
//! counts nothing (`input::trace`), and touches no setting outside the instance.
#![expect(
    unsafe_code,
    reason = "mount, and the step between fork and exec, are raw system interfaces"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// Where tracefs is mounted: since Linux 4.1, and before.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Inode of the initial pid namespace (`PROC_PID_INIT_INO` in `linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
/// KiB of one CPU's buffer: some 80,000 events of 100 bytes, four times what the
/// largest shape writes.
const MOST_KIB: u64 = 8 << 10;
/// KiB of all buffers together, so that a machine of many CPUs is not emptied.
const TOTAL_KIB: u64 = 256 << 10;
/// KiB of one CPU's buffer whatever the number of CPUs.
const LEAST_KIB: u64 = 1 << 10;

/// Why events cannot be counted.
#[derive(Debug, Error)]
pub enum TracefsError {
    /// There is none, and it cannot be mounted.
    #[error(
        "found no tracefs at {}, wanted it for counts of tracepoints, and mounting it failed: {source}; as root: mount -t tracefs tracefs {} (the kernel needs CONFIG_FTRACE)", ROOTS[0], ROOTS[0]
    )]
    Absent {
        /// What mount says.
        source: io::Error,
    },
    /// It is there, but not for us.
    #[error(
        "{path}: found {source}, wanted permission to make an instance of tracefs: run it as root (a container, or lockdown in confidentiality mode, may refuse root too)"
    )]
    Refused {
        /// What was tried.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// Events are filtered by pids of the initial namespace; ours are others.
    #[error(
        "found this process in a pid namespace of its own ({found}), wanted the initial one: tracefs selects by the pids there; run it outside of the container"
    )]
    Namespace {
        /// What `/proc/self/ns/pid` says.
        found: String,
    },
    /// A file of the instance.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> TracefsError {
    let path = path.display().to_string();
    move |source| match source.kind() {
        ErrorKind::PermissionDenied => TracefsError::Refused { path, source },
        _ => TracefsError::Io {
            path,
            action,
            source,
        },
    }
}

/// A mounted tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Whether it was mounted now.
    pub mounted_now: bool,
}

impl Tracefs {
    /// Finds tracefs, or mounts it where there is none.
    ///
    /// # Errors
    ///
    /// When there is none, or it is refused to this process.
    pub fn find() -> Result<Self, TracefsError> {
        let namespace = fs::read_link("/proc/self/ns/pid")
            .map_err(failed(Path::new("/proc/self/ns/pid"), "read"))?;
        if namespace.as_os_str() != INITIAL_PID_NAMESPACE {
            return Err(TracefsError::Namespace {
                found: namespace.display().to_string(),
            });
        }
        for root in ROOTS {
            if let Some(found) = Self::at(Path::new(root))? {
                return Ok(found);
            }
        }
        mount(ROOTS[0]).map_err(|source| TracefsError::Absent { source })?;
        match Self::at(Path::new(ROOTS[0]))? {
            Some(found) => Ok(Self {
                mounted_now: true,
                ..found
            }),
            None => Err(TracefsError::Absent {
                source: ErrorKind::NotFound.into(),
            }),
        }
    }

    /// The tracefs of this folder; `None` when it is none.
    fn at(root: &Path) -> Result<Option<Self>, TracefsError> {
        let instances = root.join("instances");
        match fs::metadata(&instances) {
            Ok(_) => Ok(Some(Self {
                root: root.to_owned(),
                mounted_now: false,
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&instances, "look at")(error)),
        }
    }

    /// Makes an instance of this process's own, its events off and its tracing stopped.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it or one of its settings.
    pub fn instance(&self) -> Result<Instance, TracefsError> {
        let name = format!("regbundle-{}", std::process::id());
        let path = self.root.join("instances").join(name);
        fs::create_dir(&path).map_err(failed(&path, "make the instance"))?;
        let instance = Instance { path };
        instance.write("tracing_on", "0")?;
        instance.write("options/event-fork", "1")?;
        let cpus = u64::try_from(instance.cpu_folders()?.len()).unwrap_or(u64::MAX);
        let kib = (TOTAL_KIB / cpus.max(1)).clamp(LEAST_KIB, MOST_KIB);
        instance.write("buffer_size_kb", &kib.to_string())?;
        Ok(instance)
    }
}

/// Mounts tracefs where the kernel has a folder for it.
fn mount(place: &str) -> io::Result<()> {
    let place = std::ffi::CString::new(place)?;
    let kind = c"tracefs";
    // SAFETY: all pointers are to strings that end with NUL, or null where none is needed.
    let result = unsafe {
        libc::mount(
            kind.as_ptr(),
            place.as_ptr(),
            kind.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            std::ptr::null(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An instance; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
}

impl Instance {
    /// The instance's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, name: &str, text: &str) -> Result<(), TracefsError> {
        let path = self.path.join(name);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(failed(&path, "write"))
    }

    /// Turns an event, `group:name`, on; false when this kernel has none of that name.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be turned on.
    pub fn enable(&self, event: &str) -> Result<bool, TracefsError> {
        let folder = format!("events/{}", event.replacen(':', "/", 1));
        if !self.path.join(&folder).is_dir() {
            return Ok(false);
        }
        self.write(&format!("{folder}/enable"), "1")?;
        Ok(true)
    }

    /// Turns all events off, forgets whom to follow and empties the buffers and their
    /// statistics.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it.
    pub fn reset(&self) -> Result<(), TracefsError> {
        self.stop()?;
        self.write("events/enable", "0")?;
        for name in ["set_event_pid", "trace"] {
            // Opening for writing with truncation is what empties these two.
            let path = self.path.join(name);
            File::create(&path).map_err(failed(&path, "empty"))?;
        }
        Ok(())
    }

    /// Stops writing into the buffers.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it.
    pub fn stop(&self) -> Result<(), TracefsError> {
        self.write("tracing_on", "0")
    }

    /// Goes on writing into the buffers.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it.
    pub fn resume(&self) -> Result<(), TracefsError> {
        self.write("tracing_on", "1")
    }

    /// Makes a command begin the tracing itself, of itself and its children, after the
    /// fork and before the exec: nothing before is counted, and nothing of it missed.
    ///
    /// # Errors
    ///
    /// When the files that do so cannot be opened.
    pub fn follow(&self, command: &mut Command) -> Result<(), TracefsError> {
        let open = |name: &str| {
            let path = self.path.join(name);
            OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(failed(&path, "open"))
        };
        let (mut pids, mut switch) = (open("set_event_pid")?, open("tracing_on")?);
        let begin = move || {
            let mut text = [0_u8; 16];
            let mut rest = text.as_mut_slice();
            write!(rest, "{}", std::process::id())?;
            let unused = rest.len();
            let used = text.len() - unused;
            pids.write_all(text.get(..used).unwrap_or_default())?;
            switch.write_all(b"1")
        };
        // SAFETY: between fork and exec it only calls getpid and write, on files opened
        // before, and formats a number into a buffer on its stack: no allocation, no lock.
        unsafe { command.pre_exec(begin) };
        Ok(())
    }

    /// Returns the text of the buffers as they are now.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn text(&self) -> Result<String, TracefsError> {
        let path = self.path.join("trace");
        let bytes = fs::read(&path).map_err(failed(&path, "read"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the statistics of every CPU's buffer.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn stats(&self) -> Result<Vec<String>, TracefsError> {
        self.cpu_folders()?
            .iter()
            .map(|folder| {
                let path = folder.join("stats");
                fs::read_to_string(&path).map_err(failed(&path, "read"))
            })
            .collect()
    }

    fn cpu_folders(&self) -> Result<Vec<PathBuf>, TracefsError> {
        let path = self.path.join("per_cpu");
        let entries: io::Result<Vec<_>> = fs::read_dir(&path).and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        });
        entries.map_err(failed(&path, "list"))
    }

    /// Removes the instance.
    ///
    /// # Errors
    ///
    /// When it is still there afterwards; the message says how to remove it.
    pub fn remove(self) -> Result<(), TracefsError> {
        let result = self.take_away();
        std::mem::forget(self);
        result
    }

    fn take_away(&self) -> Result<(), TracefsError> {
        // What stops here only makes the removal quick; the removal itself decides.
        let _ = self.reset();
        let mut last = ErrorKind::ResourceBusy.into();
        // A buffer may be busy for a moment after its last reader closed it.
        for _ in 0..20 {
            match fs::remove_dir(&self.path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => last = error,
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(TracefsError::Io {
            path: self.path.display().to_string(),
            action: "remove the instance (rmdir it by hand)",
            source: last,
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Whoever can report a failure calls `remove`.
        let _ = self.take_away();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_instances_is_no_tracefs() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Tracefs::at(folder.path()).unwrap().is_none());
        fs::create_dir(folder.path().join("instances")).unwrap();
        assert!(Tracefs::at(folder.path()).unwrap().is_some());
    }

    #[test]
    fn an_instance_that_cannot_be_set_up_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("instances")).unwrap();
        let tracefs = Tracefs::at(folder.path()).unwrap().unwrap();
        // A folder of a common file system holds none of the files of an instance.
        let message = tracefs.instance().unwrap_err().to_string();
        assert!(message.contains("tracing_on"), "{message}");
        let left = fs::read_dir(folder.path().join("instances")).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn what_is_refused_says_that_root_is_wanted() {
        let refused = failed(Path::new("/x"), "read")(ErrorKind::PermissionDenied.into());
        assert!(refused.to_string().contains("as root"), "{refused}");
    }
}
