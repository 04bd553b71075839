//! The prover behind bellperson's functions: what comes before and after a proof, wherever it is computed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bellperson::groth16::backend::{Backend, CircuitId, Job};
use bellperson::groth16::{
    native, synthesize_with, Key, MemoryPolicy, Parameters, Proof, ProvingAssignment, Shape,
    SynthesisOptions, VerifyingKey,
};
use bellperson::{Circuit, SynthesisError};
use blstrs::{Bls12, Scalar};
use tracing::{debug, info};

use super::check::{check_parameters, ParameterMismatch, SelfCheck};
use super::device::{KeyDigest, Task};
use super::fleet::DeviceStatus;
use super::identity::{identity, vk_digest};
use super::place::{Computed, Place};
use super::report::{HintOutcome, MemoryReport, PhaseReport, ProofReport};
use crate::config::{Config, MemoryBackend};
use crate::hints::{Hint, HintKey, HintStore};
use crate::memory::pool::Exhaustion;

/// Why a proof was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The circuit, the memory or the prover. No memory is [`SynthesisError::IoError`] of kind `OutOfMemory`.
    #[error("{0}")]
    Synthesis(#[from] SynthesisError),
    /// The parameters are those of another circuit.
    #[error("{0}")]
    Mismatch(#[from] ParameterMismatch),
}

impl ProveError {
    /// Whether memory was the reason.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Synthesis(SynthesisError::IoError(e)) if e.kind() == std::io::ErrorKind::OutOfMemory)
    }

    /// Whether a device failed, or could not take the proof and the CPU was not allowed to.
    pub fn is_device_failure(&self) -> bool {
        let Self::Synthesis(SynthesisError::IoError(error)) = self else { return false };
        error.get_ref().is_some_and(|cause| cause.is::<DeviceFailure>())
    }

    /// Whether the proof was made and did not verify.
    pub fn is_self_check(&self) -> bool {
        matches!(self, Self::Synthesis(SynthesisError::MalformedProofs(text)) if text.starts_with(SELF_CHECK))
    }
}

/// What a device's failure looks like in a [`SynthesisError`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DeviceFailure(String);

impl DeviceFailure {
    pub(crate) fn error(text: String) -> SynthesisError {
        SynthesisError::IoError(std::io::Error::other(Self(text)))
    }
}

const SELF_CHECK: &str = "self-check failed";

/// A proof and how it came about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Proven {
    /// The proof.
    pub proof: Proof<Bls12>,
    /// How it came about.
    pub report: ProofReport,
}

impl Noted {
    /// Inputs, with the constant one.
    pub(crate) fn inputs_len(&self) -> usize {
        self.inputs.len()
    }
}

/// Proves in the memory of the pool, on the device or on the CPU.
pub struct Prover {
    place: Place,
    hints: HintStore,
    memory: MemoryPolicy,
    self_check: Option<SelfCheck>,
    numbers: AtomicU64,
    reports: Mutex<VecDeque<ProofReport>>,
    keep: usize,
}

/// What is noted of an assignment before the prover consumes it.
pub(crate) struct Noted {
    inputs: Vec<Scalar>,
    refusal: Option<String>,
}

/// What is the same for all proofs of a job.
pub(crate) struct About<'j> {
    pub(crate) circuit: &'j str,
    pub(crate) vk: &'j VerifyingKey<Bls12>,
    pub(crate) digest: KeyDigest,
    /// How long the synthesis of one circuit took.
    pub(crate) synthesis: Duration,
    /// What was known of the size.
    pub(crate) expected: Option<Shape>,
}

impl Prover {
    pub(crate) fn new(hints: HintStore, place: Place, config: &Config) -> Self {
        let memory = match (config.backend, config.exhaustion) {
            (MemoryBackend::None, _) => MemoryPolicy::Heap,
            (_, Exhaustion::Heap) => MemoryPolicy::PreferRegistered,
            // Who waits wants pool memory; when the wait is over there is none to be had.
            (_, Exhaustion::Wait(_) | Exhaustion::Fail) => MemoryPolicy::RequireRegistered,
        };
        Self {
            place,
            hints,
            memory,
            self_check: config.self_check.then(SelfCheck::default),
            numbers: AtomicU64::new(0),
            reports: Mutex::default(),
            keep: config.reports,
        }
    }

    pub(crate) fn reports(&self) -> Vec<ProofReport> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn devices(&self) -> Vec<DeviceStatus> {
        self.place.status()
    }

    /// Whether a, b and c are extended to the domain where they lie.
    pub(crate) fn pads_to_domain(&self) -> bool {
        self.place.is_cpu()
    }

    /// How many proofs are made at a time, at most.
    pub(crate) fn slots(&self) -> usize {
        self.place.slots()
    }

    /// What is known of a circuit's size.
    pub(crate) fn expected(&self, id: &HintKey) -> Option<Shape> {
        let Hint { constraints, aux, inputs } = self.hints.get(id)?;
        let count = |count| usize::try_from(count).ok();
        Some(Shape { constraints: count(constraints)?, inputs: count(inputs)?, aux: count(aux)? })
    }

    /// How to synthesise a circuit of this size.
    pub(crate) fn options_for(&self, expected: Option<Shape>) -> SynthesisOptions {
        // A device pads its own copy.
        SynthesisOptions::default().expecting(expected).memory(self.memory).pad_to_domain(self.place.is_cpu())
    }

