//! Points as arrays of numbers: `[x, y, "1"]`, in G2 with `[c0, c1]` for each coordinate.

use blst::blst_fp12;
use blstrs::{G1Affine, G2Affine};
use group::prime::PrimeCurveAffine;

use super::decimal;
use super::error::JsonError;
use crate::keys::point::{self, FP_BYTES};

/// An element of the quadratic extension, `c0 + c1 u`.
pub(super) type Fp2 = [String; 2];
/// A point of G1.
pub(super) type G1 = [String; 3];
/// A point of G2.
pub(super) type G2 = [Fp2; 3];
/// An element of the target group, as a tower of extensions of degree 2, 3 and 2.
pub(super) type Gt = [[Fp2; 3]; 2];

/// The identity is `[0, 1, 0]`, as snarkjs has it.
pub(super) fn g1(point: &G1Affine) -> G1 {
    if point.is_identity().into() {
        return ["0", "1", "0"].map(String::from);
    }
    let bytes = point.to_uncompressed();
    let (x, y) = bytes.split_at(FP_BYTES);
    [decimal::digits(x), decimal::digits(y), "1".to_string()]
}

/// The identity is `[0, 1, 0]`, as snarkjs has it.
pub(super) fn g2(point: &G2Affine) -> G2 {
    if point.is_identity().into() {
        return [["0", "0"], ["1", "0"], ["0", "0"]].map(|c| c.map(String::from));
    }
    let bytes = point.to_uncompressed();
    let mut parts = bytes.chunks_exact(FP_BYTES).map(decimal::digits);
    let mut coordinate = || {
        // The encoding has the second coefficient first.
        let (c1, c0) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        [c0, c1]
    };
    [coordinate(), coordinate(), ["1".to_string(), "0".to_string()]]
}

/// The pairing of two points, in snarkjs's tower (which is blst's).
pub(super) fn pairing(p: &G1Affine, q: &G2Affine) -> Gt {
    let value = blst_fp12::miller_loop(q.as_ref(), p.as_ref()).final_exp();
    let bytes = value.to_bendian();
    // blst's order of the twelve: the degree 3 outermost, then the upper degree 2, then the lower.
    let part = |i: usize, j: usize, k: usize| {
        let at = ((j * 2 + i) * 2 + k) * FP_BYTES;
        decimal::digits(&bytes[at..at + FP_BYTES])
    };
    [0, 1].map(|i| [0, 1, 2].map(|j| [part(i, j, 0), part(i, j, 1)]))
}

/// Reads a point of the subgroup that is not the identity.
pub(super) fn parse_g1(text: &G1, field: &'static str, index: usize) -> Result<G1Affine, JsonError> {
    let [x, y, z] = text;
    if z != "1" {
        return Err(JsonError::NotNormalised { field, index });
    }
    let bytes = coordinates([x, y], field, index)?;
    point::decode_checked(&bytes).map_err(|cause| JsonError::Point { field, index, cause })
}

/// Reads a point of the subgroup that is not the identity.
pub(super) fn parse_g2(text: &G2, field: &'static str, index: usize) -> Result<G2Affine, JsonError> {
    let [[x0, x1], [y0, y1], [z0, z1]] = text;
    if z0 != "1" || z1 != "0" {
        return Err(JsonError::NotNormalised { field, index });
    }
    let bytes = coordinates([x1, x0, y1, y0], field, index)?;
    point::decode_checked(&bytes).map_err(|cause| JsonError::Point { field, index, cause })
}

/// The uncompressed encoding. Each number is below the prime, so the flag bits are clear.
fn coordinates<const N: usize>(
    numbers: [&String; N],
    field: &'static str,
    index: usize,
) -> Result<Vec<u8>, JsonError> {
    let mut bytes = Vec::with_capacity(N * FP_BYTES);
    for number in numbers {
        let number = decimal::base(number).map_err(|cause| JsonError::Number { field, index, cause })?;
        bytes.extend(number);
    }
    Ok(bytes)
}
