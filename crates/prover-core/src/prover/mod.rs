//! The prover behind bellperson's functions.
//!
//! - `cpu`: the backend on the CPU: hints before the synthesis, proof, self-check, report.
//! - `identity`: which circuit it is, for hints.
//! - `check`: whether parameters fit a circuit, and whether a proof verifies.
//! - `report`: how a proof came about.

mod check;
mod cpu;
mod identity;
mod report;

pub use check::{check_parameters, ParameterMismatch};
pub use cpu::{CpuProver, ProveError, Proven};
pub use report::{HintOutcome, MemoryReport, PhaseReport, ProofReport, VectorReport};
