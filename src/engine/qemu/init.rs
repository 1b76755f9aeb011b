//! The guest's `/init`: mounts, places itself, settles, says who it is, then starts
//! programs one at a time as it is asked to.
//!
//! It runs as process 1 of the guest only. Its input and output are the second serial
//! port; the first is the console. It reads no clock but to wait, and counts nothing.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustix::time::{ClockId, clock_gettime};

use super::message::{Report, Request, Start};
use crate::edge::host::HostReader;
use crate::engine::stream::whole_lines;

/// The second serial port.
const PORT: &str = "/dev/ttyS1";
/// Each round begins at a multiple of this, ns of the guest's clock: a tick of 100 to 1000
/// a second then falls into every round at the same place.
const GRID_NS: i64 = 100_000_000;
/// After the first row of a program: what its start left behind (a worker's page tables,
/// deferred frees) is done by then.
const AFTER_FIRST_ROW: Duration = Duration::from_secs(2);

/// How the guest is to be before it says it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitOptions {
    /// Whether programs run in a child memory cgroup, not in the root.
    pub child_cgroup: bool,
    /// Seconds to wait before the identity is read.
    pub settle_seconds: u32,
    /// Whether rounds begin on the grid: where waiting costs nothing.
    pub on_grid: bool,
}

/// Runs as process 1 until asked to power off; returns only to say why it cannot.
///
/// # Errors
///
/// When the serial port cannot be had; other faults are told through it.
pub fn run(options: &InitOptions) -> io::Result<()> {
    mount_all(&[("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")])?;
    let port = raw_port()?;
    let mut output = port.try_clone()?;
    if let Err(fault) = prepare(options) {
        say(&mut output, &Report::Fault(fault.to_string()))?;
        return power_off();
    }
    let identity = HostReader::new(Path::new("/")).read(0);
    let identity = serde_json::to_string(&identity).unwrap_or_default();
    say(&mut output, &Report::Ready(identity))?;
    let (sender, events) = channel();
    listen(port, sender.clone());
    Guest {
        output,
        sender,
        on_grid: options.on_grid,
        running: None,
    }
    .serve(&events)
}

