//! What can be wrong with a `.r1cs` or a `.wtns` file.

use std::fmt;
use std::io;

use super::prime;

/// One of the three matrices of a rank-1 constraint system, `A w * B w = C w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixName {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// The product.
    C,
}

impl fmt::Display for MatrixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

/// Why a binary file is refused. Offsets and sizes are bytes, offsets count from the start of the file.
///
/// No variant holds a value of the witness.
#[derive(Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// The system could not read the file.
    Io(io::Error),
    /// The file has no bytes.
    Empty,
    /// The file does not begin as its format does.
    Magic {
        /// The four bytes of the format.
        expected: [u8; 4],
        /// The (up to four) bytes that are there.
        found: Vec<u8>,
    },
    /// The format has another version.
    Version {
        /// The version we read.
        expected: u32,
        /// The version of the file.
        found: u32,
    },
    /// The file ends before something that must be there.
    Truncated {
        /// The section, or `"file header"`.
        section: &'static str,
        /// What is missing.
        what: &'static str,
        /// Where it should start.
        offset: u64,
        /// Its size.
        needed: u64,
        /// The bytes that are there.
        available: u64,
    },
    /// A section says that it is longer than the rest of the file.
    SectionOverrun {
        /// The section's number in the file's table.
        kind: u32,
        /// Where its content starts.
        offset: u64,
        /// The size it claims.
        size: u64,
        /// The bytes that are there.
        available: u64,
    },
    /// A section that the format requires is not there.
    MissingSection {
        /// Its name.
        section: &'static str,
        /// Its number.
        kind: u32,
    },
    /// A section that must be unique is there twice.
    DuplicateSection {
        /// Its name.
        section: &'static str,
        /// Its number.
        kind: u32,
        /// Where the content of the first starts.
        first: u64,
        /// Where the content of the second starts.
        second: u64,
    },
    /// A section is not as long as its counts say.
    SectionSize {
        /// Its name.
        section: &'static str,
        /// The size that follows from the counts.
        expected: u64,
        /// The size it has.
        found: u64,
    },
    /// Bytes follow the last section.
    TrailingBytes {
        /// Where they start.
        offset: u64,
        /// How many they are.
        extra: u64,
    },
    /// Field elements have another size than BLS12-381's.
    FieldSize {
        /// Bytes of an element in the file.
        found: u32,
    },
    /// The file is for another prime.
    Prime {
        /// circom's name of it, or its hexadecimal digits.
        found: String,
    },
    /// A count is larger than the bytes behind it allow.
    Count {
        /// The section.
        section: &'static str,
        /// What is counted.
        what: &'static str,
        /// The count.
        count: u64,
        /// The fewest bytes that so many would take.
        needed: u64,
        /// The bytes that are there.
        available: u64,
    },
    /// The header has more public wires than wires.
    WireCounts {
        /// Wires in all, the constant one among them.
        wires: u32,
        /// Public outputs.
        pub_out: u32,
        /// Public inputs.
        pub_in: u32,
    },
    /// A constraint names a wire that does not exist.
    WireOutOfRange {
        /// The constraint, from 0.
        constraint: u32,
        /// The matrix.
        matrix: MatrixName,
        /// The term in the row, from 0.
        term: u32,
        /// Where the term starts.
        offset: u64,
        /// The wire it names.
        wire: u32,
        /// The number of wires.
        wires: u32,
    },
    /// A coefficient is not below the prime.
    CoefficientTooLarge {
        /// The constraint, from 0.
        constraint: u32,
        /// The matrix.
        matrix: MatrixName,
        /// The term in the row, from 0.
        term: u32,
        /// Where the term starts.
        offset: u64,
    },
    /// A value of the witness is not below the prime.
    ValueTooLarge {
        /// The wire, from 0.
        wire: u64,
        /// Where the value starts.
        offset: u64,
    },
    /// The circuit uses custom gates (`pragma custom_templates`), which are no rank-1 constraints.
    CustomGates {
        /// How many gate kinds or gate uses the section lists.
        count: u32,
    },
    /// The memory for the content could not be had.
    OutOfMemory {
        /// What it is for.
        what: &'static str,
        /// Bytes asked for.
        requested: u64,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "cannot be read: {e}"),
            Self::Empty => f.write_str("the file is empty (0 bytes)"),
            Self::Magic { expected, found } => write!(
                f,
                "wrong magic: expected \"{}\", found \"{}\"; is it a .{} file?",
                expected.escape_ascii(),
                found.escape_ascii(),
                expected.escape_ascii()
            ),
            Self::Version { expected, found } => {
                write!(f, "format version {found} is not supported, expected version {expected}")
            }
            Self::Truncated { section, what, offset, needed, available } => write!(
                f,
                "truncated in {section}: {what} at byte {offset} needs {needed} bytes, {available} are there"
            ),
            Self::SectionOverrun { kind, offset, size, available } => write!(
                f,
                "truncated: section {kind} at byte {offset} says that it has {size} bytes, {available} are there"
            ),
            Self::MissingSection { section, kind } => {
                write!(f, "section {kind} ({section}) is missing")
            }
            Self::DuplicateSection { section, kind, first, second } => {
                write!(f, "section {kind} ({section}) is there twice: at bytes {first} and {second}")
            }
            Self::SectionSize { section, expected, found } => {
                write!(f, "{section}: expected {expected} bytes, found {found}")
            }
            Self::TrailingBytes { offset, extra } => {
                write!(f, "{extra} bytes follow the last section, from byte {offset} on")
            }
            Self::FieldSize { found } => {
                write!(f, "wrong field size: expected 32 bytes (bls12381), found {found}; {}", prime::ADVICE)
            }
            Self::Prime { found } => {
                write!(f, "wrong prime: expected bls12381, found {found}; {}", prime::ADVICE)
            }
            Self::Count { section, what, count, needed, available } => write!(
                f,
                "{section}: {count} {what} need at least {needed} bytes, {available} are there"
            ),
            Self::WireCounts { wires, pub_out, pub_in } => write!(
                f,
                "header: the constant 1, {pub_out} public outputs and {pub_in} public inputs are more than its \
                 {wires} wires"
            ),
            Self::WireOutOfRange { constraint, matrix, term, offset, wire, wires } => write!(
                f,
                "constraint {constraint}, {matrix}, term {term} (byte {offset}): wire {wire} does not exist, the \
                 circuit has {wires}"
            ),
            Self::CoefficientTooLarge { constraint, matrix, term, offset } => write!(
                f,
                "constraint {constraint}, {matrix}, term {term} (byte {offset}): the coefficient is not below the \
                 prime"
            ),
            Self::ValueTooLarge { wire, offset } => {
                write!(f, "the value of wire {wire} (byte {offset}) is not below the prime")
            }
            Self::CustomGates { count } => write!(
                f,
                "the circuit uses custom gates ({count} listed), which Groth16 cannot prove; compile it without \
                 `pragma custom_templates`"
            ),
            Self::OutOfMemory { what, requested } => {
                write!(f, "host memory (system RAM): {requested} bytes for {what} could not be had")
            }
        }
    }
}

impl std::error::Error for FormatError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            _ => None,
        }
    }
}
