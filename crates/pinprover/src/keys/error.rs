//! What can be wrong with a key or a proof.

use std::fmt;
use std::io;

/// Why the bytes of a point are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PointError {
    /// The flags in the first byte are not those of this encoding.
    Flags,
    /// A coordinate is not below the field's prime.
    NotCanonical,
    /// No point of the curve has these coordinates.
    NotOnCurve,
    /// A point of the curve, but outside the subgroup of prime order.
    NotInSubgroup,
    /// The point at infinity, which no key and no proof holds.
    Infinity,
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flags => "the flag bits are wrong (compressed and uncompressed mixed up, or damaged)",
            Self::NotCanonical => "a coordinate is not below the field's prime",
            Self::NotOnCurve => "the point is not on the curve",
            Self::NotInSubgroup => "the point is on the curve but not in the subgroup of prime order",
            Self::Infinity => "the point at infinity is not allowed here",
        })
    }
}

impl std::error::Error for PointError {}

/// Why a key or proof file is refused. Offsets and sizes are bytes.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyError {
    /// The system could not read the file.
    Io(io::Error),
    /// The file has no bytes.
    Empty,
    /// The file is a directory, a pipe or a device; its size must be known.
    NotAFile,
    /// The file ends inside a section.
    Truncated {
        /// The section, for instance `"vk.ic"`.
        section: &'static str,
        /// Where the missing thing starts.
        offset: u64,
        /// Its size.
        needed: u64,
        /// The bytes that are there.
        available: u64,
    },
    /// The count of a section is larger than the rest of the file allows.
    Count {
        /// The section.
        section: &'static str,
        /// Where the count stands.
        offset: u64,
        /// The count.
        count: u64,
        /// The bytes that so many points take.
        needed: u64,
        /// The bytes that are there.
        available: u64,
    },
    /// The counts of a key contradict each other.
    Counts {
        /// What is wrong with them.
        what: &'static str,
        /// The section.
        section: &'static str,
        /// Its count.
        found: u64,
    },
    /// A point is refused.
    Point {
        /// The section.
        section: &'static str,
        /// The point's index in the section, from 0.
        index: u64,
        /// Where the point starts.
        offset: u64,
        /// What is wrong with it.
        cause: PointError,
    },
    /// Bytes follow the end.
    TrailingBytes {
        /// Where they start.
        offset: u64,
        /// How many they are.
        extra: u64,
    },
    /// A proof has another size.
    ProofSize {
        /// Bytes of a proof.
        expected: usize,
        /// Bytes that are there (at least).
        found: usize,
    },
    /// The memory for a section could not be had.
    OutOfMemory {
        /// The section.
        section: &'static str,
        /// Bytes asked for.
        requested: u64,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "cannot be read: {e}"),
            Self::Empty => f.write_str("the file is empty (0 bytes)"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Truncated { section, offset, needed, available } => write!(
                f,
                "truncated in {section}: {needed} bytes needed at byte {offset}, {available} are there"
            ),
            Self::Count { section, offset, count, needed, available } => write!(
                f,
                "{section}: the count {count} at byte {offset} needs {needed} bytes, {available} are there; the \
                 file is truncated or damaged"
            ),
            Self::Counts { what, section, found } => {
                write!(f, "{section}: {what}, found {found}; the file is damaged or of another format")
            }
            Self::Point { section, index, offset, cause } => {
                write!(f, "{section}, point {index} (byte {offset}): {cause}")
            }
            Self::TrailingBytes { offset, extra } => {
                write!(f, "{extra} bytes follow the end of the key, from byte {offset} on")
            }
            Self::ProofSize { expected, found } => {
                write!(f, "a proof has {expected} bytes, found {found}")
            }
            Self::OutOfMemory { section, requested } => write!(
                f,
                "host memory (system RAM): {requested} bytes for {section} could not be had"
            ),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            Self::Point { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
