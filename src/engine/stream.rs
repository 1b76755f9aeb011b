//! A worker, stepped: one row, then one byte to go on.
//!
//! The caller writes its journal between the row and the byte, so that no write
//! overlaps a timed window, also on one CPU. Where the worker runs, a process here or
//! one in a guest, is its channel's business.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::time::Duration;

use thiserror::Error;

use crate::input::rows::{
    Columns, RowsError, StreamHead, read_columns, read_end, read_head, read_row,
};
use crate::model::case::Implementation;
use crate::model::protocol::STEP_QUIT;
use crate::model::row::Row;
use crate::model::shown::printable;

/// Longest wait for one line. The slowest round of the catalogue takes under a
/// second; sixty is a hang, not a slow machine.
pub(super) const LINE_TIMEOUT: Duration = Duration::from_secs(60);
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
    /// The machine that ran the program is gone.
    #[error("{program}: {cause}")]
    Machine {
        /// The program.
        program: String,
        /// What happened to the machine.
        cause: String,
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

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// For a message, such as `exit status: 4`.
    pub status: String,
    /// Exit code, when there is one.
    pub code: Option<i32>,
}

/// Why no line came.
#[derive(Debug)]
pub enum Lost {
    /// The time is over.
    Late,
    /// The program wrote its last line.
    Closed,
    /// The pipe broke.
    Pipe(io::Error),
    /// The machine the program runs on is gone.
    Machine(String),
}

/// The way to a program: its lines, its messages and the byte that lets it go on.
///
/// Dropping it ends the program.
pub trait Channel: fmt::Debug {
    /// Waits for the next line on stdout.
    ///
    /// # Errors
    ///
    /// When none came in time, or none can come.
    fn line(&mut self, limit: Duration) -> Result<String, Lost>;
    /// Sends one byte.
    ///
    /// # Errors
    ///
    /// When it cannot arrive.
    fn send(&mut self, byte: u8) -> io::Result<()>;
    /// Closes the program's input.
    fn close(&mut self);
    /// Waits for the end of the program; `None` when the time is over.
    fn wait(&mut self, limit: Duration) -> Option<Ended>;
    /// Takes the lines it wrote to stderr since the last call.
    fn messages(&mut self) -> Vec<String>;
}

/// A running worker.
#[derive(Debug)]
pub struct Worker<'a> {
    channel: Box<dyn Channel + 'a>,
    messages: Vec<String>,
    name: String,
    /// First line of the stream.
    pub head: StreamHead,
    /// Header line of the stream, cells separated by spaces.
    pub header: String,
    columns: Columns,
}

/// Reads lines that end in a line feed.
///
/// What a writer left unfinished when it died is no line: a number cut short reads as
/// another number.
pub(super) fn whole_lines(output: impl Read) -> impl Iterator<Item = io::Result<String>> {
    let mut output = BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = String::new();
        match output.read_line(&mut line) {
            Err(error) => Some(Err(error)),
            Ok(_) => {
                let whole = line.strip_suffix('\n')?;
                Some(Ok(whole.strip_suffix('\r').unwrap_or(whole).to_owned()))
            }
        }
    })
}

/// Returns the options of a stepped program, after its own arguments.
#[must_use]
pub fn stepped_options(cpu: usize, warmup: u32) -> Vec<String> {
    [
        "--cpu",
        &cpu.to_string(),
        "--warmup",
        &warmup.to_string(),
        "--rounds",
        &MOST_ROUNDS.to_string(),
        "--step",
    ]
    .map(str::to_owned)
    .to_vec()
}

impl<'a> Worker<'a> {
    /// Reads the first two lines of a program that was started stepped.
    ///
    /// # Errors
    ///
    /// When it ended at once, or announces another workload.
    pub fn new(
        channel: Box<dyn Channel + 'a>,
        workload: &str,
        implementation: Implementation,
    ) -> Result<Self, StreamError> {
        let mut worker = Self {
            channel,
            messages: Vec::new(),
            name: format!("{workload} ({})", implementation.word()),
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
        let program = self.name.clone();
        match self.channel.line(LINE_TIMEOUT) {
            Ok(line) => Ok(line),
            Err(Lost::Pipe(source)) => Err(StreamError::Pipe { program, source }),
            Err(Lost::Late) => Err(StreamError::Silent { program }),
            Err(Lost::Machine(cause)) => Err(StreamError::Machine { program, cause }),
            Err(Lost::Closed) => Err(self.ended()),
        }
    }

    fn ended(&mut self) -> StreamError {
        let program = self.name.clone();
        let Some(ended) = self.channel.wait(LINE_TIMEOUT) else {
            return StreamError::Silent { program };
        };
        self.messages.extend(self.channel.messages());
        let message: String = self
            .messages
            .iter()
            .filter(|line| !line.starts_with("note: "))
            .map(|line| format!(": {}", printable(line, 300)))
            .collect();
        StreamError::Ended {
            program,
            status: ended.status,
            code: ended.code,
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
        let sent = self.channel.send(byte);
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
        self.channel.close();
        match self.channel.wait(LINE_TIMEOUT) {
            Some(ended) if ended.code == Some(0) => Ok(()),
            Some(_) => Err(self.ended()),
            None => Err(StreamError::Silent {
                program: self.name.clone(),
            }),
        }
    }

    /// Returns what the worker said it applied: the rest of each `note: ` line.
    pub fn notes(&mut self) -> Vec<String> {
        self.messages.extend(self.channel.messages());
        self.messages
            .drain(..)
            .filter_map(|line| line.strip_prefix("note: ").map(|note| printable(note, 200)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cut_short_is_no_line() {
        let read = |text: &str| -> Vec<String> {
            whole_lines(text.as_bytes()).map(Result::unwrap).collect()
        };
        assert_eq!(read("a\t1\nb\t2\n"), ["a\t1", "b\t2"]);
        assert_eq!(read("a\t1\nb\t234\r\n\nb\t2"), ["a\t1", "b\t234", ""]);
        assert_eq!(read("b\t2"), [""; 0]);
    }

    #[test]
    fn what_is_no_text_is_an_error_and_not_the_end() {
        let read: Vec<bool> = whole_lines(&b"a\n\xff\nb\n"[..])
            .map(|line| line.is_ok())
            .collect();
        assert_eq!(read, [true, false, true]);
    }
}
