//! The counters of a pool.

use pinned_alloc::Residency;
use serde::Serialize;

/// The counters of a pool, all of one moment. Sizes are in bytes, the rest are events since it was made
/// unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PoolStats {
    /// The backend's name.
    pub backend: &'static str,
    /// Whether the backend's memory is page-locked and known to a device.
    pub pinned: bool,
    /// The NUMA node that the memory is to be on, that of the devices; `None`: wherever the system places it.
    pub numa_node: Option<u32>,
    /// Bytes asked for by the holders of what is out or in flight now.
    pub requested_bytes: u64,
    /// Bytes mapped now: the sum of the next four.
    pub mapped_bytes: u64,
    /// Bytes that nobody uses.
    pub idle_bytes: u64,
    /// Bytes checked out.
    pub out_bytes: u64,
    /// Bytes that a device may still access.
    pub in_flight_bytes: u64,
    /// Bytes of blocks whose fence has failed; never used again.
    pub quarantined_bytes: u64,
    /// Bytes being mapped or unmapped right now.
    pub changing_bytes: u64,
    /// The most bytes that were ever mapped, or being mapped or unmapped, at once.
    pub peak_bytes: u64,
    /// Blocks out or in flight now.
    pub blocks_out: usize,
    /// Idle regions now, slabs of small blocks not counted.
    pub blocks_idle: usize,
    /// Slabs of small blocks now.
    pub slabs: usize,
    /// Sets checked out.
    pub check_outs: u64,
    /// Blocks served from what lay idle.
    pub hits: u64,
    /// Blocks that had to be mapped, or needed a new slab.
    pub misses: u64,
    /// Regions mapped.
    pub maps: u64,
    /// Growths in place.
    pub growths: u64,
    /// Growths in place that were refused.
    pub growths_refused: u64,
    /// Check-outs that had to wait.
    pub waits: u64,
    /// Milliseconds that check-outs waited, all together.
    pub waited_ms: u64,
    /// Regions given back to the system: on demand, by need, by age.
    pub trims: u64,
    /// Their bytes.
    pub trimmed_bytes: u64,
    /// Check-outs refused whose caller was told to use ordinary memory
    /// ([`Exhaustion::Heap`](super::Exhaustion)).
    pub fallbacks: u64,
    /// Check-outs that failed otherwise, the caller's own mistakes not counted.
    pub refusals: u64,
}

impl PoolStats {
    /// All zero.
    pub(super) fn new(backend: &'static str, residency: Residency, numa_node: Option<u32>) -> Self {
        Self {
            backend,
            pinned: residency == Residency::Pinned,
            numa_node,
            requested_bytes: 0,
            mapped_bytes: 0,
            idle_bytes: 0,
            out_bytes: 0,
            in_flight_bytes: 0,
            quarantined_bytes: 0,
            changing_bytes: 0,
            peak_bytes: 0,
            blocks_out: 0,
            blocks_idle: 0,
            slabs: 0,
            check_outs: 0,
            hits: 0,
            misses: 0,
            maps: 0,
            growths: 0,
            growths_refused: 0,
            waits: 0,
            waited_ms: 0,
            trims: 0,
            trimmed_bytes: 0,
            fallbacks: 0,
            refusals: 0,
        }
    }
}
