//! Proving from assignments, and what the public functions share.

use ff::Field;
use pairing::MultiMillerLoop;
use rand_core::RngCore;
use upstream::groth16::{ParameterSource, Proof};
use upstream::{gpu::GpuName, SynthesisError};

use super::assignment::ProvingAssignment;
use super::batch;

/// Proves circuits that were [synthesised](super::synthesize) before, all of one shape; one proof each, in order, with its
/// own r and s.
///
/// # Errors
/// Assignments of different shapes, r or s of another number, parameters that do not fit or cannot be read.
pub fn prove_assignments<E, P: ParameterSource<E>>(
    assignments: Vec<ProvingAssignment<E::Fr>>,
    params: P,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    batch::prove_assignments::<E, P>(assignments, params, r, s)
}

/// [`prove_assignments`] with fresh blinding from `rng`.
///
/// # Errors
/// As [`prove_assignments`].
pub fn prove_assignments_random<E, R, P: ParameterSource<E>>(
    assignments: Vec<ProvingAssignment<E::Fr>>,
    params: P,
    rng: &mut R,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    R: RngCore,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    let (r, s) = blinding::<E, R>(assignments.len(), rng);
    batch::prove_assignments::<E, P>(assignments, params, r, s)
}

/// All r first, then all s: upstream's order, so that a seeded generator gives its proofs.
pub(super) fn blinding<E: MultiMillerLoop, R: RngCore>(
    count: usize,
    rng: &mut R,
) -> (Vec<E::Fr>, Vec<E::Fr>) {
    let mut factors = || (0..count).map(|_| E::Fr::random(&mut *rng)).collect();
    (factors(), factors())
}

/// The one proof of a batch of one.
pub(super) fn only<E: MultiMillerLoop>(proofs: Vec<Proof<E>>) -> Result<Proof<E>, SynthesisError> {
    proofs.into_iter().next().ok_or_else(|| SynthesisError::MalformedProofs("no proof was made".to_owned()))
}
