//! The seam between the tool and the prover: every proof that the tool makes is made here.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellperson::groth16::{self, Parameters, Proof};
use bellperson::{Circuit, SynthesisError};
use blstrs::{Bls12, Scalar};
use ff::Field;
use prover_core::cuda::{devices, select, DeviceSelector};
use prover_core::memory::pool::Exhaustion;
use prover_core::size::format_size;
use prover_core::{Config, Guard, Hints, InitError, ProofReport, ProveError, Proven, ProverChoice};
use rand_chacha::ChaCha20Rng;
use rand_core::{OsRng, RngCore, SeedableRng};

use crate::circuits::Shape;
use crate::error::Error;
use crate::ui;

/// How long a proof waits for memory if the user names no time.
const DEFAULT_WAIT: Duration = Duration::from_secs(600);

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
    /// Where proofs are computed.
    pub prover: ProverOptions,
}

/// Where proofs are computed.
#[derive(Clone, Debug, Default)]
pub struct ProverOptions {
    /// On the device or on the CPU.
    pub backend: ProverBackend,
    /// The devices to use; none: all there are.
    pub devices: Vec<DeviceSelector>,
    /// The most memory of the device to use, in bytes; `None`: what is free.
    pub device_memory: Option<u64>,
    /// The CPU may not stand in for the device.
    pub no_cpu_fallback: bool,
}

impl ProverOptions {
    /// The number of the first device to use, for what uses one alone.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if it is named by a UUID that no device has.
    pub fn first_device(&self) -> Result<u32, Error> {
        match self.devices.first() {
            None => Ok(0),
            Some(DeviceSelector::Ordinal(ordinal)) => Ok(*ordinal),
            Some(wanted) => {
                let none = |error: &dyn std::fmt::Display| Error::NoDevice(error.to_string());
                let known = devices().map_err(|error| none(&error))?;
                let chosen = select(std::slice::from_ref(wanted), &known).map_err(|error| none(&error))?;
                Ok(chosen.first().map_or(0, |device| u32::try_from(device.ordinal).unwrap_or(u32::MAX)))
            }
        }
    }
}

/// On the device or on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProverBackend {
    /// On the device if there is one that can, else on the CPU; small circuits on the CPU.
    #[default]
    Auto,
    /// On the device, or not at all: exit code 4 without one.
    Gpu,
    /// On the CPU.
    Cpu,
}

impl ProverBackend {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
        }
    }
}

/// What backs the proving vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MemoryBackend {
    /// Page-locked for the device if there is one, pooled pages otherwise.
    #[default]
    Auto,
    /// Pooled huge pages, page-locked for a CUDA device. An error without one.
    CudaRegister,
    /// The CUDA driver's own page-locked memory. An error without a device.
    CudaHostAlloc,
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
    guard: Guard,
    /// Bytes of the key that was loaded to the device last.
    key_bytes: Arc<AtomicU64>,
}

impl Session {
    /// Starts the prover.
    ///
    /// # Errors
    /// [`Error::Configuration`] if the options contradict each other or the machine.
    pub fn open(memory: &MemoryOptions) -> Result<Self, Error> {
        Self::with(memory, memory.config())
    }

    /// [`open`](Self::open) for a command that makes one proof: what comes back goes to the system at once, since nobody
    /// will use it again.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for_one(memory: &MemoryOptions) -> Result<Self, Error> {
        let mut config = memory.config();
        config.idle_timeout = Some(Duration::ZERO);
        config.low_water = Some(0);
        Self::with(memory, config)
    }

    /// [`open`](Self::open), with every proof checked before it is handed out, as a library's user has it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_checked(memory: &MemoryOptions) -> Result<Self, Error> {
        let mut config = memory.config();
        config.self_check = true;
        Self::with(memory, config)
    }

    /// A proof with the prover's whole report.
    ///
    /// # Errors
    /// As [`prove`](Self::prove).
    pub fn prove_reported<C: Circuit<Scalar>>(
        &self,
        circuit: C,
        params: &Parameters<Bls12>,
        blinding: Blinding,
        expected: groth16::Shape,
    ) -> Result<Proven, Error> {
        let proven = self
            .guard
            .prove_expecting(circuit, params, blinding.r, blinding.s, expected)
            .map_err(prove_error)?;
        if let Some(device) = proven.report.device.as_ref().filter(|device| device.key_loaded) {
            let bytes = self.key_bytes.load(Ordering::Relaxed);
            tracing::info!(bytes, seconds = device.key.as_secs_f64(), "key loaded to the device");
        }
        Ok(proven)
    }

    /// What runs below, for whoever makes many proofs at a time.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    fn with(memory: &MemoryOptions, mut config: Config) -> Result<Self, Error> {
        if let Some(path) = &memory.hints {
            check_hints(path)?;
        }
        let key_bytes = Arc::new(AtomicU64::new(0));
        let heard = key_bytes.clone();
        config.on_key_load = Some(Arc::new(move |done, all| {
            heard.store(all, Ordering::Relaxed);
            ui::detail(|| (done < all).then(|| loading(done, all)));
        }));
        let guard = prover_core::init(config).map_err(|e| match e {
            InitError::Device { ref cause, .. } if cause.is_absence() => Error::NoDevice(e.to_string()),
            InitError::Gpu { .. } | InitError::Devices(_) => Error::NoDevice(e.to_string()),
            e => Error::Configuration(e.to_string()),
        })?;
        Ok(Self { guard, key_bytes })
    }

    /// Proves `circuit`, whose counts are `shape`. The proof is not checked: commands do that where it shows in the table of phases.
    ///
    /// # Errors
    /// [`Error::Memory`] if the vectors' memory cannot be had and the user wants no other; [`Error::Synthesis`];
    /// [`Error::Input`] if the key is another circuit's.
    pub fn prove<C: Circuit<Scalar>>(
        &self,
        shape: &Shape,
        circuit: C,
        params: &Parameters<Bls12>,
        blinding: Blinding,
    ) -> Result<Proved, Error> {
        let expected = groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux };
        let start = Instant::now();
        let proven = self.prove_reported(circuit, params, blinding, expected)?;
        let total = start.elapsed();
        Ok(Proved { proof: proven.proof, report: Report::new(&proven.report, total) })
    }
}

