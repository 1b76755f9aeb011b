//! Reads what a point records of its kernel and machine.
//!
//! Input: a root folder, `/` or a fake of it, and the CPU that is measured. Output: a
//! [`BootIdentity`] with a reading for every setting; a file that is absent or not
//! readable makes its reading unknown and is no error. The placement in a cgroup is
//! that of the reading process. It does not judge, change or wait for anything.

mod parse;
mod settings;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::model::identity::{BootIdentity, KernelIdentity, Reading};
use crate::model::redact::{Private, Redactor};

/// Why a file gave no value; the path is the one below the root.
#[derive(Debug, thiserror::Error)]
enum Missing {
    /// There is no such file.
    #[error("/{path} absent")]
    Absent { path: String },
    /// The file is there, but cannot be read.
    #[error("/{path} not readable ({kind})")]
    Unreadable { path: String, kind: ErrorKind },
    /// The file holds nothing.
    #[error("/{path} empty")]
    Empty { path: String },
    /// The file holds something else than the kernel documents.
    #[error("/{path} says `{found}`, which is not understood")]
    Odd { path: String, found: String },
}

impl From<Result<String, Missing>> for Reading {
    fn from(result: Result<String, Missing>) -> Self {
        match result {
            Ok(value) => Self::known(value),
            Err(missing) => Self::unknown(missing.to_string()),
        }
    }
}

/// Reads a host through its root folder.
#[derive(Debug, Clone)]
pub struct HostReader {
    root: PathBuf,
}

impl HostReader {
    /// A reader of the host whose root folder this is.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The kernel and the machine as they are now; `cpu` is the number of the measured CPU.
    #[must_use]
    pub fn read(&self, cpu: usize) -> BootIdentity {
        let redactor = Redactor::new(private_names(&self.root));
        BootIdentity {
            boot_id: self.text("proc/sys/kernel/random/boot_id").ok(),
            kernel: self.kernel(),
            settings: self.settings(cpu, &redactor),
        }
    }

    fn kernel(&self) -> KernelIdentity {
        let version = self
            .text("proc/version")
            .ok()
            .and_then(|text| parse::version(&text));
        let (release, compiler, version) = match version {
            Some(found) => (Some(found.release), found.compiler, found.version),
            None => (None, None, None),
        };
        KernelIdentity {
            build_id: std::fs::read(self.root.join("sys/kernel/notes"))
                .ok()
                .and_then(|notes| parse::build_id(&notes)),
            compiler,
            machine: self.machine(),
            release: self.text("proc/sys/kernel/osrelease").ok().or(release),
            version,
        }
    }

    fn machine(&self) -> Option<String> {
        // Since Linux 6.1; before it, `lm` (long mode) tells a 64-bit x86.
        self.text("proc/sys/kernel/arch").ok().or_else(|| {
            let cpuinfo = self.text("proc/cpuinfo").ok()?;
            parse::field(&cpuinfo, "flags")?
                .split_whitespace()
                .any(|flag| flag == "lm")
                .then(|| "x86_64".to_owned())
        })
    }

    /// The text of a file without white space around it.
    fn text(&self, path: &str) -> Result<String, Missing> {
        let path_text = path.to_owned();
        match std::fs::read(self.root.join(path)) {
            Ok(bytes) => match String::from_utf8_lossy(&bytes).trim() {
                "" => Err(Missing::Empty { path: path_text }),
                text => Ok(text.to_owned()),
            },
            Err(error) => Err(match error.kind() {
                ErrorKind::NotFound => Missing::Absent { path: path_text },
                kind => Missing::Unreadable {
                    path: path_text,
                    kind,
                },
            }),
        }
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// What must not leave this machine: names from the root folder and from the environment.
///
/// Under sudo the user who called it counts, not root.
#[must_use]
pub fn private_names(root: &Path) -> Private {
    let reader = HostReader::new(root);
    let dmi = [
        "board_serial",
        "chassis_serial",
        "product_serial",
        "product_uuid",
    ];
    Private {
        host: reader.text("proc/sys/kernel/hostname").ok(),
        user: ["SUDO_USER", "USER", "LOGNAME"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty())),
        home: std::env::var("HOME").ok(),
        machine_id: reader.text("etc/machine-id").ok(),
        serials: dmi
            .iter()
            .filter_map(|name| reader.text(&format!("sys/class/dmi/id/{name}")).ok())
            .collect(),
    }
}

#[cfg(test)]
mod tests;
