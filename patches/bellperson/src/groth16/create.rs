//! From circuits to proofs: what all `create_*proof*` functions share.
//!
//! Circuits are synthesised and proved in groups, so that no more of them are in memory than are worked on.

use std::time::Instant;

use log::info;
use pairing::MultiMillerLoop;
use upstream::groth16::{ParameterSource, Proof};
use upstream::{gpu::GpuName, Circuit, SynthesisError};

use super::backend::{self, CircuitId, Job};
use super::batch::{check_blinding, prove_on, synthesize_group, Common};
use super::key::{erase, same_type};
use super::native;
use super::synthesis::SynthesisOptions;
use crate::BELLMAN_VERSION;

/// Proves each circuit with its own r and s, in order.
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
