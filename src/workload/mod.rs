//! The catalogue of workloads: one file per workload (the formal implementation),
//! the registry, and `emit`, which writes the standalone C file.

pub mod declaration;
