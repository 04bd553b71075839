//! Built-in circuits, for the demonstration and the benchmarks: four shapes of witness, each in any size.
//!
//! | circuit | what it is | witness | where |
//! |---|---|---|---|
//! | `squarings` | `x^(2^n)`, one product a constraint | dense: every value fills the field | [`squarings`] |
//! | `mimc` | a Feistel permutation of cubes | dense, two variables a round | [`mimc`] |
//! | `sha256` | SHA-256 of a secret message | mostly bits | [`sha256`] |
//! | `mixed` | products and bits, cheap to synthesise | three tenths dense, the rest bits; a quarter in B | [`mixed`] |
//!
//! [`BuiltIn`] is one of them at one size, [`Size`] the way to ask for a size, [`Shape`] counts any circuit.

mod builtin;
pub mod mimc;
pub mod mixed;
pub mod sha256;
mod shape;
mod size;
pub mod squarings;

pub use builtin::{BuiltIn, BuiltInCircuit, Family, Instance};
pub use shape::{Mismatch, Shape};
pub use size::{parse_count, Size, SizeError, MAX_CONSTRAINTS};
