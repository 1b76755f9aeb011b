//! One reading per setting. A value is what the kernel says is so now; what was asked
//! for (a command line, a configuration) proves nothing and is at most a hint.

use std::collections::BTreeMap;

use super::{HostReader, Missing, parse};
use crate::model::identity::Reading;
use crate::model::redact::Redactor;

const PREEMPT_FILE: &str = "sys/kernel/debug/sched/preempt";
const CPUINFO: &str = "proc/cpuinfo";
/// Inode of the first cgroup namespace (`PROC_CGROUP_INIT_INO`, include/linux/proc_ns.h).
const FIRST_CGROUP_NAMESPACE: &str = "cgroup:[4026531835]";

impl HostReader {
    pub(super) fn settings(&self, cpu: usize, redactor: &Redactor) -> BTreeMap<String, Reading> {
        [
            (
                "aslr",
                self.text("proc/sys/kernel/randomize_va_space").into(),
            ),
            ("cgroup", self.memory_cgroup()),
            (
                "clocksource",
                self.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
                    .into(),
            ),
            (
                "cmdline",
                self.text("proc/cmdline")
                    .map(|text| redactor.command_line(&text))
                    .into(),
            ),
            ("environment", self.environment()),
            ("epp", self.cpufreq(cpu, "energy_performance_preference")),
            ("governor", self.cpufreq(cpu, "scaling_governor")),
            ("isolation", self.isolation()),
            ("machine", self.machine_size().into()),
            ("microcode", self.cpuinfo_field("microcode").into()),
            ("mitigations", self.mitigations()),
            ("preempt", self.preempt()),
            ("smt", self.smt()),
            ("taint", self.text("proc/sys/kernel/tainted").into()),
            (
                "thp",
                self.marked_word("sys/kernel/mm/transparent_hugepage/enabled", '[', ']')
                    .into(),
            ),
            ("turbo", self.turbo(cpu)),
        ]
        .into_iter()
        .map(|(key, reading)| (key.to_owned(), reading))
        .collect()
    }

    fn marked_word(&self, path: &str, open: char, close: char) -> Result<String, Missing> {
        let text = self.text(path)?;
        match parse::marked(&text, open, close) {
            Some(word) => Ok(word.to_owned()),
            None => Err(odd(path, &text)),
        }
    }

    fn cpuinfo_field(&self, key: &str) -> Result<String, Missing> {
        let text = self.text(CPUINFO)?;
        match parse::field(&text, key) {
            Some(value) => Ok(value.to_owned()),
            None => Err(Missing::Absent {
                path: format!("{CPUINFO}: {key}"),
            }),
        }
    }

    fn cpufreq(&self, cpu: usize, file: &str) -> Reading {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        self.text(&format!("{folder}/{file}"))
            .map_err(|missing| self.without_cpufreq(&folder, &missing))
            .map_or_else(Reading::Unknown, Reading::Known)
    }

    fn without_cpufreq(&self, folder: &str, missing: &Missing) -> String {
        if self.exists(folder) {
            missing.to_string()
        } else {
            format!("no cpufreq on this machine: {missing}")
        }
    }

    fn turbo(&self, cpu: usize) -> Reading {
        const NO_TURBO: &str = "sys/devices/system/cpu/intel_pstate/no_turbo";
        const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";
        let read = match self.text(NO_TURBO) {
            Ok(text) => switch(NO_TURBO, &text, "0"),
            Err(Missing::Absent { .. }) => {
                self.text(BOOST).and_then(|text| switch(BOOST, &text, "1"))
            }
            Err(missing) => Err(missing),
        };
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        read.map_err(|missing| self.without_cpufreq(&folder, &missing))
            .map_or_else(Reading::Unknown, Reading::Known)
    }

    fn smt(&self) -> Reading {
        const ACTIVE: &str = "sys/devices/system/cpu/smt/active";
        match self.text(ACTIVE) {
            Ok(text) => switch(ACTIVE, &text, "1").into(),
            // `control` is a wish where it says `on`; the other words are states.
            Err(missing) => match self.text("sys/devices/system/cpu/smt/control").as_deref() {
                Ok("off" | "forceoff") => Reading::known("off"),
                Ok("notsupported") => Reading::known("not supported"),
                Ok(word) => Reading::unknown(format!("{missing}; control says {word}")),
                Err(_) => Reading::unknown(missing.to_string()),
            },
        }
    }

