//! Kernel images: a bzImage as it is, or the one inside a distribution's package.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::model::digest::sha256_hex;

/// Where a bzImage says `HdrS` (Documentation/arch/x86/boot.rst).
const MAGIC_AT: usize = 0x202;
const MAGIC: &[u8] = b"HdrS";
/// First bytes of a Debian package (deb(5)).
const PACKAGE: &[u8] = b"!<arch>\n";

/// Why there is no kernel image.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The file cannot be read.
    #[error(
        "{path}: cannot read the kernel of role {role} (`engine.qemu.kernels.{role}`): {source}; wanted a bzImage or a .deb there, relative to the case's folder"
    )]
    Read {
        /// The file.
        path: String,
        /// `parent` or `child`.
        role: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "{path}: found neither a bzImage (no `HdrS` at byte 0x202) nor a .deb, wanted one of them as the kernel of role {role}"
    )]
    Kind {
        /// The file.
        path: String,
        /// `parent` or `child`.
        role: &'static str,
    },
    /// The package has no kernel.
    #[error("{path}: no ./boot/vmlinuz-* in this package: {message}; wanted a linux-image package")]
    Package {
        /// The package.
        path: String,
        /// What the tools say.
        message: String,
    },
    /// A tool is missing.
    #[error(
        "{path}: cannot run `{tool}` to open this package: {source}; install it (Debian: apt-get install dpkg tar)"
    )]
    Tool {
        /// The package.
        path: String,
        /// The tool.
        tool: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The image cannot be kept.
    #[error("{path}: cannot write the kernel image: {source}")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

/// Returns the path of a kernel image; one from a package is kept below `build`.
///
/// # Errors
///
/// When the file is neither, or the package has no kernel.
pub(super) fn image(path: &Path, role: &'static str, build: &Path) -> Result<PathBuf, KernelError> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|source| KernelError::Read {
        path: name.clone(),
        role,
        source,
    })?;
    if is_image(&bytes) {
        return Ok(path.to_owned());
    }
    if !bytes.starts_with(PACKAGE) {
        return Err(KernelError::Kind { path: name, role });
    }
    let digest: String = sha256_hex(&bytes).chars().take(12).collect();
    let kept = build.join(format!("kernel-{digest}"));
    if fs::read(&kept).is_ok_and(|bytes| is_image(&bytes)) {
        return Ok(kept);
    }
    let image = unpack(path, &name)?;
    if !is_image(&image) {
        return Err(KernelError::Package {
            path: name,
            message: format!("found {} bytes that are no bzImage", image.len()),
        });
    }
    let partial = build.join(format!(".kernel.partial-{}", std::process::id()));
    fs::create_dir_all(build)
        .and_then(|()| fs::write(&partial, &image))
        .and_then(|()| fs::rename(&partial, &kept))
        .map_err(|source| KernelError::Write {
            path: kept.display().to_string(),
            source,
        })?;
    Ok(kept)
}

fn is_image(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
}

/// `dpkg-deb` knows every compression a package may have.
fn unpack(path: &Path, name: &str) -> Result<Vec<u8>, KernelError> {
    let missing = |tool| {
        let path = name.to_owned();
        move |source| KernelError::Tool { path, tool, source }
    };
    let mut package = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing("dpkg-deb"))?;
    let files = package.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let output = Command::new("tar")
        .args(["-x", "-O", "--wildcards", "./boot/vmlinuz-*"])
        .stdin(files)
        .output()
        .map_err(missing("tar"));
    let package = package.wait_with_output().map_err(missing("dpkg-deb"))?;
    let output = output?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(output.stdout);
    }
    let said = [package.stderr, output.stderr].concat();
    let text = String::from_utf8_lossy(&said);
    Err(KernelError::Package {
        path: name.to_owned(),
        message: text.lines().take(3).collect::<Vec<_>>().join("; "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel");
        fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn an_image_is_known_by_its_header_and_used_where_it_is() {
        let mut bytes = vec![0; 0x400];
        bytes[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(MAGIC);
        let (folder, path) = file(&bytes);
        assert_eq!(image(&path, "parent", folder.path()).unwrap(), path);
    }

    #[test]
    fn what_is_no_kernel_is_named_with_what_is_wanted() {
        let (folder, path) = file(b"\x7fELF");
        let message = image(&path, "child", folder.path())
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("child") && message.contains("bzImage"),
            "{message}"
        );
        let missing = folder.path().join("none");
        let message = image(&missing, "child", folder.path())
            .unwrap_err()
            .to_string();
        assert!(message.contains("engine.qemu.kernels.child"), "{message}");
    }

    #[test]
    fn a_package_without_a_kernel_is_refused() {
        let (folder, path) =
            file(b"!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\n");
        let message = image(&path, "parent", folder.path())
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("vmlinuz") || message.contains("dpkg-deb"),
            "{message}"
        );
    }
}
