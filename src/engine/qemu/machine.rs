//! One boot in qemu: started, watched until it is ready, and the way to its programs.
//!
//! The guest's second serial port is qemu's stdin and stdout; its console goes to a file.
//! Dropping the machine kills it, and it dies with this process.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::message::{Report, Request, Start};
use crate::edge::process::die_with_parent;
use crate::engine::point::Launcher;
use crate::engine::program::Program;
use crate::engine::stream::{
    Channel, Ended, Lost, StreamError, Worker, stepped_options, whole_lines,
};
use crate::model::case::{GuestClock, Implementation};
use crate::model::identity::BootIdentity;
use crate::model::protocol::CLOCK_VARIABLE;
use crate::model::shown::printable;

/// A console that says nothing for so long (or half the limit, when that is less), before
/// the guest is ready, hangs: the longest silent stretch of a sound boot seen was 4 s.
const SILENCE: Duration = Duration::from_secs(30);
/// Between two looks at the console's length.
const LOOK: Duration = Duration::from_millis(200);
/// Longest wait for a program that was told to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// What the kernel prints when it gives up.
const PANIC: &str = "Kernel panic - not syncing";

/// Why a guest is not there.
#[derive(Debug, Error)]
pub enum BootError {
    /// Qemu cannot be started.
    #[error(
        "cannot run `{program}`: {source}; install it (Debian: apt-get install qemu-system-x86) or name it as engine.qemu.program"
    )]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// The console's file cannot be made.
    #[error("{path}: cannot create the console's file: {source}")]
    Console {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The guest, or qemu, ended.
    #[error("{cause}")]
    Gone {
        /// What is known of it.
        cause: String,
    },
    /// Nothing was heard for long.
    #[error(
        "the guest hangs: its console has said nothing for {seconds} s; the last line is `{last}` (console: {console})"
    )]
    Hung {
        /// How long, seconds.
        seconds: u64,
        /// Last line of the console.
        last: String,
        /// Its file.
        console: String,
    },
    /// The boot took too long.
    #[error(
        "the guest was not ready after {limit} s (engine.qemu.boot_seconds); the last line of its console is `{last}` (console: {console})"
    )]
    Late {
        /// The limit, seconds.
        limit: u64,
        /// Last line of the console.
        last: String,
        /// Its file.
        console: String,
    },
    /// `/init` could not prepare the guest.
    #[error("the guest's init: {text}")]
    Fault {
        /// What it says.
        text: String,
    },
}

/// What a boot is made of.
#[derive(Debug, Clone)]
pub(super) struct Hardware {
    pub(super) qemu: String,
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    pub(super) console: PathBuf,
    pub(super) clock: GuestClock,
    /// `kvm` or `tcg`.
    pub(super) accel: &'static str,
    /// MiB.
    pub(super) memory: u32,
    pub(super) append: String,
    /// `root` or `child`.
    pub(super) cgroup: &'static str,
    pub(super) settle_seconds: u32,
    pub(super) limit: Duration,
}

impl Hardware {
    /// The command line of qemu, without the program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let clock = self.clock.rows().word();
        let append = format!(
            "console=ttyS0 panic=-1 rdinit=/init {} -- guest --cgroup {} --settle {} --clock {clock}",
            self.append, self.cgroup, self.settle_seconds
        );
        let path = |path: &Path| path.display().to_string();
        let mut arguments: Vec<String> = [
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-machine",
            &format!("q35,accel={}", self.accel),
            "-cpu",
            "max",
            "-smp",
            "1",
            "-m",
            &self.memory.to_string(),
            "-kernel",
            &path(&self.kernel),
            "-initrd",
            &path(&self.initramfs),
            "-append",
            &append,
            // A comma in a path would end the option; qemu reads two as one.
            "-chardev",
            &format!(
                "file,id=console,path={}",
                path(&self.console).replace(',', ",,")
            ),
            "-serial",
            "chardev:console",
            "-chardev",
            "stdio,id=port,signal=off",
            "-serial",
            "chardev:port",
        ]
        .map(str::to_owned)
        .to_vec();
        if self.clock == GuestClock::Instructions {
            arguments.extend(["-icount", "shift=0,sleep=off"].map(str::to_owned));
        }
        arguments
    }
}