    /// The preemption model in force, not the one compiled in or asked for.
    fn preempt(&self) -> Reading {
        let kernel = self.kernel();
        let version = kernel.version.unwrap_or_default();
        let flag = version
            .split_whitespace()
            .find(|word| word.starts_with("PREEMPT"));
        let missing = match self.marked_word(PREEMPT_FILE, '(', ')') {
            // Since 6.13 a realtime kernel can switch its model too.
            Ok(word) if flag == Some("PREEMPT_RT") => return Reading::known(format!("rt {word}")),
            Ok(word) => return Reading::known(word),
            Err(missing) => missing,
        };
        if version.is_empty() {
            return Reading::unknown(format!("{missing}, and no version in /proc/version"));
        }
        // The flags are set in init/Makefile; the last that applies is printed.
        match flag {
            Some("PREEMPT_RT") => Reading::known("rt"),
            Some("PREEMPT") if is_before_lazy(kernel.release.as_deref()) => Reading::known("full"),
            Some("PREEMPT") => Reading::unknown(
                "PREEMPT, which since Linux 6.13 is either full or lazy (PREEMPT_BUILD)",
            ),
            Some(flag) => {
                let hint = self
                    .preempt_on_command_line()
                    .map_or_else(String::new, |word| {
                        format!("; the command line asks for {word}, which does not prove it")
                    });
                Reading::unknown(format!(
                    "{flag}; {missing}, so the running mode is not known{hint}"
                ))
            }
            None => Reading::unknown("no PREEMPT in the version: voluntary or none"),
        }
    }

    fn preempt_on_command_line(&self) -> Option<String> {
        self.text("proc/cmdline")
            .ok()?
            .split_whitespace()
            .rev()
            .find(|word| word.starts_with("preempt="))
            .map(str::to_owned)
    }

