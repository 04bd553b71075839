//! Numbers in decimal, strictly: digits only, no sign, no leading zero, below the modulus.

use std::fmt;

use blstrs::Scalar;
use ff::PrimeField;
use num_bigint::BigUint;

use crate::keys::point::{BASE_PRIME, FP_BYTES};

/// Why a text is no number of the field. The text itself is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecimalError {
    /// No digits.
    Empty,
    /// A `+` or `-`: values are the least residues, from 0 up.
    Sign,
    /// Something else than a digit.
    NotADigit {
        /// The place of the first, in bytes from 0.
        position: usize,
    },
    /// A leading zero; every number has one form only.
    LeadingZero,
    /// Not below the modulus.
    TooLarge {
        /// Which modulus.
        modulus: &'static str,
    },
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an empty string is no number"),
            Self::Sign => f.write_str("signs are not allowed, values are decimal digits from 0 up"),
            Self::NotADigit { position } => {
                write!(f, "not a decimal number: character {position} is no digit")
            }
            Self::LeadingZero => f.write_str("leading zeros are not allowed"),
            Self::TooLarge { modulus } => write!(f, "not below {modulus}"),
        }
    }
}

impl std::error::Error for DecimalError {}

/// Digits of the largest number that fits 48 bytes; longer texts are not even converted.
const MAX_DIGITS: usize = 116;

fn parse(text: &str, modulus: &'static str) -> Result<BigUint, DecimalError> {
    let digits = text.as_bytes();
    match digits {
        [] => return Err(DecimalError::Empty),
        [b'+' | b'-', ..] => return Err(DecimalError::Sign),
        _ => {}
    }
    if let Some(position) = digits.iter().position(|d| !d.is_ascii_digit()) {
        return Err(DecimalError::NotADigit { position });
    }
    if digits.len() > 1 && digits[0] == b'0' {
        return Err(DecimalError::LeadingZero);
    }
    if digits.len() > MAX_DIGITS {
        return Err(DecimalError::TooLarge { modulus });
    }
    BigUint::parse_bytes(digits, 10).ok_or(DecimalError::NotADigit { position: 0 })
}

/// `text` as `N` big-endian bytes, if so many hold it.
fn bytes<const N: usize>(text: &str, modulus: &'static str) -> Result<[u8; N], DecimalError> {
    let number = parse(text, modulus)?.to_bytes_be();
    let mut out = [0; N];
    let start = N.checked_sub(number.len()).ok_or(DecimalError::TooLarge { modulus })?;
    out[start..].copy_from_slice(&number);
    Ok(out)
}

/// A scalar from its decimal digits.
pub(super) fn scalar(text: &str) -> Result<Scalar, DecimalError> {
    let modulus = "the order r of the scalar field";
    let mut repr = bytes::<32>(text, modulus)?;
    repr.reverse();
    Option::from(Scalar::from_repr(repr)).ok_or(DecimalError::TooLarge { modulus })
}

/// An element of the base field, as 48 big-endian bytes, from its decimal digits.
pub(super) fn base(text: &str) -> Result<[u8; FP_BYTES], DecimalError> {
    let modulus = "the prime of the base field";
    let number = bytes(text, modulus)?;
    if number >= BASE_PRIME {
        return Err(DecimalError::TooLarge { modulus });
    }
    Ok(number)
}

/// The decimal digits of a big-endian number.
pub(super) fn digits(big_endian: &[u8]) -> String {
    BigUint::from_bytes_be(big_endian).to_str_radix(10)
}

#[cfg(test)]
mod tests {
    use ff::Field;

    use super::*;

    /// r, the order of the scalar field.
    const R: &str = "52435875175126190479447740508185965837690552500527637822603658699938581184513";
    const R_MINUS_1: &str = "52435875175126190479447740508185965837690552500527637822603658699938581184512";
    /// p, the prime of the base field, less one.
    const P_MINUS_1: &str =
        "4002409555221667393417789825735904156556882819939007885332058136124031650490837864442\
                             687629129015664037894272559786";

    #[test]
    fn edges_of_the_fields() {
        assert_eq!(scalar("0"), Ok(Scalar::ZERO));
        assert_eq!(scalar(R_MINUS_1), Ok(-Scalar::ONE));
        assert!(matches!(scalar(R), Err(DecimalError::TooLarge { .. })));
        assert!(matches!(scalar(&"9".repeat(78)), Err(DecimalError::TooLarge { .. })));
        assert!(matches!(scalar(&"9".repeat(1 << 20)), Err(DecimalError::TooLarge { .. })));
        assert_eq!(digits(&base(P_MINUS_1).unwrap()), P_MINUS_1);
        let p = P_MINUS_1.replace("559786", "559787");
        assert!(matches!(base(&p), Err(DecimalError::TooLarge { .. })));
    }

    #[test]
    fn other_forms_are_refused() {
        for (text, error) in [
            ("", DecimalError::Empty),
            ("+1", DecimalError::Sign),
            ("-1", DecimalError::Sign),
            ("00", DecimalError::LeadingZero),
            ("07", DecimalError::LeadingZero),
            ("0x7", DecimalError::NotADigit { position: 1 }),
            (" 7", DecimalError::NotADigit { position: 0 }),
            ("7 ", DecimalError::NotADigit { position: 1 }),
            ("1e3", DecimalError::NotADigit { position: 1 }),
            ("1_0", DecimalError::NotADigit { position: 1 }),
            ("1.0", DecimalError::NotADigit { position: 1 }),
            ("\u{0661}", DecimalError::NotADigit { position: 0 }),
        ] {
            assert_eq!(scalar(text), Err(error), "{text:?}");
        }
    }
}
