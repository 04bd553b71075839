//! MSM for BLS12-381 by Pippenger's method over blst.
//!
//! - Scalars are read where they are. blst wants them as little-endian integers, the field keeps them in Montgomery form
//!   x·R; so the caller multiplies by R⁻¹ in place ([`Msm::scale`]), after which the very same 32 bytes are the integer x.
//! - A witness is mostly bits. Scalars 0 are left out, bases of scalars 1 are summed up by themselves (blst adds many
//!   affine points with one inversion), and only the rest goes through the buckets, by pointers: neither bases nor scalars
//!   are copied.
//! - The rest is cut into tiles, points by bits of the scalar, that run in parallel; see [`Tiling`].

use ::blst::{blst_fr, blst_p1_affine, blst_p2_affine};
use blstrs::{Bls12, G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ec_gpu_gen::multiexp_cpu::DensityTracker;
use ff::{Field, PrimeField};
use group::prime::PrimeCurveAffine;
use group::Group;
use rayon::prelude::*;
use upstream::SynthesisError;

use super::msm::{identity_in_key, Msm};
use crate::groth16::key::Query;

/// MSM by blst.
pub(super) enum Blst {}

impl Msm<Bls12> for Blst {
    fn scale() -> Scalar {
        // The element whose limbs are the integer 1 is R⁻¹: the product of x·R with it has the limbs of x.
        Scalar::from(blst_fr { l: [1, 0, 0, 0] })
    }

    fn g1(
        query: &Query<G1Affine>,
        scalars: &[Scalar],
        density: Option<&DensityTracker>,
    ) -> Result<G1Projective, SynthesisError> {
        msm::<G1Affine>(&query.0[query.1..], scalars, density)
    }

    fn g2(
        query: &Query<G2Affine>,
        scalars: &[Scalar],
        density: Option<&DensityTracker>,
    ) -> Result<G2Projective, SynthesisError> {
        msm::<G2Affine>(&query.0[query.1..], scalars, density)
    }
}

/// Scalars taken at once: bounds the memory for pointers, 16 bytes a scalar. A multiple of [`SEGMENT`].
const CHUNK: usize = 1 << 22;
/// Scalars that one task sorts into zeros, ones and the rest. A multiple of the bits of a density's word.
const SEGMENT: usize = 1 << 12;
/// Bases that one task sums up.
const SUM: usize = 1 << 12;

/// A pointer that threads may share: it points into a slice that outlives them.
#[repr(transparent)]
struct Shared<T>(*const T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}
// SAFETY: it is made from a `&T` and only read through, which any thread may do for `T: Sync`.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

/// What a segment, or a chunk, of scalars comes to: bases of scalars 1, and bases with their other scalars.
struct Sorted<A> {
    ones: Vec<Shared<A>>,
    bases: Vec<Shared<A>>,
    scalars: Vec<Shared<Scalar>>,
}

impl<A> Default for Sorted<A> {
    fn default() -> Self {
        Self { ones: Vec::new(), bases: Vec::new(), scalars: Vec::new() }
    }
}

/// The sum of bases times prepared scalars.
fn msm<A: BlstAffine>(
    bases: &[A],
    scalars: &[Scalar],
    density: Option<&DensityTracker>,
) -> Result<A::Curve, SynthesisError> {
    let mut total = A::Curve::identity();
    let mut rest = bases;
    for (i, scalars) in scalars.chunks(CHUNK).enumerate() {
        let words = density.map(|density| words_of(density, i * CHUNK, scalars.len()));
        let used = words.map_or(scalars.len(), |words| ones(words, scalars.len()));
        let (now, later) = rest.split_at(used);
        rest = later;
        let sorted = sort(now, scalars, words)?;
        total += sum(&sorted.ones);
        total += pippenger(&sorted.bases, &sorted.scalars);
    }
    Ok(total)
}

/// The words of a density from scalar `start` (a multiple of a word's bits) for `len` scalars.
fn words_of(density: &DensityTracker, start: usize, len: usize) -> &[usize] {
    let bits = usize::BITS as usize;
    &density.bv.as_raw_slice()[start / bits..(start + len).div_ceil(bits)]
}

/// The number of set bits among the first `len`.
fn ones(words: &[usize], len: usize) -> usize {
    let bits = usize::BITS as usize;
    let whole: usize = words[..len / bits].iter().map(|word| word.count_ones() as usize).sum();
    // Bits beyond the length of a bit vector may hold anything.
    let tail = match len % bits {
        0 => 0,
        tail => (words[len / bits] & ((1 << tail) - 1)).count_ones() as usize,
    };
    whole + tail
}

/// Sorts scalars (with their bases) into zeros, which are dropped, ones and others.
fn sort<A: BlstAffine>(
    bases: &[A],
    scalars: &[Scalar],
    words: Option<&[usize]>,
) -> Result<Sorted<A>, SynthesisError> {
    let bits = usize::BITS as usize;
    let mut first = 0;
    let segments: Vec<_> = scalars
        .chunks(SEGMENT)
        .enumerate()
        .map(|(i, scalars)| {
            let words = words.map(|words| {
                let start = i * SEGMENT / bits;
                &words[start..start + scalars.len().div_ceil(bits)]
            });
            let start = first;
            first += words.map_or(scalars.len(), |words| ones(words, scalars.len()));
            (&bases[start..first], scalars, words)
        })
        .collect();
    let sorted: Vec<Sorted<A>> = segments
        .into_par_iter()
        .map(|(bases, scalars, words)| sort_segment(bases, scalars, words))
        .collect::<Result<_, _>>()?;

    let mut all = Sorted::default();
    all.ones.reserve_exact(sorted.iter().map(|s| s.ones.len()).sum());
    let others = sorted.iter().map(|s| s.bases.len()).sum();
    all.bases.reserve_exact(others);
    all.scalars.reserve_exact(others);
    for segment in sorted {
        all.ones.extend(segment.ones);
        all.bases.extend(segment.bases);
        all.scalars.extend(segment.scalars);
    }
    Ok(all)
}

fn sort_segment<A: BlstAffine>(
    bases: &[A],
    scalars: &[Scalar],
    words: Option<&[usize]>,
) -> Result<Sorted<A>, SynthesisError> {
    let bits = usize::BITS as usize;
    let mut sorted = Sorted::default();
    let mut bases = bases.iter();
    for (i, scalar) in scalars.iter().enumerate() {
        if words.is_some_and(|words| words[i / bits] >> (i % bits) & 1 == 0) {
            continue;
        }
        let base = bases.next().expect("a base for each marked scalar was counted");
        match limbs(scalar) {
            [0, 0, 0, 0] => continue,
            _ if bool::from(base.is_identity()) => return Err(identity_in_key()),
            [1, 0, 0, 0] => sorted.ones.push(Shared(base)),
            _ => {
                sorted.bases.push(Shared(base));
                sorted.scalars.push(Shared(scalar));
            }
        }
    }
    Ok(sorted)
}

/// The integer that a prepared scalar is.
fn limbs(scalar: &Scalar) -> [u64; 4] {
    blst_fr::from(*scalar).l
}

/// The sum of bases.
fn sum<A: BlstAffine>(bases: &[Shared<A>]) -> A::Curve {
    bases.par_chunks(SUM).map(A::sum).reduce(A::Curve::identity, |a, b| a + b)
}

/// Below this many points, doubling and adding each by itself is quicker than any bucket.
const FEW: usize = 32;

/// The sum of bases times scalars that are neither 0 nor 1.
fn pippenger<A: BlstAffine>(bases: &[Shared<A>], scalars: &[Shared<Scalar>]) -> A::Curve {
    assert_eq!(bases.len(), scalars.len());
    if bases.len() < FEW {
        return one_by_one(bases, scalars);
    }
    pippenger_tiled(bases, scalars, Tiling::new(bases.len(), rayon::current_num_threads()))
}

fn one_by_one<A: BlstAffine>(bases: &[Shared<A>], scalars: &[Shared<Scalar>]) -> A::Curve {
    let unprepare: Scalar = Option::from(Blst::scale().invert()).expect("R is not zero");
    bases
        .par_iter()
        .zip(scalars)
        .map(|(base, scalar)| {
            // SAFETY: both point into slices that the caller of `msm` keeps borrowed.
            let (base, scalar) = unsafe { (*base.0, *scalar.0) };
            base * (scalar * unprepare)
        })
        .reduce(A::Curve::identity, |a, b| a + b)
}

fn pippenger_tiled<A: BlstAffine>(
    bases: &[Shared<A>],
    scalars: &[Shared<Scalar>],
    tiling: Tiling,
) -> A::Curve {
    let Tiling { window, columns } = tiling;
    let column = |i: usize| i * bases.len() / columns..(i + 1) * bases.len() / columns;
    let per_row: Vec<A::Curve> = (0..tiling.rows())
        .into_par_iter()
        .map(|row| {
            (0..columns)
                .into_par_iter()
                .map(|i| A::tile(&bases[column(i)], &scalars[column(i)], row * window, window))
                .reduce(A::Curve::identity, |a, b| a + b)
        })
        .collect();
    per_row
        .into_iter()
        .rev()
        .fold(A::Curve::identity(), |total, row| (0..window).fold(total, |total, _| total.double()) + row)
}

/// How the work of [`pippenger`] is cut: the points into columns, the bits of the scalars into windows.
///
/// A tile costs one mixed addition a point and, to sum up its 2^(window-1) buckets, two additions a bucket. A wide window
/// means few tiles but many buckets; cutting the points gives every thread a tile but repeats the buckets. The cheapest
/// cut is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    window: usize,
    columns: usize,
}

