//! The programs that measure: this executable as the formal worker, and the
//! standalone C file, compiled once per case so that every point runs one binary.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::model::case::Implementation;
use crate::model::digest::sha256_hex;
use crate::model::plan::PlannedWorkload;
use crate::workload::declaration::split_scenario;
use crate::workload::emit;

/// Options of the compiler: those of the reproducer's own Makefile.
const CFLAGS: [&str; 4] = ["-std=gnu11", "-O2", "-Wall", "-Wextra"];

/// Why a program cannot be had.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// This executable cannot be found or read.
    #[error("cannot read this executable: {source}")]
    Own {
        /// What the system says.
        source: io::Error,
    },
    /// No compiler.
    #[error(
        "cannot run `{compiler}`: {source}; install a C compiler (Debian: apt-get install gcc libc6-dev), \
         or leave \"standalone\" out of the workload's implementations in case.toml"
    )]
    NoCompiler {
        /// The compiler.
        compiler: String,
        /// What the system says.
        source: io::Error,
    },
    /// The compiler refuses.
    #[error("{source_file}: `{compiler}` failed: {message}")]
    Compile {
        /// The C file.
        source_file: String,
        /// The compiler.
        compiler: String,
        /// First lines of its messages.
        message: String,
    },
    /// No C file in the catalogue.
    #[error("{workload}: found no standalone implementation in the catalogue")]
    NoSource {
        /// The workload.
        workload: String,
    },
    /// A file cannot be written or read.
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

/// A program and how it is started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Arguments that name the workload and its parameters.
    pub arguments: Vec<String>,
    /// SHA-256 of the executable.
    pub sha256: String,
    /// SHA-256 of the C source, for `standalone`.
    pub source_sha256: Option<String>,
}

/// Finds or builds the program of a workload and implementation.
///
/// `own` is this executable; `build` a folder for compiled programs.
///
/// # Errors
///
/// When the executable cannot be read or the C file cannot be compiled.
pub fn program(
    workload: &PlannedWorkload,
    implementation: Implementation,
    own: &Path,
    build: &Path,
) -> Result<Program, ProgramError> {
    match implementation {
        _ if !workload.command.is_empty() => external(workload, build),
        Implementation::Formal => formal(workload, own),
        Implementation::Standalone => standalone(workload, build),
    }
}

fn formal(workload: &PlannedWorkload, own: &Path) -> Result<Program, ProgramError> {
    let bytes = fs::read(own).map_err(|source| ProgramError::Own { source })?;
    let mut arguments = vec!["worker".to_owned(), workload.name.clone()];
    for (name, value) in &workload.params {
        arguments.push("--param".to_owned());
        arguments.push(format!("{name}={value}"));
    }
    Ok(Program {
        path: own.to_owned(),
        arguments,
        sha256: sha256_hex(&bytes),
        source_sha256: None,
    })
}

/// The reporter's own program, found in the folder above `build`: the case's.
fn external(workload: &PlannedWorkload, build: &Path) -> Result<Program, ProgramError> {
    let mut words = workload.command.iter();
    let name = words.next().map_or("", String::as_str);
    let path = build.parent().unwrap_or(build).join(name);
    let io_error = |action| {
        let path = path.display().to_string();
        move |source| ProgramError::Io {
            path,
            action,
            source,
        }
    };
    let path = path.canonicalize().map_err(io_error("find"))?;
    let bytes = fs::read(&path).map_err(io_error("read"))?;
    let mut arguments: Vec<String> = words.cloned().collect();
    for (name, value) in &workload.params {
        arguments.extend([format!("--{name}"), value.to_string()]);
    }
    Ok(Program {
        path,
        arguments,
        sha256: sha256_hex(&bytes),
        source_sha256: None,
    })
}

fn standalone(workload: &PlannedWorkload, build: &Path) -> Result<Program, ProgramError> {
    let source = emit::source(&workload.name).ok_or_else(|| ProgramError::NoSource {
        workload: workload.name.clone(),
    })?;
    let source_sha256 = sha256_hex(source.as_bytes());
    let digest: String = source_sha256.chars().take(12).collect();
    let (name, scenario) = split_scenario(&workload.name);
    let folder = build.join(format!("{name}-{digest}"));
    let path = folder.join(name);
    if !path.is_file()
        && let Err(error) = compile(name, &source, &folder, &path)
    {
        // Nothing half made stays; the error that matters is the compiler's.
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_dir(build);
        return Err(error);
    }
    let bytes = fs::read(&path).map_err(|source| ProgramError::Io {
        path: path.display().to_string(),
        action: "read",
        source,
    })?;
    let mut arguments = Vec::new();
    if let Some(scenario) = scenario {
        arguments.extend(["--scenario".to_owned(), scenario.to_owned()]);
    }
    for (name, value) in &workload.params {
        arguments.push(format!("--{name}"));
        arguments.push(value.to_string());
    }
    Ok(Program {
        path,
        arguments,
        sha256: sha256_hex(&bytes),
        source_sha256: Some(source_sha256),
    })
}

fn compile(name: &str, source: &str, folder: &Path, path: &Path) -> Result<(), ProgramError> {
    let file = folder.join(format!("{name}.c"));
    let io_error = |path: &Path, action: &'static str| {
        let path = path.display().to_string();
        move |source| ProgramError::Io {
            path,
            action,
            source,
        }
    };
    fs::create_dir_all(folder).map_err(io_error(folder, "create the folder"))?;
    fs::write(&file, source).map_err(io_error(&file, "write"))?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    // Compiled under another name: an interrupted compiler leaves no half program.
    let partial = folder.join(format!(".{name}.partial-{}", std::process::id()));
    let output = Command::new(&compiler)
        .args(CFLAGS)
        .arg("-o")
        .arg(&partial)
        .arg(&file)
        .output()
        .map_err(|source| ProgramError::NoCompiler {
            compiler: compiler.clone(),
            source,
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(ProgramError::Compile {
            source_file: file.display().to_string(),
            compiler,
            message: text.lines().take(5).collect::<Vec<_>>().join("; "),
        });
    }
    fs::rename(&partial, path).map_err(io_error(path, "rename into place"))
}
