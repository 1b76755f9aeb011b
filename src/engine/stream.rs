//! A worker process, stepped: one row, then one byte to go on.
//!
//! The caller writes its journal between the row and the byte, so that no write
//! overlaps a timed window, also on one CPU.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::program::Program;
use crate::input::rows::{
    Columns, RowsError, StreamHead, read_columns, read_end, read_head, read_row,
};
use crate::model::case::Implementation;
use crate::model::protocol::STEP_QUIT;
use crate::model::row::Row;
use crate::model::shown::printable;

/// Longest wait for one line. The slowest round of the catalogue takes under a
/// second; sixty is a hang, not a slow machine.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);
/// More rounds than any point needs: the stepping ends the stream.
const MOST_ROUNDS: u32 = 100_000;

/// Why a stream ended before its last line.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The program cannot be started.
    #[error("{program}: cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// The program wrote what is not a row.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The program measures something else.
    #[error("{program}: found a stream of {found}, wanted {wanted}")]
    Head {
        /// The program.
        program: String,
        /// What the stream says.
        found: String,
        /// What the plan says.
        wanted: String,
    },
    /// No line came.
    #[error("{program}: no line for {} seconds; it was stopped", LINE_TIMEOUT.as_secs())]
    Silent {
        /// The program.
        program: String,
    },
    /// The program ended before the last line of its stream.
    #[error("{program}: ended before its stream did ({status}){message}")]
    Ended {
        /// The program.
        program: String,
        /// How it ended.
        status: String,
        /// Exit code, when there is one.
        code: Option<i32>,
        /// Last lines it wrote to stderr.
        message: String,
    },
    /// The pipe to the program broke.
    #[error("{program}: cannot be reached: {source}")]
    Pipe {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
}

/// What comes next in a stream.
#[derive(Debug)]
pub enum Next {
    /// A row: its cells as written, and as read.
    Row(String, Row),
    /// The last line.
    End(u64),
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<io::Result<String>>,
    errors: Receiver<String>,
    name: String,
    /// First line of the stream.
    pub head: StreamHead,
    /// Header line of the stream, cells separated by spaces.
    pub header: String,
    columns: Columns,
}

impl Worker {
    /// Starts a program, stepped, and reads the first two lines of its stream.
    ///
    /// # Errors
    ///
    /// When it cannot be started, ends at once, or announces another workload.
    pub fn start(
        program: &Program,
        workload: &str,
        implementation: Implementation,
        cpu: usize,
        warmup: u32,
    ) -> Result<Self, StreamError> {
        let command = Self::command(program, cpu, warmup);
        Self::start_command(command, workload, implementation)
    }

    /// Makes the command of a stepped program, for callers that add to it.
    #[must_use]
    pub fn command(program: &Program, cpu: usize, warmup: u32) -> Command {
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .args(["--cpu", &cpu.to_string()])
            .args(["--warmup", &warmup.to_string()])
            .args(["--rounds", &MOST_ROUNDS.to_string()])
            .arg("--step");
        command
    }

    /// Starts the command of a stepped program and reads the first two lines of its stream.
    ///
    /// # Errors
    ///
    /// As [`Worker::start`].
    pub fn start_command(
        mut command: Command,
        workload: &str,
        implementation: Implementation,
    ) -> Result<Self, StreamError> {
        let name = format!("{workload} ({})", implementation.word());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| StreamError::Start {
                program: command.get_program().display().to_string(),
                source,
            })?;
        // It may hold files that must be closed when the program has them.
        drop(command);
        let (line_sender, lines) = sync_channel(16);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    if line_sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let (error_sender, errors) = sync_channel(1024);
        if let Some(output) = child.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // A full queue drops further chatter; the pipe must not block the worker.
                    let _ = error_sender.try_send(line);
                }
            });
        }
        let mut worker = Self {
            input: child.stdin.take(),
            child,
            lines,
            errors,
            name,
            head: StreamHead {
                workload: String::new(),
                implementation,
                clock: crate::model::protocol::Clock::Ns,
            },
            header: String::new(),
            columns: Columns::default(),
        };
        worker.read_top(workload, implementation)?;
        Ok(worker)
    }

    fn read_top(
        &mut self,
        workload: &str,
        implementation: Implementation,
    ) -> Result<(), StreamError> {
        let first = self.line()?;
        self.head = read_head(&first, &self.name)?;
        if self.head.workload != workload || self.head.implementation != implementation {
            return Err(StreamError::Head {
                program: self.name.clone(),
                found: format!(
                    "{} ({})",
                    self.head.workload,
                    self.head.implementation.word()
                ),
                wanted: self.name.clone(),
            });
        }
        let header = self.line()?;
        self.columns = read_columns(&header, &self.name)?;
        self.header = header.replace('\t', " ");
        Ok(())
    }

    fn line(&mut self) -> Result<String, StreamError> {
        match self.lines.recv_timeout(LINE_TIMEOUT) {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(source)) => Err(StreamError::Pipe {
                program: self.name.clone(),
                source,
            }),
            Err(RecvTimeoutError::Timeout) => Err(StreamError::Silent {
                program: self.name.clone(),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    fn ended(&mut self) -> StreamError {
        let status = self.child.wait();
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let mut message = String::new();
        // The reader of stderr ends with the process; its last lines may still be on the way.
        while let Ok(line) = self.errors.recv_timeout(Duration::from_millis(200)) {
            if !line.starts_with("note: ") {
                message.push_str(": ");
                message.push_str(&printable(&line, 300));
            }
        }
        StreamError::Ended {
            program: self.name.clone(),
            status: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            code,
            message,
        }
    }

    /// Waits for the next line of the stream.
    ///
    /// # Errors
    ///
    /// When it is not a row, or none comes.
    pub fn receive(&mut self) -> Result<Next, StreamError> {
        let line = self.line()?;
        if let Some(count) = read_end(&line, &self.name)? {
            return Ok(Next::End(count));
        }
        let row = read_row(&line, &self.columns, &self.name)?;
        Ok(Next::Row(line, row))
    }

    /// Lets the worker do its next round, or asks it to end the stream.
    ///
    /// # Errors
    ///
    /// When the worker is gone.
    pub fn step(&mut self, go_on: bool) -> Result<(), StreamError> {
        let byte = if go_on { b'\n' } else { STEP_QUIT };
        let Some(input) = self.input.as_mut() else {
            return Ok(());
        };
        let sent = input.write_all(&[byte]).and_then(|()| input.flush());
        match sent {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.ended()),
            Err(source) => Err(StreamError::Pipe {
                program: self.name.clone(),
                source,
            }),
        }
    }

    /// Waits until a worker whose stream has ended is gone.
    ///
    /// # Errors
    ///
    /// When it stays, or ends as a failed one.
    pub fn finish(mut self) -> Result<(), StreamError> {
        drop(self.input.take());
        let begun = Instant::now();
        while begun.elapsed() < LINE_TIMEOUT {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Ok(Some(_)) | Err(_) => return Err(self.ended()),
            }
        }
        Err(StreamError::Silent {
            program: self.name.clone(),
        })
    }

    /// Returns what the worker said it applied: the rest of each `note: ` line.
    pub fn notes(&mut self) -> Vec<String> {
        self.errors
            .try_iter()
            .filter_map(|line| line.strip_prefix("note: ").map(|note| printable(note, 200)))
            .collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that still runs would disturb the next one.
        drop(self.input.take());
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
