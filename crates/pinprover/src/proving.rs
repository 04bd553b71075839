//! The seam between the tool and the prover: every proof that the tool makes is made here.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bellperson::groth16::backend::{self, Backend, CircuitId, Job, Registration};
use bellperson::groth16::{self, create_proof, native, Parameters, Proof, SynthesisOptions};
use bellperson::{Circuit, SynthesisError};
use blstrs::{Bls12, Scalar};
use ff::Field;
use pinned_alloc::Residency;
use rand_chacha::ChaCha20Rng;
use rand_core::{OsRng, RngCore, SeedableRng};

use crate::circuits::Shape;
use crate::error::Error;

/// Where the proving vectors may live.
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    /// The most memory for proving vectors, in bytes; `None`: what the machine and its cgroups allow.
    pub limit: Option<u64>,
    /// What backs them.
    pub backend: MemoryBackend,
    /// The most memory that the pool keeps, in use or idle, in bytes; `None`: as much as `limit`.
    pub pool_limit: Option<u64>,
    /// What to do when the memory is used up.
    pub on_exhausted: OnExhausted,
    /// How long to wait for memory; `None`: as the pool has it.
    pub wait: Option<Duration>,
    /// Leave the pool out: the vectors are ordinary heap memory.
    pub no_pool: bool,
    /// The file in which the sizes of circuits are remembered between runs.
    pub hints: Option<PathBuf>,
}

/// What backs the proving vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MemoryBackend {
    /// Page-locked for the device if there is one, pooled pages otherwise.
    #[default]
    Auto,
    /// Pooled huge pages, not locked.
    Pages,
    /// The same, locked.
    Mlock,
    /// Ordinary heap memory, pooled.
    Heap,
}

/// What to do when the memory for proving vectors is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnExhausted {
    /// Wait for another proof to give its memory back.
    Wait,
    /// Use ordinary heap memory, and say so.
    #[default]
    Heap,
    /// Fail, with exit code 5.
    Fail,
}

/// The randomness of a proof: without it a proof tells of its witness.
#[derive(Clone, Copy)]
pub struct Blinding {
    /// Blinds A.
    pub r: Scalar,
    /// Blinds B.
    pub s: Scalar,
}

impl Blinding {
    /// From the system's randomness.
    pub fn fresh() -> Self {
        Self::from_rng(&mut OsRng)
    }

    /// The same for the same seed, and so not zero-knowledge. For tests and comparisons.
    pub fn from_seed(seed: u64) -> Self {
        Self::from_rng(&mut ChaCha20Rng::seed_from_u64(seed))
    }

    /// From `rng`.
    pub fn from_rng(rng: &mut impl RngCore) -> Self {
        Self { r: Scalar::random(&mut *rng), s: Scalar::random(rng) }
    }
}

/// The prover, with its memory, for the length of a command. One at a time in a process.
pub struct Session {
    recorder: Arc<Recorder>,
    _registration: Registration,
}

impl Session {
    /// Starts the prover.
    ///
    /// # Errors
    /// [`Error::Configuration`] and [`Error::Memory`] if the memory cannot be had as asked for.
    pub fn open(_memory: &MemoryOptions) -> Result<Self, Error> {
        let recorder = Arc::new(Recorder::default());
        let registration = backend::register(recorder.clone() as Arc<dyn Backend>)
            .map_err(|e| Error::Configuration(e.to_string()))?;
        Ok(Self { recorder, _registration: registration })
    }

    /// Proves `circuit`, whose counts are `shape`. `identity` names the circuit, the same for the same
    /// constraints: sizes are remembered under it.
    ///
    /// # Errors
    /// [`Error::Synthesis`] and [`Error::Memory`].
    pub fn prove<C: Circuit<Scalar> + Send>(
        &self,
        _identity: &str,
        shape: &Shape,
        circuit: C,
        params: &Parameters<Bls12>,
        blinding: Blinding,
    ) -> Result<Proved, Error> {
        let expected = groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux };
        *self.recorder.expected.lock().unwrap_or_else(PoisonError::into_inner) = Some(expected);
        let start = Instant::now();
        let proof =
            create_proof(circuit, params, blinding.r, blinding.s).map_err(Error::synthesis("prove"))?;
        let total = start.elapsed();
        let made = self.recorder.made.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (synthesis, made) = made.expect("the recorder is the backend of every proof");
        let (phases, placement) = (made.phases, made.placement);
        Ok(Proved {
            proof,
            report: Report {
                phases: Phases {
                    synthesis: Some(synthesis),
                    fft: Some(phases.fft),
                    msm: Some(phases.msm()),
                    total,
                },
                vectors: Vectors {
                    backend: placement.abc_allocator.unwrap_or("heap").to_owned(),
                    pinned: placement.abc_residency == Residency::Pinned,
                    bytes: Some((placement.abc_bytes + placement.aux_bytes) as u64),
                    growths: Some(growths(&placement.growths)),
                },
            },
        })
    }
}

fn growths(growths: &groth16::Growths) -> u64 {
    u64::from(growths.in_place) + u64::from(growths.moved) + u64::from(growths.to_heap)
}

/// The fork's own prover as a registered one, which keeps what it says of its last proof.
#[derive(Default)]
struct Recorder {
    expected: Mutex<Option<groth16::Shape>>,
    made: Mutex<Option<(Duration, native::Proved)>>,
}

impl Backend for Recorder {
    fn name(&self) -> &str {
        "native"
    }

    fn options(&self, _: &CircuitId<'_>) -> SynthesisOptions {
        let expected = *self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        SynthesisOptions::default().expecting(expected).pad_to_domain(true)
    }

    fn prove(&self, job: Job<'_>) -> Result<Vec<Proof<Bls12>>, SynthesisError> {
        let synthesis = job.synthesis;
        let proved = native::prove(job)?;
        let proofs = proved.iter().map(|proved| proved.proof.clone()).collect();
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) =
            proved.into_iter().next_back().map(|proved| (synthesis, proved));
        Ok(proofs)
    }
}

/// A proof and how it came about.
pub struct Proved {
    /// The proof.
    pub proof: Proof<Bls12>,
    /// How it came about.
    pub report: Report,
}

/// How a proof came about.
#[derive(Clone, Debug)]
pub struct Report {
    /// How long each phase took.
    pub phases: Phases,
    /// Where the proving vectors lived.
    pub vectors: Vectors,
}

/// How long each phase took; `None` where it was not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// From the circuit to a, b, c and the witness.
    pub synthesis: Option<Duration>,
    /// From a, b, c to the coefficients of h.
    pub fft: Option<Duration>,
    /// The multi-scalar multiplications and the assembly of the proof.
    pub msm: Option<Duration>,
    /// All of it.
    pub total: Duration,
}

/// Where a, b, c and the witness lived.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// The backend's name.
    pub backend: String,
    /// Whether the memory was page-locked.
    pub pinned: bool,
    /// The bytes that were set aside for them.
    pub bytes: Option<u64>,
    /// How often one of them outgrew its memory.
    pub growths: Option<u64>,
}
