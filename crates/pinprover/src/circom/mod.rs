//! circom circuits over BLS12-381: the iden3 binary files, the circuit made of them, snarkjs's JSON.
//!
//! | module | subject |
//! |---|---|
//! | `file` | reading a file whole, with its path in every error |
//! | `error` | [`FormatError`], what can be wrong with a binary file |
//! | `binfile` | the container both formats share: magic, version, sections |
//! | `prime` | the primes circom compiles for, to name the wrong one |
//! | `matrix` | one constraint matrix in compressed rows |
//! | `r1cs` | [`R1cs`], the `.r1cs` file |
//! | `wtns` | [`Witness`], the `.wtns` file |
//! | `circuit` | [`CircomCircuit`], which bellperson can set up and prove |
//! | [`json`] | proof, verification key and public inputs as snarkjs writes and reads them |

mod binfile;
mod circuit;
mod error;
pub(crate) mod file;
pub mod json;
mod matrix;
mod prime;
mod r1cs;
mod wtns;

pub use circuit::{CircomCircuit, CircuitError, CircuitShape};
pub use error::{FormatError, MatrixName};
pub use file::InFile;
pub use matrix::{Matrix, Row};
pub use r1cs::R1cs;
pub use wtns::Witness;

/// What is wrong with a `.r1cs` or `.wtns` file, and with which one.
pub type FormatFileError = InFile<FormatError>;
