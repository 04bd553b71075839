//! What an engine did, in numbers.

use serde::Serialize;

use super::queue::Counts;
use super::timeline::DeviceTimes;
use crate::memory::pool::PoolStats;
use crate::prover::DeviceStatus;

/// What an engine did since it was made. Seconds and bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EngineSummary {
    /// Jobs that were submitted.
    pub jobs_submitted: u64,
    /// Jobs whose proofs were handed out.
    pub jobs_done: u64,
    /// Jobs that ended without.
    pub jobs_failed: u64,
    /// Circuits proved and checked.
    pub circuits_proved: u64,
    /// Circuits whose synthesis has not begun, now.
    pub pending: usize,
    /// Sets in memory, now: in synthesis, ready, or being read by a device.
    pub live: usize,
    /// Their bytes.
    pub live_bytes: u64,
    /// The most sets that were in memory at once.
    pub live_peak: usize,
    /// The most bytes that they took.
    pub live_bytes_peak: u64,
    /// Circuits that passed one that waited for memory.
    pub overtakes: u64,
    /// Seconds that jobs at the head of the queue waited for memory.
    pub waited_memory: f64,
    /// Seconds that circuits waited for a device, all together.
    pub waited_device: f64,
    /// How the devices are.
    pub devices: Vec<DeviceStatus>,
    /// How the devices spent their time.
    pub device_times: Vec<DeviceTimes>,
    /// Bytes that the budget has given out, now.
    pub budget_used: u64,
    /// All bytes of the budget.
    pub budget_total: u64,
    /// The counters of the pool; `None` if there is none.
    pub pool: Option<PoolStats>,
}

impl EngineSummary {
    pub(super) fn new(
        counts: Counts,
        devices: Vec<DeviceStatus>,
        device_times: Vec<DeviceTimes>,
        (budget_used, budget_total): (u64, u64),
        pool: Option<PoolStats>,
    ) -> Self {
        Self {
            jobs_submitted: counts.jobs_submitted,
            jobs_done: counts.jobs_done,
            jobs_failed: counts.jobs_failed,
            circuits_proved: counts.circuits_proved,
            pending: counts.pending_now,
            live: counts.live_now,
            live_bytes: counts.live_bytes_now,
            live_peak: counts.live_peak,
            live_bytes_peak: counts.live_bytes_peak,
            overtakes: counts.overtakes,
            waited_memory: counts.waited_memory.as_secs_f64(),
            waited_device: counts.waited_device.as_secs_f64(),
            devices,
            device_times,
            budget_used,
            budget_total,
            pool,
        }
    }
}