/// A guest that is ready.
#[derive(Debug)]
pub(super) struct Machine {
    child: Child,
    input: ChildStdin,
    reports: Receiver<Report>,
    console: PathBuf,
    clock: GuestClock,
    /// Path here to path in the guest.
    places: BTreeMap<PathBuf, String>,
    /// Who the guest is.
    pub(super) identity: BootIdentity,
    /// From the start of qemu until it was ready.
    pub(super) boot_time: Duration,
}

impl Machine {
    /// Boots and waits until the guest is ready.
    ///
    /// # Errors
    ///
    /// When qemu cannot be started, or the guest panics, hangs, is late or cannot go on.
    pub(super) fn boot(
        hardware: &Hardware,
        places: BTreeMap<PathBuf, String>,
    ) -> Result<Self, BootError> {
        // An older console would be read as this one's.
        fs::write(&hardware.console, "").map_err(|source| BootError::Console {
            path: hardware.console.display().to_string(),
            source,
        })?;
        let mut command = Command::new(&hardware.qemu);
        command
            .args(hardware.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        die_with_parent(&mut command);
        let begun = Instant::now();
        let start = |source| BootError::Start {
            program: hardware.qemu.clone(),
            source,
        };
        let mut child = command.spawn().map_err(start)?;
        let (sender, reports) = sync_channel(64);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in whole_lines(output).map_while(Result::ok) {
                    if let Some(report) = Report::read(&line)
                        && sender.send(report).is_err()
                    {
                        return;
                    }
                }
            });
        }
        let input = child
            .stdin
            .take()
            .ok_or_else(|| start(io::Error::from(io::ErrorKind::BrokenPipe)))?;
        let mut machine = Self {
            child,
            input,
            reports,
            console: hardware.console.clone(),
            clock: hardware.clock,
            places,
            identity: BootIdentity::default(),
            boot_time: Duration::ZERO,
        };
        machine.identity = machine.ready(begun, hardware.limit)?;
        machine.boot_time = begun.elapsed();
        Ok(machine)
    }

    fn ready(&mut self, begun: Instant, limit: Duration) -> Result<BootIdentity, BootError> {
        let silence = SILENCE.min(limit / 2);
        let (mut length, mut heard) = (0, Instant::now());
        loop {
            match self.reports.recv_timeout(LOOK) {
                Ok(Report::Ready(text)) => {
                    return serde_json::from_str(&text).map_err(|error| BootError::Fault {
                        text: format!("its identity is not readable: {error}"),
                    });
                }
                Ok(Report::Fault(text)) => {
                    return Err(BootError::Fault {
                        text: printable(&text, 300),
                    });
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BootError::Gone { cause: self.gone() });
                }
            }
            let now = fs::metadata(&self.console).map_or(0, |data| data.len());
            if now != length {
                (length, heard) = (now, Instant::now());
            }
            let console = || self.console.display().to_string();
            if begun.elapsed() >= limit {
                return Err(BootError::Late {
                    limit: limit.as_secs(),
                    last: self.last_line(),
                    console: console(),
                });
            }
            if heard.elapsed() >= silence {
                return Err(BootError::Hung {
                    seconds: silence.as_secs(),
                    last: self.last_line(),
                    console: console(),
                });
            }
        }
    }

    /// Says how qemu ended, or what the kernel's last words are.
    fn gone(&mut self) -> String {
        // Its output is closed, so it ends by itself; the time is for a stopped process.
        let begun = Instant::now();
        let mut status = self.child.try_wait();
        while matches!(status, Ok(None)) && begun.elapsed() < END_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
            status = self.child.try_wait();
        }
        let console = self.console.display();
        if let Some(line) = self.console_lines().find(|line| line.contains(PANIC)) {
            return format!("the guest's kernel panicked: `{line}` (console: {console})");
        }
        let status = match status {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "still running with its output closed".to_owned(),
            Err(error) => error.to_string(),
        };
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = io::Read::read_to_string(&mut errors, &mut said);
        }
        let said = said
            .lines()
            .last()
            .map_or_else(String::new, |line| format!(": {}", printable(line, 300)));
        format!(
            "qemu ended ({status}){said}; the last line of the guest's console is `{}` (console: {console})",
            self.last_line()
        )
    }

    fn console_lines(&self) -> impl Iterator<Item = String> {
        let bytes = fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes)
            .lines()
            .map(|line| printable(line.trim_end(), 200))
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn last_line(&self) -> String {
        self.console_lines()
            .last()
            .unwrap_or_else(|| "nothing".to_owned())
    }

    fn ask(&mut self, request: &Request) -> io::Result<()> {
        self.input
            .write_all(request.line().as_bytes())
            .and_then(|()| self.input.flush())
    }

    /// Powers off and waits for qemu's end; a guest that does not answer is killed.
    pub(super) fn off(mut self) {
        let _ = self.ask(&Request::Off);
        let begun = Instant::now();
        while begun.elapsed() < END_TIMEOUT {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Launcher for Machine {
    fn launch(
        &mut self,
        program: &Program,
        workload: &str,
        implementation: Implementation,
        warmup: u32,
    ) -> Result<Worker<'_>, StreamError> {
        let clock = self.clock.rows().word().to_owned();
        let place = self.places.get(&program.path).cloned().unwrap_or_default();
        let mut words = vec![place];
        words.extend(program.arguments.iter().cloned());
        words.extend(stepped_options(0, warmup));
        if implementation == Implementation::Formal {
            words.extend(["--clock".to_owned(), clock.clone()]);
        }
        let start = Request::Start(Start {
            words,
            variables: vec![(CLOCK_VARIABLE.to_owned(), clock)],
        });
        if self.ask(&start).is_err() {
            return Err(StreamError::Machine {
                program: format!("{workload} ({})", implementation.word()),
                cause: self.gone(),
            });
        }
        let channel = GuestProgram {
            machine: self,
            lines: VecDeque::new(),
            notes: Vec::new(),
            ended: None,
        };
        Worker::new(Box::new(channel), workload, implementation)
    }
}

/// A program that runs in the guest.
#[derive(Debug)]
struct GuestProgram<'a> {
    machine: &'a mut Machine,
    lines: VecDeque<String>,
    notes: Vec<String>,
    ended: Option<Ended>,
}

