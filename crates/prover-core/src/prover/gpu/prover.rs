//! Proofs on a device: from assignments to the sums of their queries, and what happens when the device fails.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bellperson::groth16::native::{assemble, checked_vk, Phases, Proved, Sums};
use bellperson::groth16::{KeySource, ProvingAssignment};
use bellperson::SynthesisError;
use blstrs::{Bls12, G1Projective, G2Projective, Scalar};
use group::Group;
use prover_cuda::device::Device;
use prover_cuda::error::{Error, Kind};
use prover_cuda::key::Key;
use prover_cuda::slot::{Failed, Shape, Slot, Times};
use tracing::info;

use super::host::{device_shape, Held};
use super::keys::{counts, KeyError, KeyId, Keys, Others};
use super::open::open;
use crate::config::KeyProgress;
use crate::cuda;
use crate::memory::pool::{Fence, FenceError, Pool};
use crate::prover::device::{Declined, KeyDigest, ProofDevice, Task};
use crate::prover::report::DeviceReport;
use crate::prover::service::DeviceFailure;

/// Proofs on a device at a time: while one computes, the next is uploaded.
const SLOTS: usize = 2;

/// A device that proves. It is opened, and asked for known answers, when it is first needed.
pub(in crate::prover) struct GpuProver {
    about: cuda::Device,
    /// The device once it has answered, or why it is refused for good.
    opened: Mutex<Option<Result<Device, String>>>,
    state: Mutex<State>,
    /// A slot came back, or the device failed.
    changed: Condvar,
    /// The keys that are there, for who must not wait while one is loaded under the lock of `state`.
    held: Mutex<(Vec<KeyDigest>, u64)>,
    pool: Option<Pool>,
    progress: Option<KeyProgress>,
}

struct State {
    idle: Vec<Slot>,
    /// Slots that prove now, and the bytes of their workspaces.
    busy: usize,
    busy_bytes: u64,
    keys: Keys,
    /// Why the device is dead.
    failure: Option<String>,
}

/// A slot with its key, ready to begin.
struct Ready<'p> {
    busy: Busy<'p>,
    slot: Slot,
    key: Arc<Key>,
    loaded: bool,
    took: Duration,
}

/// That a slot is out. When it is dropped the slot is counted as back, also after a panic: others may wait for its memory.
struct Busy<'p> {
    prover: &'p GpuProver,
    /// Of its workspace.
    bytes: u64,
}

impl Busy<'_> {
    /// The slot comes back; `None`: it was lost. What the error means, if there is one.
    fn end(self, slot: Option<Slot>, error: Option<&Error>) -> Option<NotReady> {
        let mut state = self.prover.lock();
        state.idle.extend(slot);
        error.map(|error| self.prover.refusal(&mut state, error))
        // The lock goes before `self`, which takes it.
    }

    /// A step failed after the device got hold of the assignment, whose memory is not this proof's any more.
    fn lost(self, slot: Option<Slot>, error: &Error) -> Declined {
        let name = &self.prover.about.name;
        match self.end(slot, Some(error)) {
            // The next proof may do better: a lack of memory, say.
            Some(NotReady::Unable(why)) => Declined::Failed(DeviceFailure::error(format!("{name}: {why}"))),
            _ => Declined::Lost { assignment: None, why: error.to_string() },
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.prover.lock();
        state.busy -= 1;
        state.busy_bytes -= self.bytes;
        drop(state);
        self.prover.changed.notify_all();
    }
}

/// Why there is no slot to prove in.
pub(in crate::prover) enum NotReady {
    /// The key's source failed.
    Source(SynthesisError),
    /// Not now.
    Unable(String),
    /// The device is refused, or has failed, for good.
    Lost(String),
}

impl NotReady {
    /// What becomes of an assignment that was to be proved.
    fn declines(self, assignment: ProvingAssignment<Scalar>) -> Declined {
        let assignment = Box::new(assignment);
        match self {
            Self::Source(error) => error.into(),
            Self::Unable(why) => Declined::Unable { assignment, why },
            Self::Lost(why) => Declined::Lost { assignment: Some(assignment), why },
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Unable(why) | Self::Lost(why) => f.write_str(why),
        }
    }
}

