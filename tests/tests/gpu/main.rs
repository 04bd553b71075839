//! Proofs on a device. One binary for all of it, because the kernels in it are large; one prover a process, so that the tests
//! take turns.
//!
//! - `oracle`: the bytes of upstream's prover, for all kinds of circuits;
//! - `proofs`: the same for what those leave out: exact counts, odd keys, batches, circom's files;
//! - `large`: the bytes that the secrets behind the key say, up to 2^27 constraints;
//! - `faults`: a device that fails, and one that computes wrongly;
//! - `field`: other cases from the field: age, no memory, hidden devices, abandoned proofs;
//! - `support`: what they share.
//!
//! Runs where there is a device; elsewhere every test says `skipped: no CUDA device`, which is not the same as having passed.
#![cfg(feature = "cuda")]

mod faults;
mod field;
mod large;
mod oracle;
mod proofs;
mod support;
