//! Proving through supraseal-c2, with the feature `cuda-supraseal`.
//!
//! It reads a, b, c and the witness by the pointers of the assignments, so registered memory is uploaded by DMA. The
//! parameters live on its side; a registered [backend](super::backend) is asked how to synthesise, but does not prove.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Instant;

use blstrs::{Bls12, G1Affine, G2Affine};
use ec_gpu_gen::multiexp_cpu::DensityTracker;
use ff::PrimeField;
use log::{error, info};
use pairing::MultiMillerLoop;
use supraseal_c2::{Assignment, SRS};
use upstream::groth16::{ParameterSource, Proof, SuprasealParameters};
use upstream::{gpu::GpuName, Circuit, SynthesisError};

use super::assignment::ProvingAssignment;
use super::backend::{self, CircuitId};
use super::batch::{check_blinding, synthesize_group, Common};
use super::key::{is_bls12, same_type};
use super::synthesis::SynthesisOptions;
use crate::BELLMAN_VERSION;

/// Proves each circuit with its own r and s, in order. supraseal-c2 overlaps the circuits of a batch itself, so all are
/// synthesised first.
pub(super) fn create_proof_batch_priority<E, C>(
    circuits: Vec<C>,
    params: &SuprasealParameters<E>,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
    _priority: bool,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    C: Circuit<E::Fr> + Send,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    info!("Bellperson {BELLMAN_VERSION} with SupraSeal is being used!");
    check_blinding(circuits.len(), r.len(), s.len())?;
    let options = match backend::current() {
        Some(backend) => backend.options(&CircuitId::new(std::any::type_name::<C>(), None)),
        None => SynthesisOptions::default(),
    };
    // supraseal-c2 pads in device memory.
    let (assignments, _) = synthesize_group(circuits, options.pad_to_domain(false))?;

    let start = Instant::now();
    info!("starting proof timer");
    let srs = ParameterSource::<E>::get_supraseal_srs(&params).ok_or_else(|| {
        error!("SupraSeal SRS wasn't allocated correctly");
        SynthesisError::MalformedSrs
    })?;
    let proofs = prove::<E>(assignments, srs, r, s)?;
    info!("prover time: {:?}", start.elapsed());
    Ok(proofs)
}

/// Proves assignments of one shape.
///
/// # Errors
/// An engine other than BLS12-381, assignments that differ, or what supraseal-c2 says: it panics, which is caught here.
pub(super) fn prove<E: MultiMillerLoop>(
    assignments: Vec<ProvingAssignment<E::Fr>>,
    srs: &SRS,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
) -> Result<Vec<Proof<E>>, SynthesisError> {
    check_blinding(assignments.len(), r.len(), s.len())?;
    if !is_bls12::<E>() {
        return Err(SynthesisError::MalformedProofs("SupraSeal proves over BLS12-381 only".to_owned()));
    }
    let Some(first) = assignments.first().map(Common::of) else { return Ok(Vec::new()) };
    for assignment in &assignments {
        assignment.check_whole()?;
        first.check(assignment)?;
    }
    // What C++ asserts only in debug builds: a bit of density for each variable.
    let shape = assignments[0].shape();
    for assignment in &assignments {
        for (density, variables) in [
            (assignment.a_aux_density(), shape.aux),
            (assignment.b_aux_density(), shape.aux),
            (assignment.b_input_density(), shape.inputs),
        ] {
            if density.bv.len() != variables {
                return Err(SynthesisError::IncompatibleLengthVector(format!(
                    "a density of {} bits for {variables} variables",
                    density.bv.len()
                )));
            }
        }
    }
    let views: Vec<Assignment<E::Fr>> = assignments.iter().map(view).collect();
    // Points for C++ to write over.
    let mut proofs =
        vec![
            Proof::<Bls12> { a: G1Affine::default(), b: G2Affine::default(), c: G1Affine::default() };
            assignments.len()
        ];
    catch_unwind(AssertUnwindSafe(|| {
        supraseal_c2::generate_groth16_proofs(&views, &r, &s, &mut proofs, srs);
    }))
    .map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        SynthesisError::MalformedProofs(format!("SupraSeal: {text}"))
    })?;
    Ok(same_type::<Vec<Proof<Bls12>>, Vec<Proof<E>>>(proofs))
}

/// The assignment as C++ reads it. The pointers are valid while `assignment` is borrowed.
fn view<Scalar: PrimeField>(assignment: &ProvingAssignment<Scalar>) -> Assignment<Scalar> {
    let words = |density: &DensityTracker| density.bv.as_raw_slice().as_ptr();
    let (a_aux, b_input, b_aux) =
        (assignment.a_aux_density(), assignment.b_input_density(), assignment.b_aux_density());
    Assignment {
        a_aux_density: words(a_aux),
        a_aux_bit_len: a_aux.bv.len(),
        a_aux_popcount: a_aux.get_total_density(),
        b_inp_density: words(b_input),
        b_inp_bit_len: b_input.bv.len(),
        b_inp_popcount: b_input.get_total_density(),
        b_aux_density: words(b_aux),
        b_aux_bit_len: b_aux.bv.len(),
        b_aux_popcount: b_aux.get_total_density(),
        a: assignment.a().as_ptr(),
        b: assignment.b().as_ptr(),
        c: assignment.c().as_ptr(),
        abc_size: assignment.shape().constraints,
        inp_assignment_data: assignment.input_assignment().as_ptr(),
        inp_assignment_size: assignment.input_assignment().len(),
        aux_assignment_data: assignment.aux_assignment().as_ptr(),
        aux_assignment_size: assignment.aux_assignment().len(),
    }
}
