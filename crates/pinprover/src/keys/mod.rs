//! Keys and proofs: bellperson's files, read with care, and new keys.
//!
//! bellperson's own readers say `not on curve` and no more, and believe length fields. These name the file, the
//! section and the index, allocate nothing that the file's size does not vouch for, decode points on all of
//! rayon's threads, and refuse anything after the end. The bytes are bellperson's.
//!
//! | module | subject |
//! |---|---|
//! | `error` | [`KeyError`], what can be wrong |
//! | `point` | one point from its bytes, and what is wrong with it |
//! | `subgroup` | checking that very many points are in their subgroup, together |
//! | `read` | the three readers |
//! | `write` | the three writers |
//! | `generate` | new keys |

mod error;
mod generate;
pub(crate) mod point;
mod read;
mod subgroup;
mod write;

pub use crate::circom::InFile;
pub use error::{KeyError, PointError};
pub use generate::{generate, generate_with};
pub use read::{parse_params, parse_proof, parse_vk, read_params, read_proof, read_vk};
pub use write::{write_params, write_proof, write_vk};

/// What is wrong with a key or proof file, and with which one.
pub type KeyFileError = InFile<KeyError>;

/// Bytes of a proof: two compressed points of G1 and one of G2.
pub const PROOF_BYTES: usize = 192;
