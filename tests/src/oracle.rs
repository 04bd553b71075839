//! The published prover, and the comparison with ours.

use bellperson::groth16::{Parameters, Proof};
use bellperson::Circuit;
use blstrs::{Bls12, Scalar};
use ff::Field;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// Parameters for a circuit, from a seed.
pub fn parameters<C: Circuit<Scalar>>(circuit: C, seed: u64) -> Parameters<Bls12> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    upstream::groth16::generate_random_parameters::<Bls12, _, _>(circuit, &mut rng).expect("parameters")
}

/// Blinding factors from a seed.
pub fn blinding(seed: u64) -> (Scalar, Scalar) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xb11d);
    (Scalar::random(&mut rng), Scalar::random(&mut rng))
}

/// The 192 bytes of a proof.
pub fn bytes(proof: &Proof<Bls12>) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.write(&mut bytes).expect("a vector takes all");
    bytes
}

/// The proof of the published bellperson.
pub fn upstream_proof<C>(circuit: C, params: &Parameters<Bls12>, (r, s): (Scalar, Scalar)) -> Vec<u8>
where
    C: Circuit<Scalar> + Send,
{
    bytes(&upstream::groth16::create_proof(circuit, params, r, s).expect("upstream proves"))
}

/// Our proof, through the same function.
pub fn our_proof<C>(circuit: C, params: &Parameters<Bls12>, (r, s): (Scalar, Scalar)) -> Vec<u8>
where
    C: Circuit<Scalar> + Send,
{
    bytes(&bellperson::groth16::create_proof(circuit, params, r, s).expect("we prove"))
}

/// Asserts that both give the same bytes.
pub fn assert_same<C>(circuit: C, params: &Parameters<Bls12>, blinding: (Scalar, Scalar))
where
    C: Circuit<Scalar> + Send + Clone,
{
    let expected = upstream_proof(circuit.clone(), params, blinding);
    assert_eq!(our_proof(circuit, params, blinding), expected, "our proof is not upstream's");
}