    /// Proves one circuit, with the parameters at hand.
    pub(crate) fn prove_circuit<C: Circuit<Scalar>>(
        &self,
        circuit: C,
        params: &Parameters<Bls12>,
        (r, s): (Scalar, Scalar),
        expected: Option<Shape>,
    ) -> Result<Proven, ProveError> {
        let id = CircuitId::new(std::any::type_name::<C>(), Some(&params.vk));
        let expected = expected.or_else(|| self.expected(&identity(&id)));
        let start = Instant::now();
        let assignment = synthesize_with(circuit, self.options_for(expected))?;
        let synthesis = start.elapsed();
        check_parameters(params, &assignment)?;
        let key = Key(&params);
        let mut job = Job::new(id, vec![assignment], &key, vec![r], vec![s]);
        job.synthesis = synthesis;
        job.expected = expected;
        let proven = self.prove_job(job)?;
        let only = proven.into_iter().next();
        Ok(only.ok_or_else(|| SynthesisError::MalformedProofs("no proof was made".to_owned()))?)
    }

    fn prove_job(&self, mut job: Job<'_>) -> Result<Vec<Proven>, SynthesisError> {
        let id = identity(&job.circuit);
        let noted = job.assignments.iter_mut().map(|assignment| self.admit(&id, assignment));
        let noted = noted.collect::<Result<Vec<Noted>, SynthesisError>>()?;
        let Some(first) = noted.first() else { return Ok(Vec::new()) };
        let count = u32::try_from(noted.len()).unwrap_or(u32::MAX);
        let vk = job.key.vk(first.inputs.len())?;
        let about = About {
            circuit: job.circuit.type_name,
            vk,
            digest: vk_digest(vk),
            synthesis: job.synthesis / count,
            expected: job.expected,
        };
        let computed = self.place.prove(job, about.digest)?;
        computed
            .into_iter()
            .zip(noted)
            .map(|(computed, noted)| self.finish(&about, computed, noted))
            .collect()
    }

    /// Remembers the size of an assignment that is about to be proved, checks where it lives, and keeps what the report and
    /// the self-check need.
    pub(crate) fn admit(
        &self,
        id: &HintKey,
        assignment: &mut ProvingAssignment<Scalar>,
    ) -> Result<Noted, SynthesisError> {
        if self.place.is_cpu() {
            // An assignment that was synthesised elsewhere may have to grow yet.
            assignment.reserve_domain();
        }
        self.memory.check(assignment)?;
        let shape = assignment.shape();
        let hint = Hint {
            constraints: shape.constraints as u64,
            aux: shape.aux as u64,
            inputs: shape.inputs as u64,
        };
        self.hints.record(id, hint);
        Ok(Noted {
            inputs: assignment.input_assignment().to_vec(),
            refusal: assignment.refusal().map(ToString::to_string),
        })
    }

    /// Computes one proof.
    pub(crate) fn compute(&self, task: Task<'_>) -> Result<Computed, SynthesisError> {
        self.place.prove_one(task)
    }

    /// Checks a proof and reports it.
    pub(crate) fn finish(
        &self,
        about: &About<'_>,
        computed: Computed,
        noted: Noted,
    ) -> Result<Proven, SynthesisError> {
        let Computed { proved, prover, device, took } = computed;
        let native::Proved { proof, shape, placement, phases, .. } = proved;
        let start = Instant::now();
        if let Some(check) = &self.self_check {
            if !check.verify(about.digest, about.vk, &proof, &noted.inputs[1..])? {
                return Err(SynthesisError::MalformedProofs(format!(
                    "{SELF_CHECK}: a proof of {} does not verify, so it is not handed out: the witness does not satisfy \
                     the circuit, or the parameters belong to another one",
                    if about.circuit.is_empty() { "an assignment" } else { about.circuit }
                )));
            }
        }
        let verify = if self.self_check.is_some() { start.elapsed() } else { Duration::ZERO };
        let report = ProofReport {
            number: self.numbers.fetch_add(1, Ordering::Relaxed) + 1,
            circuit: about.circuit.to_owned(),
            prover,
            constraints: shape.constraints,
            inputs: shape.inputs,
            aux: shape.aux,
            hint: HintOutcome::of(about.expected, shape),
            memory: MemoryReport::new(&placement, noted.refusal),
            phases: PhaseReport::new(about.synthesis, &phases, took, verify),
            device,
            checked: self.self_check.is_some(),
        };
        self.keep(&report);
        Ok(Proven { proof, report })
    }

    fn keep(&self, report: &ProofReport) {
        if report.number == 1 {
            info!(prover = report.prover, memory = report.memory.abc.backend, "first proof");
        }
        debug!(
            number = report.number,
            circuit = report.circuit,
            constraints = report.constraints,
            seconds = report.phases.total().as_secs_f64(),
            memory = report.memory.abc.backend,
            pinned = report.memory.abc.pinned,
            "proof made"
        );
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push_back(report.clone());
        while reports.len() > self.keep {
            reports.pop_front();
        }
    }
}

impl Backend for Prover {
    fn name(&self) -> &str {
        self.place.name()
    }

    fn options(&self, circuit: &CircuitId<'_>) -> SynthesisOptions {
        self.options_for(self.expected(&identity(circuit)))
    }

    fn batch_size(&self) -> usize {
        // Whoever insists on pool memory must not hold finished circuits while others wait for it.
        match self.memory {
            MemoryPolicy::RequireRegistered => 1,
            _ => rayon::current_num_threads(),
        }
    }

    fn prove(&self, job: Job<'_>) -> Result<Vec<Proof<Bls12>>, SynthesisError> {
        Ok(self.prove_job(job)?.into_iter().map(|proven| proven.proof).collect())
    }
}

impl fmt::Debug for Prover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prover").field("memory", &self.memory).finish_non_exhaustive()
    }
}
