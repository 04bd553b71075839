//! snarkjs's JSON: proof, verification key, public inputs.
//!
//! Numbers are decimal strings; points are projective with `z = 1`; an element of the quadratic extension is
//! `[c0, c1]`; the curve is `bls12381`, the protocol `groth16`. The writers give the very bytes that snarkjs
//! would (one space a level, its order of keys), the readers check every number and every point.
//!
//! | module | subject |
//! |---|---|
//! | `decimal` | numbers in decimal |
//! | `points` | points as arrays of numbers |
//! | `error` | [`JsonError`], what can be wrong |
//! | `files` | the three kinds of file |

mod decimal;
mod error;
mod files;
mod points;

pub use decimal::DecimalError;
pub use error::JsonError;
pub use files::{
    parse_proof, parse_public, parse_verification_key, read_proof, read_public, read_verification_key,
    write_proof, write_public, write_verification_key, VerificationKey,
};

/// What is wrong with a JSON file, and with which one.
pub type JsonFileError = super::InFile<JsonError>;
