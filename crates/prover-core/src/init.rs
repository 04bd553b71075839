//! Start and end: what registers the memory and the prover with bellperson.
//!
//! ```text
//!   init(config) ──► MemoryBudget, Pool, HintStore, Prover
//!        │             │                  │
//!        │             ▼                  ▼
//!        │      pinned_alloc registry   bellperson::groth16::backend
//!        ▼             ▲                  ▲
//!      Guard ──────────┴── registrations ─┘      drop: unregister both, wait for what is out, free what is idle
//! ```

use std::sync::Arc;
use std::time::Duration;

use bellperson::groth16::{backend, Parameters, Shape};
use bellperson::Circuit;
use blstrs::{Bls12, Scalar};
use pinned_alloc::REGISTRY;
use tracing::{info, warn};

use crate::config::{Config, Hints, MemoryBackend, ProverChoice};
#[cfg(unix)]
use crate::cuda::Context;
use crate::cuda::{devices, numa_node, select, CudaError, DeviceSelector, SelectError};
use crate::engine::{Engine, EngineConfig};
use crate::hints::HintStore;
use crate::memory::backend::{Backend, Heap};
#[cfg(unix)]
use crate::memory::backend::{CudaHostAlloc, CudaRegister, Mlock, Pages};
use crate::memory::limits::Limits;
use crate::memory::pool::{DrainError, Pool, PoolConfig, PoolRegistration, PoolStats};
use crate::memory::MemoryBudget;
use crate::prover::place::{self, Place};
use crate::prover::{DeviceStatus, ProofReport, ProveError, Proven, Prover};

/// How long the drop of a [`Guard`] waits for memory that is still out.
const DRAIN: Duration = Duration::from_secs(10);

