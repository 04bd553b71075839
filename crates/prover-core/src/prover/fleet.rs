//! The devices of a process: which one a proof goes to, and which get no more work.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bellperson::groth16::native::Proved;
use serde::Serialize;
use tracing::{error, warn};

use super::device::{Declined, KeyDigest, ProofDevice, Task};
use super::report::DeviceReport;

/// Devices that share the work.
pub(crate) struct Fleet {
    devices: Vec<Arc<dyn ProofDevice>>,
    state: Mutex<Vec<State>>,
    /// A slot was freed, or a device was lost.
    changed: Condvar,
}

#[derive(Clone, Default)]
struct State {
    busy: usize,
    proofs: u64,
    /// Why it gets no more work.
    lost: Option<String>,
}

/// How a device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub ordinal: u32,
    /// Proofs it makes at a time.
    pub slots: usize,
    /// Proofs on it now.
    pub busy: usize,
    /// Proofs it has made.
    pub proofs: u64,
    /// Bytes of its memory that keys take.
    pub key_bytes: u64,
    /// Why it gets no more work; `None` if it is healthy.
    pub lost: Option<String>,
}

impl Fleet {
    #[cfg(any(test, feature = "cuda"))]
    pub(crate) fn new(devices: Vec<Arc<dyn ProofDevice>>) -> Self {
        let state = vec![State::default(); devices.len()];
        Self { devices, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many proofs the healthy devices make at a time.
    pub(crate) fn slots(&self) -> usize {
        let state = self.lock();
        let healthy = self.devices.iter().zip(&*state).filter(|(_, state)| state.lost.is_none());
        healthy.map(|(device, _)| device.slots()).sum()
    }

    /// The names of all devices, for the first log line.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name()).collect();
        names.join(", ")
    }

    pub(crate) fn status(&self) -> Vec<DeviceStatus> {
        let state = self.lock().clone();
        let status = |(device, state): (&Arc<dyn ProofDevice>, State)| DeviceStatus {
            name: device.name().to_owned(),
            ordinal: device.ordinal(),
            slots: device.slots(),
            busy: state.busy,
            proofs: state.proofs,
            key_bytes: device.key_bytes(),
            lost: state.lost,
        };
        self.devices.iter().zip(state).map(status).collect()
    }

    /// Proves on the device that has the key, else on the one with the least to do; waits for a slot. A device that cannot
    /// take it, or is lost before it took it, passes it on to the next. `lost` is told of each device that is lost.
    pub(crate) fn prove(&self, mut task: Task<'_>) -> Result<(Proved, DeviceReport), Declined> {
        let mut tried = BTreeSet::new();
        let mut reasons: Vec<String> = Vec::new();
        loop {
            let Some(at) = self.take(&task.digest, &tried) else {
                let why = if reasons.is_empty() { self.all_lost() } else { reasons.join("; ") };
                return Err(Declined::Unable { assignment: Box::new(task.assignment), why });
            };
            let slot = Taken { fleet: self, at };
            let Task { assignment, key, digest, r, s, given_back } = task;
            let result = self.devices[at].prove(Task { assignment, key, digest, r, s, given_back });
            let name = self.devices[at].name();
            let (assignment, why) = match result {
                Ok(proved) => {
                    self.lock()[at].proofs += 1;
                    return Ok(proved);
                }
                Err(Declined::Failed(error)) => return Err(Declined::Failed(error)),
                Err(Declined::Unable { assignment, why }) => (Some(assignment), why),
                Err(Declined::Lost { assignment, why }) => {
                    self.lose(at, &why);
                    (assignment, why)
                }
            };
            drop(slot);
            let why = format!("{name}: {why}");
            let Some(assignment) = assignment else {
                return Err(Declined::Lost { assignment: None, why });
            };
            tried.insert(at);
            if tried.len() < self.devices.len() {
                warn!(%why, "a proof goes to another device");
            }
            reasons.push(why);
            task = Task { assignment: *assignment, key, digest, r, s, given_back };
        }
    }

    /// Takes a slot; `None` if no device is left to try.
    fn take(&self, key: &KeyDigest, tried: &BTreeSet<usize>) -> Option<usize> {
        // Asked before the lock is taken: a device answers under a lock of its own.
        let holds: Vec<bool> = self.devices.iter().map(|device| device.holds(key)).collect();
        let mut state = self.lock();
        loop {
            let left = |at: &usize| state[*at].lost.is_none() && !tried.contains(at);
            let candidates: Vec<usize> = (0..self.devices.len()).filter(left).collect();
            if candidates.is_empty() {
                return None;
            }
            let free = candidates.into_iter().filter(|&at| state[at].busy < self.devices[at].slots());
            if let Some(at) = free.min_by_key(|&at| (!holds[at], state[at].busy, at)) {
                state[at].busy += 1;
                return Some(at);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lose(&self, at: usize, why: &str) {
        let mut state = self.lock();
        if state[at].lost.is_none() {
            state[at].lost = Some(why.to_owned());
            drop(state);
            error!(
                device = self.devices[at].name(),
                why, "the device failed and gets no more work from this process"
            );
        }
        self.changed.notify_all();
    }

    fn all_lost(&self) -> String {
        let state = self.lock();
        let each = self.devices.iter().zip(&*state).map(|(device, state)| {
            format!("{} failed earlier: {}", device.name(), state.lost.as_deref().unwrap_or("unknown"))
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

/// A slot of a device, given back also when the device's code panics.
struct Taken<'f> {
    fleet: &'f Fleet,
    at: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.fleet.lock()[self.at].busy -= 1;
        self.fleet.changed.notify_all();
    }
}
