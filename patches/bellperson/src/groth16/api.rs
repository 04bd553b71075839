//! The public proving functions: upstream's eight, with its signatures, and proving from assignments.

use ff::Field;
use pairing::MultiMillerLoop;
use rand_core::RngCore;
use upstream::groth16::{ParameterSource, Proof};
use upstream::{gpu::GpuName, Circuit, SynthesisError};

use super::assignment::ProvingAssignment;
use super::batch::{self, create_proof_batch_priority};

/// Creates a single proof where the randomization is already predefined.
///
/// # Errors
/// Those of the circuit and of the parameters; parameters that do not fit the circuit.
pub fn create_proof<E, C, P: ParameterSource<E>>(
    circuit: C,
    params: P,
    r: E::Fr,
    s: E::Fr,
) -> Result<Proof<E>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    only(create_proof_batch_priority::<E, C, P>(vec![circuit], params, vec![r], vec![s], false)?)
}

/// Creates a single proof.
///
/// # Errors
/// As [`create_proof`].
pub fn create_random_proof<E, C, R, P: ParameterSource<E>>(
    circuit: C,
    params: P,
    rng: &mut R,
) -> Result<Proof<E>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    R: RngCore,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    only(random::<E, C, R, P>(vec![circuit], params, rng, false)?)
}

/// Creates a batch of proofs where the randomization is already predefined, one r and one s a circuit. An empty batch
/// gives no proofs.
///
/// # Errors
/// As [`create_proof`]; also circuits that are not all of one shape, and r or s of another number.
pub fn create_proof_batch<E, C, P: ParameterSource<E>>(
    circuits: Vec<C>,
    params: P,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    create_proof_batch_priority::<E, C, P>(circuits, params, r, s, false)
}

/// Creates a batch of proofs. An empty batch gives no proofs.
///
/// # Errors
/// As [`create_proof_batch`].
pub fn create_random_proof_batch<E, C, R, P: ParameterSource<E>>(
    circuits: Vec<C>,
    params: P,
    rng: &mut R,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    R: RngCore,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    random::<E, C, R, P>(circuits, params, rng, false)
}

/// Creates a single proof with priority over others where several run at once.
///
/// # Errors
/// As [`create_proof`].
pub fn create_proof_in_priority<E, C, P: ParameterSource<E>>(
    circuit: C,
    params: P,
    r: E::Fr,
    s: E::Fr,
) -> Result<Proof<E>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    only(create_proof_batch_priority::<E, C, P>(vec![circuit], params, vec![r], vec![s], true)?)
}

/// Creates a single proof with priority over others where several run at once.
///
/// # Errors
/// As [`create_proof`].
pub fn create_random_proof_in_priority<E, C, R, P: ParameterSource<E>>(
    circuit: C,
    params: P,
    rng: &mut R,
) -> Result<Proof<E>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    R: RngCore,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    only(random::<E, C, R, P>(vec![circuit], params, rng, true)?)
}

/// [`create_proof_batch`] with priority over other proofs where several run at once.
///
/// # Errors
/// As [`create_proof_batch`].
pub fn create_proof_batch_in_priority<E, C, P: ParameterSource<E>>(
    circuits: Vec<C>,
    params: P,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    create_proof_batch_priority::<E, C, P>(circuits, params, r, s, true)
}

/// [`create_random_proof_batch`] with priority over other proofs where several run at once.
///
/// # Errors
/// As [`create_proof_batch`].
pub fn create_random_proof_batch_in_priority<E, C, R, P: ParameterSource<E>>(
    circuits: Vec<C>,
    params: P,
    rng: &mut R,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    R: RngCore,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    random::<E, C, R, P>(circuits, params, rng, true)
}

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
fn blinding<E: MultiMillerLoop, R: RngCore>(count: usize, rng: &mut R) -> (Vec<E::Fr>, Vec<E::Fr>) {
    let mut factors = || (0..count).map(|_| E::Fr::random(&mut *rng)).collect();
    (factors(), factors())
}

fn random<E, C, R, P: ParameterSource<E>>(
    circuits: Vec<C>,
    params: P,
    rng: &mut R,
    priority: bool,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    R: RngCore,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    let (r, s) = blinding::<E, R>(circuits.len(), rng);
    create_proof_batch_priority::<E, C, P>(circuits, params, r, s, priority)
}

fn only<E: MultiMillerLoop>(proofs: Vec<Proof<E>>) -> Result<Proof<E>, SynthesisError> {
    proofs.into_iter().next().ok_or_else(|| SynthesisError::MalformedProofs("no proof was made".to_owned()))
}
