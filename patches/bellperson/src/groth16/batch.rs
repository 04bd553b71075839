//! From circuits to proofs: what all `create_*proof*` functions share.
//!
//! Circuits are synthesised and proved in groups, so that no more of them are in memory than are worked on.

use std::time::{Duration, Instant};

use blstrs::Bls12;
use log::info;
use pairing::MultiMillerLoop;
use rayon::prelude::*;
use upstream::groth16::{ParameterSource, Proof};
use upstream::{gpu::GpuName, Circuit, SynthesisError};

use super::assignment::{ProvingAssignment, Shape};
use super::backend::{self, Backend, CircuitId, Job};
use super::key::{erase, same_type};
use super::native;
use super::synthesis::{synthesize_with, SynthesisOptions};
use crate::BELLMAN_VERSION;

/// Proves each circuit with its own r and s, in order.
#[cfg(not(feature = "cuda-supraseal"))]
pub(super) fn create_proof_batch_priority<E, C, P>(
    circuits: Vec<C>,
    params: P,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
    priority: bool,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    P: ParameterSource<E>,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    info!("Bellperson {BELLMAN_VERSION} is being used!");
    check_blinding(circuits.len(), r.len(), s.len())?;

    let key = erase::<E, P>(&params);
    let backend = key.as_ref().and_then(|_| backend::current());
    // Only a backend asks for the key before the synthesis, so that nothing changes for those who have none.
    let vk = match (&backend, &key) {
        (Some(_), Some(key)) => key.vk(0).ok(),
        _ => None,
    };
    let circuit_id = CircuitId::new(std::any::type_name::<C>(), vk);
    let (options, batch_size) = match &backend {
        Some(backend) => (backend.options(&circuit_id), backend.batch_size()),
        None => (SynthesisOptions::default().pad_to_domain(true), rayon::current_num_threads()),
    };

    let mut proofs = Vec::with_capacity(circuits.len());
    let mut common: Option<Common> = None;
    let mut circuits = circuits.into_iter().zip(r.into_iter().zip(s));
    loop {
        let (group, blinding): (Vec<_>, Vec<_>) = circuits.by_ref().take(batch_size.max(1)).unzip();
        if group.is_empty() {
            return Ok(proofs);
        }
        let (assignments, synthesis) = synthesize_group(group, options)?;
        for assignment in &assignments {
            let first = *common.get_or_insert_with(|| Common::of(assignment));
            first.check(assignment)?;
        }
        let (r, s) = blinding.into_iter().unzip();

        let start = Instant::now();
        info!("starting proof timer");
        proofs.extend(match (&backend, &key) {
            (Some(backend), Some(key)) => {
                let mut job = Job::new(
                    circuit_id,
                    same_type(assignments),
                    &**key,
                    same_type::<Vec<E::Fr>, _>(r),
                    same_type::<Vec<E::Fr>, _>(s),
                );
                job.priority = priority;
                job.synthesis = synthesis;
                job.expected = options.expect;
                prove_on::<E>(&**backend, job)?
            }
            _ => native::prove_all::<E, P>(assignments, &params, key.as_deref(), r, s)?,
        });
        info!("prover time: {:?}", start.elapsed());
    }
}

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
