//! MSM for BLS12-381 by Pippenger's method over blst.
//!
//! - Scalars are read where they are. blst wants them as little-endian integers, the field keeps them in Montgomery form
//!   x·R; so the caller multiplies by R⁻¹ in place ([`Msm::scale`]), after which the very same 32 bytes are the integer x.
//! - A witness is mostly bits. Scalars 0 are left out, bases of scalars 1 are summed up by themselves (blst adds many
//!   affine points with one inversion), and only the rest goes through the buckets, by pointers. Where nearly all scalars
//!   are large, as in the H query, they are read as the slices they are. Neither bases nor scalars are ever copied.
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

/// Many bases or scalars, where they are: side by side, or anywhere.
enum Many<'a, T> {
    Slice(&'a [T]),
    Pointers(Vec<Shared<T>>),
}

/// Some of [`Many`].
#[derive(Clone, Copy)]
enum Part<'a, T> {
    Slice(&'a [T]),
    Pointers(&'a [Shared<T>]),
}

impl<T> Many<'_, T> {
    fn len(&self) -> usize {
        self.part(0..usize::MAX).len()
    }

    /// A range of them; the end may be beyond.
    fn part(&self, range: std::ops::Range<usize>) -> Part<'_, T> {
        match self {
            Self::Slice(slice) => Part::Slice(&slice[range.start..range.end.min(slice.len())]),
            Self::Pointers(pointers) => Part::Pointers(&pointers[range.start..range.end.min(pointers.len())]),
        }
    }
}

impl<T> Part<'_, T> {
    fn len(&self) -> usize {
        match self {
            Self::Slice(slice) => slice.len(),
            Self::Pointers(pointers) => pointers.len(),
        }
    }

    /// Calls `f` with an array of pointers as blst takes it: one to each, or, for those side by side, one to the first
    /// and a null. The array is valid during the call.
    fn with_pointers<R>(&self, f: impl FnOnce(*const *const T) -> R) -> R {
        match self {
            Self::Slice(slice) => f([slice.as_ptr(), std::ptr::null()].as_ptr()),
            Self::Pointers(pointers) => f(pointers.as_ptr().cast()),
        }
    }
}

/// What a chunk of scalars comes to: bases of scalars 1, and bases with the other scalars.
struct Sorted<'a, A> {
    ones: Vec<Shared<A>>,
    bases: Many<'a, A>,
    scalars: Many<'a, Scalar>,
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

/// Some scalars of a chunk, with the bases of those that are marked.
struct Segment<'a, A> {
    bases: &'a [A],
    scalars: &'a [Scalar],
    words: Option<&'a [usize]>,
}

/// How many marked scalars are 1, and how many neither 0 nor 1.
#[derive(Clone, Copy, Default)]
struct Count {
    ones: usize,
    others: usize,
}

/// Sorts scalars (with their bases) into zeros, which are dropped, ones and others. If nearly all are others, zeros and ones
/// stay among them: that costs a few additions, and saves the pointers.
fn sort<'a, A: BlstAffine>(
    bases: &'a [A],
    scalars: &'a [Scalar],
    words: Option<&'a [usize]>,
) -> Result<Sorted<'a, A>, SynthesisError> {
    let segments = segments(bases, scalars, words);
    let counts = segments.par_iter().map(Segment::count).collect::<Result<Vec<_>, _>>()?;
    let others: usize = counts.iter().map(|count| count.others).sum();
    if others >= bases.len() - bases.len() / 8 {
        let scalars = match words {
            None => Many::Slice(scalars),
            Some(_) => {
                let mut marked = vec![Shared(std::ptr::null()); bases.len()];
                let parts = split(&mut marked, segments.iter().map(|segment| segment.bases.len()));
                segments.par_iter().zip(parts).for_each(|(segment, part)| {
                    segment.marked().zip(part).for_each(|((_, scalar), slot)| *slot = Shared(scalar));
                });
                Many::Pointers(marked)
            }
        };
        return Ok(Sorted { ones: Vec::new(), bases: Many::Slice(bases), scalars });
    }

    let mut ones = vec![Shared(std::ptr::null()); counts.iter().map(|count| count.ones).sum()];
    let mut other_bases = vec![Shared(std::ptr::null()); others];
    let mut other_scalars = vec![Shared(std::ptr::null()); others];
    let parts = split(&mut ones, counts.iter().map(|count| count.ones))
        .into_iter()
        .zip(split(&mut other_bases, counts.iter().map(|count| count.others)))
        .zip(split(&mut other_scalars, counts.iter().map(|count| count.others)))
        .collect::<Vec<_>>();
    segments.par_iter().zip(parts).for_each(|(segment, ((ones, bases), scalars))| {
        let mut ones = ones.iter_mut();
        let mut others = bases.iter_mut().zip(scalars);
        for (base, scalar) in segment.marked() {
            match limbs(scalar) {
                ZERO => {}
                ONE => *ones.next().expect("ones were counted") = Shared(base),
                _ => {
                    let (base_slot, scalar_slot) = others.next().expect("others were counted");
                    (*base_slot, *scalar_slot) = (Shared(base), Shared(scalar));
                }
            }
        }
    });
    Ok(Sorted { ones, bases: Many::Pointers(other_bases), scalars: Many::Pointers(other_scalars) })
}