impl Tiling {
    /// Buckets of one tile stay in the second-level cache at this width: 2^14 buckets of 192 bytes in G1.
    const WIDEST: usize = 15;
    /// Relative cost of the two additions a bucket costs, against one mixed addition a point.
    const BUCKET_COST: usize = 3;
    /// Points in a column at least.
    const COLUMN: usize = 16;

    /// The cheapest cut of at least [`FEW`] points for so many threads.
    fn new(points: usize, threads: usize) -> Self {
        let cost = |tiling: &Self| {
            let rounds = (tiling.rows() * tiling.columns).div_ceil(threads);
            rounds * (points.div_ceil(tiling.columns) + (Self::BUCKET_COST << (tiling.window - 1)))
        };
        let most = threads.min(points / Self::COLUMN).max(1);
        (2..=Self::WIDEST)
            .flat_map(|window| (1..=most).map(move |columns| Self { window, columns }))
            .min_by_key(cost)
            .expect("there are windows to choose from")
    }

    /// Windows in a scalar. One more than the bits need if they divide evenly: digits are signed, and the last one carries.
    fn rows(&self) -> usize {
        SCALAR_BITS / self.window + 1
    }
}

const SCALAR_BITS: usize = Scalar::NUM_BITS as usize;

/// The calls into blst, for the two groups.
trait BlstAffine: PrimeCurveAffine<Scalar = Scalar> {
    /// The sum of points.
    fn sum(points: &[Shared<Self>]) -> Self::Curve;

