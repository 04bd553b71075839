//! The prover behind bellperson's functions.
//!
//! - `service`: what comes before and after a proof: hints, self-check, report;
//! - `engine`: where proofs are computed: on the CPU or on the device;
//! - `gpu` (feature `cuda`): the prover on a CUDA device;
//! - `identity`: which circuit it is, for hints.
//! - `check`: whether parameters fit a circuit, and whether a proof verifies.
//! - `report`: how a proof came about.

mod check;
pub(crate) mod engine;
#[cfg(feature = "cuda")]
mod gpu;
mod identity;
mod report;
mod service;

pub use check::{check_parameters, ParameterMismatch};
#[cfg(feature = "cuda")]
pub use gpu::GpuFixedBase;
pub use report::{DeviceReport, HintOutcome, MemoryReport, PhaseReport, ProofReport, VectorReport};
pub use service::{ProveError, Proven, Prover};
