//! The public proving functions: upstream's eight, with its signatures.

use pairing::MultiMillerLoop;
use rand_core::RngCore;
use upstream::groth16::{ParameterSource, Proof};
use upstream::{gpu::GpuName, Circuit, SynthesisError};

use super::create::create_proof_batch_priority;
use super::prove::{blinding, only};

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