    /// The sum of points times `window` bits of their scalars, from bit `bit0`, as if that were bit 0.
    fn tile(points: &[Shared<Self>], scalars: &[Shared<Scalar>], bit0: usize, window: usize) -> Self::Curve;
}

macro_rules! blst_affine {
    ($affine:ty, $curve:ty, $blst_affine:ty, $add:ident, $tile:ident, $scratch_sizeof:ident) => {
        // The pointers below are cast from blstrs's point to blst's.
        const _: () = assert!(size_of::<$affine>() == size_of::<$blst_affine>());

        impl BlstAffine for $affine {
            fn sum(points: &[Shared<Self>]) -> Self::Curve {
                let mut sum = <$curve>::identity();
                if points.is_empty() {
                    return sum;
                }
                // SAFETY: `Shared` is a transparent pointer, so the slice is an array of pointers to points, and blstrs's
                // point is a transparent wrapper of blst's. Each points into a slice that is alive and not written. blst
                // reads `points.len()` of them and writes one point to `sum`.
                unsafe { ::blst::$add(sum.as_mut(), points.as_ptr().cast(), points.len()) };
                sum
            }

            fn tile(
                points: &[Shared<Self>],
                scalars: &[Shared<Scalar>],
                bit0: usize,
                window: usize,
            ) -> Self::Curve {
                assert_eq!(points.len(), scalars.len());
                // blst's tile fetches one point ahead, so it needs two.
                assert!(points.len() >= 2 && window >= 1 && bit0 <= SCALAR_BITS);
                // SAFETY: a plain function of a number; for 0 points it is the size of one bucket, in bytes.
                let bucket = unsafe { ::blst::$scratch_sizeof(0) } / size_of::<u64>();
                // blst wants empty buckets, which are zero.
                let mut buckets = vec![0u64; bucket << (window - 1)];
                let mut sum = <$curve>::identity();
                // SAFETY: the points as in `sum`. The scalars are transparent wrappers of `blst_fr`, 32 bytes each, which
                // is what blst reads for `SCALAR_BITS` bits; they hold little-endian integers below 2^SCALAR_BITS,
                // because this machine is little-endian (see `native::prove`) and they are prepared. Both arrays have
                // `points.len()` pointers, at least two. There are 2^(window-1) empty buckets, as a tile needs.
                unsafe {
                    ::blst::$tile(
                        sum.as_mut(),
                        points.as_ptr().cast(),
                        points.len(),
                        scalars.as_ptr().cast(),
                        SCALAR_BITS,
                        buckets.as_mut_ptr(),
                        bit0,
                        window,
                    )
                };
                sum
            }
        }
    };
}