/// Why a prover could not start. Nothing is registered then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// Another one runs in this process, or another library registered an allocator.
    #[error("{0}")]
    AllocatorRegistered(#[from] pinned_alloc::AlreadyRegistered),
    /// Another Groth16 backend is registered in this process.
    #[error("{0}")]
    BackendRegistered(#[from] backend::AlreadyRegistered),
    /// The budget is too small to be meant.
    #[error("memory budget of {bytes} bytes: at least {least} are needed; raise {knob}")]
    BudgetTooSmall {
        /// What was asked for.
        bytes: u64,
        /// The least budget.
        least: u64,
        /// The setting.
        knob: &'static str,
    },
    /// The pool may have no more than the budget.
    #[error(
        "the pool may have {pool} bytes but the memory budget is {budget}; lower {knob} or raise the budget"
    )]
    PoolAboveBudget {
        /// What the pool may have.
        pool: u64,
        /// The budget.
        budget: u64,
        /// The setting.
        knob: &'static str,
    },
    /// The device was asked for, or the CPU forbidden, and it cannot be used.
    #[error("no proofs on a device: {why}")]
    Gpu {
        /// Why not.
        why: String,
    },
    /// A device is named that is not there.
    #[error("{0}")]
    Devices(#[from] SelectError),
    /// An environment variable holds something else than it may.
    #[error("{variable}={value}: expected auto, gpu or cpu")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// This system cannot map memory that way.
    #[error("memory backend {0} is not available on this system")]
    BackendUnavailable(&'static str),
    /// The memory was to be a device's, and the device cannot be had.
    #[error("memory backend {backend}: {cause}")]
    Device {
        /// The backend asked for.
        backend: &'static str,
        /// Why.
        cause: CudaError,
    },
}

/// The least memory budget, in bytes.
const LEAST_BUDGET: u64 = 1 << 20;

/// Starts the prover of this process: from now on every `create_*proof*` call of bellperson for BLS12-381 synthesises into
/// the pool and proves here.
///
/// # Errors
/// See [`InitError`].
pub fn init(config: Config) -> Result<Guard, InitError> {
    let total = config.memory_budget.unwrap_or_else(|| Limits::detect().total());
    if total < LEAST_BUDGET {
        let knob = crate::memory::KNOB_BUDGET;
        return Err(InitError::BudgetTooSmall { bytes: total, least: LEAST_BUDGET, knob });
    }
    if let Some(pool) = config.pool_max.filter(|pool| *pool > total) {
        let knob = crate::memory::KNOB_PINNED_MAX;
        return Err(InitError::PoolAboveBudget { pool, budget: total, knob });
    }
    let budget = MemoryBudget::new(total);
    let choice = place::choice(&config)?;
    let memory_backend = match config.backend {
        // Nobody here would read page-locked memory by DMA.
        MemoryBackend::Auto if choice == ProverChoice::Cpu && cfg!(unix) => MemoryBackend::Pages,
        backend => backend,
    };
    let page_locks = matches!(
        memory_backend,
        MemoryBackend::Auto | MemoryBackend::CudaRegister | MemoryBackend::CudaHostAlloc
    );
    let named = choice != ProverChoice::Cpu && !config.devices.is_empty();
    let near = Near::to(page_locks || named, &config.devices)?;
    let pool = open(memory_backend, near)?
        .map(|backend| Pool::with_backend(backend, budget.clone(), pool_config(&config)));
    let hints = match &config.hints {
        Hints::InMemory => HintStore::in_memory(total),
        Hints::File(path) => HintStore::open(path, total),
    };
    let place = Place::open(choice, &config, pool.as_ref())?;
    let name = place.place();
    let prover = Arc::new(Prover::new(hints, place, &config));
    // The memory first: whoever proves meanwhile finds both, or no prover.
    let memory = pool.as_ref().map(|pool| pool.register(&REGISTRY)).transpose()?;
    let registration = backend::register(prover.clone())?;
    info!(
        memory = pool.as_ref().map_or("none", |pool| pool.backend_name()),
        budget_bytes = total,
        prover = name,
        "prover started"
    );
    Ok(Guard { registration: Some(registration), memory, pool, prover, budget })
}

/// Where page-locked memory belongs.
#[derive(Clone, Copy)]
struct Near {
    /// The number of the first device that is meant, whose context page-locks the memory.
    device: usize,
    /// The NUMA node of all devices that are meant.
    node: Option<u32>,
}

impl Near {
    /// The driver is `asked` only if somebody wants a device.
    ///
    /// # Errors
    /// A device is named that is not there. Without any device that is for others to say.
    fn to(asked: bool, wanted: &[DeviceSelector]) -> Result<Self, InitError> {
        let nowhere = Self { device: 0, node: None };
        if !asked {
            return Ok(nowhere);
        }
        let Ok(known) = devices() else { return Ok(nowhere) };
        let chosen = select(wanted, &known)?;
        Ok(chosen.first().map_or(nowhere, |first| Self { device: first.ordinal, node: numa_node(&chosen) }))
    }
}

fn pool_config(config: &Config) -> PoolConfig {
    PoolConfig {
        max_bytes: config.pool_max,
        exhaustion: config.exhaustion,
        idle_timeout: config.idle_timeout,
        low_water: config.low_water,
        wipe_on_return: config.wipe_on_return,
        ..PoolConfig::default()
    }
}

#[cfg(unix)]
fn open(backend: MemoryBackend, near: Near) -> Result<Option<Box<dyn Backend>>, InitError> {
    let context =
        |backend| Context::retain(near.device).map_err(|cause| InitError::Device { backend, cause });
    Ok(Some(match backend {
        MemoryBackend::None => return Ok(None),
        MemoryBackend::Auto => match Context::retain(near.device) {
            Ok(context) => Box::new(CudaRegister::new(context).on_node(near.node)),
            Err(error) if error.is_absence() => Box::new(Pages),
            Err(error) => {
                warn!(%error, "memory is not page-locked: the CUDA device cannot be used");
                Box::new(Pages)
            }
        },
        MemoryBackend::CudaRegister => {
            Box::new(CudaRegister::new(context("cuda-register")?).on_node(near.node))
        }
        MemoryBackend::CudaHostAlloc => Box::new(CudaHostAlloc::new(context("cuda-host-alloc")?)),
        MemoryBackend::Pages => Box::new(Pages),
        MemoryBackend::Mlock => Box::new(Mlock),
        MemoryBackend::Heap => Box::new(Heap::default()),
    }))
}

#[cfg(not(unix))]
fn open(backend: MemoryBackend, _: Near) -> Result<Option<Box<dyn Backend>>, InitError> {
    let unavailable = |backend| Err(InitError::BackendUnavailable(backend));
    Ok(Some(match backend {
        MemoryBackend::None => return Ok(None),
        MemoryBackend::CudaRegister => return unavailable("cuda-register"),
        MemoryBackend::CudaHostAlloc => return unavailable("cuda-host-alloc"),
        MemoryBackend::Pages => return unavailable("pages"),
        MemoryBackend::Mlock => return unavailable("mlock"),
        MemoryBackend::Auto | MemoryBackend::Heap => Box::new(Heap::default()),
    }))
}

/// The running prover. Dropping it unregisters the memory and the prover, waits up to ten seconds for memory that proofs
/// still hold, and frees the rest; what is out even then comes back to the pool when its proof ends.
///
/// A proof that has begun ends, but memory it asks for from then on is refused: with [`Exhaustion::Heap`] it goes on in
/// ordinary memory, with the other policies it fails. Drop the guard when all proofs are done.
///
/// [`Exhaustion::Heap`]: crate::memory::pool::Exhaustion::Heap
#[must_use = "dropping the guard stops the prover"]
#[derive(Debug)]
pub struct Guard {
    registration: Option<backend::Registration>,
    memory: Option<PoolRegistration<'static>>,
    pool: Option<Pool>,
    prover: Arc<Prover>,
    budget: MemoryBudget,
}

impl Guard {
    /// Proves a circuit with blinding factors r and s, and says how it came about. Never give the same r and s twice for
    /// different witnesses, and take them from a cryptographic generator.
    ///
    /// # Errors
    /// [`ProveError`]: the circuit's own, no memory, parameters of another circuit, a proof that fails its self-check.
    pub fn prove<C: Circuit<Scalar>>(
        &self,
        circuit: C,
        params: &Parameters<Bls12>,
        r: Scalar,
        s: Scalar,
    ) -> Result<Proven, ProveError> {
        self.prover.prove_circuit(circuit, params, (r, s), None)
    }

    /// [`prove`](Self::prove), told the shape that the circuit has. A wrong one costs time or memory only.
    ///
    /// # Errors
    /// As [`prove`](Self::prove).
    pub fn prove_expecting<C: Circuit<Scalar>>(
        &self,
        circuit: C,
        params: &Parameters<Bls12>,
        r: Scalar,
        s: Scalar,
        expected: Shape,
    ) -> Result<Proven, ProveError> {
        self.prover.prove_circuit(circuit, params, (r, s), Some(expected))
    }

    /// An engine over this prover: many circuits at a time. Drop it before the guard.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn engine(&self, config: EngineConfig) -> std::io::Result<Engine> {
        Engine::start(self.prover.clone(), self.pool.clone(), self.budget.clone(), config)
    }

    /// Reports of the latest proofs, oldest first. Proofs made through bellperson's functions are among them.
    pub fn reports(&self) -> Vec<ProofReport> {
        self.prover.reports()
    }

    /// How the devices are that prove; none if the CPU does.
    pub fn devices(&self) -> Vec<DeviceStatus> {
        self.prover.devices()
    }

    /// Counters of the pool; `None` if there is none.
    pub fn pool_stats(&self) -> Option<PoolStats> {
        self.pool.as_ref().map(Pool::stats)
    }

    /// The pool; `None` if there is none.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// The memory budget.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Unregisters, waits for memory that is out, and frees the pool.
    ///
    /// # Errors
    /// Memory that was not given back in time. It stays valid.
    pub fn shut_down(mut self, timeout: Duration) -> Result<(), DrainError> {
        self.close(timeout)
    }

    fn close(&mut self, timeout: Duration) -> Result<(), DrainError> {
        self.registration = None;
        self.memory = None;
        match self.pool.take() {
            Some(pool) => pool.drain(timeout),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = self.close(DRAIN) {
            warn!("{error}");
        }
    }
}
