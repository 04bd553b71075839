//! What can be wrong with a JSON file.

use std::fmt;
use std::io;

use super::decimal::DecimalError;
use crate::keys::PointError;

/// Why a JSON file is refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonError {
    /// The system could not read the file.
    Io(io::Error),
    /// The file has no bytes.
    Empty,
    /// The file is larger than such a file can be.
    TooLarge {
        /// The most bytes we read.
        limit: u64,
    },
    /// The text is not JSON, or not of this shape. Line and column are in the text of the cause.
    Syntax(serde_json::Error),
    /// The protocol is not `groth16`.
    Protocol {
        /// The protocol of the file.
        found: String,
    },
    /// The curve is not `bls12381`.
    Curve {
        /// The curve of the file.
        found: String,
    },
    /// A list has another length.
    Length {
        /// The list.
        field: &'static str,
        /// The length it should have.
        expected: usize,
        /// The length it has.
        found: usize,
    },
    /// An element of the public inputs is not a string.
    NotAString {
        /// Its index, from 0.
        index: usize,
    },
    /// A number is refused.
    Number {
        /// The field, for instance `"IC"`.
        field: &'static str,
        /// The element of the field, from 0.
        index: usize,
        /// What is wrong with it.
        cause: DecimalError,
    },
    /// A point is not normalised: its third coordinate is not 1.
    NotNormalised {
        /// The field.
        field: &'static str,
        /// The element of the field, from 0.
        index: usize,
    },
    /// A point is refused.
    Point {
        /// The field.
        field: &'static str,
        /// The element of the field, from 0.
        index: usize,
        /// What is wrong with it.
        cause: PointError,
    },
    /// `vk_alphabeta_12` is not the pairing of `vk_alpha_1` and `vk_beta_2`.
    AlphaBeta,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "cannot be read: {e}"),
            Self::Empty => f.write_str("the file is empty (0 bytes)"),
            Self::TooLarge { limit } => {
                write!(f, "the file is larger than such a file can be ({limit} bytes)")
            }
            Self::Syntax(e) => write!(f, "not the JSON that is expected here: {e}"),
            Self::Protocol { found } => write!(f, "protocol: expected \"groth16\", found {found:?}"),
            Self::Curve { found } => write!(
                f,
                "curve: expected \"bls12381\", found {found:?}; compile the circuit with `circom --prime bls12381`"
            ),
            Self::Length { field, expected, found } => {
                write!(f, "{field}: expected {expected} elements, found {found}")
            }
            Self::NotAString { index } => {
                write!(f, "public input {index}: expected a decimal number as a string, like \"33\"")
            }
            Self::Number { field, index, cause } => write!(f, "{field} {index}: {cause}"),
            Self::NotNormalised { field, index } => {
                write!(f, "{field} {index}: the point's third coordinate is not 1")
            }
            Self::Point { field, index, cause } => write!(f, "{field} {index}: {cause}"),
            Self::AlphaBeta => {
                f.write_str("vk_alphabeta_12 is not the pairing of vk_alpha_1 and vk_beta_2")
            }
        }
    }
}

impl std::error::Error for JsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            Self::Syntax(e) => Some(e),
            Self::Number { cause, .. } => Some(cause),
            Self::Point { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
