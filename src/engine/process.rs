//! A worker that is a process on this machine.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::program::Program;
use super::stream::{Channel, Ended, Lost, StreamError, Worker, stepped_options, whole_lines};
use crate::model::case::Implementation;

/// Makes the command of a stepped program, for callers that add to it.
#[must_use]
pub fn command(program: &Program, cpu: usize, warmup: u32) -> Command {
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .args(stepped_options(cpu, warmup));
    command
}

/// Starts the command of a stepped program and reads the first two lines of its stream.
///
/// # Errors
///
/// When it cannot be started, ends at once, or announces another workload.
pub fn start(
    command: Command,
    workload: &str,
    implementation: Implementation,
) -> Result<Worker<'static>, StreamError> {
    let name = command.get_program().display().to_string();
    let process = Process::start(command).map_err(|source| StreamError::Start {
        program: name,
        source,
    })?;
    Worker::new(Box::new(process), workload, implementation)
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<io::Result<String>>,
    errors: Receiver<String>,
}

impl Process {
    fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // It may hold files that must be closed when the program has them.
        drop(command);
        let (line_sender, lines) = sync_channel(16);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in whole_lines(output) {
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
        Ok(Self {
            input: child.stdin.take(),
            child,
            lines,
            errors,
        })
    }
}

impl Channel for Process {
    fn line(&mut self, limit: Duration) -> Result<String, Lost> {
        match self.lines.recv_timeout(limit) {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(source)) => Err(Lost::Pipe(source)),
            Err(RecvTimeoutError::Timeout) => Err(Lost::Late),
            Err(RecvTimeoutError::Disconnected) => Err(Lost::Closed),
        }
    }

    fn send(&mut self, byte: u8) -> io::Result<()> {
        match self.input.as_mut() {
            Some(input) => input.write_all(&[byte]).and_then(|()| input.flush()),
            None => Ok(()),
        }
    }

    fn close(&mut self) {
        drop(self.input.take());
    }

    fn wait(&mut self, limit: Duration) -> Option<Ended> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    return Some(Ended {
                        status: status.to_string(),
                        code: status.code(),
                    });
                }
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(error) => {
                    return Some(Ended {
                        status: error.to_string(),
                        code: None,
                    });
                }
            }
        }
        None
    }

    fn messages(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        // The reader of stderr ends with the process; its last lines may still be on the way.
        let patience = match self.child.try_wait() {
            Ok(None) => Duration::ZERO,
            _ => Duration::from_millis(200),
        };
        while let Ok(line) = self.errors.recv_timeout(patience) {
            messages.push(line);
        }
        messages
    }
}

impl Drop for Process {
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