blst_affine!(
    G1Affine,
    G1Projective,
    blst_p1_affine,
    blst_p1s_add,
    blst_p1s_tile_pippenger,
    blst_p1s_mult_pippenger_scratch_sizeof
);
blst_affine!(
    G2Affine,
    G2Projective,
    blst_p2_affine,
    blst_p2s_add,
    blst_p2s_tile_pippenger,
    blst_p2s_mult_pippenger_scratch_sizeof
);

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};
    use std::sync::Arc;

    /// Bases times scalars, one by one.
    fn naive<A: BlstAffine>(bases: &[A], scalars: &[Scalar], marked: impl Fn(usize) -> bool) -> A::Curve {
        let mut bases = bases.iter();
        let mut sum = A::Curve::identity();
        for (i, scalar) in scalars.iter().enumerate() {
            if marked(i) {
                sum += *bases.next().unwrap() * scalar;
            }
        }
        sum
    }

    fn bases<A: BlstAffine>(len: usize, rng: &mut impl RngCore) -> Vec<A> {
        use group::Curve;
        let some: Vec<A> = (0..8).map(|_| A::Curve::random(&mut *rng).to_affine()).collect();
        (0..len).map(|i| some[i % some.len()]).collect()
    }

    fn scalars(len: usize, rng: &mut impl RngCore) -> Vec<Scalar> {
        let one = |rng: &mut dyn RngCore| match rng.next_u32() % 5 {
            0 => Scalar::ZERO,
            1 => Scalar::ONE,
            2 => -Scalar::ONE,
            3 => Scalar::from(u64::from(rng.next_u32() % 1000)),
            _ => Scalar::random(rng),
        };
        (0..len).map(|_| one(rng)).collect()
    }

    fn check<A: BlstAffine>(len: usize) {
        let mut rng = ChaCha8Rng::seed_from_u64(len as u64);
        let scalars = scalars(len, &mut rng);
        let mut prepared = scalars.clone();
        Blst::prepare(&mut prepared);

        let all = bases::<A>(len, &mut rng);
        assert!(msm(&all, &prepared, None).unwrap() == naive(&all, &scalars, |_| true), "{len} scalars");

        let mut density = DensityTracker::new();
        for i in 0..len {
            density.add_element();
            if rng.next_u32() % 3 > 0 {
                density.inc(i);
            }
        }
        let some = &all[..density.get_total_density()];
        let marked = |i: usize| density.bv[i];
        assert!(
            msm(some, &prepared, Some(&density)).unwrap() == naive(some, &scalars, marked),
            "{len} marked"
        );
    }

    #[test]
    fn every_small_size_in_both_groups() {
        for len in (0..70).chain([511, 512, 513, SEGMENT - 1, SEGMENT, SEGMENT + 1]) {
            check::<G1Affine>(len);
        }
        for len in [0, 1, 2, 3, 31, 32, 33, 64, 65, 600] {
            check::<G2Affine>(len);
        }
    }

    #[test]
    fn every_window_and_column() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let (all, scalars) = (bases::<G1Affine>(50, &mut rng), scalars(50, &mut rng));
        let expected = naive(&all, &scalars, |_| true);
        let mut prepared = scalars.clone();
        Blst::prepare(&mut prepared);
        let others: Vec<_> = all.iter().zip(&prepared).filter(|(_, s)| limbs(s) != [0; 4]).collect();
        let bases: Vec<_> = others.iter().map(|(base, _)| Shared(*base as *const G1Affine)).collect();
        let scalars: Vec<_> = others.iter().map(|(_, scalar)| Shared(*scalar as *const Scalar)).collect();
        for window in 2..=Tiling::WIDEST {
            for columns in [1, 3, 7] {
                let sum = pippenger_tiled(&bases, &scalars, Tiling { window, columns });
                assert!(sum == expected, "window {window}, {columns} columns");
            }
        }
    }

    #[test]
    fn an_identity_that_is_used_is_an_error() {
        let identity = Arc::new(vec![G1Affine::identity(); 3]);
        let mut scalars = vec![Scalar::ZERO; 3];
        assert!(bool::from(Blst::g1(&(identity.clone(), 0), &scalars, None).unwrap().is_identity()));
        for scalar in [Scalar::ONE, Scalar::from(5)] {
            scalars[1] = scalar;
            let mut prepared = scalars.clone();
            Blst::prepare(&mut prepared);
            let error = Blst::g1(&(identity.clone(), 0), &prepared, None).unwrap_err();
            assert!(error.to_string().contains("identity element in the CRS"), "{error}");
        }
    }
}