impl GpuProver {
    /// A device, not opened yet.
    pub(in crate::prover) fn new(
        about: cuda::Device,
        memory_max: Option<u64>,
        pool: Option<Pool>,
        progress: Option<KeyProgress>,
    ) -> Self {
        let state =
            State { idle: Vec::new(), busy: 0, busy_bytes: 0, keys: Keys::new(memory_max), failure: None };
        Self {
            about,
            opened: Mutex::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            held: Mutex::default(),
            pool,
            progress,
        }
    }

    /// Opens the device and asks it for known answers, once. A lack of memory is no answer: the next one may ask again.
    ///
    /// # Errors
    /// Why it cannot be used now, or at all.
    pub(in crate::prover) fn open(&self) -> Result<Device, NotReady> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return opened.clone().map_err(NotReady::Lost);
        }
        let answer = open(&self.about);
        if let Err(error) = &answer {
            if error.kind == Kind::OutOfMemory {
                return Err(NotReady::Unable(error.to_string()));
            }
        }
        opened.insert(answer.map_err(|error| error.to_string())).clone().map_err(NotReady::Lost)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot with the key on the device. Waits for the proofs that run if memory is short.
    fn ready(
        &self,
        device: Device,
        id: KeyId,
        sizes: Shape,
        source: &dyn KeySource,
    ) -> Result<Ready<'_>, NotReady> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(NotReady::Lost(failure.clone()));
            }
            let slot = state.idle.pop().map_or_else(|| Slot::new(device), Ok);
            let mut slot = slot.map_err(|error| self.refusal(&mut state, &error))?;
            let State { idle, busy, busy_bytes, keys, .. } = &mut *state;
            let others = Others { idle, busy: *busy > 0, busy_bytes: *busy_bytes };
            let got = keys.get(&mut slot, others, id, sizes, source, self.progress.as_ref());
            self.publish(keys);
            match got {
                Ok((key, loaded)) => {
                    let bytes = slot.workspace();
                    state.busy += 1;
                    state.busy_bytes += bytes;
                    drop(state);
                    let busy = Busy { prover: self, bytes };
                    return Ok(Ready { busy, slot, key, loaded, took: begun.elapsed() });
                }
                Err(KeyError::Busy) => {
                    state.idle.push(slot);
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Err(KeyError::Source(error)) => {
                    state.idle.push(slot);
                    return Err(NotReady::Source(error));
                }
                Err(KeyError::Device(error)) => {
                    state.idle.push(slot);
                    return Err(self.refusal(&mut state, &error));
                }
            }
        }
    }

    /// What an error of the device means: an end for good, or no for now.
    fn refusal(&self, state: &mut State, error: &Error) -> NotReady {
        match error.kind {
            Kind::Device | Kind::Internal => {
                self.fail(state, error);
                NotReady::Lost(error.to_string())
            }
            _ => NotReady::Unable(error.to_string()),
        }
    }

    /// The device failed: what it holds is gone, and it gets no more work.
    fn fail(&self, state: &mut State, cause: &Error) {
        state.failure.get_or_insert_with(|| cause.to_string());
        state.keys.forget();
        self.publish(&state.keys);
        state.idle.clear();
        self.changed.notify_all();
    }

    /// Says which keys are there.
    fn publish(&self, keys: &Keys) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = (keys.digests(), keys.bytes());
    }

    /// Memory that the device may still be reading is never reused.
    fn quarantine(&self, assignment: ProvingAssignment<Scalar>, cause: &Error) {
        let blocks = assignment.into_blocks();
        let Some(pool) = &self.pool else {
            std::mem::forget(blocks);
            return;
        };
        match pool.adopt(blocks) {
            Ok(set) => drop(set.in_flight(Broken(cause.to_string())).wait()),
            Err(foreign) => std::mem::forget(foreign),
        }
    }
}

impl ProofDevice for GpuProver {
    fn name(&self) -> &str {
        &self.about.name
    }

    fn ordinal(&self) -> u32 {
        u32::try_from(self.about.ordinal).unwrap_or(u32::MAX)
    }

    fn slots(&self) -> usize {
        SLOTS
    }

