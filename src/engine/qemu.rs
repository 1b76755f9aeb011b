//! The engine of real kernels in qemu: one boot per point, unattended.
//!
//! A boot that never came up is tried once more, and so is a guest that was lost before
//! its first row; one that gave rows is not: its point is redone as the next attempt when
//! `run` is called again, as on any machine.

mod init;
mod initramfs;
mod kernel;
mod machine;
mod message;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

pub use init::{InitOptions, run as init};
pub use initramfs::InitramfsError;
pub use kernel::KernelError;
pub use machine::BootError;

use self::initramfs::Initramfs;
use self::machine::{Hardware, Machine};
use super::point::Run;
use super::run::{
    Programs, Progress, RunError, RunReport, Support, attempts, next_point, open_journal, programs,
    same_kernel, wanted_kernel,
};
use super::stream::StreamError;
use crate::edge::case_folder::CaseFolder;
use crate::edge::clock::now_seconds;
use crate::input::evidence::{PLAN_FILE, fold, with_plan};
use crate::model::case::{Accel, GuestClock, QemuEngine};
use crate::model::journal::RecordKind;
use crate::model::plan::{PlannedPoint, Role};
use crate::stats::selection::Floors;

/// What a boot leaves to do is done by then, in seconds of the guest: free where idle
/// time is skipped, and real time where it is not.
const SETTLE_INSTRUCTIONS: u32 = 20;
const SETTLE_WALL: u32 = 3;
/// A kernel that runs under KVM is up in two seconds; one that cannot does not come at all.
const PROBE: Duration = Duration::from_secs(8);

/// Why a guest could not be made.
#[derive(Debug, Error)]
pub enum QemuError {
    /// A kernel image.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The first file system.
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    /// The archive cannot be written.
    #[error("{path}: cannot write the guest's files: {source}")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A point's guest did not come up, twice.
    #[error("{point}: {source}; tried twice, no row was measured; mend it and run again")]
    Boot {
        /// Label of the point.
        point: String,
        /// What happened the second time.
        source: BootError,
    },
    /// KVM was asked for.
    #[error(
        "engine.qemu.accel is \"kvm\", but no kernel came up under it: {source}; set it to \"auto\" or \"tcg\""
    )]
    Kvm {
        /// What happened.
        source: BootError,
    },
}

/// Settings of a run that are not evidence.
#[derive(Debug, Clone)]
pub struct GuestOptions {
    /// This executable: the guest's init and formal worker.
    pub own: PathBuf,
    /// The engine's section of the case.
    pub engine: QemuEngine,
    /// Whether workers run in a child memory cgroup.
    pub child_cgroup: bool,
    /// Longest time for one point, without its boot.
    pub point_time: Duration,
    /// Stop after this many points.
    pub most_points: usize,
}

/// Measures the next points of the plan, each in a boot of its own; `plan` is written as
/// `plan.json` when there is none yet, once kernels and programs are there.
///
/// # Errors
///
/// When a kernel, a program or qemu cannot be had, a guest does not come up or runs
/// another kernel, a program fails, or a record does not reach the disk. Rows measured
/// before stay.
pub fn run(
    folder: &CaseFolder,
    plan: &str,
    options: &GuestOptions,
    progress: &mut dyn Progress,
) -> Result<RunReport, RunError> {
    let mut report = RunReport::default();
    let mut guests: Option<Guests> = None;
    let mut lost_once = false;
    loop {
        let mut files = folder.read()?;
        let planned = with_plan(&mut files, plan);
        let (evidence, end) = fold(&files)?;
        if report.torn.is_empty() {
            report.torn.clone_from(&end.torn);
        }
        let next = next_point(&evidence).cloned();
        report.next = next
            .as_ref()
            .map(|point| (point.label.clone(), wanted_kernel(&evidence.plan, point)));
        let Some(point) = next.filter(|_| report.measured.len() < options.most_points) else {
            return Ok(report);
        };
        if guests.is_none() {
            let programs = programs(
                &evidence.plan,
                &options.own,
                &folder.path().join("build"),
                Support::Elsewhere,
            )?;
            guests = Some(Guests::prepare(folder, options, programs, progress)?);
        }
        let Some(guests) = &guests else {
            return Ok(report);
        };
        let mut machine = guests.boot(&point, progress)?;
        same_kernel(&evidence.plan, &point, &machine.identity)?;
        if !planned {
            folder.create(PLAN_FILE, plan.as_bytes())?;
        }
        let mut run = Run {
            plan: evidence.plan.clone(),
            floors: Floors::of(&evidence),
            identity: machine.identity.clone(),
            point_time: options.point_time,
            programs: guests.programs.clone(),
            journal: open_journal(folder, &end, &machine.identity)?,
            rows: 0,
        };
        let attempt = attempts(&evidence, &point.label) + 1;
        match run.point(&mut machine, &point, attempt, progress) {
            Ok(measured) => {
                report
                    .measured
                    .push((point.label.clone(), attempt, measured.ended_because));
            }
            // A guest that was lost before any row is no evidence against anything.
            Err(RunError::Stream { source, .. })
                if run.rows == 0 && !lost_once && is_lost(&source) =>
            {
                lost_once = true;
                progress.say(&format!("{}: {source}; trying once more", point.label));
                continue;
            }
            Err(error) => return Err(error),
        }
        let close = [run.rows.to_string(), now_seconds().to_string()];
        run.journal.append(RecordKind::BootClose, &close)?;
        machine.off();
    }
}

