//! The prover behind bellperson's functions.
//!
//! - `service`: what comes before and after a proof: hints, self-check, report;
//! - `place`: where proofs are computed: on the CPU or on devices;
//! - `fleet`: which device a proof goes to, and which get no more work;
//! - `device`: what a device offers;
//! - `gpu` (feature `cuda`): the prover on a CUDA device;
//! - `identity`: which circuit it is, for hints.
//! - `check`: whether parameters fit a circuit, and whether a proof verifies.
//! - `report`: how a proof came about.

pub(crate) mod check;
pub(crate) mod device;
pub(crate) mod fleet;
#[cfg(feature = "cuda")]
mod gpu;
pub(crate) mod identity;
pub(crate) mod place;
mod report;
pub(crate) mod service;

pub use check::{check_parameters, ParameterMismatch};
pub use fleet::DeviceStatus;
#[cfg(feature = "cuda")]
pub use gpu::GpuFixedBase;
#[cfg(feature = "cuda")]
pub use prover_cuda::fault;
pub use report::{
    DeviceReport, DeviceSpan, HintOutcome, MemoryReport, PhaseReport, ProofReport, VectorReport,
};
pub use service::{ProveError, Proven, Prover};
