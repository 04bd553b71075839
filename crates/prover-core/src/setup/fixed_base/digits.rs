//! Scalars in signed digits.

use blstrs::Scalar;

/// Bits of the scalar field.
const BITS: usize = 255;

/// The digits of a scalar in base 2^`width`: one more than its bits need if the last could carry.
pub(super) const fn count(width: usize) -> usize {
    BITS / width + 1
}

/// Splits a scalar into [`count`] digits of `width` bits between `1 - 2^(width - 1)` and `2^(width - 1)`, the lowest
/// first, so that the scalar is the sum of `digit[i] * 2^(width * i)`.
pub(super) fn split(scalar: &Scalar, width: usize, mut put: impl FnMut(usize, i32)) {
    let bytes = scalar.to_bytes_le();
    let limb = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let limbs = [limb(0), limb(1), limb(2), limb(3), 0];
    let mut carry = 0;
    for i in 0..count(width) {
        let (at, shift) = (i * width / 64, i * width % 64);
        let both = u128::from(limbs[at]) | u128::from(limbs[at + 1]) << 64;
        let bits = (both >> shift) as i32 & ((1 << width) - 1);
        let digit = bits + carry;
        carry = i32::from(digit > 1 << (width - 1));
        put(i, digit - (carry << width));
    }
    debug_assert_eq!(carry, 0, "the last digit has room");
}

#[cfg(test)]
mod tests {
    use ff::{Field, PrimeField};
    use rand_core::OsRng;

    use super::*;

    #[test]
    fn digits_sum_to_the_scalar() {
        let two = Scalar::from(2);
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::TWO_INV, -Scalar::TWO_INV];
        for k in 0..255u64 {
            let power = two.pow_vartime([k]);
            scalars.extend([power, power - Scalar::ONE, -power]);
        }
        scalars.extend((0..100).map(|_| Scalar::random(OsRng)));
        for width in 2..=16 {
            assert!(count(width) * width >= 256);
            for scalar in &scalars {
                let (mut sum, mut weight, mut next) = (Scalar::ZERO, Scalar::ONE, 0);
                split(scalar, width, |i, digit| {
                    assert_eq!(i, next);
                    assert!(digit > -(1 << (width - 1)) && digit <= 1 << (width - 1), "{digit}");
                    let size = Scalar::from(u64::from(digit.unsigned_abs())) * weight;
                    sum += if digit < 0 { -size } else { size };
                    weight *= two.pow_vartime([width as u64]);
                    next += 1;
                });
                assert_eq!((sum, next), (*scalar, count(width)), "{width}");
            }
        }
    }
}
