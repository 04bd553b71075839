//! The primes circom compiles for, to name the wrong one.

use super::error::FormatError;

/// Bytes of a scalar of BLS12-381.
pub(crate) const SCALAR_BYTES: usize = 32;

pub(crate) const ADVICE: &str = "compile the circuit with `circom --prime bls12381`";

/// The order of BLS12-381's groups, as big-endian hexadecimal digits.
const BLS12_381: &str = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";

/// What `circom --prime` takes besides `bls12381`, each as big-endian hexadecimal digits.
const OTHERS: [(&str, &str); 7] = [
    ("bn128", "30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001"),
    ("bls12377", "12ab655e9a2ca55660b44d1e5c37b00159aa76fed00000010a11800000000001"),
    ("goldilocks", "ffffffff00000001"),
    ("grumpkin", "30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47"),
    ("pallas", "40000000000000000000000000000000224698fc094cf91b992d30ed00000001"),
    ("vesta", "40000000000000000000000000000000224698fc0994a8dd8c46eb2100000001"),
    ("secq256r1", "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff"),
];

/// Errs unless `prime` (little-endian) is the scalar field of BLS12-381.
pub(crate) fn check(prime: &[u8]) -> Result<(), FormatError> {
    let digits: String = prime.iter().rev().map(|b| format!("{b:02x}")).collect();
    if prime.len() == SCALAR_BYTES && digits == BLS12_381 {
        return Ok(());
    }
    let value = digits.trim_start_matches('0');
    // A known prime is the better answer than "8 bytes": it says what the file was compiled for.
    if let Some((name, _)) = OTHERS.iter().find(|(_, hex)| *hex == value) {
        return Err(FormatError::Prime { found: (*name).to_string() });
    }
    if prime.len() != SCALAR_BYTES {
        return Err(FormatError::FieldSize { found: u32::try_from(prime.len()).unwrap_or(u32::MAX) });
    }
    Err(FormatError::Prime { found: format!("0x{digits}") })
}

#[cfg(test)]
mod tests {
    use ff::PrimeField;

    use super::*;

    fn le(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).rev().map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn ours_is_the_scalar_field() {
        assert_eq!(format!("0x{BLS12_381}"), blstrs::Scalar::MODULUS);
        check(&le(BLS12_381)).unwrap();
    }

    #[test]
    fn every_other_prime_of_circom_is_named() {
        for (name, hex) in OTHERS {
            let text = check(&le(hex)).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("--prime bls12381"), "{text}");
        }
    }

    #[test]
    fn unknown_primes_and_sizes() {
        let mut near = le(BLS12_381);
        near[0] ^= 2;
        assert!(matches!(check(&near), Err(FormatError::Prime { found }) if found.starts_with("0x73ed")));
        assert!(matches!(check(&near[..24]), Err(FormatError::FieldSize { found: 24 })));
        let mut long = le(BLS12_381);
        long.extend([0; 8]);
        assert!(matches!(check(&long), Err(FormatError::FieldSize { found: 40 })));
    }
}
