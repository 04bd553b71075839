//! Many independent additions of affine points.
//!
//! An affine addition takes two products, a square and an inversion. Of many additions the inversions are one: the
//! inverse of the product of all denominators, carried back (three products each). That is half of what an addition
//! in Jacobian coordinates takes, and its result needs no normalisation.

use ff::Field;

/// Coordinates of a curve's points. The identity is (0, 0), which is on no curve `y^2 = x^3 + b` with `b != 0`.
pub(super) struct Coordinates<Of, From> {
    /// x and y.
    pub(super) of: Of,
    /// The point of an x and a y.
    pub(super) from: From,
}

/// An addition that waits for its inverse.
pub(super) struct Pending<F> {
    at: usize,
    denominator: F,
    /// The product of the denominators before.
    before: F,
}

/// Adds `summand(i)` to `sums[i]`, for each `i`; `None` adds nothing. `summand` must give the same each time: it is
/// asked twice. `pending` is room to work in.
///
/// All cases are right: the identity on either side, equal points, opposite points. Curves of odd order only: there
/// is no point with y = 0.
pub(super) fn add_all<P, F, Of, From>(
    sums: &mut [P],
    summand: impl Fn(usize) -> Option<(F, F)>,
    coordinates: &Coordinates<Of, From>,
    pending: &mut Vec<Pending<F>>,
) where
    F: Field,
    Of: Fn(&P) -> (F, F),
    From: Fn(F, F) -> P,
{
    let identity = (F::ZERO, F::ZERO);
    pending.clear();
    let mut product = F::ONE;
    for (at, sum) in sums.iter_mut().enumerate() {
        let Some((x2, y2)) = summand(at) else { continue };
        let (x1, y1) = (coordinates.of)(sum);
        let mut denominator = x2 - x1;
        if denominator == F::ZERO {
            if y1 != y2 {
                // Opposite points, or one is the identity and the other has x = 0.
                let (x, y) = match ((x1, y1) == identity, (x2, y2) == identity) {
                    (true, _) => (x2, y2),
                    (_, true) => (x1, y1),
                    _ => identity,
                };
                *sum = (coordinates.from)(x, y);
                continue;
            }
            if (x1, y1) == identity {
                continue;
            }
            denominator = y1.double();
        } else if (x1, y1) == identity {
            *sum = (coordinates.from)(x2, y2);
            continue;
        } else if (x2, y2) == identity {
            continue;
        }
        pending.push(Pending { at, denominator, before: product });
        product *= denominator;
    }
    let Some(mut inverse) = Option::<F>::from(product.invert()) else {
        unreachable!("a product of what is not zero is not zero")
    };
    for Pending { at, denominator, before } in pending.drain(..).rev() {
        let this = inverse * before;
        inverse *= denominator;
        let sum = &mut sums[at];
        let (x1, y1) = (coordinates.of)(sum);
        let (x2, y2) = summand(at).expect("the same as before");
        let slope = if x1 == x2 {
            let square = x1.square();
            (square.double() + square) * this
        } else {
            (y2 - y1) * this
        };
        let x = slope.square() - x1 - x2;
        let y = slope * (x1 - x) - y1;
        *sum = (coordinates.from)(x, y);
    }
}
