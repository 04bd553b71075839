//! What proving a batch needs, whoever proves: its synthesis, what its circuits must have in common, a backend's answer.

use std::time::{Duration, Instant};

use blstrs::Bls12;
use log::info;
use pairing::MultiMillerLoop;
use rayon::prelude::*;
use upstream::groth16::Proof;
use upstream::{Circuit, SynthesisError};

use super::assignment::{ProvingAssignment, Shape};
use super::backend::{Backend, Job};
use super::key::same_type;
use super::synthesis::{synthesize_with, SynthesisOptions};

/// Hands a job to a backend.
pub(super) fn prove_on<E>(backend: &dyn Backend, job: Job<'_>) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
{
    let expected = job.assignments.len();
    let proofs = backend.prove(job)?;
    if proofs.len() != expected {
        return Err(SynthesisError::MalformedProofs(format!(
            "the backend {} returned {} proofs for {expected} circuits",
            backend.name(),
            proofs.len()
        )));
    }
    Ok(same_type::<Vec<Proof<Bls12>>, Vec<Proof<E>>>(proofs))
}

pub(super) fn synthesize_group<Scalar, C>(
    circuits: Vec<C>,
    options: SynthesisOptions,
) -> Result<(Vec<ProvingAssignment<Scalar>>, Duration), SynthesisError>
where
    Scalar: ff::PrimeField,
    C: Circuit<Scalar> + Send,
{
    let start = Instant::now();
    let synthesize = |circuit| synthesize_with(circuit, options);
    let assignments = match circuits.len() {
        // On the caller's thread: it may wait for memory, which one of rayon's must not.
        1 => circuits.into_iter().map(synthesize).collect::<Result<_, _>>()?,
        _ => circuits.into_par_iter().map(synthesize).collect::<Result<_, _>>()?,
    };
    let synthesis = start.elapsed();
    info!("synthesis time: {synthesis:?}");
    Ok((assignments, synthesis))
}

/// What the circuits of one call must have in common, since they share the bases of one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) shape: Shape,
    a_aux: usize,
    b_input: usize,
    b_aux: usize,
}

impl Common {
    pub(super) fn of<Scalar: ff::PrimeField>(assignment: &ProvingAssignment<Scalar>) -> Self {
        Self {
            shape: assignment.shape(),
            a_aux: assignment.a_aux_density().get_total_density(),
            b_input: assignment.b_input_density().get_total_density(),
            b_aux: assignment.b_aux_density().get_total_density(),
        }
    }

    pub(super) fn check<Scalar: ff::PrimeField>(
        &self,
        assignment: &ProvingAssignment<Scalar>,
    ) -> Result<(), SynthesisError> {
        let found = Self::of(assignment);
        if *self == found {
            return Ok(());
        }
        Err(SynthesisError::IncompatibleLengthVector(format!(
            "only identical circuits can be proved together; the first has {:?} with densities {}, {}, {}, \
             another has {:?} with densities {}, {}, {}",
            self.shape,
            self.a_aux,
            self.b_input,
            self.b_aux,
            found.shape,
            found.a_aux,
            found.b_input,
            found.b_aux
        )))
    }
}

pub(super) fn check_blinding(circuits: usize, r: usize, s: usize) -> Result<(), SynthesisError> {
    if (r, s) == (circuits, circuits) {
        return Ok(());
    }
    Err(SynthesisError::IncompatibleLengthVector(format!(
        "{circuits} circuits need as many blinding factors, there are {r} r and {s} s"
    )))
}