/// Bytes of a key on their way to the device, for a progress bar.
fn loading(done: u64, all: u64) -> String {
    let (done_size, all_size) = (format_size(done), format_size(all));
    format!("loading the key to the device, {done_size} of {all_size} {}", ui::part(done, all))
}

/// A failed proof as the tool's error.
pub(crate) fn prove_error(error: ProveError) -> Error {
    match error {
        ProveError::Synthesis(SynthesisError::IoError(e)) if e.kind() == ErrorKind::OutOfMemory => {
            Error::Memory(e.to_string())
        }
        e if e.is_device_failure() => Error::NoDevice(e.to_string()),
        ProveError::Synthesis(e) => Error::synthesis("prove")(e),
        e => Error::Input(e.to_string()),
    }
}

/// Refuses a file that holds something other than hints: it would be left alone, and the option be in vain.
fn check_hints(path: &Path) -> Result<(), Error> {
    let refuse = |what: &str| Err(Error::Configuration(format!("--hints {}: {what}", path.display())));
    match prover_core::hints::may_replace(path) {
        Ok(true) => Ok(()),
        Ok(false) => refuse("not a file of capacity hints, and it would be replaced; name another file"),
        Err(e) => refuse(&e.to_string()),
    }
}

impl MemoryOptions {
    fn config(&self) -> Config {
        let mut config = Config::default();
        config.memory_budget = self.limit;
        config.pool_max = self.pool_limit;
        config.backend = match self.backend {
            _ if self.no_pool => prover_core::MemoryBackend::None,
            MemoryBackend::Auto => prover_core::MemoryBackend::Auto,
            MemoryBackend::CudaRegister => prover_core::MemoryBackend::CudaRegister,
            MemoryBackend::CudaHostAlloc => prover_core::MemoryBackend::CudaHostAlloc,
            MemoryBackend::Pages => prover_core::MemoryBackend::Pages,
            MemoryBackend::Mlock => prover_core::MemoryBackend::Mlock,
            MemoryBackend::Heap => prover_core::MemoryBackend::Heap,
        };
        config.exhaustion = match self.on_exhausted {
            OnExhausted::Wait => Exhaustion::Wait(self.wait.unwrap_or(DEFAULT_WAIT)),
            OnExhausted::Heap => Exhaustion::Heap,
            OnExhausted::Fail => Exhaustion::Fail,
        };
        config.hints = match &self.hints {
            Some(path) => Hints::File(path.clone()),
            None => Hints::InMemory,
        };
        config.self_check = false;
        config.prover = match self.prover.backend {
            ProverBackend::Auto => ProverChoice::Auto,
            ProverBackend::Gpu => ProverChoice::Gpu,
            ProverBackend::Cpu => ProverChoice::Cpu,
        };
        config.devices = self.prover.devices.clone();
        config.device_memory_max = self.prover.device_memory;
        config.cpu_fallback = !self.prover.no_cpu_fallback;
        config
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
    /// What computed the proof: `"gpu"` or `"cpu"`.
    pub prover: &'static str,
    /// How long each phase took.
    pub phases: Phases,
    /// Where the proving vectors lived.
    pub vectors: Vectors,
}

impl Report {
    fn new(report: &ProofReport, total: Duration) -> Self {
        let (phases, memory) = (&report.phases, &report.memory);
        Self {
            prover: report.prover,
            phases: Phases {
                synthesis: Some(phases.synthesis),
                fft: Some(phases.fft),
                msm: Some(phases.msm()),
                total,
            },
            vectors: Vectors {
                backend: memory.abc.backend.to_owned(),
                pinned: memory.abc.pinned,
                locked: memory.abc.locked,
                bytes: (memory.abc.bytes + memory.aux.bytes) as u64,
                growths: memory.grown_in_place + memory.moved + memory.moved_to_heap,
                refusal: memory.refusal.clone(),
            },
        }
    }
}

/// How long each phase took; `None` where it was not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// From the circuit to a, b, c and the witness.
    pub synthesis: Option<Duration>,
    /// From a, b, c to the coefficients of h.
    pub fft: Option<Duration>,
    /// The multi-scalar multiplications.
    pub msm: Option<Duration>,
    /// All of it.
    pub total: Duration,
}

/// Where a, b, c and the witness lived.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// What backed a, b and c: the pool's backend, or the heap.
    pub backend: String,
    /// Whether their memory was page-locked and known to a device.
    pub pinned: bool,
    /// Whether it was locked in RAM.
    pub locked: bool,
    /// The bytes set aside for a, b, c and the witness.
    pub bytes: u64,
    /// How often one of them outgrew its memory.
    pub growths: u32,
    /// Why they are on the heap although there is a pool.
    pub refusal: Option<String>,
}