const fn is_lost(error: &StreamError) -> bool {
    matches!(
        error,
        StreamError::Machine { .. } | StreamError::Silent { .. }
    )
}

/// What every boot of a run shares.
struct Guests {
    programs: Programs,
    places: BTreeMap<PathBuf, String>,
    images: BTreeMap<Role, PathBuf>,
    hardware: Hardware,
}

impl Guests {
    fn prepare(
        folder: &CaseFolder,
        options: &GuestOptions,
        programs: Programs,
        progress: &mut dyn Progress,
    ) -> Result<Self, QemuError> {
        let build = folder.path().join("build");
        let engine = &options.engine;
        let mut images = BTreeMap::new();
        for (role, path) in &engine.kernels {
            let path = folder.path().join(path);
            images.insert(*role, kernel::image(&path, role.word(), &build)?);
        }
        let mut archive = Initramfs::new();
        let mut places = BTreeMap::new();
        archive.add_program(&options.own, "/init")?;
        places.insert(options.own.clone(), "/init".to_owned());
        for (_, _, program) in &programs {
            if places.contains_key(&program.path) {
                continue;
            }
            let place = format!("/program-{}", places.len());
            archive.add_program(&program.path, &place)?;
            places.insert(program.path.clone(), place);
        }
        let initramfs = build.join("initramfs.cpio");
        let written =
            fs::create_dir_all(&build).and_then(|()| fs::write(&initramfs, archive.archive()));
        written.map_err(|source| QemuError::Write {
            path: initramfs.display().to_string(),
            source,
        })?;
        let mut guests = Self {
            programs,
            places,
            images,
            hardware: Hardware {
                qemu: engine.program.clone(),
                kernel: PathBuf::new(),
                initramfs,
                console: build.join("console.log"),
                clock: engine.clock,
                accel: "tcg",
                memory: engine.memory,
                append: engine.append.clone(),
                cgroup: if options.child_cgroup {
                    "child"
                } else {
                    "root"
                },
                settle_seconds: match engine.clock {
                    GuestClock::Instructions => SETTLE_INSTRUCTIONS,
                    GuestClock::Wall => SETTLE_WALL,
                },
                limit: Duration::from_secs(u64::from(engine.boot_seconds)),
            },
        };
        if engine.accel == Accel::Kvm
            || (engine.accel == Accel::Auto && engine.clock == GuestClock::Wall)
        {
            guests.probe_kvm(engine.accel, progress)?;
        }
        Ok(guests)
    }

    /// Boots the parent's kernel under KVM: that /dev/kvm opens proves nothing.
    fn probe_kvm(&mut self, accel: Accel, progress: &mut dyn Progress) -> Result<(), QemuError> {
        let hardware = Hardware {
            kernel: self.image(Role::Parent),
            accel: "kvm",
            settle_seconds: 0,
            limit: PROBE,
            ..self.hardware.clone()
        };
        match Machine::boot(&hardware, self.places.clone()) {
            Ok(machine) => {
                machine.off();
                self.hardware.accel = "kvm";
                Ok(())
            }
            Err(source) if accel == Accel::Kvm => Err(QemuError::Kvm { source }),
            Err(error) => {
                progress.say(&format!(
                    "no KVM: {error}; the kernels run emulated, and wall time there is that of an emulator"
                ));
                Ok(())
            }
        }
    }

    fn image(&self, role: Role) -> PathBuf {
        self.images.get(&role).cloned().unwrap_or_default()
    }

    /// Boots the kernel of a point; a boot that does not come up is tried once more.
    fn boot(
        &self,
        point: &PlannedPoint,
        progress: &mut dyn Progress,
    ) -> Result<Machine, QemuError> {
        let hardware = Hardware {
            kernel: self.image(point.role),
            console: console(&self.hardware.console, &point.label),
            ..self.hardware.clone()
        };
        let boot = || Machine::boot(&hardware, self.places.clone());
        let machine = match boot() {
            Ok(machine) => machine,
            Err(first) => {
                progress.say(&format!("{}: {first}; trying once more", point.label));
                boot().map_err(|source| QemuError::Boot {
                    point: point.label.clone(),
                    source,
                })?
            }
        };
        let release = machine.identity.kernel.release.as_deref();
        progress.say(&format!(
            "{}: {} is up after {:.1} s ({})",
            point.label,
            release.unwrap_or("a kernel of unknown release"),
            machine.boot_time.as_secs_f64(),
            self.hardware.accel,
        ));
        Ok(machine)
    }
}

/// The console of a point, beside that of the probe.
fn console(file: &Path, label: &str) -> PathBuf {
    file.with_file_name(format!("console-{label}.log"))
}
