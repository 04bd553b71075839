//! What [`init`](crate::init) is told.

use std::path::PathBuf;
use std::time::Duration;

use crate::cuda::DeviceSelector;
use crate::memory::pool::Exhaustion;

/// What backs the proving vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryBackend {
    /// [`CudaRegister`](Self::CudaRegister) where there is a CUDA device, [`Pages`](Self::Pages) where there is none
    /// or it cannot be used (which is warned of).
    #[default]
    Auto,
    /// Pooled pages, registered with the CUDA driver: the first device visible reads them by DMA, and so does any other.
    /// An error without a device.
    CudaRegister,
    /// The CUDA driver's own page-locked memory: slow to make, and vectors that outgrow it move. An error without a
    /// device.
    CudaHostAlloc,
    /// Pooled pages of 2 MiB where they are to be had, not locked: reuse saves every page fault.
    Pages,
    /// The same, locked in RAM. The limit of locked memory (`ulimit -l`) is often small.
    Mlock,
    /// Pooled memory of the global allocator. For tests.
    Heap,
    /// No pool: vectors are ordinary heap memory, and nothing is registered.
    None,
}

/// Where proofs are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProverChoice {
    /// On the device if there is one and this build has kernels (feature `cuda`), else on the CPU; small circuits on the CPU.
    /// The environment variable `PINPROVER_BACKEND` (`auto`, `gpu`, `cpu`) decides first, then upstream's `BELLMAN_NO_GPU`.
    #[default]
    Auto,
    /// On the device, or not at all.
    Gpu,
    /// On the CPU.
    Cpu,
}

/// Hears how much of a key has come to the device: bytes so far, and of all.
pub type KeyProgress = std::sync::Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Where capacity hints are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hints {
    /// For the life of the process.
    #[default]
    InMemory,
    /// In this file as well, from one run to the next.
    File(PathBuf),
}

/// The settings of a prover. Start from the default and change fields.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The memory budget in bytes, for all that this library allocates. `None`: the smaller of physical memory and every
    /// cgroup limit, less a margin.
    pub memory_budget: Option<u64>,
    /// Where proofs are computed.
    pub prover: ProverChoice,
    /// The devices to use. None: all that the driver shows to this process. The first one's context page-locks the memory.
    pub devices: Vec<DeviceSelector>,
    /// The most bytes of the device's memory that keys and workspace take. `None`: what is free, less 512 MiB. A key that does
    /// not fit is streamed from the host, in part.
    pub device_memory_max: Option<u64>,
    /// With [`ProverChoice::Auto`]: whether the CPU proves what the device cannot. It is logged, and each report says where its
    /// proof was made. If not, [`init`](crate::init) fails without a device, and a proof that does not fit it is an error.
    pub cpu_fallback: bool,
    /// Hears how the loading of a key to the device goes.
    pub on_key_load: Option<KeyProgress>,
    /// What backs the proving vectors.
    pub backend: MemoryBackend,
    /// The most bytes that the pool maps, inside the budget. `None`: as much as the budget.
    pub pool_max: Option<u64>,
    /// What to do when the memory is used up. [`Exhaustion::Fail`] makes it the proof's error.
    pub exhaustion: Exhaustion,
    /// How long idle blocks stay. `None`: for ever.
    pub idle_timeout: Option<Duration>,
    /// Bytes that stay idle, whatever their age, while proofs are being made. `None`: as many as the largest set so far. 0,
    /// with an [`idle_timeout`](Self::idle_timeout) of zero, suits a process that makes one proof.
    pub low_water: Option<u64>,
    /// Wipe vectors whenever they come back, not only before memory goes back to the system.
    pub wipe_on_return: bool,
    /// Where the sizes of circuits are remembered.
    pub hints: Hints,
    /// Check each proof with its verifying key before it leaves. Costs three pairings a proof. Default: true.
    ///
    /// A circuit whose witness does not satisfy it then gives an error, where upstream hands out a proof that nobody
    /// accepts.
    pub self_check: bool,
    /// How many reports of proofs are kept, the latest ones.
    pub reports: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_budget: None,
            prover: ProverChoice::Auto,
            devices: Vec::new(),
            device_memory_max: None,
            cpu_fallback: true,
            on_key_load: None,
            backend: MemoryBackend::Auto,
            pool_max: None,
            exhaustion: Exhaustion::Heap,
            idle_timeout: Some(Duration::from_secs(300)),
            low_water: None,
            wipe_on_return: false,
            hints: Hints::InMemory,
            self_check: true,
            reports: 256,
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("memory_budget", &self.memory_budget)
            .field("prover", &self.prover)
            .field("devices", &self.devices)
            .field("cpu_fallback", &self.cpu_fallback)
            .field("backend", &self.backend)
            .field("pool_max", &self.pool_max)
            .field("exhaustion", &self.exhaustion)
            .field("self_check", &self.self_check)
            .finish_non_exhaustive()
    }
}