fn segments<'a, A>(bases: &'a [A], scalars: &'a [Scalar], words: Option<&'a [usize]>) -> Vec<Segment<'a, A>> {
    let bits = usize::BITS as usize;
    let mut rest = bases;
    let of = |(i, scalars): (usize, &'a [Scalar])| {
        let words = words.map(|words| {
            let start = i * SEGMENT / bits;
            &words[start..start + scalars.len().div_ceil(bits)]
        });
        let (bases, later) = rest.split_at(words.map_or(scalars.len(), |words| ones(words, scalars.len())));
        rest = later;
        Segment { bases, scalars, words }
    };
    scalars.chunks(SEGMENT).enumerate().map(of).collect()
}

impl<A: BlstAffine> Segment<'_, A> {
    /// The marked scalars with their bases.
    fn marked(&self) -> impl Iterator<Item = (&A, &Scalar)> {
        let bits = usize::BITS as usize;
        let is_marked = move |i: usize| self.words.is_none_or(|words| words[i / bits] >> (i % bits) & 1 == 1);
        let scalars = self.scalars.iter().enumerate().filter(move |(i, _)| is_marked(*i));
        self.bases.iter().zip(scalars.map(|(_, scalar)| scalar))
    }

    /// # Errors
    /// A base of a scalar other than 0 is the identity.
    fn count(&self) -> Result<Count, SynthesisError> {
        let mut count = Count::default();
        for (base, scalar) in self.marked() {
            match limbs(scalar) {
                ZERO => continue,
                ONE => count.ones += 1,
                _ => count.others += 1,
            }
            if base.is_identity().into() {
                return Err(identity_in_key());
            }
        }
        Ok(count)
    }
}

/// Cuts a slice into parts of these lengths.
fn split<T>(mut slice: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    lengths
        .map(|len| {
            let (part, rest) = std::mem::take(&mut slice).split_at_mut(len);
            slice = rest;
            part
        })
        .collect()
}

const ZERO: [u64; 4] = [0, 0, 0, 0];
const ONE: [u64; 4] = [1, 0, 0, 0];

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

/// The sum of bases times scalars.
fn pippenger<A: BlstAffine>(bases: &Many<'_, A>, scalars: &Many<'_, Scalar>) -> A::Curve {
    assert_eq!(bases.len(), scalars.len());
    if bases.len() < FEW {
        return one_by_one(bases, scalars);
    }
    pippenger_tiled(bases, scalars, Tiling::new::<A>(bases.len(), rayon::current_num_threads()))
}

fn one_by_one<A: BlstAffine>(bases: &Many<'_, A>, scalars: &Many<'_, Scalar>) -> A::Curve {
    let unprepare: Scalar = Option::from(Blst::scale().invert()).expect("R is not zero");
    let value = |i: usize| match scalars {
        Many::Slice(scalars) => scalars[i],
        // SAFETY: it points into a slice that the caller of `msm` keeps borrowed.
        Many::Pointers(pointers) => unsafe { *pointers[i].0 },
    };
    let base = |i: usize| match bases {
        Many::Slice(bases) => bases[i],
        // SAFETY: as for the scalars.
        Many::Pointers(pointers) => unsafe { *pointers[i].0 },
    };
    (0..bases.len())
        .into_par_iter()
        .map(|i| base(i) * (value(i) * unprepare))
        .reduce(A::Curve::identity, |a, b| a + b)
}

