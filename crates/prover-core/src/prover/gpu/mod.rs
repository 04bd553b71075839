//! The prover on a CUDA device.
//!
//! - `open`: a device for kernels, and its known answers;
//! - `prover`: proofs, from assignments to the sums of their queries, and what happens when the device fails;
//! - `keys`: proving keys on the device, the least recently used of which goes first;
//! - `host`: the assignment as the device reads it;
//! - `cast`: blstrs's types as blst's;
//! - `fixed_base`: the products of key generation.

mod cast;
mod fixed_base;
mod host;
mod keys;
mod open;
mod prover;

pub use fixed_base::GpuFixedBase;
pub(super) use prover::GpuProver;
