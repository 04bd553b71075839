//! Checking that very many points are in their subgroup, together.
//!
//! One check costs some eighty additions, so a key of 2^18 constraints would take a minute. Instead each point is
//! added to one of `2^k` buckets, chosen at random, and the sums are checked. If some points are outside the
//! subgroup, take one of them and let the buckets of all others be chosen already: at most one bucket for it
//! makes every sum pass, so a round misses with a probability of at most `2^-k`, whatever the points are (the
//! cofactors' small primes do not matter, as they would for a random linear combination). Rounds are
//! independent; there are enough of them for `2^-64`. The randomness is the system's, fresh each time.
//!
//! When a sum fails the points are checked one by one, to name the first.

use group::{Curve, Group};
use rand_chacha::ChaCha8Rng;
use rand_core::{OsRng, RngCore, SeedableRng};
use rayon::prelude::*;

use super::point::Point;

/// The probability to miss a bad point is at most two to the minus this.
const SOUNDNESS_BITS: u32 = 64;
/// What checking a point costs, in additions of a point (measured: 82 in G1, 51 in G2).
const CHECK_COST: usize = 64;
/// Fewest points that are worth a task of their own.
const MIN_TASK: usize = 1 << 12;

/// The index of the first point outside the subgroup.
pub(crate) fn first_outside<P: Point>(points: &[P]) -> Option<usize> {
    let task = points.len().div_ceil(rayon::current_num_threads()).max(MIN_TASK);
    let all_inside = match bucket_bits(points.len().min(task)) {
        Some(bits) => (0..SOUNDNESS_BITS.div_ceil(bits))
            .into_par_iter()
            .flat_map(|_| points.par_chunks(task))
            .all(|points| round(points, bits)),
        None => false,
    };
    if all_inside {
        return None;
    }
    points.par_iter().position_first(|p| !p.in_subgroup())
}

/// The number of buckets (as its logarithm) that makes the check of `n` points cheapest, `None` if checking one
/// by one is cheaper still.
fn bucket_bits(n: usize) -> Option<u32> {
    let cost = |bits: u32| SOUNDNESS_BITS.div_ceil(bits) as usize * (n + (CHECK_COST << bits));
    (1..=16).min_by_key(|bits| cost(*bits)).filter(|bits| cost(*bits) < n * CHECK_COST)
}

/// Whether the sums of `2^bits` random buckets are all in the subgroup.
fn round<P: Point>(points: &[P], bits: u32) -> bool {
    let mut seed = [0; 32];
    OsRng.fill_bytes(&mut seed);
    let mut rng = ChaCha8Rng::from_seed(seed);
    let mask = (1_usize << bits) - 1;
    let mut sums = vec![P::Curve::identity(); mask + 1];
    for pair in points.chunks(2) {
        let random = rng.next_u32() as usize;
        for (point, bucket) in pair.iter().zip([random, random >> 16]) {
            sums[bucket & mask] += point;
        }
    }
    sums.iter().all(|sum| sum.to_affine().in_subgroup())
}

#[cfg(test)]
mod tests {
    use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective};
    use group::UncompressedEncoding;

    use super::*;
    use crate::keys::point::FP_BYTES;

    /// A point on the curve outside the subgroup: the first small `x` that has one.
    fn outside<P: Point + UncompressedEncoding>() -> P {
        (1_u8..=255)
            .find_map(|x| {
                let mut bytes = vec![0; P::UNCOMPRESSED / 2];
                bytes[0] = 0x80;
                *bytes.last_mut()? = x;
                P::on_curve_compressed(&bytes).filter(|p| !p.in_subgroup())
            })
            .expect("half of all x have a point, hardly any of them in the subgroup")
    }

    fn finds_it<P: Point + UncompressedEncoding>(n: usize, many: impl Fn() -> P::Curve) {
        let mut sum = many();
        let step = many();
        let good: Vec<P> = (0..n)
            .map(|_| {
                sum += step;
                sum.to_affine()
            })
            .collect();
        assert_eq!(first_outside(&good), None);
        let bad = outside::<P>();
        for at in [0, n / 2, n - 1] {
            let mut points = good.clone();
            points[at] = bad;
            assert_eq!(first_outside(&points), Some(at));
            // Two that cancel: their sum is in the subgroup, so only different buckets tell.
            points[n - 1 - at / 2] = -bad;
            assert_eq!(first_outside(&points), Some(at.min(n - 1 - at / 2)));
        }
    }

    #[test]
    fn bad_points_are_found_one_by_one_and_in_bulk() {
        assert_eq!(P1, 2 * FP_BYTES);
        finds_it::<G1Affine>(5, || G1Projective::random(OsRng));
        finds_it::<G1Affine>(3000, || G1Projective::random(OsRng));
        finds_it::<G2Affine>(5, || G2Projective::random(OsRng));
        finds_it::<G2Affine>(3000, || G2Projective::random(OsRng));
    }

    const P1: usize = <G1Affine as Point>::UNCOMPRESSED;

    #[test]
    fn a_round_sees_points_that_cancel_in_sum() {
        let bad = outside::<G1Affine>();
        // 64 cancelling points in 2^8 buckets: a round misses them with a probability of 2^-8 at most.
        let points: Vec<G1Affine> = (0..64).map(|i| if i % 2 == 0 { bad } else { -bad }).collect();
        let missed = (0..64).filter(|_| round(&points, 8)).count();
        assert!(missed < 8, "{missed} of 64 rounds");
    }

    #[test]
    fn few_points_are_checked_one_by_one() {
        assert_eq!(bucket_bits(0), None);
        assert_eq!(bucket_bits(10), None);
        assert!(bucket_bits(1 << 18).is_some_and(|bits| (8..=12).contains(&bits)));
    }
}
