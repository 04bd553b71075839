//! MSM for any curve: Pippenger's method over the traits of `group`. Tests use it, for curves that are not BLS12-381.

use ec_gpu_gen::multiexp_cpu::DensityTracker;
use ff::{Field, PrimeField};
use group::prime::PrimeCurveAffine;
use group::Group;
use pairing::MultiMillerLoop;
use rayon::prelude::*;
use upstream::SynthesisError;

use super::msm::{identity_in_key, Msm};
use crate::groth16::key::Query;

/// MSM by Pippenger's method, for any curve.
pub(super) enum Portable {}

impl<E: MultiMillerLoop> Msm<E> for Portable {
    fn scale() -> E::Fr {
        E::Fr::ONE
    }

    fn g1(
        query: &Query<E::G1Affine>,
        scalars: &[E::Fr],
        density: Option<&DensityTracker>,
    ) -> Result<E::G1, SynthesisError> {
        msm::<E::G1Affine>(&query.0[query.1..], scalars, density)
    }

    fn g2(
        query: &Query<E::G2Affine>,
        scalars: &[E::Fr],
        density: Option<&DensityTracker>,
    ) -> Result<E::G2, SynthesisError> {
        msm::<E::G2Affine>(&query.0[query.1..], scalars, density)
    }
}

fn msm<G: PrimeCurveAffine>(
    bases: &[G],
    scalars: &[G::Scalar],
    density: Option<&DensityTracker>,
) -> Result<G::Curve, SynthesisError> {
    let window = match scalars.len() {
        0..32 => 3,
        len => len.ilog2() as usize,
    };
    let bits = G::Scalar::NUM_BITS as usize;
    let rows: Vec<usize> = (0..bits).step_by(window).collect();
    let rows = rows
        .into_par_iter()
        .map(|bit0| row(bases, scalars, density, bit0, window))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(rows
        .into_iter()
        .rev()
        .fold(G::Curve::identity(), |total, row| (0..window).fold(total, |total, _| total.double()) + row))
}

/// The sum of bases times `window` bits of their scalars, from bit `bit0`.
fn row<G: PrimeCurveAffine>(
    bases: &[G],
    scalars: &[G::Scalar],
    density: Option<&DensityTracker>,
    bit0: usize,
    window: usize,
) -> Result<G::Curve, SynthesisError> {
    let mut buckets = vec![G::Curve::identity(); (1 << window) - 1];
    let mut bases = bases.iter();
    for (i, scalar) in scalars.iter().enumerate() {
        if density.is_some_and(|density| !density.bv[i]) {
            continue;
        }
        let base = bases.next().expect("the caller checked that there is a base for each marked scalar");
        if scalar.is_zero_vartime() {
            continue;
        }
        if base.is_identity().into() {
            return Err(identity_in_key());
        }
        let digit = digit(scalar.to_repr().as_ref(), bit0, window);
        if digit > 0 {
            buckets[digit - 1] += base;
        }
    }
    // Each bucket counts as often as its digit says: sums of sums, from the highest digit down.
    let mut running = G::Curve::identity();
    let mut sum = G::Curve::identity();
    for bucket in buckets.into_iter().rev() {
        running += bucket;
        sum += running;
    }
    Ok(sum)
}

/// `window` bits from bit `bit0` of a little-endian integer.
fn digit(bytes: &[u8], bit0: usize, window: usize) -> usize {
    (bit0..bit0 + window).rev().fold(0, |digit, bit| {
        digit << 1 | usize::from(bytes.get(bit / 8).is_some_and(|b| b >> (bit % 8) & 1 == 1))
    })
}
