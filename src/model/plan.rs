//! The plan: order, kernels, rounds and thresholds, written and hashed before the first row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::case::{Accel, Boots, Case, GateSection, GuestClock, Implementation, WorkloadRole};

/// The `format` of `plan.json`.
pub const PLAN_FORMAT: u32 = 1;

/// What a point stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The kernel before the change.
    Parent,
    /// The kernel with the change.
    Child,
}

impl Role {
    /// The word in labels and tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Child => "child",
        }
    }
}

/// The kernel expected at a point.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// GNU build id of vmlinux, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

/// One boot to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedPoint {
    /// Position in the order, from 1.
    pub position: u32,
    /// `parent-a`, `child`, `parent-b` …
    pub label: String,
    /// What it stands for.
    pub role: Role,
}

/// One workload with resolved parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWorkload {
    /// Name in the catalogue.
    pub name: String,
    /// Target or control.
    pub role: WorkloadRole,
    /// Implementations in order.
    pub implementations: Vec<Implementation>,
    /// Every parameter.
    pub params: BTreeMap<String, u64>,
    /// The external command, relative to the case's folder; empty for the catalogue's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// The commits a case is about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedChange {
    /// Full id of the parent commit.
    pub parent: String,
    /// Full id of the child commit.
    pub child: String,
}

/// The guest every point boots in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedGuest {
    /// What its clock counts.
    pub clock: GuestClock,
    /// How its code is executed.
    pub accel: Accel,
    /// Its memory, MiB.
    pub memory: u32,
    /// More words for its kernel's command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub append: String,
}

/// `plan.json`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this file's format.
    pub format: u32,
    /// The case.
    pub case_id: String,
    /// The change in question; rows cannot be given to another one afterwards.
    pub change: Option<PlannedChange>,
    /// Boots in order.
    pub points: Vec<PlannedPoint>,
    /// One boot per point or all in one.
    pub boots: Boots,
    /// Warm-up rounds.
    pub warmup_rounds: u32,
    /// Clean measured rounds per point, workload and implementation.
    pub rounds: u32,
    /// Longest time for one point, seconds.
    pub point_seconds: u32,
    /// Name of the workload that decides.
    pub primary: String,
    /// What is measured, in order.
    pub workloads: Vec<PlannedWorkload>,
    /// Kernels expected per role; empty when the case names none.
    pub kernels: BTreeMap<Role, Kernel>,
    /// The guest of engine qemu; absent for points of a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<PlannedGuest>,
    /// The CPU asked for.
    pub cpu: Option<u32>,
    /// Preemption mode every point must run with.
    pub preempt: Option<String>,
    /// Memory cgroup every point must run in.
    pub cgroup: Option<String>,
    /// Thresholds, percent.
    pub thresholds: GateSection,
    /// Location of a point: always `mean` in this format.
    pub location: String,
}

impl Plan {
    /// Makes the plan of a case; `workloads` carry the resolved parameters.
    #[must_use]
    pub fn of_case(case: &Case, workloads: Vec<PlannedWorkload>) -> Self {
        Self {
            format: PLAN_FORMAT,
            case_id: case.id.clone(),
            change: case.change.as_ref().map(|change| PlannedChange {
                parent: change.parent.clone(),
                child: change.child.clone(),
            }),
            points: planned_points(&case.plan.order),
            boots: case.plan.boots,
            warmup_rounds: case.plan.warmup_rounds,
            rounds: case.plan.rounds,
            point_seconds: case.plan.point_seconds,
            primary: case.plan.primary.clone(),
            workloads,
            kernels: expected_kernels(case),
            guest: case.engine.qemu.as_ref().map(|qemu| PlannedGuest {
                clock: qemu.clock,
                accel: qemu.accel,
                memory: qemu.memory,
                append: qemu.append.clone(),
            }),
            cpu: case.machine.cpu,
            preempt: case.machine.preempt.clone(),
            cgroup: case.machine.cgroup.clone(),
            thresholds: case.gates,
            location: "mean".to_owned(),
        }
    }

    /// Finds a point by its label.
    #[must_use]
    pub fn point(&self, label: &str) -> Option<&PlannedPoint> {
        self.points.iter().find(|point| point.label == label)
    }

    /// Finds a workload by its name.
    #[must_use]
    pub fn workload(&self, name: &str) -> Option<&PlannedWorkload> {
        self.workloads.iter().find(|workload| workload.name == name)
    }
}

/// Returns the kernels a case names, of the engine it has.
fn expected_kernels(case: &Case) -> BTreeMap<Role, Kernel> {
    let engine = &case.engine;
    match (&engine.host, &engine.qemu) {
        (Some(host), _) => host.kernels.clone(),
        (None, Some(qemu)) => qemu.expect.clone(),
        (None, None) => BTreeMap::new(),
    }
}

/// Labels the roles of an order: a role seen once keeps its name, others get `-a`, `-b` …
fn planned_points(order: &[Role]) -> Vec<PlannedPoint> {
    let mut seen: BTreeMap<Role, u8> = BTreeMap::new();
    let mut points = Vec::with_capacity(order.len());
    for (position, role) in (1..).zip(order) {
        let total = order.iter().filter(|other| *other == role).count();
        let nth = seen.entry(*role).or_insert(0);
        let label = if total == 1 {
            role.word().to_owned()
        } else {
            // The order is limited to 25 points, so the letters do not run out.
            format!("{}-{}", role.word(), char::from(b'a' + *nth))
        };
        *nth += 1;
        points.push(PlannedPoint {
            position,
            label,
            role: *role,
        });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandwich_is_labelled_parent_a_child_parent_b() {
        let labels: Vec<String> = planned_points(&[Role::Parent, Role::Child, Role::Parent])
            .into_iter()
            .map(|point| point.label)
            .collect();
        assert_eq!(labels, ["parent-a", "child", "parent-b"]);
    }

    #[test]
    fn every_repeated_role_gets_a_letter() {
        let labels: Vec<String> = planned_points(&[
            Role::Parent,
            Role::Child,
            Role::Parent,
            Role::Child,
            Role::Parent,
        ])
        .into_iter()
        .map(|point| point.label)
        .collect();
        assert_eq!(
            labels,
            ["parent-a", "child-a", "parent-b", "child-b", "parent-c"]
        );
    }
}
