//! A prover that knows nothing but bellperson: it proves that it knows the cube root of a public number.

use bellperson::groth16::{self, Parameters, PreparedVerifyingKey, Proof};
use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::{Bls12, Scalar};
use rand::rngs::OsRng;

/// x * x * x = cube.
#[derive(Clone, Copy)]
pub struct CubeRoot {
    /// The secret; absent when parameters are generated.
    pub x: Option<Scalar>,
}

impl Circuit<Scalar> for CubeRoot {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let value = |f: fn(Scalar) -> Scalar| self.x.map(f).ok_or(SynthesisError::AssignmentMissing);
        let x = cs.alloc(|| "x", || value(|x| x))?;
        let square = cs.alloc(|| "x^2", || value(|x| x * x))?;
        let cube = cs.alloc_input(|| "x^3", || value(|x| x * x * x))?;
        cs.enforce(|| "square", |lc| lc + x, |lc| lc + x, |lc| lc + square);
        cs.enforce(|| "cube", |lc| lc + square, |lc| lc + x, |lc| lc + cube);
        Ok(())
    }
}

/// The keys of the statement.
pub struct Keys {
    params: Parameters<Bls12>,
    pvk: PreparedVerifyingKey<Bls12>,
}

impl Keys {
    /// Fresh ones.
    pub fn generate() -> Self {
        let params = groth16::generate_random_parameters(CubeRoot { x: None }, &mut OsRng).unwrap();
        let pvk = groth16::prepare_verifying_key(&params.vk);
        Self { params, pvk }
    }

    /// A proof for each secret.
    pub fn prove(&self, secrets: &[Scalar]) -> Vec<Proof<Bls12>> {
        let circuits = secrets.iter().map(|x| CubeRoot { x: Some(*x) }).collect();
        groth16::create_random_proof_batch(circuits, &self.params, &mut OsRng).unwrap()
    }

    /// Whether a proof is good for a cube.
    pub fn verify(&self, proof: &Proof<Bls12>, cube: Scalar) -> bool {
        groth16::verify_proof(&self.pvk, proof, &[cube]).unwrap()
    }
}
