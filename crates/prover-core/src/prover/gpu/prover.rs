//! One proof on a device.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bellperson::groth16::native::{assemble, checked_vk, Phases, Proved, Sums};
use bellperson::groth16::{KeySource, ProvingAssignment};
use bellperson::SynthesisError;
use blstrs::{Bls12, G1Projective, G2Projective, Scalar};
use group::Group;
use prover_cuda::error::{Error, Kind};
use prover_cuda::slot::{Failed, Slot, Times};
use tracing::{error, info};

use super::host::{device_shape, Held};
use super::keys::{counts, KeyError, KeyId, Keys};
use super::open::open;
use crate::config::KeyProgress;
use crate::cuda;
use crate::memory::pool::{Fence, FenceError, Pool};
use crate::prover::identity::vk_digest;
use crate::prover::report::DeviceReport;

/// A device that proves, one proof at a time; whoever comes meanwhile waits.
pub(in crate::prover) struct GpuProver {
    ordinal: u32,
    about: cuda::Device,
    state: Mutex<State>,
    pool: Option<Pool>,
    progress: Option<KeyProgress>,
}

struct State {
    /// `None` after the device failed: it gets no more work.
    slot: Option<Slot>,
    keys: Keys,
    /// Why the device is dead.
    failure: Option<String>,
}

/// Why there is no proof of the device.
pub(in crate::prover) enum Declined {
    /// The device cannot take it; the assignment is whole.
    Unable(Box<ProvingAssignment<Scalar>>, String),
    /// It was lost on the way, or is nobody's to prove.
    Failed(SynthesisError),
}

impl From<SynthesisError> for Declined {
    fn from(error: SynthesisError) -> Self {
        Self::Failed(error)
    }
}

impl GpuProver {
    /// Opens a device and asks it for known answers.
    pub(in crate::prover) fn open(
        ordinal: u32,
        memory_max: Option<u64>,
        pool: Option<Pool>,
        progress: Option<KeyProgress>,
    ) -> Result<Self, Error> {
        let (device, about) = open(ordinal)?;
        let (major, minor) = about.compute_capability;
        device.self_test().map_err(|mut error| {
            let built = prover_cuda::ARCHITECTURES;
            error.message = match error.kind {
                Kind::WrongArchitecture => {
                    format!("{}: built for sm_{built}, the device is sm_{major}{minor}; set PINPROVER_CUDA_ARCHS and build again", about.name)
                }
                _ => format!("{} (sm_{major}{minor}) is refused: {}", about.name, error.message),
            };
            error
        })?;
        let slot = Slot::new(device)?;
        let state = State { slot: Some(slot), keys: Keys::new(memory_max), failure: None };
        Ok(Self { ordinal, about, state: Mutex::new(state), pool, progress })
    }

    pub(in crate::prover) fn name(&self) -> &str {
        &self.about.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that keys take on the device.
    pub(in crate::prover) fn key_bytes(&self) -> u64 {
        self.lock().keys.bytes()
    }

    /// Proves an assignment. Its memory goes back as soon as the device has read it.
    pub(in crate::prover) fn prove(
        &self,
        assignment: ProvingAssignment<Scalar>,
        source: &dyn KeySource,
        r: Scalar,
        s: Scalar,
    ) -> Result<(Proved, DeviceReport), Declined> {
        let vk = checked_vk::<Bls12>(&assignment, source)?;
        let (shape, placement) = (assignment.shape(), assignment.placement());
        let sizes = device_shape(&assignment);
        let id = KeyId { digest: vk_digest(vk), counts: counts(sizes) };

        let mut state = self.lock();
        let begun = Instant::now();
        let unable = |assignment, text: String| Declined::Unable(Box::new(assignment), text);
        if let Some(failure) = &state.failure {
            return Err(unable(assignment, format!("{} failed earlier: {failure}", self.about.name)));
        }
        let Some(mut slot) = state.slot.take() else {
            return Err(unable(assignment, format!("{} has no slot", self.about.name)));
        };
        let (key, key_loaded) = match state.keys.get(&mut slot, id, sizes, source, self.progress.as_ref()) {
            Ok(found) => found,
            Err(KeyError::Source(error)) => {
                state.slot = Some(slot);
                return Err(error.into());
            }
            Err(KeyError::Device(error)) => {
                self.put_back(&mut state, slot, &error);
                return Err(unable(assignment, error.to_string()));
            }
        };
        let key_load = begun.elapsed();
        let streamed = key.streamed_bytes();
        let begun = Instant::now();

        let mut uploading = match slot.begin(sizes, key, Held(assignment)) {
            Ok(uploading) => uploading,
            Err(Failed { error, value: (slot, Held(assignment)) }) => {
                self.put_back(&mut state, slot, &error);
                return Err(unable(assignment, error.to_string()));
            }
        };
        if let Err(error) = uploading.run() {
            // Waits for what the device still reads, or leaks it.
            drop(uploading);
            return Err(self.failed(&mut state, None, &error));
        }
        let computing = match uploading.uploaded() {
            Ok((computing, Held(assignment))) => {
                // The pool has it again while the device computes.
                drop(assignment);
                computing
            }
            Err(Failed { error, value: Held(assignment) }) => {
                self.quarantine(assignment, &error);
                return Err(self.failed(&mut state, None, &error));
            }
        };
        let (slot, sums) = computing.finish();
        let sums = match sums {
            Ok(sums) => sums,
            Err(error) => return Err(self.failed(&mut state, Some(slot), &error)),
        };
        state.slot = Some(slot);
        drop(state);

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
            &self.about.name,
            self.ordinal,
            (key_loaded, streamed),
            key_load,
            begun.elapsed(),
            &times,
        );
        Ok((Proved::new(proof, shape, placement, phases), report))
    }

    /// The slot is whole; a device that failed for good gets no more work.
    fn put_back(&self, state: &mut State, slot: Slot, error: &Error) {
        match error.kind {
            Kind::Device | Kind::Internal => drop(self.failed(state, Some(slot), error)),
            _ => state.slot = Some(slot),
        }
    }

    /// The device failed: what it holds is gone, and it gets no more work.
    fn failed(&self, state: &mut State, slot: Option<Slot>, cause: &Error) -> Declined {
        error!(device = self.name(), error = %cause, "the CUDA device failed and gets no more work from this process");
        state.failure = Some(cause.to_string());
        state.keys.forget();
        drop(slot);
        let text = format!("{}: {cause}; later proofs of this process do not run on it", self.about.name);
        Declined::Failed(SynthesisError::IoError(std::io::Error::other(text)))
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
    let seconds = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
    phases.fft = seconds(times.ntt);
    phases.msm_h = seconds(times.h);
    phases.msm_l = seconds(times.l);
    phases.msm_a = seconds(times.a);
    phases.msm_b_g1 = seconds(times.b_g1);
    phases.msm_b_g2 = seconds(times.b_g2);
    phases.assembly = assembly;
    phases
}
