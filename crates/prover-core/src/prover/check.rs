//! Checks before and after a proof.

use std::sync::{Arc, Mutex, PoisonError};

use bellperson::groth16::{
    prepare_verifying_key, verify_proof, Parameters, PreparedVerifyingKey, Proof, ProvingAssignment, Shape,
    VerifyingKey,
};
use bellperson::SynthesisError;
use blstrs::{Bls12, Scalar};

use super::device::KeyDigest;

/// Parameters that do not belong to the circuit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parameters belong to another circuit: {what}: expected {expected}, found {found}")]
#[non_exhaustive]
pub struct ParameterMismatch {
    /// Which count differs.
    pub what: &'static str,
    /// What the circuit needs.
    pub expected: usize,
    /// What the parameters have.
    pub found: usize,
}

/// Checks that parameters can belong to a circuit, by all their counts.
///
/// # Errors
/// The first count that differs. Circuits that agree in all of them are told apart by the self-check.
pub fn check_parameters(
    params: &Parameters<Bls12>,
    assignment: &ProvingAssignment<Scalar>,
) -> Result<(), ParameterMismatch> {
    let shape: Shape = assignment.shape();
    let a = shape.inputs + assignment.a_aux_density().get_total_density();
    let b = assignment.b_input_density().get_total_density() + assignment.b_aux_density().get_total_density();
    for (what, expected, found) in [
        ("inputs, the constant one included", shape.inputs, params.vk.ic.len()),
        ("auxiliary variables", shape.aux, params.l.len()),
        ("size of the domain", shape.domain_size(), params.h.len() + 1),
        ("variables in the A query", a, params.a.len()),
        ("variables in the B query in G1", b, params.b_g1.len()),
        ("variables in the B query in G2", b, params.b_g2.len()),
    ] {
        if expected != found {
            return Err(ParameterMismatch { what, expected, found });
        }
    }
    Ok(())
}

/// Verifies proofs, and keeps the prepared keys of the circuits it met last: preparing one takes longer than a check.
#[derive(Default)]
pub(super) struct SelfCheck {
    prepared: Mutex<Vec<(KeyDigest, Arc<PreparedVerifyingKey<Bls12>>)>>,
}

/// Prepared keys that are kept.
const KEPT: usize = 8;

impl SelfCheck {
    /// Whether the proof verifies for these inputs, without the constant one. `digest` is the verifying key's.
    pub(super) fn verify(
        &self,
        digest: KeyDigest,
        vk: &VerifyingKey<Bls12>,
        proof: &Proof<Bls12>,
        inputs: &[Scalar],
    ) -> Result<bool, SynthesisError> {
        verify_proof(&*self.prepared(digest, vk), proof, inputs)
    }

    fn prepared(&self, digest: KeyDigest, vk: &VerifyingKey<Bls12>) -> Arc<PreparedVerifyingKey<Bls12>> {
        let lock = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().find(|(known, _)| *known == digest).map(|(_, prepared)| prepared.clone());
        known.unwrap_or_else(|| {
            // Not under the lock: it takes milliseconds. Two threads may both do it once.
            let prepared = Arc::new(prepare_verifying_key(vk));
            let mut kept = lock();
            if kept.len() == KEPT {
                kept.remove(0);
            }
            kept.push((digest, prepared.clone()));
            prepared
        })
    }
}
