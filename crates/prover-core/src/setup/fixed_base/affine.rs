//! Many independent additions of affine points.
//!
//! An affine addition takes two products, a square and an inversion. Of many additions the inversions are one: the
//! inverse of the product of all denominators, carried back (three products each). That is half of what an addition
//! in Jacobian coordinates takes, and its result needs no normalisation.

use ff::Field;
use group::prime::PrimeCurveAffine;

/// The coordinates of a curve's points, and the point of two coordinates.
///
/// The types of blstrs's coordinates have no names outside it, so they are never named: closures carry them.
pub(super) struct Coordinates<X, Y, From> {
    pub(super) x: X,
    pub(super) y: Y,
    pub(super) from: From,
}

/// An addition that waits for its inverse.
pub(super) struct Pending<F> {
    at: usize,
    denominator: F,
    /// The product of the denominators before.
    before: F,
}

/// Adds `summand(i)`, which is not the identity, to `sums[i]`, for each `i`; `None` adds nothing. `summand` must give
/// the same each time: it is asked twice. `pending` is room to work in.
///
/// All other cases are right: a sum that is the identity, equal points, opposite points. The curve's order must be
/// odd: no point has y = 0.
pub(super) fn add_all<'a, P, F, X, Y, From>(
    sums: &mut [P],
    summand: impl Fn(usize) -> Option<&'a P>,
    coordinates: &Coordinates<X, Y, From>,
    pending: &mut Vec<Pending<F>>,
) where
    P: PrimeCurveAffine + 'a,
    F: Field,
    X: Fn(&P) -> F,
    Y: Fn(&P) -> F,
    From: Fn(F, F) -> P,
{
    let Coordinates { x, y, from } = coordinates;
    pending.clear();
    let mut product = F::ONE;
    for (at, sum) in sums.iter_mut().enumerate() {
        let Some(summand) = summand(at) else { continue };
        if bool::from(sum.is_identity()) {
            *sum = *summand;
            continue;
        }
        let mut denominator = x(summand);
        denominator -= &x(sum);
        pending.push(Pending { at, denominator, before: product });
        product *= &denominator;
    }
    // Zero only if points met, which the multiples of one point hardly do: one look for all of them.
    let mut met = false;
    let mut inverse = match Option::from(product.invert()) {
        Some(inverse) => inverse,
        None => {
            met = true;
            let product = resolve(sums, &summand, coordinates, pending);
            Option::from(product.invert()).expect("a product of what is not zero is not zero")
        }
    };
    for Pending { at, denominator, before } in pending.iter().rev() {
        let sum = &mut sums[*at];
        let Some(summand) = summand(*at) else { unreachable!("it gives the same each time") };
        let (x1, y1, x2) = (x(sum), y(sum), x(summand));
        let mut slope = if met && x1 == x2 {
            // The tangent: 3 x^2 / 2 y.
            let square = x1.square();
            square.double() + square
        } else {
            let mut rise = y(summand);
            rise -= &y1;
            rise
        };
        slope *= before;
        slope *= &inverse;
        inverse *= denominator;
        let mut x3 = slope.square();
        x3 -= &x1;
        x3 -= &x2;
        let mut y3 = x1;
        y3 -= &x3;
        y3 *= &slope;
        y3 -= &y1;
        *sum = from(x3, y3);
    }
}

/// Takes opposite points out of `pending`, whose sum is the identity, and gives equal ones the denominator of the
/// tangent. Returns the product of all denominators.
fn resolve<'a, P, F, X, Y, From>(
    sums: &mut [P],
    summand: &impl Fn(usize) -> Option<&'a P>,
    coordinates: &Coordinates<X, Y, From>,
    pending: &mut Vec<Pending<F>>,
) -> F
where
    P: PrimeCurveAffine + 'a,
    F: Field,
    X: Fn(&P) -> F,
    Y: Fn(&P) -> F,
{
    let mut product = F::ONE;
    pending.retain_mut(|addition| {
        if addition.denominator == F::ZERO {
            let sum = &mut sums[addition.at];
            if summand(addition.at) != Some(sum) {
                *sum = P::identity();
                return false;
            }
            addition.denominator = (coordinates.y)(sum).double();
        }
        addition.before = product;
        product *= &addition.denominator;
        true
    });
    product
}
