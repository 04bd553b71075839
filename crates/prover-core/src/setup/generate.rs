//! From a circuit and toxic waste to a key.

use std::ops::Mul;
use std::sync::Arc;
use std::time::Instant;

use bellperson::groth16::{Parameters, VerifyingKey};
use bellperson::{Circuit, SynthesisError};
use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rayon::prelude::*;

use super::circuit::{count, evaluate, Evaluations};
use super::lagrange::{lagrange, log_domain, powers, vanishing};
use super::waste::{filled, Secrets};
use super::{check, FixedBase, FixedBaseError, KeySize, SetupError, ToxicWaste};

/// A step of the work. The order is the order of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stage {
    /// Counts the circuit, if its size is not known.
    Count,
    /// Evaluates its polynomials, in constraints.
    Evaluate,
    /// The H query, in points, as all below.
    H,
    /// The verifying key's points and the L query.
    L,
    /// The A query.
    A,
    /// The B query in G1.
    BG1,
    /// The B query in G2.
    BG2,
}

impl Stage {
    /// The stage in a few words, for a progress bar.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count the circuit",
            Self::Evaluate => "evaluate the circuit",
            Self::H => "H query",
            Self::L => "L query",
            Self::A => "A query",
            Self::BG1 => "B query in G1",
            Self::BG2 => "B query in G2",
        }
    }
}

/// Is told of progress: the stage, what is done of it and what there is to do. A stage begins with 0 done and ends
/// with all done. `Count` does not know what there is to do: its end tells.
pub type Progress<'a> = &'a (dyn Fn(Stage, usize, usize) + Sync);

/// Makes the key of a circuit: the same bytes as `bellperson::groth16::generate_parameters` for the same waste.
///
/// `circuit` makes the circuit, without a witness, once for each pass over it. With a `size` there is one pass, else
/// two. The memory is checked against the limits of this process before it is taken ([`check`]).
///
/// # Errors
/// - [`SetupError::Synthesis`] with what bellperson's generator returns: whatever the synthesis returns,
///   `UnconstrainedVariable` if an auxiliary variable stands in no constraint, `PolynomialDegreeTooLarge` beyond 2^31
///   constraints, `UnexpectedIdentity` if gamma or delta is zero;
/// - [`SetupError::ShapeChanged`] if the circuit has another size than `size` or than the first pass found;
/// - if memory or a device fails.
pub fn generate<C: Circuit<Scalar>>(
    circuit: impl Fn() -> C,
    size: Option<KeySize>,
    waste: ToxicWaste,
    fixed_base: &dyn FixedBase,
    progress: Progress<'_>,
) -> Result<Parameters<Bls12>, SetupError> {
    if bool::from(waste.g1.is_identity() | waste.g2.is_identity()) {
        return Err(SetupError::IdentityGenerator);
    }
    let size = match size {
        Some(size) => size,
        None => {
            progress(Stage::Count, 0, 0);
            let shape = count(circuit())?;
            progress(Stage::Count, shape.constraints, shape.constraints);
            KeySize::at_most(shape)
        }
    };
    let shape = size.shape;
    let log = log_domain(shape.constraints).ok_or(SynthesisError::PolynomialDegreeTooLarge)?;
    let inverse = |secret: Scalar| Option::<Scalar>::from(secret.invert());
    let gamma_inverse = inverse(waste.gamma.0).ok_or(SynthesisError::UnexpectedIdentity)?;
    let delta_inverse = inverse(waste.delta.0).ok_or(SynthesisError::UnexpectedIdentity)?;
    check(&size)?;

    let work = Work { fixed_base, progress, g1: waste.g1.to_affine(), g2: waste.g2.to_affine() };
    let Evaluations { mut a, mut b, c: mut ext } = work.stage(Stage::Evaluate, shape.constraints, || {
        let mut rows = Secrets::zeroed(shape.constraints, "the Lagrange coefficients")?;
        lagrange(&mut rows, waste.tau.0, log);
        evaluate(circuit(), shape, rows)
    })?;
    // (beta A + alpha B + C) / gamma for inputs, / delta for auxiliary variables.
    let (beta, alpha) = (waste.beta.0, waste.alpha.0);
    let combine = |ext: &mut [Scalar], a: &[Scalar], b: &[Scalar], inverse: Scalar| {
        ext.par_iter_mut().zip(a).zip(b).with_min_len(1 << 10).for_each(|((c, a), b)| {
            *c = (*a * beta + *b * alpha + *c) * inverse;
        });
    };
    let (ext_inputs, ext_aux) = ext.split_at_mut(shape.inputs);
    combine(ext_inputs, &a[..shape.inputs], &b[..shape.inputs], gamma_inverse);
    combine(ext_aux, &a[shape.inputs..], &b[shape.inputs..], delta_inverse);
    if ext_aux.par_iter().with_min_len(1 << 10).any(|value| *value == Scalar::ZERO) {
        return Err(SynthesisError::UnconstrainedVariable.into());
    }

    // tau^i (tau^m - 1) / delta
    let coefficient = vanishing(waste.tau.0, log) * delta_inverse;
    let h = work.h(waste.tau.0, coefficient, (1 << log) - 1)?;
    let ic = work.g1(Stage::L, "the verifying key", &ext[..shape.inputs])?;
    let l = work.g1(Stage::L, "the L query", &ext[shape.inputs..])?;
    drop(ext);
    let points = a.compact();
    let a_query = work.g1(Stage::A, "the A query", &a[..points])?;
    drop(a);
    let points = b.compact();
    let b_g1 = work.g1(Stage::BG1, "the B query in G1", &b[..points])?;
    let b_g2 = work.g2(Stage::BG2, "the B query in G2", &b[..points])?;
    drop(b);

    let g1 = |secret: Scalar| work.g1.mul(secret).to_affine();
    let g2 = |secret: Scalar| work.g2.mul(secret).to_affine();
    let vk = VerifyingKey {
        alpha_g1: g1(alpha),
        beta_g1: g1(beta),
        beta_g2: g2(beta),
        gamma_g2: g2(waste.gamma.0),
        delta_g1: g1(waste.delta.0),
        delta_g2: g2(waste.delta.0),
        ic,
    };
    Ok(Parameters {
        vk,
        h: Arc::new(h),
        l: Arc::new(l),
        a: Arc::new(a_query),
        b_g1: Arc::new(b_g1),
        b_g2: Arc::new(b_g2),
    })
}

