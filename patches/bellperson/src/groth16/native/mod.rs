//! The built-in CPU prover.
//!
//! It works in place: a, b and c are transformed where the synthesis wrote them, and the scalars of the multi-scalar
//! multiplications are read from there and from the witness, without a copy.
//!
//! - `quotient`: the FFTs, from a, b and c to the coefficients of the quotient polynomial.
//! - `msm`: what the prover asks of multi-scalar multiplication.
//! - `blst`: that, for BLS12-381, by Pippenger's method over blst.
//! - `portable`: that, for any other curve, by ec-gpu-gen.
//! - `proof`: one proof, from an assignment to the three points.

mod blst;
mod msm;
mod portable;
mod proof;
mod quotient;

use std::sync::Mutex;

use blstrs::Bls12;
use pairing::MultiMillerLoop;
use upstream::groth16::{ParameterSource, Proof, VerifyingKey};
use upstream::{gpu::GpuName, SynthesisError};

use super::assignment::{Placement, ProvingAssignment, Shape};
use super::backend::Job;
use super::key::{same_type, Key, KeyPair, KeySource, Query};

pub use self::proof::{assemble, checked_vk, Phases, Sums};

/// A proof and how it came about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Proved {
    /// The proof.
    pub proof: Proof<Bls12>,
    /// The circuit's size.
    pub shape: Shape,
    /// Where a, b, c and the witness lived when the proof was begun.
    pub placement: Placement,
    /// How long each step took.
    pub phases: Phases,
}

impl Proved {
    /// From its parts, for a prover that is not this one.
    pub fn new(proof: Proof<Bls12>, shape: Shape, placement: Placement, phases: Phases) -> Self {
        Self { proof, shape, placement, phases }
    }
}

/// Proves the circuits of a job on the CPU, in order, and gives the memory of each back as early as possible.
///
/// # Errors
/// Parameters that do not fit the circuit, cannot be read, or hold an identity where a base is used;
/// [`SynthesisError::IncompatibleLengthVector`] unless there is one r and one s an assignment.
pub fn prove(job: Job<'_>) -> Result<Vec<Proved>, SynthesisError> {
    job.check_blinding()?;
    let Job { assignments, key, r, s, .. } = job;
    let cached;
    let key: &dyn KeySource = match assignments.len() {
        0 | 1 => key,
        _ => {
            cached = Cached::new(key);
            &cached
        }
    };
    let blinding = r.into_iter().zip(s);
    assignments
        .into_iter()
        .zip(blinding)
        .map(|(mut assignment, (r, s))| {
            assignment.reserve_domain();
            let (shape, placement) = (assignment.shape(), assignment.placement());
            // The scalars are read as bytes in the order of the machine, which must be blst's.
            let (proof, phases) = match cfg!(target_endian = "little") {
                true => proof::prove::<Bls12, blst::Blst>(assignment, key, r, s)?,
                false => proof::prove::<Bls12, portable::Portable>(assignment, key, r, s)?,
            };
            Ok(Proved { proof, shape, placement, phases })
        })
        .collect()
}

/// Proves assignments of any engine; `key` is `params` as an object if the engine is BLS12-381.
pub(super) fn prove_all<E, P>(
    assignments: Vec<ProvingAssignment<E::Fr>>,
    params: &P,
    key: Option<&dyn KeySource>,
    r: Vec<E::Fr>,
    s: Vec<E::Fr>,
) -> Result<Vec<Proof<E>>, SynthesisError>
where
    E: MultiMillerLoop,
    P: ParameterSource<E>,
    E::Fr: GpuName,
    E::G1Affine: GpuName,
    E::G2Affine: GpuName,
{
    if let Some(key) = key {
        let circuit = super::backend::CircuitId::new("", None);
        let (r, s) = (same_type::<Vec<E::Fr>, _>(r), same_type::<Vec<E::Fr>, _>(s));
        let proved = prove(Job::new(circuit, same_type(assignments), key, r, s))?;
        let proofs: Vec<Proof<Bls12>> = proved.into_iter().map(|proved| proved.proof).collect();
        return Ok(same_type(proofs));
    }
    let key = Key(params);
    let blinding = r.into_iter().zip(s);
    assignments
        .into_iter()
        .zip(blinding)
        .map(|(assignment, (r, s))| {
            let (proof, _) = proof::prove::<E, portable::Portable>(assignment, &key, r, s)?;
            Ok(proof)
        })
        .collect()
}

/// A key that reads each query once for all circuits of a job: a mapped key decodes gigabytes for each.
///
/// A query is read under its lock, on rayon's threads. That cannot deadlock: the circuits of a job are proved one after the
/// other, and the step that runs beside the reading never asks for the same query.
pub(super) struct Cached<'k> {
    key: &'k dyn KeySource,
    h: Once<Query<blstrs::G1Affine>>,
    l: Once<Query<blstrs::G1Affine>>,
    a: Once<KeyPair<blstrs::G1Affine>>,
    b_g1: Once<KeyPair<blstrs::G1Affine>>,
    b_g2: Once<KeyPair<blstrs::G2Affine>>,
}

type Once<T> = Mutex<Option<((usize, usize), T)>>;

impl<'k> Cached<'k> {
    pub(super) fn new(key: &'k dyn KeySource) -> Self {
        Self {
            key,
            h: Mutex::default(),
            l: Mutex::default(),
            a: Mutex::default(),
            b_g1: Mutex::default(),
            b_g2: Mutex::default(),
        }
    }
}

/// The cached value if it was made for the same numbers, else a new one.
fn once<T: Clone>(
    cell: &Once<T>,
    numbers: (usize, usize),
    make: impl FnOnce() -> Result<T, SynthesisError>,
) -> Result<T, SynthesisError> {
    let mut cell = cell.lock().unwrap_or_else(|e| e.into_inner());
    match &*cell {
        Some((made_for, value)) if *made_for == numbers => Ok(value.clone()),
        _ => {
            let value = make()?;
            *cell = Some((numbers, value.clone()));
            Ok(value)
        }
    }
}

impl KeySource for Cached<'_> {
    fn vk(&self, num_inputs: usize) -> Result<&VerifyingKey<Bls12>, SynthesisError> {
        self.key.vk(num_inputs)
    }

    fn h(&self, num_h: usize) -> Result<Query<blstrs::G1Affine>, SynthesisError> {
        once(&self.h, (num_h, 0), || self.key.h(num_h))
    }

    fn l(&self, num_l: usize) -> Result<Query<blstrs::G1Affine>, SynthesisError> {
        once(&self.l, (num_l, 0), || self.key.l(num_l))
    }

    fn a(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<blstrs::G1Affine>, SynthesisError> {
        once(&self.a, (num_inputs, num_aux), || self.key.a(num_inputs, num_aux))
    }

    fn b_g1(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<blstrs::G1Affine>, SynthesisError> {
        once(&self.b_g1, (num_inputs, num_aux), || self.key.b_g1(num_inputs, num_aux))
    }

    fn b_g2(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<blstrs::G2Affine>, SynthesisError> {
        once(&self.b_g2, (num_inputs, num_aux), || self.key.b_g2(num_inputs, num_aux))
    }
}
