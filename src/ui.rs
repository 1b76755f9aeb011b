//! What the user sees: data on stdout, everything else on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::run::{Place, Progress};
use crate::model::shown::is_shown;

/// Format of the data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Text for a person.
    #[default]
    Text,
    /// JSON.
    Json,
}

/// Where output goes.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    /// Format of the data.
    pub format: Format,
    /// Whether everything but data and errors is left out.
    pub quiet: bool,
}

/// The first error of stdout. Data is written in many places and decides nothing there.
static OUTPUT_ERROR: OnceLock<std::io::Error> = OnceLock::new();

/// Returns why data did not reach stdout; a reader that is gone is no error.
#[must_use]
pub fn output_error() -> Option<&'static std::io::Error> {
    OUTPUT_ERROR
        .get()
        .filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe)
}

/// Replaces what must not reach a terminal: controls but the line feed and tab.
fn shown(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_shown(c) || matches!(c, '\n' | '\t') {
                c
            } else {
                '?'
            }
        })
        .collect()
}

impl Ui {
    /// Writes data to stdout; what went wrong is kept for [`output_error`].
    pub fn data(&self, text: &str) {
        let mut out = anstream::stdout();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let written = out
            .write_all(shown(text).as_bytes())
            .and_then(|()| out.write_all(end.as_bytes()))
            .and_then(|()| out.flush());
        if let Err(error) = written {
            let _ = OUTPUT_ERROR.set(error);
        }
    }

    /// Writes a JSON value to stdout.
    pub fn json(&self, value: &serde_json::Value) {
        self.data(&serde_json::to_string_pretty(value).unwrap_or_default());
    }

    /// Writes data as text or as JSON, as asked.
    pub fn answer(&self, text: &str, value: &serde_json::Value) {
        match self.format {
            Format::Text => self.data(text),
            Format::Json => self.json(value),
        }
    }

    /// Says something on stderr, unless quiet.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            self.error(text);
        }
    }

    /// Writes an error to stderr.
    pub fn error(&self, text: &str) {
        let mut err = anstream::stderr();
        let _ = writeln!(err, "{}", shown(text).trim_end());
    }
}

/// Progress of a run: a line per point, and a bar on a terminal.
///
/// The bar is drawn only when a row has come and before the next round is asked
/// for, so never while a timed window is open.
pub struct RunProgress<'a> {
    ui: &'a Ui,
    bar: ProgressBar,
    began: Instant,
    rows: usize,
    /// Said once, when the first point begins.
    warnings: Vec<String>,
}

impl<'a> RunProgress<'a> {
    /// Makes the progress of a run; `warnings` are said when its first point begins.
    #[must_use]
    pub fn new(ui: &'a Ui, warnings: Vec<String>) -> Self {
        let bar = ProgressBar::new(100);
        let target = if ui.quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(5)
        };
        bar.set_draw_target(target);
        if let Ok(style) = ProgressStyle::with_template("  {bar:20} {msg}") {
            bar.set_style(style);
        }
        Self {
            ui,
            bar,
            began: Instant::now(),
            rows: 0,
            warnings,
        }
    }
}

/// Returns how this program was called, for commands that a reader may repeat.
#[must_use]
pub fn program() -> String {
    std::env::args_os().next().map_or_else(
        || "regbundle".to_owned(),
        |word| word.to_string_lossy().into_owned(),
    )
}

/// Writes a duration as seconds with one decimal.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

impl Progress for RunProgress<'_> {
    fn say(&mut self, text: &str) {
        self.ui.say(text);
    }

    fn point(&mut self, label: &str, attempt: u32) {
        for warning in self.warnings.drain(..) {
            self.ui.say(&warning);
        }
        self.began = Instant::now();
        self.rows = 0;
        if attempt > 1 {
            self.ui.say(&format!("{label}: attempt {attempt}"));
        }
    }

    fn row(&mut self, place: &Place<'_>, clean: usize, wanted: usize) {
        self.rows += 1;
        let share = place.used.as_millis() * 100 / place.allowed.as_millis().max(1);
        self.bar.set_position(u64::try_from(share).unwrap_or(100));
        self.bar.set_message(format!(
            "{}: {} ({}) {clean}/{wanted} clean rounds, at most {} left",
            place.label,
            place.workload,
            place.implementation.word(),
            seconds(place.allowed.saturating_sub(place.used)),
        ));
    }

    fn end(&mut self, label: &str, reason: &str) {
        self.bar.finish_and_clear();
        let note = match reason {
            "clean" => "enough clean rounds",
            _ => "time used up before enough clean rounds came",
        };
        self.ui.say(&format!(
            "point {label}: {} rows in {}, {note}",
            self.rows,
            seconds(self.began.elapsed())
        ));
    }
}