impl GuestProgram<'_> {
    /// Takes the next report; `false` when none came in time.
    fn hear(&mut self, limit: Duration) -> Result<bool, Lost> {
        match self.machine.reports.recv_timeout(limit) {
            Ok(Report::Line(line)) => self.lines.push_back(line),
            Ok(Report::Note(line)) => self.notes.push(line),
            Ok(Report::Ended(code, status)) => self.ended = Some(Ended { status, code }),
            Ok(Report::Ready(_) | Report::Fault(_)) => {}
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => return Err(Lost::Machine(self.machine.gone())),
        }
        Ok(true)
    }
}

impl Channel for GuestProgram<'_> {
    fn line(&mut self, limit: Duration) -> Result<String, Lost> {
        let begun = Instant::now();
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(line);
            }
            if self.ended.is_some() {
                return Err(Lost::Closed);
            }
            if !self.hear(limit.saturating_sub(begun.elapsed()))? {
                return Err(Lost::Late);
            }
        }
    }

    fn send(&mut self, byte: u8) -> io::Result<()> {
        self.machine.ask(&Request::Byte(byte))
    }

    fn close(&mut self) {
        let _ = self.machine.ask(&Request::Close);
    }

    fn wait(&mut self, limit: Duration) -> Option<Ended> {
        let begun = Instant::now();
        while self.ended.is_none() {
            if !matches!(self.hear(limit.saturating_sub(begun.elapsed())), Ok(true)) {
                return None;
            }
        }
        self.ended.clone()
    }

    fn messages(&mut self) -> Vec<String> {
        // What the program wrote before its last line is on the way in the same port.
        std::mem::take(&mut self.notes)
    }
}

impl Drop for GuestProgram<'_> {
    fn drop(&mut self) {
        self.close();
        if self.ended.is_none() && self.wait(END_TIMEOUT).is_none() {
            let _ = self.machine.ask(&Request::Kill);
            let _ = self.wait(END_TIMEOUT);
        }
    }
}
