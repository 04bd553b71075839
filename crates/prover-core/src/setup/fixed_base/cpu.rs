//! Fixed-base multiplication on the CPU.
//!
//! For each digit of the scalars there is a table of the base's multiples by `1..=2^(width - 1)` at that place, so a
//! product is one addition a digit (a subtraction where the digit is negative). The scalars are done in blocks, one a
//! thread, digit by digit, with the additions of [`affine`](super::affine): no point is ever out of affine form.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

use blstrs::{G1Affine, G2Affine, Scalar};
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rayon::prelude::*;

use super::affine::{add_all, Coordinates};
use super::{digits, FixedBase, FixedBaseError};

/// The widest digits: tables of 48 MiB in G1 and 96 MiB in G2. Wider ones would not save an addition before 18 bits,
/// and cost four times as much.
const WIDEST: usize = 16;

/// Scalars that a thread takes at a time: their points, digits and denominators fit its cache.
const BLOCK: usize = 1 << 11;

/// The most that the tables of both groups take, in bytes.
pub(in crate::setup) const TABLE_BYTES: u64 =
    ((digits::count(WIDEST) << (WIDEST - 1)) * (size_of::<G1Affine>() + size_of::<G2Affine>())) as u64;

/// Multiplies on all of rayon's threads. Keeps the tables of the last base in each group, at most 144 MiB.
#[derive(Default)]
pub struct CpuFixedBase {
    g1: Mutex<Option<Arc<Table<G1Affine>>>>,
    g2: Mutex<Option<Arc<Table<G2Affine>>>>,
}

impl CpuFixedBase {
    /// Without any table yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl FixedBase for CpuFixedBase {
    fn name(&self) -> &str {
        "cpu"
    }

    fn g1(&self, base: &G1Affine, scalars: &[Scalar], out: &mut [G1Affine]) -> Result<(), FixedBaseError> {
        let coordinates = Coordinates {
            x: G1Affine::x,
            y: G1Affine::y,
            from: |x, y| G1Affine::from_raw_unchecked(x, y, false),
        };
        multiply(&self.g1, base, scalars, out, &coordinates)
    }

    fn g2(&self, base: &G2Affine, scalars: &[Scalar], out: &mut [G2Affine]) -> Result<(), FixedBaseError> {
        let coordinates = Coordinates {
            x: G2Affine::x,
            y: G2Affine::y,
            from: |x, y| G2Affine::from_raw_unchecked(x, y, false),
        };
        multiply(&self.g2, base, scalars, out, &coordinates)
    }
}

/// The multiples of a base, for digits of a width.
struct Table<P> {
    base: P,
    width: usize,
    /// `k * 2^(width * i) * base` at `i * 2^(width - 1) + k - 1`.
    multiples: Vec<P>,
}

/// Additions for `scalars` products with digits of `width` bits.
fn additions(width: usize, scalars: usize) -> usize {
    digits::count(width).saturating_mul(scalars)
}

/// The best width for so many scalars, the making of the table included.
fn best_width(scalars: usize) -> usize {
    let cost = |&width: &usize| additions(width, scalars.saturating_add(1 << (width - 1)));
    (2..=WIDEST).min_by_key(cost).expect("there are widths")
}

fn multiply<P, F, X, Y, From>(
    kept: &Mutex<Option<Arc<Table<P>>>>,
    base: &P,
    scalars: &[Scalar],
    out: &mut [P],
    coordinates: &Coordinates<X, Y, From>,
) -> Result<(), FixedBaseError>
where
    P: PrimeCurveAffine<Scalar = Scalar>,
    F: Field,
    X: Fn(&P) -> F + Sync,
    Y: Fn(&P) -> F + Sync,
    From: Fn(F, F) -> P + Sync,
{
    assert_eq!(scalars.len(), out.len(), "a point for each scalar");
    if bool::from(base.is_identity()) {
        out.fill(P::identity());
        return Ok(());
    }
    if scalars.is_empty() {
        return Ok(());
    }
    let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lock().clone().filter(|table| table.base == *base);
    let width = best_width(scalars.len());
    let new = additions(width, scalars.len().saturating_add(1 << (width - 1)));
    let table = match known {
        Some(table) if additions(table.width, scalars.len()) <= new => table,
        _ => {
            // The old one goes first: there is memory for one.
            *lock() = None;
            let table = Arc::new(Table::new(base, width, coordinates)?);
            *lock() = Some(table.clone());
            table
        }
    };
    multiply_with(&table, scalars, out, coordinates);
    Ok(())
}

