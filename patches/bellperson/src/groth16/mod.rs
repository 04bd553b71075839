//! The [Groth16] proving system, with proving vectors in registered memory.
//!
//! Everything of upstream's module is here; the proving path is ours:
//!
//! - `assignment`: [`ProvingAssignment`], the constraint system that a circuit is synthesised into.
//! - `synthesis`: [`synthesize`] and how much memory to ask for beforehand.
//! - `api` (`api_supraseal` with the feature `cuda-supraseal`): the `create_*proof*` functions; `create`
//!   (`supraseal`): from circuits to proofs; `batch`: what those share.
//! - `prove`: proving from assignments.
//! - [`backend`]: the prover that registers itself, and how a job reaches it.
//! - [`native`]: the built-in CPU prover.
//! - `key`: a proving key as the provers see it, and the check that it fits the circuit.
//!
//! [Groth16]: https://eprint.iacr.org/2016/260

#[cfg(not(feature = "cuda-supraseal"))]
mod api;
#[cfg(feature = "cuda-supraseal")]
#[path = "api_supraseal.rs"]
mod api;
mod assignment;
pub mod backend;
mod batch;
#[cfg(not(feature = "cuda-supraseal"))]
mod create;
mod key;
pub mod native;
mod prove;
#[cfg(feature = "cuda-supraseal")]
mod supraseal;
mod synthesis;

// By name: with a second glob beside upstream's these names would be ambiguous.
pub use self::api::{
    create_proof, create_proof_batch, create_proof_batch_in_priority, create_proof_in_priority,
    create_random_proof, create_random_proof_batch, create_random_proof_batch_in_priority,
    create_random_proof_in_priority,
};
pub use self::assignment::{Growths, Placement, ProvingAssignment, Shape};
pub use self::key::{Key, KeyPair, KeySource, Query};
pub use self::prove::{prove_assignments, prove_assignments_random};
pub use self::synthesis::{replicate, synthesize, synthesize_with, MemoryPolicy, SynthesisOptions};
pub use crate::memory::PinnedBacking;
pub use upstream::groth16::*;
