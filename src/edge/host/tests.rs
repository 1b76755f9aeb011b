use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::model::identity::SETTING_KEYS;

const BOOT_ID: &str = "7c9d3a52-1f0e-4b6a-9c58-0d2e4f6a8b1c";

/// A folder that stands for a host, with the files given.
fn host(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn read(files: &[(&str, &str)]) -> BootIdentity {
    HostReader::new(host(files).path()).read(2)
}

fn value(identity: &BootIdentity, key: &str) -> String {
    match identity.setting(key) {
        Reading::Known(value) => value,
        Reading::Unknown(reason) => panic!("{key} is unknown: {reason}"),
    }
}

fn reason(identity: &BootIdentity, key: &str) -> String {
    match identity.setting(key) {
        Reading::Known(value) => panic!("{key} is {value}"),
        Reading::Unknown(reason) => reason,
    }
}

const INTEL: &[(&str, &str)] = &[
    (
        "proc/sys/kernel/random/boot_id",
        "7c9d3a52-1f0e-4b6a-9c58-0d2e4f6a8b1c\n",
    ),
    ("proc/sys/kernel/osrelease", "6.12.41\n"),
    ("proc/sys/kernel/hostname", "lab-nehalem.example.org\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    (
        "proc/version",
        "Linux version 6.12.41 (carol@lab-nehalem) (gcc (GCC) 14.2.1, GNU ld version 2.43) #7 SMP PREEMPT Tue Jun  2 10:00:00 UTC 2026\n",
    ),
    (
        "proc/cmdline",
        "BOOT_IMAGE=(hd0,gpt2)/boot/vmlinuz-6.12.41 root=UUID=11111111-2222-3333-4444-555555555555 ro ip=10.1.2.3::10.1.2.1:255.255.255.0:lab-nehalem isolcpus=2 mitigations=auto\n",
    ),
    (
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6338\nmicrocode\t: 0xd0003f5\nflags\t\t: fpu vme lm\n\nprocessor\t: 1\nmodel name\t: other\n",
    ),
    (
        "proc/meminfo",
        "MemTotal:       65536000 kB\nMemFree:  1 kB\n",
    ),
    ("proc/sys/kernel/tainted", "4096\n"),
    ("proc/sys/kernel/randomize_va_space", "2\n"),
    ("sys/devices/system/cpu/online", "0-15\n"),
    (
        "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
        "performance\n",
    ),
    (
        "sys/devices/system/cpu/cpu2/cpufreq/energy_performance_preference",
        "balance_power\n",
    ),
    (
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "powersave\n",
    ),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
    ("sys/devices/system/cpu/smt/active", "1\n"),
    ("sys/devices/system/cpu/isolated", "2-3\n"),
    ("sys/devices/system/cpu/nohz_full", "(null)\n"),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
    ),
    (
        "sys/devices/system/cpu/vulnerabilities/spectre_v2",
        "Mitigation: Enhanced IBRS\n",
    ),
    (
        "sys/devices/system/cpu/vulnerabilities/l1tf",
        "Not affected\n",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "tsc\n",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/available_clocksource",
        "tsc hpet acpi_pm\n",
    ),
    ("proc/self/cgroup", "0::/user.slice/user-1000.slice\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
    ("sys/fs/cgroup/cgroup.subtree_control", "memory pids\n"),
];

#[test]
fn an_intel_host_gives_every_setting_of_the_measured_cpu() {
    let identity = read(INTEL);
    assert_eq!(identity.boot_id.as_deref(), Some(BOOT_ID));
    assert_eq!(identity.kernel.release.as_deref(), Some("6.12.41"));
    assert_eq!(identity.kernel.machine.as_deref(), Some("x86_64"));
    for (key, expected) in [
        (
            "machine",
            "Intel(R) Xeon(R) Gold 6338; 16 CPUs online; 63 GiB",
        ),
        ("microcode", "0xd0003f5"),
        ("governor", "performance"),
        ("epp", "balance_power"),
        ("turbo", "off"),
        ("preempt", "full"),
        ("smt", "on"),
        ("thp", "madvise"),
        (
            "mitigations",
            "l1tf=Not affected; spectre_v2=Mitigation: Enhanced IBRS",
        ),
        ("clocksource", "tsc"),
        ("cgroup", "child (v2)"),
        ("taint", "4096"),
        ("aslr", "2"),
        ("isolation", "isolated=2-3; nohz_full=none"),
        (
            "cmdline",
            "BOOT_IMAGE=vmlinuz-6.12.41 root=<id> ro ip=<ip> isolcpus=2 mitigations=auto",
        ),
        ("environment", "bare-metal"),
    ] {
        assert_eq!(value(&identity, key), expected, "{key}");
    }
}

#[test]
fn builder_host_addresses_and_cgroup_path_are_nowhere_in_the_identity() {
    let text = serde_json::to_string(&read(INTEL)).unwrap();
    for private in ["carol", "nehalem", "10.1.2", "11111111", "user.slice"] {
        assert!(!text.contains(private), "{private} in {text}");
    }
    assert!(text.contains(BOOT_ID));
}

/// The Intel host with files replaced, or removed where the content is `None`.
fn changed(changes: &[(&str, Option<&str>)]) -> BootIdentity {
    let root = host(INTEL);
    for (path, content) in changes {
        let path = root.path().join(path);
        match content {
            Some(content) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            None if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
    HostReader::new(root.path()).read(2)
}

#[test]
fn an_amd_host_tells_turbo_by_boost() {
    let amd = [
        ("sys/devices/system/cpu/intel_pstate/no_turbo", None),
        ("sys/devices/system/cpu/cpufreq/boost", Some("1\n")),
        (
            "sys/devices/system/cpu/cpu2/cpufreq/energy_performance_preference",
            None,
        ),
    ];
    let identity = changed(&amd);
    assert_eq!(value(&identity, "turbo"), "on");
    assert_eq!(
        reason(&identity, "epp"),
        "/sys/devices/system/cpu/cpu2/cpufreq/energy_performance_preference absent"
    );
}

#[test]
fn a_switch_that_says_neither_0_nor_1_is_unknown() {
    let identity = changed(&[(
        "sys/devices/system/cpu/intel_pstate/no_turbo",
        Some("maybe"),
    )]);
    assert!(reason(&identity, "turbo").contains("maybe"));
}

#[test]
fn a_virtual_machine_without_cpufreq_says_so() {
    let identity = changed(&[
        ("sys/devices/system/cpu/cpu2/cpufreq", None),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", None),
        (
            "proc/cpuinfo",
            Some("model name : Intel(R) Xeon(R) Processor\nflags : fpu hypervisor\n"),
        ),
    ]);
    assert_eq!(value(&identity, "environment"), "virtual-machine");
    assert_eq!(
        reason(&identity, "governor"),
        "no cpufreq on this machine: /sys/devices/system/cpu/cpu2/cpufreq/scaling_governor absent"
    );
    assert_eq!(
        reason(&identity, "turbo"),
        "no cpufreq on this machine: /sys/devices/system/cpu/cpufreq/boost absent"
    );
}

#[test]
fn an_emulated_machine_is_told_from_a_virtual_one() {
    let environment = |model: &str, clocks: &str| {
        let cpuinfo = format!("model name : {model}\nflags : fpu hypervisor\n");
        changed(&[
            ("proc/cpuinfo", Some(cpuinfo.as_str())),
            (
                "sys/devices/system/clocksource/clocksource0/available_clocksource",
                Some(clocks),
            ),
        ])
        .setting("environment")
    };
    let known = Reading::known;
    assert_eq!(
        environment("QEMU TCG CPU version 2.5+", "tsc"),
        known("emulated")
    );
    assert_eq!(
        environment("QEMU Virtual CPU version 2.5+", "kvm-clock tsc"),
        known("virtual-machine")
    );
    assert_eq!(
        environment("QEMU Virtual CPU version 2.5+", "tsc").value(),
        None
    );
    let arm = changed(&[("proc/cpuinfo", Some("CPU implementer : 0x41\n"))]);
    assert!(reason(&arm, "environment").contains("flags"));
}

fn with_version(release: &str, flags: &str, more: &[(&str, Option<&str>)]) -> BootIdentity {
    let version = format!("Linux version {release} (a@b) (gcc 14) #1 {flags} Tue Jun  2 2026");
    let mut changes = vec![
        ("proc/version", Some(version.as_str())),
        ("proc/sys/kernel/osrelease", Some(release)),
    ];
    changes.extend(more);
    changed(&changes)
}

#[test]
fn a_dynamic_kernel_tells_its_mode_only_through_debugfs() {
    let file = "sys/kernel/debug/sched/preempt";
    let readable = with_version(
        "6.18.4",
        "SMP PREEMPT_DYNAMIC",
        &[(file, Some("none voluntary full (lazy)\n"))],
    );
    assert_eq!(value(&readable, "preempt"), "lazy");
    let hidden = with_version("6.18.4", "SMP PREEMPT_DYNAMIC", &[]);
    assert_eq!(
        reason(&hidden, "preempt"),
        "PREEMPT_DYNAMIC; /sys/kernel/debug/sched/preempt absent, so the running mode is not known"
    );
    let asked = with_version(
        "6.18.4",
        "SMP PREEMPT_DYNAMIC",
        &[("proc/cmdline", Some("quiet preempt=full"))],
    );
    assert!(reason(&asked, "preempt").contains("asks for preempt=full"));
}

#[test]
fn debugfs_that_cannot_be_read_is_not_called_absent() {
    let root = host(INTEL);
    // A folder in its place fails to read for every user, root included.
    fs::create_dir_all(root.path().join("sys/kernel/debug/sched/preempt")).unwrap();
    fs::write(
        root.path().join("proc/version"),
        "Linux version 6.18.4 (a@b) (gcc 14) #1 SMP PREEMPT_DYNAMIC x",
    )
    .unwrap();
    let identity = HostReader::new(root.path()).read(2);
    assert!(reason(&identity, "preempt").contains("preempt not readable"));
}

#[test]
fn a_fixed_kernel_tells_its_model_by_its_version_where_that_proves_it() {
    let preempt = |release, flags| with_version(release, flags, &[]).setting("preempt");
    assert_eq!(preempt("6.12.99", "SMP PREEMPT"), Reading::known("full"));
    assert_eq!(preempt("6.13.0-rc1", "SMP PREEMPT").value(), None);
    assert_eq!(preempt("7.0.0", "SMP PREEMPT").value(), None);
    assert_eq!(preempt("6.18.0", "SMP PREEMPT_RT"), Reading::known("rt"));
    assert_eq!(preempt("6.12.0", "SMP").value(), None);
}

#[test]
fn smt_without_its_active_file_is_off_only_where_control_says_so() {
    let smt = |word| {
        changed(&[
            ("sys/devices/system/cpu/smt/active", None),
            ("sys/devices/system/cpu/smt/control", Some(word)),
        ])
        .setting("smt")
    };
    assert_eq!(smt("forceoff\n"), Reading::known("off"));
    assert_eq!(smt("on\n").value(), None);
}

#[test]
fn a_v1_host_tells_the_memory_cgroup_by_the_memory_line() {
    let place = |lines: &str| {
        let identity = changed(&[("proc/self/cgroup", Some(lines))]);
        identity.setting("cgroup")
    };
    assert_eq!(
        place("4:memory:/jobs/7\n1:cpu:/\n0::/\n"),
        Reading::known("child (v1)")
    );
    assert_eq!(
        place("4:cpu,memory:/\n1:pids:/jobs\n0::/x\n"),
        Reading::known("root (v1)")
    );
    assert_eq!(place("1:pids:/jobs\n").value(), None);
}

#[test]
fn a_v2_host_tells_the_memory_cgroup_by_where_the_controller_is() {
    let place = |path: &str, controllers: &str, below: &str| {
        let line = format!("0::{path}\n");
        changed(&[
            ("proc/self/cgroup", Some(line.as_str())),
            ("sys/fs/cgroup/cgroup.controllers", Some(controllers)),
            ("sys/fs/cgroup/cgroup.subtree_control", Some(below)),
        ])
        .setting("cgroup")
    };
    assert_eq!(
        place("/", "cpu memory", "memory"),
        Reading::known("root (v2)")
    );
    assert_eq!(
        place("/a/b", "cpu memory", "memory"),
        Reading::known("child (v2)")
    );
    // No memory cgroup below the root: charged to the root in spite of the path.
    assert_eq!(
        place("/a/b", "cpu memory", "\n"),
        Reading::known("root (v2)")
    );
    assert_eq!(place("/a/b", "cpu", "cpu").value(), None);
}

#[test]
fn the_root_of_a_cgroup_namespace_is_not_taken_for_the_root() {
    let root = host(INTEL);
    fs::write(root.path().join("proc/self/cgroup"), "0::/\n").unwrap();
    fs::create_dir_all(root.path().join("proc/self/ns")).unwrap();
    symlink(
        "cgroup:[4026532999]",
        root.path().join("proc/self/ns/cgroup"),
    )
    .unwrap();
    let reader = HostReader::new(root.path());
    assert!(reason(&reader.read(2), "cgroup").contains("namespace"));
    fs::write(root.path().join("sys/fs/cgroup/memory.current"), "1\n").unwrap();
    assert_eq!(value(&reader.read(2), "cgroup"), "child (v2)");
}

#[test]
fn a_host_that_shows_nothing_gives_a_reason_for_every_setting() {
    let identity = read(&[]);
    assert_eq!(identity.boot_id, None);
    assert_eq!(identity.kernel, KernelIdentity::default());
    assert!(
        identity
            .settings
            .keys()
            .map(String::as_str)
            .eq(SETTING_KEYS.iter().copied())
    );
    for key in SETTING_KEYS {
        let reason = reason(&identity, key);
        assert!(reason.contains('/'), "{key}: {reason}");
        assert!(
            !reason.contains("/tmp"),
            "{key} names the fake root: {reason}"
        );
    }
}

#[test]
fn private_names_come_from_the_root_folder() {
    let id = "0123456789abcdef0123456789abcdef";
    let root = host(&[
        ("proc/sys/kernel/hostname", "buildbox\n"),
        ("etc/machine-id", id),
        ("sys/class/dmi/id/product_serial", "CZ1234ABCD\n"),
    ]);
    let private = private_names(root.path());
    assert_eq!(private.host.as_deref(), Some("buildbox"));
    assert_eq!(private.machine_id.as_deref(), Some(id));
    assert_eq!(private.serials, ["CZ1234ABCD"]);
}

#[test]
fn this_machine_has_a_release_and_a_boot_id() {
    let identity = HostReader::new(Path::new("/")).read(0);
    let release = identity.kernel.release.unwrap();
    assert!(
        release.starts_with(|c: char| c.is_ascii_digit()),
        "{release}"
    );
    let boot_id = identity.boot_id.unwrap();
    let groups: Vec<usize> = boot_id.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12], "{boot_id}");
    assert!(boot_id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
}
