//! Values at one point: powers, and the Lagrange polynomials of a domain.

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;

/// Elements that one thread does at a time: an inversion, or a power, for so many.
const BLOCK: usize = 1 << 12;

/// Fills `out` with `scale * point^(first + i)`.
pub(super) fn powers(out: &mut [Scalar], point: Scalar, first: usize, scale: Scalar) {
    out.par_chunks_mut(BLOCK).enumerate().for_each(|(block, out)| {
        let mut power = scale * point.pow_vartime([(first + block * BLOCK) as u64]);
        for value in out {
            *value = power;
            power *= point;
        }
    });
}

/// The exponent of the least domain of at least `rows` elements, or `None` if the field has none. As in bellperson,
/// the largest is 2^31.
pub(super) fn log_domain(rows: usize) -> Option<u32> {
    let log = rows.checked_next_power_of_two()?.trailing_zeros();
    (log < Scalar::S).then_some(log)
}

/// `point^m - 1`, which the domain of m = 2^`log` elements vanishes by.
pub(super) fn vanishing(point: Scalar, log: u32) -> Scalar {
    (0..log).fold(point, |power, _| power.square()) - Scalar::ONE
}

/// The primitive root of unity of order 2^`log`.
pub(super) fn omega(log: u32) -> Scalar {
    (log..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square())
}

/// Fills `out` with the first Lagrange polynomials of the domain of 2^`log` elements, at `point`:
///
/// `L_i(x) = (x^m - 1) / m * w^i / (x - w^i)`, or 1 and 0 if x is in the domain.
///
/// # Panics
/// If `out` is longer than the domain.
pub(super) fn lagrange(out: &mut [Scalar], point: Scalar, log: u32) {
    assert!(out.len() <= 1 << log, "more coefficients than the domain has");
    let omega = omega(log);
    let vanishing = vanishing(point, log);
    if vanishing.is_zero_vartime() {
        let mut power = Scalar::ONE;
        for value in out {
            *value = if power == point { Scalar::ONE } else { Scalar::ZERO };
            power *= omega;
        }
        return;
    }
    let size_inverse = (0..log).fold(Scalar::ONE, |x, _| x * Scalar::TWO_INV);
    let scale = vanishing * size_inverse;
    out.par_chunks_mut(BLOCK).enumerate().for_each_init(
        || Vec::with_capacity(BLOCK),
        |differences, (block, out)| {
            let start = omega.pow_vartime([(block * BLOCK) as u64]);
            differences.clear();
            let (mut root, mut product) = (start, Scalar::ONE);
            for value in &mut *out {
                // No difference is zero: the point is not in the domain.
                let difference = point - root;
                differences.push(difference);
                *value = product;
                product *= difference;
                root *= omega;
            }
            // One inversion for the block, carried back through the products of what came before.
            let mut inverse = product.invert().expect("a product of what is not zero");
            for (value, difference) in out.iter_mut().zip(&*differences).rev() {
                *value *= inverse;
                inverse *= difference;
            }
            let mut root = scale * start;
            for value in out {
                *value *= root;
                root *= omega;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(point: Scalar, log: u32, i: usize) -> Scalar {
        let root = |k: usize| omega(log).pow_vartime([k as u64]);
        let others = (0..1 << log).filter(|&k| k != i);
        others.fold(Scalar::ONE, |product, k| {
            product * (point - root(k)) * (root(i) - root(k)).invert().unwrap()
        })
    }

    #[test]
    fn lagrange_is_its_definition() {
        for log in 0..6 {
            let inside = omega(log).pow_vartime([3]);
            for point in [Scalar::from(12345), Scalar::ZERO, Scalar::ONE, -Scalar::ONE, inside] {
                for len in [1 << log, (1 << log) - 1, (1usize << log) / 2 + 1] {
                    let mut out = vec![Scalar::ONE; len.min(1 << log)];
                    lagrange(&mut out, point, log);
                    for (i, value) in out.iter().enumerate() {
                        assert_eq!(*value, naive(point, log, i), "2^{log} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn lagrange_sums_to_one_over_blocks() {
        let mut out = vec![Scalar::ZERO; 1 << 14];
        lagrange(&mut out, Scalar::from(77), 14);
        assert_eq!(out.iter().sum::<Scalar>(), Scalar::ONE);
        let point = out.iter().enumerate().map(|(i, l)| omega(14).pow_vartime([i as u64]) * l);
        assert_eq!(point.sum::<Scalar>(), Scalar::from(77));
    }

    #[test]
    fn powers_continue() {
        let point = Scalar::from(3);
        let mut out = vec![Scalar::ZERO; BLOCK + 10];
        powers(&mut out, point, 5, Scalar::from(7));
        for i in [0, 1, BLOCK - 1, BLOCK, BLOCK + 9] {
            assert_eq!(out[i], Scalar::from(7) * point.pow_vartime([5 + i as u64]));
        }
    }

    #[test]
    fn domains_end_where_bellpersons_do() {
        assert_eq!(log_domain(1), Some(0));
        assert_eq!(log_domain(2), Some(1));
        assert_eq!(log_domain(3), Some(2));
        assert_eq!(log_domain(1 << 31), Some(31));
        assert_eq!(log_domain((1 << 31) + 1), None);
        assert_eq!(log_domain(usize::MAX), None);
    }
}
