//! `bellperson` whose proving vectors live in registered (page-locked) memory.
//!
//! This crate holds only the difference: it depends on the published bellperson 0.26.0, re-exports all of it, and
//! overrides the proving path in [`groth16`]. It carries the version 0.27.0, so that a prover takes it by
//!
//! ```toml
//! [patch.crates-io]
//! bellperson = { path = "…/patches/bellperson" }
//! ```
//!
//! and nothing else. Without a registered allocator and backend it is a faster CPU prover with the same proofs, byte for
//! byte; see [`groth16::backend`] for what a prover adds.
//!
//! # The map
//! - `memory`: [`PinnedBacking`](groth16::PinnedBacking) and the vector over it; all `unsafe` of synthesis is there.
//! - `groth16::assignment`: the constraint system that is filled; `groth16::synthesis` fills it.
//! - `groth16::backend`: the registered prover; `groth16::native`: the built-in one.
//! - `groth16::api`: the eight `create_*proof*` functions, as upstream has them.

#[cfg(feature = "groth16")]
mod lc;
#[cfg(feature = "groth16")]
mod memory;

#[cfg(feature = "groth16")]
pub mod groth16;

// Explicit items here and in `groth16` shadow what the globs bring.
pub use upstream::*;

/// The version of bellperson that this crate stands in for.
pub const BELLMAN_VERSION: &str = env!("CARGO_PKG_VERSION");
