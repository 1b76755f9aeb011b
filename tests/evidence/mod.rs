//! Evidence made in memory: a quiet machine, one boot per point, every gate content.

#![allow(dead_code, reason = "each test file uses a part of the builder")]

use std::collections::BTreeMap;

use regbundle::judge::analyze;
use regbundle::model::case::{Boots, GateSection, Implementation, WorkloadRole};
use regbundle::model::evidence::{Attempt, Evidence, Point, Segment, Source};
use regbundle::model::finding::{Finding, Outcome};
use regbundle::model::identity::{BootIdentity, KernelIdentity, Reading, SETTING_KEYS};
use regbundle::model::plan::{Kernel, Plan, PlannedPoint, PlannedWorkload, Role};
use regbundle::model::protocol::Clock;
use regbundle::model::row::{Canary, Metric, Phase, Row, Usage};

/// Ops of every row: an elapsed of 100,000 is 100 ns/call.
pub const OPS: u64 = 1000;
/// Every canary reading; so it is also the floor.
pub const CANARY: u64 = 1000;
pub const BOTH: [Implementation; 2] = [Implementation::Formal, Implementation::Standalone];
pub const PCP: [Role; 3] = [Role::Parent, Role::Child, Role::Parent];

pub fn measured(round: u64, elapsed: u64) -> Row {
    Row {
        phase: Phase::Measured,
        round,
        metric: Metric::Elapsed { elapsed, ops: OPS },
        usage: Some(Usage {
            cpu_begin: 2,
            cpu_end: 2,
            nvcsw: 0,
            nivcsw: 0,
            minflt: 0,
            run_delay_ns: 0,
        }),
        canary: Some(Canary {
            alu_before: CANARY,
            alu_after: CANARY,
            syscall: Some((CANARY, CANARY)),
        }),
        counters: vec![("calls_ok".to_owned(), OPS)],
        passed: Some(true),
    }
}

fn segment(implementation: Implementation, elapsed: &[u64]) -> Segment {
    let warmup = Row {
        phase: Phase::Warmup,
        ..measured(0, 1_000_000)
    };
    let rows: Vec<Row> = std::iter::once(warmup)
        .chain(
            (0..)
                .zip(elapsed)
                .map(|(round, elapsed)| measured(round, *elapsed)),
        )
        .collect();
    Segment {
        workload: "syscall-getpid".to_owned(),
        implementation,
        clock: Clock::Ns,
        announced: u64::try_from(rows.len()).ok(),
        rows,
        aborted: None,
        counters: vec!["calls_ok".to_owned()],
        program_sha256: format!("program of {}", implementation.word()),
        source_sha256: None,
        source: Source::Runner {
            journal: "journal/0001.tsv".to_owned(),
        },
        notes: Vec::new(),
    }
}

fn identity(position: u32, role: Role) -> BootIdentity {
    BootIdentity {
        boot_id: Some(format!("boot-{position}")),
        kernel: KernelIdentity {
            release: Some(format!("6.1-{}", role.word())),
            build_id: Some(format!("id-{}", role.word())),
            ..KernelIdentity::default()
        },
        settings: SETTING_KEYS
            .iter()
            .map(|key| ((*key).to_owned(), Reading::known(format!("{key} as it is"))))
            .collect(),
    }
}

/// Evidence of points in boot order, the same `elapsed` figures for each implementation.
pub fn evidence(
    order: &[Role],
    elapsed: &[Vec<u64>],
    implementations: &[Implementation],
) -> Evidence {
    let points: Vec<Point> = (1..)
        .zip(order.iter().zip(elapsed))
        .map(|(position, (role, elapsed))| Point {
            position,
            label: format!("p{position}"),
            role: *role,
            attempts: vec![Attempt {
                number: 1,
                identity: identity(position, *role),
                segments: implementations
                    .iter()
                    .map(|implementation| segment(*implementation, elapsed))
                    .collect(),
                finished: true,
                ended_because: "clean".to_owned(),
                ingested: false,
            }],
        })
        .collect();
    let kernel = |role: Role| Kernel {
        release: format!("6.1-{}", role.word()),
        build_id: Some(format!("id-{}", role.word())),
    };
    Evidence {
        plan: Plan {
            format: 1,
            case_id: "x".to_owned(),
            change: None,
            points: points
                .iter()
                .map(|point| PlannedPoint {
                    position: point.position,
                    label: point.label.clone(),
                    role: point.role,
                })
                .collect(),
            boots: Boots::Distinct,
            warmup_rounds: 1,
            rounds: elapsed
                .iter()
                .map(|rounds| u32::try_from(rounds.len()).unwrap())
                .min()
                .unwrap(),
            point_seconds: 60,
            primary: "syscall-getpid".to_owned(),
            workloads: vec![PlannedWorkload {
                name: "syscall-getpid".to_owned(),
                role: WorkloadRole::Target,
                implementations: implementations.to_vec(),
                params: BTreeMap::from([("calls".to_owned(), OPS)]),
                command: Vec::new(),
            }],
            kernels: [Role::Parent, Role::Child]
                .into_iter()
                .map(|role| (role, kernel(role)))
                .collect(),
            guest: None,
            cpu: None,
            preempt: None,
            cgroup: None,
            thresholds: GateSection::default(),
            location: "mean".to_owned(),
        },
        points,
        summaries: Vec::new(),
        plan_before_rows: true,
        torn: Vec::new(),
        ingested: std::collections::BTreeSet::new(),
        last_seconds: 0,
    }
}

/// A parent, child, parent sandwich of constant rounds, one implementation.
pub fn flat(parent_a: u64, child: u64, parent_b: u64) -> Evidence {
    let rounds = |elapsed| vec![elapsed; 4];
    evidence(
        &PCP,
        &[rounds(parent_a), rounds(child), rounds(parent_b)],
        &[Implementation::Formal],
    )
}

/// The attempt that counts, of the point at `index`.
pub fn attempt(evidence: &mut Evidence, index: usize) -> &mut Attempt {
    evidence.points[index].attempts.last_mut().unwrap()
}

/// The first stream of the point at `index`.
pub fn stream(evidence: &mut Evidence, index: usize) -> &mut Segment {
    attempt(evidence, index).segments.first_mut().unwrap()
}

/// Applies a change to every row.
pub fn each_row(evidence: &mut Evidence, change: impl Fn(&mut Row)) {
    for point in &mut evidence.points {
        for attempt in &mut point.attempts {
            for segment in &mut attempt.segments {
                segment.rows.iter_mut().for_each(&change);
            }
        }
    }
}

/// What a gate says of evidence.
pub fn ask(evidence: &Evidence, gate: &str) -> Finding {
    let found: Vec<Finding> = analyze(evidence)
        .findings
        .into_iter()
        .filter(|finding| finding.gate == gate)
        .collect();
    assert_eq!(found.len(), 1, "findings of {gate}");
    found.into_iter().next().unwrap()
}

/// The answer of a gate.
pub fn outcome(evidence: &Evidence, gate: &str) -> Outcome {
    ask(evidence, gate).outcome
}
