//! blstrs's types as blst's, which they are transparent wrappers of.

use std::mem::{align_of, size_of};

use blst::{blst_fr, blst_p1_affine, blst_p2_affine};
use blstrs::{G1Affine, G2Affine, Scalar};

const _: () =
    assert!(size_of::<Scalar>() == size_of::<blst_fr>() && align_of::<Scalar>() == align_of::<blst_fr>());
const _: () = assert!(size_of::<G1Affine>() == 96 && align_of::<G1Affine>() == align_of::<blst_p1_affine>());
const _: () = assert!(size_of::<G2Affine>() == 192 && align_of::<G2Affine>() == align_of::<blst_p2_affine>());

pub(super) fn scalars(values: &[Scalar]) -> &[blst_fr] {
    // SAFETY: `Scalar` is `repr(transparent)` over `blst_fr`; the length is that of the slice.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

pub(super) fn g1(points: &[G1Affine]) -> &[blst_p1_affine] {
    // SAFETY: `G1Affine` is `repr(transparent)` over `blst_p1_affine`.
    unsafe { std::slice::from_raw_parts(points.as_ptr().cast(), points.len()) }
}

pub(super) fn g2(points: &[G2Affine]) -> &[blst_p2_affine] {
    // SAFETY: `G2Affine` is `repr(transparent)` over `blst_p2_affine`.
    unsafe { std::slice::from_raw_parts(points.as_ptr().cast(), points.len()) }
}

pub(super) fn g1_mut(points: &mut [G1Affine]) -> &mut [blst_p1_affine] {
    // SAFETY: as in `g1`; what is written is the library's, a point of the curve or the identity.
    unsafe { std::slice::from_raw_parts_mut(points.as_mut_ptr().cast(), points.len()) }
}

pub(super) fn g2_mut(points: &mut [G2Affine]) -> &mut [blst_p2_affine] {
    // SAFETY: as in `g1_mut`.
    unsafe { std::slice::from_raw_parts_mut(points.as_mut_ptr().cast(), points.len()) }
}

/// The bits of a density, the least significant first.
pub(super) fn words(bits: &[usize]) -> &[u64] {
    const { assert!(size_of::<usize>() == size_of::<u64>() && align_of::<usize>() == align_of::<u64>()) };
    // SAFETY: both are integers of one size and alignment, as asserted.
    unsafe { std::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
}