fn multiply_with<P, F, X, Y, From>(
    table: &Table<P>,
    scalars: &[Scalar],
    out: &mut [P],
    coordinates: &Coordinates<X, Y, From>,
) where
    P: PrimeCurveAffine<Scalar = Scalar>,
    F: Field,
    X: Fn(&P) -> F + Sync,
    Y: Fn(&P) -> F + Sync,
    From: Fn(F, F) -> P + Sync,
{
    // No more than a share for each thread, so that all have work.
    let block = scalars.len().div_ceil(rayon::current_num_threads()).clamp(1, BLOCK);
    let room = || {
        let digits = vec![0; digits::count(table.width) * block];
        (digits, vec![P::identity(); block], Vec::with_capacity(block))
    };
    out.par_chunks_mut(block).zip(scalars.par_chunks(block)).for_each_init(
        room,
        |(digits, summands, pending), (out, scalars)| {
            for (i, scalar) in scalars.iter().enumerate() {
                digits::split(scalar, table.width, |place, digit| digits[place * block + i] = digit);
            }
            out.fill(P::identity());
            let places = table.multiples.chunks(1 << (table.width - 1));
            for (multiples, digits) in places.zip(digits.chunks(block)) {
                // Nothing but loads that do not wait for each other: the tables are larger than the caches.
                for (summand, digit) in summands.iter_mut().zip(&digits[..scalars.len()]) {
                    if let Some(at) = (digit.unsigned_abs() as usize).checked_sub(1) {
                        *summand = multiples[at];
                    }
                }
                for (summand, digit) in summands.iter_mut().zip(&digits[..scalars.len()]) {
                    if *digit < 0 {
                        *summand = -*summand;
                    }
                }
                let summand = |i: usize| (digits[i] != 0).then_some(&summands[i]);
                add_all(out, summand, coordinates, pending);
            }
            // They are as secret as the scalars.
            digits.fill(0);
            black_box(digits);
            summands.fill(P::identity());
            black_box(summands);
        },
    );
}

impl<P: PrimeCurveAffine<Scalar = Scalar>> Table<P> {
    fn new<F, X, Y, From>(
        base: &P,
        width: usize,
        coordinates: &Coordinates<X, Y, From>,
    ) -> Result<Self, FixedBaseError>
    where
        F: Field,
        X: Fn(&P) -> F + Sync,
        Y: Fn(&P) -> F + Sync,
        From: Fn(F, F) -> P + Sync,
    {
        let (places, half) = (digits::count(width), 1 << (width - 1));
        let mut multiples = Vec::new();
        if multiples.try_reserve_exact(places * half).is_err() {
            let needed = (places * half * size_of::<P>()) as u64;
            return Err(FixedBaseError::OutOfMemory { place: "the host".into(), needed, available: None });
        }
        multiples.resize(places * half, P::identity());
        let mut power = base.to_curve();
        let mut powers = Vec::with_capacity(places);
        for _ in 0..places {
            powers.push(power);
            power = (0..width).fold(power, |power, _| power.double());
        }
        let mut bases = vec![P::identity(); places];
        P::Curve::batch_normalize(&powers, &mut bases);
        multiples.par_chunks_mut(half).zip(bases).for_each_init(Vec::new, |pending, (multiples, base)| {
            multiples[0] = base;
            // From the multiples by 1..=m those by m+1..=2m.
            for m in (0..width - 1).map(|log| 1 << log) {
                let (low, high) = multiples[..2 * m].split_at_mut(m);
                high.copy_from_slice(low);
                for high in high.chunks_mut(BLOCK) {
                    add_all(high, |_| Some(&low[m - 1]), coordinates, pending);
                }
            }
        });
        Ok(Self { base: *base, width, multiples })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Mul;

    use ff::PrimeField;
    use group::prime::PrimeCurve;
    use rand_core::OsRng;

    use super::*;

    /// Scalars that meet every case of an addition, and random ones.
    fn scalars(count: usize) -> Vec<Scalar> {
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(2), Scalar::TWO_INV];
        for k in 0..255u64 {
            let power = Scalar::from(2).pow_vartime([k]);
            scalars.extend([power, -power, power - Scalar::ONE, power + Scalar::ONE]);
        }
        scalars.resize_with(count.max(scalars.len()), || Scalar::random(OsRng));
        scalars.rotate_left(1);
        scalars.truncate(count);
        scalars
    }

    fn expected<C: PrimeCurve<Scalar = Scalar>>(base: C::Affine, scalars: &[Scalar]) -> Vec<C::Affine> {
        scalars.iter().map(|scalar| base.mul(*scalar).to_affine()).collect()
    }

