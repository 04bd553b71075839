//! What [`init`](crate::init) is told.

use std::path::PathBuf;
use std::time::Duration;

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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The memory budget in bytes, for all that this library allocates. `None`: the smaller of physical memory and every
    /// cgroup limit, less a margin.
    pub memory_budget: Option<u64>,
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
