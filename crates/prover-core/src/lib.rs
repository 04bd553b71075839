//! Memory budget, pinned pool and prover over the bellperson fork.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // From here on, every proof that bellperson makes in this process is synthesised into the pool.
//! let prover = prover_core::init(prover_core::Config::default())?;
//! // … bellperson::groth16::create_random_proof(…) …
//! println!("{:?}", prover.reports());
//! # Ok(())
//! # }
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`init`] | start and end; [`Config`], [`Guard`] |
//! | [`prover`] | the prover behind bellperson's functions, its checks and its reports |
//! | [`engine`] | many circuits at a time |
//! | [`memory`] | budget, backends, pool |
//! | [`cuda`] | the CUDA driver: devices, contexts, copies, fences |
//! | [`hints`] | sizes of circuits, remembered |
//! | [`setup`] | keys of circuits |
//! | [`size`] | sizes in bytes as people write them |
//!
//! Under `--cfg loom` only the budget is built, for the model in `tests/loom_budget.rs`.

#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
pub mod cuda;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
pub mod hints;
#[cfg(not(loom))]
mod init;
pub mod memory;
#[cfg(not(loom))]
pub mod prover;
#[cfg(not(loom))]
pub mod setup;
#[cfg(not(loom))]
pub mod size;

#[cfg(not(loom))]
pub use config::{Config, Hints, KeyProgress, MemoryBackend, ProverChoice};
#[cfg(not(loom))]
pub use init::{init, Guard, InitError};
#[cfg(not(loom))]
pub use prover::{ProofReport, ProveError, Proven};
