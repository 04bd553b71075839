//! Proving from assignments, and what the public functions share.

use ff::Field;
use pairing::MultiMillerLoop;
use rand_core::RngCore;
use upstream::groth16::{ParameterSource, Proof};
use upstream::{gpu::GpuName, SynthesisError};

use super::assignment::ProvingAssignment;
use super::backend::{self, CircuitId, Job};
use super::batch::{check_blinding, prove_on, Common};
use super::key::{erase, same_type};
use super::native;

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
    check_blinding(assignments.len(), r.len(), s.len())?;
    let Some(first) = assignments.first().map(Common::of) else { return Ok(Vec::new()) };
    for assignment in &assignments {
        assignment.check_whole()?;
        first.check(assignment)?;
    }
    #[cfg(feature = "cuda-supraseal")]
    if let Some(srs) = params.get_supraseal_srs() {
        return super::supraseal::prove::<E>(assignments, srs, r, s);
    }
    let key = erase::<E, P>(&params);
    if let (Some(key), Some(backend)) = (&key, backend::current()) {
        let circuit = CircuitId::new("", key.vk(first.shape.inputs).ok());
        let (r, s) = (same_type::<Vec<E::Fr>, _>(r), same_type::<Vec<E::Fr>, _>(s));
        return prove_on::<E>(&*backend, Job::new(circuit, same_type(assignments), &**key, r, s));
    }
    native::prove_all::<E, P>(assignments, &params, key.as_deref(), r, s)
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
    prove_assignments::<E, P>(assignments, params, r, s)
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
