//! Proving and verifying keys of circuits, made on this machine.
//!
//! The keys are the same, byte for byte, as those of `bellperson::groth16::generate_parameters` for the same toxic
//! waste, made faster and in less memory: three scalars a variable are kept of the circuit, not its matrices, and
//! the points come from batched affine additions. What multiplies can be replaced ([`FixedBase`]), by a GPU for
//! instance.
//!
//! Whoever knows the toxic waste can forge proofs. It is wiped when it goes, but it was here: the keys are fit for
//! development, for benchmarks, and for those who trust whoever ran this.
//!
//! ```
//! # use bellperson::{Circuit, ConstraintSystem, SynthesisError};
//! # use blstrs::Scalar;
//! # struct Square;
//! # impl Circuit<Scalar> for Square {
//! #     fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
//! #         let x = cs.alloc(|| "x", || Err(SynthesisError::AssignmentMissing))?;
//! #         let y = cs.alloc_input(|| "y", || Err(SynthesisError::AssignmentMissing))?;
//! #         cs.enforce(|| "", |lc| lc + x, |lc| lc + x, |lc| lc + y);
//! #         Ok(())
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use prover_core::setup::{generate, CpuFixedBase, ToxicWaste};
//! let waste = ToxicWaste::random(&mut rand_core::OsRng);
//! let params = generate(|| Square, None, waste, &CpuFixedBase::new(), &|_, _, _| {})?;
//! assert_eq!(params.vk.ic.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `generate` | the steps from a circuit to its key; [`Stage`] |
//! | `circuit` | the two passes over a circuit |
//! | `lagrange` | Lagrange coefficients and powers at a point |
//! | `waste` | [`ToxicWaste`], and vectors that are wiped |
//! | `estimate` | the memory it takes, before it is taken |
//! | `fixed_base` | one point times many scalars; the CPU's way |
//! | `error` | [`SetupError`] |

mod circuit;
mod error;
mod estimate;
mod fixed_base;
mod generate;
mod lagrange;
mod waste;

pub use error::SetupError;
pub use estimate::{check, estimate, Estimate, KeySize};
pub use fixed_base::{CpuFixedBase, FixedBase, FixedBaseError};
pub use generate::{generate, Progress, Stage};
pub use waste::ToxicWaste;