fn pippenger_tiled<A: BlstAffine>(
    bases: &Many<'_, A>,
    scalars: &Many<'_, Scalar>,
    tiling: Tiling,
) -> A::Curve {
    let Tiling { window, columns } = tiling;
    let len = bases.len();
    let column = |i: usize| i * len / columns..(i + 1) * len / columns;
    let per_row: Vec<A::Curve> = (0..tiling.rows())
        .into_par_iter()
        .map(|row| {
            (0..columns)
                .into_par_iter()
                .map(|i| A::tile(bases.part(column(i)), scalars.part(column(i)), row * window, window))
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
    /// The most bytes of buckets in a tile. More no longer fit the second-level cache, and every thread has some.
    const BUCKETS: usize = 3 << 20;
    /// Relative cost of the two additions a bucket costs, against one mixed addition a point.
    const BUCKET_COST: usize = 3;
    /// Points in a column at least.
    const COLUMN: usize = 16;

    /// The cheapest cut of at least [`FEW`] points for so many threads.
    fn new<A: BlstAffine>(points: usize, threads: usize) -> Self {
        let cost = |tiling: &Self| {
            let rounds = (tiling.rows() * tiling.columns).div_ceil(threads);
            rounds * (points.div_ceil(tiling.columns) + (Self::BUCKET_COST << (tiling.window - 1)))
        };
        let most = threads.min(points / Self::COLUMN).max(1);
        let widest = (Self::BUCKETS / A::bucket_size()).ilog2() as usize + 1;
        (2..=widest)
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
    /// Bytes of a bucket.
    fn bucket_size() -> usize;

    /// The sum of points.
    fn sum(points: &[Shared<Self>]) -> Self::Curve;

    /// The sum of points times `window` bits of their scalars, from bit `bit0`, as if that were bit 0. At least two points.
    fn tile(points: Part<'_, Self>, scalars: Part<'_, Scalar>, bit0: usize, window: usize) -> Self::Curve;
}

macro_rules! blst_affine {
    ($affine:ty, $curve:ty, $blst_affine:ty, $add:ident, $tile:ident, $scratch_sizeof:ident) => {
        // The pointers below are cast from blstrs's point to blst's.
        const _: () = assert!(size_of::<$affine>() == size_of::<$blst_affine>());

        impl BlstAffine for $affine {
            fn bucket_size() -> usize {
                // SAFETY: a plain function of a number; for 0 points it is the size of one bucket, in bytes.
                unsafe { ::blst::$scratch_sizeof(0) }
            }

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
                points: Part<'_, Self>,
                scalars: Part<'_, Scalar>,
                bit0: usize,
                window: usize,
            ) -> Self::Curve {
                let len = points.len();
                assert_eq!(len, scalars.len());
                // blst's tile fetches one point ahead, so it needs two.
                assert!(len >= 2 && window >= 1 && bit0 <= SCALAR_BITS);
                // blst wants empty buckets, which are zero.
                let mut buckets = vec![0u64; Self::bucket_size() / size_of::<u64>() << (window - 1)];
                let mut sum = <$curve>::identity();
                points.with_pointers(|points| {
                    scalars.with_pointers(|scalars| {
                        // SAFETY: blstrs's point is a transparent wrapper of blst's, and a scalar of `blst_fr`, 32 bytes,
                        // which is what blst reads for `SCALAR_BITS` bits. The scalars hold little-endian integers below
                        // 2^SCALAR_BITS, because this machine is little-endian (see `native::prove`) and they are
                        // prepared. Either array holds `len` pointers (at least two) or one pointer to `len` elements side
                        // by side and a null, as blst takes them; all point into slices that are alive and not written.
                        // There are 2^(window-1) empty buckets, as a tile needs.
                        unsafe {
                            ::blst::$tile(
                                sum.as_mut(),
                                points.cast(),
                                len,
                                scalars.cast(),
                                SCALAR_BITS,
                                buckets.as_mut_ptr(),
                                bit0,
                                window,
                            )
                        }
                    })
                });
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
        let pointers = (
            Many::Pointers(all.iter().map(|base| Shared(base as *const _)).collect()),
            Many::Pointers(prepared.iter().map(|scalar| Shared(scalar as *const _)).collect()),
        );
        let slices = (Many::Slice(&all[..]), Many::Slice(&prepared[..]));
        for window in 2..=15 {
            for columns in [1, 3, 7, 25] {
                for (bases, scalars) in [&pointers, &slices] {
                    let sum = pippenger_tiled(bases, scalars, Tiling { window, columns });
                    assert!(sum == expected, "window {window}, {columns} columns");
                }
            }
        }
        for (bases, scalars) in [&pointers, &slices] {
            assert!(one_by_one(bases, scalars) == expected);
        }
    }

    #[test]
    fn mostly_dense_and_mostly_trivial_scalars() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let len = SEGMENT + 77;
        for dense_of_100 in [0, 1, 50, 87, 88, 90, 99, 100] {
            let scalars: Vec<_> = (0..len)
                .map(|_| match rng.next_u32() % 100 {
                    i if i < dense_of_100 => Scalar::random(&mut rng),
                    i => Scalar::from(u64::from(i % 2)),
                })
                .collect();
            let mut prepared = scalars.clone();
            Blst::prepare(&mut prepared);
            let all = bases::<G1Affine>(len, &mut rng);
            let mut density = DensityTracker::new();
            for i in 0..len {
                density.add_element();
                if rng.next_u32() % 8 > 0 {
                    density.inc(i);
                }
            }
            let some = &all[..density.get_total_density()];
            assert!(msm(&all, &prepared, None).unwrap() == naive(&all, &scalars, |_| true));
            assert!(
                msm(some, &prepared, Some(&density)).unwrap() == naive(some, &scalars, |i| density.bv[i])
            );
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