    fn holds(&self, key: &KeyDigest) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).0.contains(key)
    }

    fn key_bytes(&self) -> u64 {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The assignment's memory goes back as soon as the device has read it.
    fn prove(&self, task: Task<'_>) -> Result<(Proved, DeviceReport), Declined> {
        let Task { assignment, key: source, digest, r, s, given_back } = task;
        let device = match self.open() {
            Ok(device) => device,
            Err(not_ready) => return Err(not_ready.declines(assignment)),
        };
        let vk = checked_vk::<Bls12>(&assignment, source)?;
        let (shape, placement) = (assignment.shape(), assignment.placement());
        let sizes = device_shape(&assignment);
        let id = KeyId { digest, counts: counts(sizes) };
        let Ready { busy, slot, key, loaded, took: key_took } = match self.ready(device, id, sizes, source) {
            Ok(ready) => ready,
            Err(not_ready) => return Err(not_ready.declines(assignment)),
        };
        let streamed = key.streamed_bytes();

        let begun = Instant::now();
        let mut uploading = match slot.begin(sizes, key, Held(assignment)) {
            Ok(uploading) => uploading,
            Err(Failed { error, value: (slot, Held(assignment)) }) => {
                let refusal = busy.end(Some(slot), Some(&error));
                return Err(refusal
                    .unwrap_or_else(|| NotReady::Unable(error.to_string()))
                    .declines(assignment));
            }
        };
        let enqueued = uploading.run();
        // Also after an error: what the device may still read must be waited for, or kept.
        let computing = match uploading.uploaded() {
            Ok((computing, Held(assignment))) => {
                // The pool has it again while the device computes.
                drop(assignment);
                given_back();
                computing
            }
            Err(Failed { error, value: Held(assignment) }) => {
                self.quarantine(assignment, &error);
                given_back();
                return Err(busy.lost(None, &error));
            }
        };
        if let Err(error) = enqueued {
            drop(computing);
            return Err(busy.lost(None, &error));
        }
        let (slot, sums) = computing.finish();
        let sums = match sums {
            Ok(sums) => sums,
            Err(error) => return Err(busy.lost(Some(slot), &error)),
        };
        busy.end(Some(slot), None);

        let times = sums.times;
        let sums = Sums::<Bls12> {
            h: g1(sums.h),
            l: g1(sums.l),
            a: g1(sums.a),
            b_g1: g1(sums.b_g1),
            b_g2: g2(sums.b_g2),
        };
        let assembling = Instant::now();
        let proof = assemble(vk, sums, r, s);
        let phases = phases(&times, assembling.elapsed());
        let report = DeviceReport::new(
            (&self.about.name, self.ordinal()),
            (loaded, streamed),
            key_took,
            begun,
            &times,
        );
        Ok((Proved::new(proof, shape, placement, phases), report))
    }
}

impl Drop for GpuProver {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_none() && state.keys.bytes() > 0 {
            info!(device = self.about.name, bytes = state.keys.bytes(), "proving keys leave the device");
        }
    }
}

/// The fence of a copy that failed.
struct Broken(String);

impl Fence for Broken {
    fn is_passed(&self) -> Result<bool, FenceError> {
        Err(FenceError(self.0.clone().into()))
    }

    fn wait(&self) -> Result<(), FenceError> {
        self.is_passed().map(|_| ())
    }
}

fn g1(point: blst::blst_p1) -> G1Projective {
    let mut projective = G1Projective::identity();
    *projective.as_mut() = point;
    projective
}

fn g2(point: blst::blst_p2) -> G2Projective {
    let mut projective = G2Projective::identity();
    *projective.as_mut() = point;
    projective
}

fn phases(times: &Times, assembly: Duration) -> Phases {
    let mut phases = Phases::default();
    phases.fft = Duration::from_secs_f64(times.ntt.seconds());
    phases.msm_h = Duration::from_secs_f64(times.h.seconds());
    phases.msm_l = Duration::from_secs_f64(times.l.seconds());
    phases.msm_a = Duration::from_secs_f64(times.a.seconds());
    phases.msm_b_g1 = Duration::from_secs_f64(times.b_g1.seconds());
    phases.msm_b_g2 = Duration::from_secs_f64(times.b_g2.seconds());
    phases.assembly = assembly;
    phases
}