fn mount_all(what: &[(&str, &str)]) -> io::Result<()> {
    for (kind, place) in what {
        fs::create_dir_all(place)?;
        match mount(*kind, *place, *kind, MountFlags::empty(), None) {
            // A kernel may mount devtmpfs by itself.
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(error) => {
                return Err(io::Error::other(format!(
                    "{kind} cannot be mounted on {place}: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// A serial port that changes no byte and echoes none.
fn raw_port() -> io::Result<fs::File> {
    let port = fs::OpenOptions::new().read(true).write(true).open(PORT)?;
    let mut settings = tcgetattr(&port)?;
    settings.make_raw();
    tcsetattr(&port, OptionalActions::Now, &settings)?;
    Ok(port)
}

fn prepare(options: &InitOptions) -> io::Result<()> {
    mount_all(&[("tmpfs", "/tmp"), ("tmpfs", "/dev/shm")])?;
    // The preemption mode in force is read there; a kernel without it leaves that unknown.
    let _ = mount_all(&[("debugfs", "/sys/kernel/debug")]);
    let cgroup = mount_all(&[("cgroup2", "/sys/fs/cgroup")]);
    if options.child_cgroup {
        let child = Path::new("/sys/fs/cgroup/work");
        cgroup
            .and_then(|()| fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory"))
            .and_then(|()| fs::create_dir_all(child))
            .and_then(|()| fs::write(child.join("cgroup.procs"), "0"))
            .map_err(|error| {
                io::Error::other(format!(
                    "no child memory cgroup on this kernel: {error}; it needs CONFIG_MEMCG, or set machine.cgroup = \"root\""
                ))
            })?;
    }
    thread::sleep(Duration::from_secs(u64::from(options.settle_seconds)));
    Ok(())
}

fn say(output: &mut fs::File, report: &Report) -> io::Result<()> {
    output.write_all(report.line().as_bytes())
}

fn power_off() -> io::Result<()> {
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff)?;
    Ok(())
}

/// What process 1 waits for.
enum Event {
    Request(Request),
    Line(String),
    Note(String),
    /// One of the program's two outputs is closed.
    Closed,
}

fn listen(port: fs::File, events: Sender<Event>) {
    thread::spawn(move || {
        for line in whole_lines(port).map_while(Result::ok) {
            let Some(request) = Request::read(&line) else {
                continue;
            };
            if events.send(Event::Request(request)).is_err() {
                return;
            }
        }
    });
}

fn relay(
    lines: impl Iterator<Item = io::Result<String>> + Send + 'static,
    events: Sender<Event>,
    wrap: fn(String) -> Event,
) {
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if events.send(wrap(line)).is_err() {
                return;
            }
        }
        let _ = events.send(Event::Closed);
    });
}

struct Running {
    child: Child,
    input: Option<ChildStdin>,
    /// Outputs that are not closed yet.
    open: u8,
    /// Bytes it was sent.
    bytes: u64,
}

struct Guest {
    output: fs::File,
    sender: Sender<Event>,
    on_grid: bool,
    running: Option<Running>,
}

impl Guest {
    fn serve(&mut self, events: &Receiver<Event>) -> io::Result<()> {
        while let Ok(event) = events.recv() {
            match event {
                Event::Request(Request::Off) => return power_off(),
                Event::Request(Request::Start(start)) => self.start(&start)?,
                Event::Request(Request::Byte(byte)) => self.step(byte),
                Event::Request(Request::Close) => {
                    if let Some(running) = &mut self.running {
                        drop(running.input.take());
                    }
                }
                Event::Request(Request::Kill) => {
                    if let Some(running) = &mut self.running {
                        let _ = running.child.kill();
                    }
                }
                Event::Line(line) => say(&mut self.output, &Report::Line(line))?,
                Event::Note(line) => say(&mut self.output, &Report::Note(line))?,
                Event::Closed => self.closed()?,
            }
        }
        Ok(())
    }

    fn start(&mut self, start: &Start) -> io::Result<()> {
        let mut words = start.words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command
            .args(words)
            .envs(start.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let status = format!("cannot be started: {error}");
                return say(&mut self.output, &Report::Ended(None, status));
            }
        };
        if let Some(output) = child.stdout.take() {
            relay(whole_lines(output), self.sender.clone(), Event::Line);
        }
        if let Some(output) = child.stderr.take() {
            relay(
                BufReader::new(output).lines(),
                self.sender.clone(),
                Event::Note,
            );
        }
        self.running = Some(Running {
            input: child.stdin.take(),
            child,
            open: 2,
            bytes: 0,
        });
        Ok(())
    }

    /// Lets the program do its next round, at the guest's own time.
    fn step(&mut self, byte: u8) {
        let Some(running) = &mut self.running else {
            return;
        };
        if self.on_grid {
            if running.bytes == 0 {
                thread::sleep(AFTER_FIRST_ROW);
            }
            thread::sleep(until_grid());
        }
        running.bytes += 1;
        if let Some(input) = &mut running.input {
            // A program that is gone says so by closing its outputs.
            let _ = input.write_all(&[byte]).and_then(|()| input.flush());
        }
    }

    fn closed(&mut self) -> io::Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        running.open -= 1;
        if running.open > 0 {
            return Ok(());
        }
        let status = running.child.wait();
        self.running = None;
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let words = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        say(&mut self.output, &Report::Ended(code, words))
    }
}

/// Returns the time until the next multiple of [`GRID_NS`].
fn until_grid() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let into = (now.tv_sec % 10 * 1_000_000_000 + now.tv_nsec) % GRID_NS;
    Duration::from_nanos(u64::try_from(GRID_NS - into).unwrap_or(0))
}