    fn mitigations(&self) -> Reading {
        const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
        let Ok(entries) = std::fs::read_dir(self.root.join(FOLDER)) else {
            return Reading::unknown(format!("/{FOLDER} absent or not readable"));
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        let texts: Result<Vec<String>, Missing> = names
            .iter()
            .map(|name| {
                Ok(format!(
                    "{name}={}",
                    self.text(&format!("{FOLDER}/{name}"))?
                ))
            })
            .collect();
        match texts {
            Ok(texts) if texts.is_empty() => Reading::unknown(format!("/{FOLDER} empty")),
            Ok(texts) => Reading::known(texts.join("; ")),
            Err(missing) => Reading::unknown(missing.to_string()),
        }
    }

    fn isolation(&self) -> Reading {
        let list = |file: &str| match self.text(&format!("sys/devices/system/cpu/{file}")) {
            // Kernels print a null pointer where no list was given.
            Ok(text) if text == "(null)" => Ok("none".to_owned()),
            Ok(text) => Ok(text),
            Err(Missing::Empty { .. }) => Ok("none".to_owned()),
            Err(missing) => Err(missing),
        };
        match (list("isolated"), list("nohz_full")) {
            (Ok(isolated), Ok(nohz_full)) => {
                Reading::known(format!("isolated={isolated}; nohz_full={nohz_full}"))
            }
            // The file exists only with CONFIG_NO_HZ_FULL.
            (Ok(isolated), Err(Missing::Absent { .. })) => {
                Reading::known(format!("isolated={isolated}; nohz_full not exposed"))
            }
            (Err(missing), _) | (_, Err(missing)) => Reading::unknown(missing.to_string()),
        }
    }

    fn machine_size(&self) -> Result<String, Missing> {
        const ONLINE: &str = "sys/devices/system/cpu/online";
        const MEMINFO: &str = "proc/meminfo";
        let model = self.cpuinfo_field("model name")?;
        let online = self.text(ONLINE)?;
        let cpus = parse::cpu_count(&online).ok_or_else(|| odd(ONLINE, &online))?;
        let meminfo = self.text(MEMINFO)?;
        let memory_gib = parse::memory_gib(&meminfo).ok_or_else(|| Missing::Absent {
            path: format!("{MEMINFO}: MemTotal"),
        })?;
        Ok(format!("{model}; {cpus} CPUs online; {memory_gib} GiB"))
    }

    /// Bare metal, virtual or emulated, told by what the CPU says of itself.
    fn environment(&self) -> Reading {
        let flags = match self.cpuinfo_field("flags") {
            Ok(flags) => flags,
            Err(missing) => {
                return Reading::unknown(format!("{missing}: only x86 says whether it is virtual"));
            }
        };
        let model = self.cpuinfo_field("model name").unwrap_or_default();
        if model.contains("QEMU TCG") {
            return Reading::known("emulated");
        }
        let is_qemu = model.contains("QEMU")
            || self
                .text("sys/class/dmi/id/sys_vendor")
                .is_ok_and(|vendor| vendor == "QEMU");
        let has_kvm_clock = self
            .text("sys/devices/system/clocksource/clocksource0/available_clocksource")
            .is_ok_and(|names| names.split_whitespace().any(|name| name == "kvm-clock"));
        let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor")
            || self.text("sys/hypervisor/type").is_ok();
        match (is_qemu, has_kvm_clock, is_virtual) {
            (_, true, _) | (false, _, true) => Reading::known("virtual-machine"),
            // QEMU names its CPUs alike under KVM and TCG; only kvm-clock tells them apart.
            (true, false, _) => {
                Reading::unknown("QEMU without kvm-clock: virtual-machine or emulated, not proven")
            }
            (false, false, false) => Reading::known("bare-metal"),
        }
    }

    /// Whether this process is charged to the root memory cgroup or to a child; never which.
    fn memory_cgroup(&self) -> Reading {
        const FILE: &str = "proc/self/cgroup";
        let text = match self.text(FILE) {
            Ok(text) => text,
            Err(missing) => return Reading::unknown(missing.to_string()),
        };
        let lines = || {
            text.lines().filter_map(|line| {
                let mut parts = line.splitn(3, ':');
                Some((parts.next()?, parts.next()?, parts.next()?))
            })
        };
        let is_first_namespace = std::fs::read_link(self.root.join("proc/self/ns/cgroup"))
            // A kernel without cgroup namespaces has no link and shows true paths.
            .map_or(true, |link| link.as_os_str() == FIRST_CGROUP_NAMESPACE);
        let of_v1 = lines().find(|(_, names, _)| names.split(',').any(|name| name == "memory"));
        if let Some((_, _, path)) = of_v1 {
            return match (path, is_first_namespace) {
                ("/", true) => Reading::known("root (v1)"),
                ("/", false) => {
                    Reading::unknown("the root of a cgroup namespace, which may be a child")
                }
                (path, _) if path.starts_with("/..") => {
                    Reading::unknown("outside the cgroup namespace")
                }
                _ => Reading::known("child (v1)"),
            };
        }
        match lines().find(|(id, names, _)| *id == "0" && names.is_empty()) {
            Some((_, _, path)) => self.memory_cgroup_v2(path, is_first_namespace),
            None => Reading::unknown(format!("no memory controller in /{FILE}")),
        }
    }

    /// In v2 a process is charged to the nearest ancestor that has the memory controller,
    /// so a path below the root is not enough.
    fn memory_cgroup_v2(&self, path: &str, is_first_namespace: bool) -> Reading {
        // Absent from the true root only (CFTYPE_NOT_ON_ROOT, mm/memcontrol.c).
        if self.exists("sys/fs/cgroup/memory.current") {
            return Reading::known("child (v2)");
        }
        let has_memory = |file: &str| {
            let file = format!("sys/fs/cgroup/{file}");
            match self.text(&file) {
                Ok(names) => Ok(names.split_whitespace().any(|name| name == "memory")),
                Err(Missing::Empty { .. }) => Ok(false),
                Err(missing) => Err(missing),
            }
        };
        match (
            has_memory("cgroup.controllers"),
            has_memory("cgroup.subtree_control"),
        ) {
            (Err(missing), _) | (_, Err(missing)) => Reading::unknown(missing.to_string()),
            (Ok(false), _) => Reading::unknown("the memory controller is not on v2"),
            (Ok(true), _) if path.starts_with("/..") => {
                Reading::unknown("outside the cgroup namespace")
            }
            (Ok(true), Ok(true)) if path != "/" => Reading::known("child (v2)"),
            (Ok(true), Ok(_)) if is_first_namespace => Reading::known("root (v2)"),
            (Ok(true), Ok(_)) => {
                Reading::unknown("the root of a cgroup namespace, which may be a child")
            }
        }
    }
}

fn odd(path: &str, found: &str) -> Missing {
    Missing::Odd {
        path: path.to_owned(),
        found: found.to_owned(),
    }
}

/// Reads a file of `0` or `1`, where one of them means on.
fn switch(path: &str, text: &str, on: &str) -> Result<String, Missing> {
    match text {
        "0" | "1" => Ok(if text == on { "on" } else { "off" }.to_owned()),
        other => Err(odd(path, other)),
    }
}

/// Before 6.13 there was no lazy model, and `PREEMPT` meant full.
fn is_before_lazy(release: Option<&str>) -> bool {
    let mut numbers = release
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (6, 13),
        _ => false,
    }
}