    fn g1(cpu: &CpuFixedBase, base: G1Affine, scalars: &[Scalar]) {
        let mut out = vec![G1Affine::generator(); scalars.len()];
        cpu.g1(&base, scalars, &mut out).unwrap();
        assert!(out == expected::<blstrs::G1Projective>(base, scalars), "{} in G1", scalars.len());
    }

    fn g2(cpu: &CpuFixedBase, base: G2Affine, scalars: &[Scalar]) {
        let mut out = vec![G2Affine::generator(); scalars.len()];
        cpu.g2(&base, scalars, &mut out).unwrap();
        assert!(out == expected::<blstrs::G2Projective>(base, scalars), "{} in G2", scalars.len());
    }

    #[test]
    fn products_are_those_of_the_curve() {
        let all = scalars(3000);
        for count in [0, 1, 2, 3, 31, 64, 1000, 3000] {
            // A new one each time: the width goes with the number.
            let cpu = CpuFixedBase::new();
            g1(&cpu, G1Affine::generator(), &all[all.len() - count..]);
            g1(&cpu, blstrs::G1Projective::random(OsRng).to_affine(), &all[..count]);
            g2(&cpu, blstrs::G2Projective::random(OsRng).to_affine(), &all[..count]);
        }
    }

    #[test]
    fn tables_are_kept_widened_and_replaced() {
        let cpu = CpuFixedBase::new();
        let width = || cpu.g1.lock().unwrap().as_ref().unwrap().width;
        let all = scalars(2000);
        g1(&cpu, G1Affine::generator(), &all[..10]);
        let narrow = width();
        g1(&cpu, G1Affine::generator(), &all);
        let wide = width();
        assert!(wide > narrow);
        g1(&cpu, G1Affine::generator(), &all[..10]);
        assert_eq!(width(), wide, "a wide one serves few scalars, too");
        g1(&cpu, -G1Affine::generator(), &all[..10]);
        assert_eq!(width(), narrow, "another base");
    }

    #[test]
    fn multiples_of_the_identity_are_the_identity() {
        let cpu = CpuFixedBase::new();
        g1(&cpu, G1Affine::identity(), &scalars(100));
        g2(&cpu, G2Affine::identity(), &scalars(100));
    }

    #[test]
    fn every_width_gives_the_same() {
        let scalars = scalars(1100);
        let base = G1Affine::generator();
        let expected = expected::<blstrs::G1Projective>(base, &scalars);
        for width in 2..=WIDEST {
            let coordinates = Coordinates {
                x: G1Affine::x,
                y: G1Affine::y,
                from: |x, y| G1Affine::from_raw_unchecked(x, y, false),
            };
            let table = Arc::new(Table::new(&base, width, &coordinates).unwrap());
            let mut out = vec![base; scalars.len()];
            multiply_with(&table, &scalars, &mut out, &coordinates);
            assert!(out == expected, "{width}");
        }
    }

    /// Points that meet within one sum, which multiples of one base do not.
    #[test]
    fn equal_and_opposite_points_add() {
        let (p, o) = (G1Affine::generator(), G1Affine::identity());
        let q = p.mul(Scalar::from(5)).to_affine();
        let coordinates = Coordinates {
            x: G1Affine::x,
            y: G1Affine::y,
            from: |x, y| G1Affine::from_raw_unchecked(x, y, false),
        };
        let left = [p, p, q, o, o, q, -q, p, -p];
        let right = [p, -p, p, p, -q, p, q, q, -p];
        // All, then each alone: whether points meet decides for the whole of a call.
        for range in (0..left.len()).map(|i| i..i + 1).chain(std::iter::once(0..left.len())) {
            let mut sums = left[range.clone()].to_vec();
            let right = &right[range.clone()];
            add_all(&mut sums, |i| Some(&right[i]), &coordinates, &mut Vec::new());
            for (i, sum) in sums.iter().enumerate() {
                let expected = left[range.start + i].to_curve() + right[i].to_curve();
                assert_eq!(*sum, expected.to_affine(), "{i} of {range:?}");
            }
            let before = sums.clone();
            add_all(&mut sums, |_| None, &coordinates, &mut Vec::new());
            assert_eq!(sums, before);
        }
    }

    #[test]
    fn widths_grow_with_the_number() {
        let widths: Vec<_> = [1, 10, 1000, 1 << 14, 1 << 20, 1 << 40].map(best_width).into();
        assert!(widths.is_sorted(), "{widths:?}");
        assert_eq!(widths[4], WIDEST);
    }
}
