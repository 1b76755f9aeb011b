//! What this program and the guest's `/init` tell each other, one line each.
//!
//! The line goes over a serial port, so it is text; what a worker wrote is carried as it
//! is. A line that is none of these was not written by our `/init`.

use serde::{Deserialize, Serialize};

/// From the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// The guest is ready: its identity as JSON.
    Ready(String),
    /// `/init` cannot go on.
    Fault(String),
    /// A line of the worker's stdout.
    Line(String),
    /// A line of the worker's stderr.
    Note(String),
    /// The worker ended: exit code, when there is one, and the words for a message.
    Ended(Option<i32>, String),
}

impl Report {
    /// Writes the line, with its end.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Ready(text) => format!("ready {text}\n"),
            Self::Fault(text) => format!("fault {text}\n"),
            Self::Line(text) => format!("line {text}\n"),
            Self::Note(text) => format!("note {text}\n"),
            Self::Ended(Some(code), status) => format!("ended {code} {status}\n"),
            Self::Ended(None, status) => format!("ended - {status}\n"),
        }
    }

    /// Reads a line without its end; `None` when it is none of ours.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (word, text) = line.split_once(' ')?;
        let owned = || text.to_owned();
        match word {
            "ready" => Some(Self::Ready(owned())),
            "fault" => Some(Self::Fault(owned())),
            "line" => Some(Self::Line(owned())),
            "note" => Some(Self::Note(owned())),
            "ended" => {
                let (code, status) = text.split_once(' ')?;
                let code = match code {
                    "-" => None,
                    code => Some(code.parse().ok()?),
                };
                Some(Self::Ended(code, status.to_owned()))
            }
            _ => None,
        }
    }
}

/// A program to start in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Start {
    /// Path in the guest, then the arguments.
    pub(super) words: Vec<String>,
    /// Variables of its environment.
    pub(super) variables: Vec<(String, String)>,
}

/// To the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Start a program; one at a time.
    Start(Start),
    /// Send it one byte.
    Byte(u8),
    /// Close its input.
    Close,
    /// Kill it.
    Kill,
    /// Power off.
    Off,
}

impl Request {
    /// Writes the line, with its end.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Start(start) => {
                format!(
                    "start {}\n",
                    serde_json::to_string(start).unwrap_or_default()
                )
            }
            Self::Byte(byte) => format!("byte {byte}\n"),
            Self::Close => "close -\n".to_owned(),
            Self::Kill => "kill -\n".to_owned(),
            Self::Off => "off -\n".to_owned(),
        }
    }

    /// Reads a line without its end; `None` when it is none of ours.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (word, text) = line.split_once(' ')?;
        match word {
            "start" => serde_json::from_str(text).ok().map(Self::Start),
            "byte" => text.parse().ok().map(Self::Byte),
            "close" => Some(Self::Close),
            "kill" => Some(Self::Kill),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_back(report: &Report) -> Option<Report> {
        Report::read(report.line().strip_suffix('\n')?)
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        for report in [
            Report::Ready(r#"{"kernel":{}}"#.into()),
            Report::Fault("/proc: cannot be mounted".into()),
            Report::Line("measured\t1\t4096".into()),
            Report::Line(String::new()),
            Report::Note("note: sched=fifo1".into()),
            Report::Ended(Some(4), "exit status: 4".into()),
            Report::Ended(None, "signal: 9 (SIGKILL)".into()),
        ] {
            assert_eq!(read_back(&report), Some(report));
        }
        let start = Start {
            words: vec!["/init".into(), "a b".into()],
            variables: vec![("K".into(), "v".into())],
        };
        for request in [
            Request::Start(start),
            Request::Byte(10),
            Request::Close,
            Request::Kill,
            Request::Off,
        ] {
            let line = request.line();
            assert_eq!(
                Request::read(line.strip_suffix('\n').unwrap()),
                Some(request)
            );
        }
    }

    #[test]
    fn other_lines_are_none_of_ours() {
        for line in ["", "ready", "ended x y", "ended 4", "[    0.0] Linux"] {
            assert_eq!(Report::read(line), None, "{line}");
        }
        for line in ["", "off", "byte 256", "start {}", "start x"] {
            assert_eq!(Request::read(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_read_with_a_panic(line in "\\PC*") {
            let _ = Report::read(&line);
            let _ = Request::read(&line);
        }
    }
}