/// What all stages need.
struct Work<'a> {
    fixed_base: &'a dyn FixedBase,
    progress: Progress<'a>,
    g1: G1Affine,
    g2: G2Affine,
}

impl Work<'_> {
    /// Tells of the stage's begin and end, and logs its time.
    fn stage<T>(
        &self,
        stage: Stage,
        total: usize,
        work: impl FnOnce() -> Result<T, SetupError>,
    ) -> Result<T, SetupError> {
        (self.progress)(stage, 0, total);
        let start = Instant::now();
        let done = work()?;
        let seconds = start.elapsed().as_secs_f64();
        tracing::debug!(total, seconds, by = self.fixed_base.name(), "set-up: {}", stage.name());
        (self.progress)(stage, total, total);
        Ok(done)
    }

    /// The points of `total` scalars, a chunk at a time: `next` makes the scalars from `first` on, or finds them.
    fn points<P: PrimeCurveAffine>(
        &self,
        stage: Stage,
        what: &'static str,
        total: usize,
        mut multiply: impl FnMut(usize, &mut [P]) -> Result<(), FixedBaseError>,
    ) -> Result<Vec<P>, SetupError> {
        self.stage(stage, total, || {
            let mut points = filled(total, P::identity(), what)?;
            let chunk = self.fixed_base.chunk().max(1);
            for (i, points) in points.chunks_mut(chunk).enumerate() {
                multiply(i * chunk, points)?;
                let done = i * chunk + points.len();
                if done < total {
                    (self.progress)(stage, done, total);
                }
            }
            Ok(points)
        })
    }

    fn g1(&self, stage: Stage, what: &'static str, scalars: &[Scalar]) -> Result<Vec<G1Affine>, SetupError> {
        self.points(stage, what, scalars.len(), |first, points| {
            self.fixed_base.g1(&self.g1, &scalars[first..first + points.len()], points)
        })
    }

    fn g2(&self, stage: Stage, what: &'static str, scalars: &[Scalar]) -> Result<Vec<G2Affine>, SetupError> {
        self.points(stage, what, scalars.len(), |first, points| {
            self.fixed_base.g2(&self.g2, &scalars[first..first + points.len()], points)
        })
    }

    /// The first `total` powers of `tau` times `coefficient`; the scalars are made a chunk at a time.
    fn h(&self, tau: Scalar, coefficient: Scalar, total: usize) -> Result<Vec<G1Affine>, SetupError> {
        let mut scalars = Secrets::zeroed(self.fixed_base.chunk().clamp(1, total.max(1)), "powers of tau")?;
        self.points(Stage::H, "the H query", total, |first, points| {
            let scalars = &mut scalars[..points.len()];
            powers(scalars, tau, first, coefficient);
            self.fixed_base.g1(&self.g1, scalars, points)
        })
    }
}
