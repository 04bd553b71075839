//! How large a built-in circuit is asked to be.

use super::Family;

/// The largest number of constraints a built-in circuit may be asked for: 2^30. The scalar field of BLS12-381
/// has roots of unity up to 2^32, and three vectors of 2^30 elements are 96 GiB.
pub const MAX_CONSTRAINTS: usize = 1 << 30;

/// The size asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// At most this many constraints, counted as the prover counts them: the circuit's own, plus one for each
    /// public input (and the constant one), which Groth16 adds. So 2^18 fills a domain of 2^18 exactly.
    Constraints(usize),
    /// A message of this many bytes. Only for SHA-256.
    Bytes(usize),
}

/// A size that a built-in circuit cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// Fewer constraints than the smallest circuit of the family.
    #[error("{found} constraints are too few for {family}: the least is {least}")]
    TooFew {
        /// The circuit.
        family: Family,
        /// The constraints asked for.
        found: usize,
        /// The constraints of the smallest one.
        least: usize,
    },
    /// More than [`MAX_CONSTRAINTS`].
    #[error("{found} constraints are too many for {family}: the most is {MAX_CONSTRAINTS} (2^30)")]
    TooMany {
        /// The circuit.
        family: Family,
        /// The constraints asked for, or those that the bytes asked for take.
        found: usize,
    },
    /// A size in bytes for a circuit without a message.
    #[error("{family} has no message: its size is a number of constraints, not of bytes")]
    NoMessage {
        /// The circuit.
        family: Family,
    },
    /// A message of no bytes: every bit of it is a constant, and nothing is left to prove.
    #[error("a message of 0 bytes leaves sha256 nothing to prove: the least is 1 byte")]
    EmptyMessage,
}

/// Reads a number of things: decimal digits (`262144`), or a power of two (`2^18`).
///
/// # Errors
/// A text that says what is wrong and what is understood. Signs, spaces, units and overflow are errors.
pub fn parse_count(text: &str) -> Result<usize, String> {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty();
    let nonsense = || "expected a whole number such as 262144, or a power of two such as 2^18".to_owned();
    let too_large = || format!("the number does not fit in {} bits", usize::BITS);
    if let Some(exponent) = text.strip_prefix("2^") {
        if !digits(exponent) {
            return Err(nonsense());
        }
        let exponent: u32 = exponent.parse().map_err(|_| too_large())?;
        return 1usize.checked_shl(exponent).ok_or_else(too_large);
    }
    if !digits(text) {
        return Err(nonsense());
    }
    text.parse().map_err(|_| too_large())
}

#[cfg(test)]
mod tests {
    use super::parse_count;

    #[test]
    fn counts_are_strict() {
        assert_eq!(parse_count("262144"), Ok(262_144));
        assert_eq!(parse_count("2^18"), Ok(262_144));
        assert_eq!(parse_count("2^0"), Ok(1));
        assert_eq!(parse_count("0"), Ok(0));
        for bad in [
            "",
            " ",
            "2^",
            "^2",
            "2^-1",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1k",
            "0x10",
            "1.5",
            "2^64",
            "2^4294967296",
            "3^2",
        ] {
            assert!(parse_count(bad).is_err(), "{bad:?}");
        }
        assert!(parse_count("99999999999999999999999").is_err());
    }
}
