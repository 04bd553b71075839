//! One point from its bytes, and what is wrong with it.
//!
//! The encodings are ZCash's: coordinates big-endian, for G2 the second coefficient first, and the top three bits
//! of the first byte saying compressed, infinity, and which of the two `y`.

use blstrs::{G1Affine, G2Affine};
use group::prime::PrimeCurveAffine;

use super::error::PointError;

/// Bytes of an element of the base field.
pub(crate) const FP_BYTES: usize = 48;

const COMPRESSED: u8 = 0x80;
const INFINITY: u8 = 0x40;
const SIGN: u8 = 0x20;
const FLAGS: u8 = COMPRESSED | INFINITY | SIGN;

/// The base field's prime, big-endian.
pub(crate) const BASE_PRIME: [u8; FP_BYTES] = [
    0x1a, 0x01, 0x11, 0xea, 0x39, 0x7f, 0xe6, 0x9a, 0x4b, 0x1b, 0xa7, 0xb6, 0x43, 0x4b, 0xac, 0xd7, 0x64,
    0x77, 0x4b, 0x84, 0xf3, 0x85, 0x12, 0xbf, 0x67, 0x30, 0xd2, 0xa0, 0xf6, 0xb0, 0xf6, 0x24, 0x1e, 0xab,
    0xff, 0xfe, 0xb1, 0x53, 0xff, 0xff, 0xb9, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xaa, 0xab,
];

/// A point of G1 or G2 in its fixed-size encodings.
pub(crate) trait Point: PrimeCurveAffine + Send + Sync {
    /// Bytes of `(x, y)`.
    const UNCOMPRESSED: usize;

    /// From `UNCOMPRESSED` bytes of a point on the curve, whatever its subgroup.
    fn on_curve(bytes: &[u8]) -> Option<Self>;
    /// From half as many bytes, of a point on the curve, whatever its subgroup.
    fn on_curve_compressed(bytes: &[u8]) -> Option<Self>;
    fn in_subgroup(&self) -> bool;
}

macro_rules! point {
    ($affine:ty, $bytes:expr) => {
        impl Point for $affine {
            const UNCOMPRESSED: usize = $bytes;

            fn on_curve(bytes: &[u8]) -> Option<Self> {
                <$affine>::from_uncompressed_unchecked(bytes.try_into().ok()?).into()
            }

            fn on_curve_compressed(bytes: &[u8]) -> Option<Self> {
                <$affine>::from_compressed_unchecked(bytes.try_into().ok()?).into()
            }

            fn in_subgroup(&self) -> bool {
                self.is_torsion_free().into()
            }
        }
    };
}

point!(G1Affine, 2 * FP_BYTES);
point!(G2Affine, 4 * FP_BYTES);

/// A point on the curve, other than infinity, from `P::UNCOMPRESSED` bytes. Its subgroup is not checked.
pub(crate) fn decode<P: Point>(bytes: &[u8]) -> Result<P, PointError> {
    // Before blst sees them: it would take a set flag for a compressed point and ignore the second half.
    check_flags(bytes, false)?;
    P::on_curve(bytes).ok_or_else(|| diagnose(bytes, false))
}

/// A point of the subgroup, other than infinity, from `P::UNCOMPRESSED` bytes.
pub(crate) fn decode_checked<P: Point>(bytes: &[u8]) -> Result<P, PointError> {
    decode(bytes).and_then(check_subgroup)
}

/// A point of the subgroup, other than infinity, from `P::UNCOMPRESSED / 2` bytes.
pub(crate) fn decode_compressed<P: Point>(bytes: &[u8]) -> Result<P, PointError> {
    check_flags(bytes, true)?;
    P::on_curve_compressed(bytes).ok_or_else(|| diagnose(bytes, true)).and_then(check_subgroup)
}

fn check_subgroup<P: Point>(point: P) -> Result<P, PointError> {
    if point.in_subgroup() {
        Ok(point)
    } else {
        Err(PointError::NotInSubgroup)
    }
}

/// Errs unless the flags say a point of this encoding, and not infinity.
fn check_flags(bytes: &[u8], compressed: bool) -> Result<(), PointError> {
    let flags = bytes[0] & FLAGS;
    let expected = if compressed { COMPRESSED } else { 0 };
    if flags == expected || (compressed && flags == COMPRESSED | SIGN) {
        return Ok(());
    }
    let rest_is_zero = bytes[0] == flags && bytes[1..].iter().all(|b| *b == 0);
    if flags == expected | INFINITY && rest_is_zero {
        return Err(PointError::Infinity);
    }
    Err(PointError::Flags)
}

/// What is wrong with bytes that have the right flags and are no point.
fn diagnose(bytes: &[u8], compressed: bool) -> PointError {
    let mut x = [0; FP_BYTES];
    x.copy_from_slice(&bytes[..FP_BYTES]);
    x[0] &= !FLAGS;
    let mut rest = bytes[FP_BYTES..].chunks_exact(FP_BYTES);
    if x >= BASE_PRIME || rest.clone().any(|c| c >= &BASE_PRIME[..]) {
        return PointError::NotCanonical;
    }
    // blst refuses (0, 2) and (0, -2) of G1, which are on the curve and of order 3.
    let in_g1 = bytes.len() == if compressed { FP_BYTES } else { 2 * FP_BYTES };
    if in_g1 && x == [0; FP_BYTES] && rest.next().is_none_or(is_two_up_to_sign) {
        return PointError::NotInSubgroup;
    }
    PointError::NotOnCurve
}

fn is_two_up_to_sign(y: &[u8]) -> bool {
    let (mut two, mut minus_two) = ([0; FP_BYTES], BASE_PRIME);
    two[FP_BYTES - 1] = 2;
    minus_two[FP_BYTES - 1] -= 2;
    y == two || y == minus_two
}
