//! What the tests of proofs on a device share.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bellperson::groth16::Parameters;
use bellperson::Circuit;
use blstrs::{Bls12, Scalar};
use prover_core::cuda::devices;
use prover_core::setup::{generate, CpuFixedBase, FixedBase, ToxicWaste};
use prover_core::{init, Config, Guard, ProofReport, ProverChoice};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// One prover a process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn config() -> Config {
    let mut config = Config::default();
    config.prover = ProverChoice::Gpu;
    config.cpu_fallback = false;
    config
}

/// The prover, on the device alone.
pub struct Device {
    pub guard: Guard,
    _alone: MutexGuard<'static, ()>,
}

/// `None`, and said so, without a device.
pub fn device_with(change: impl FnOnce(&mut Config)) -> Option<Device> {
    let alone = alone();
    let found = match devices() {
        Ok(devices) => !devices.is_empty(),
        Err(error) if error.is_absence() => false,
        // A device that is there and cannot be used is no reason to skip.
        Err(error) => panic!("{error}"),
    };
    if !found {
        // Whether or not the output of tests is shown.
        writeln!(std::io::stdout(), "skipped: no CUDA device").expect("standard output");
        return None;
    }
    let mut config = config();
    change(&mut config);
    Some(Device { guard: init(config).expect("the device can be used"), _alone: alone })
}

pub fn device() -> Option<Device> {
    device_with(|_| {})
}

/// Made on the device, from page-locked memory.
pub fn on_device(report: &ProofReport) {
    assert_eq!(report.prover, "gpu");
    assert!(report.device.is_some());
    assert!(report.memory.abc.pinned && report.memory.aux.pinned, "{:?}", report.memory);
}

/// A key whose points are multiplied out by the CPU.
pub fn key<C: Circuit<Scalar> + Clone>(circuit: &C, seed: u64) -> Parameters<Bls12> {
    key_by(circuit, seed, &CpuFixedBase::new())
}

pub fn key_by<C: Circuit<Scalar> + Clone>(
    circuit: &C,
    seed: u64,
    points: &dyn FixedBase,
) -> Parameters<Bls12> {
    let waste = ToxicWaste::random(&mut ChaCha8Rng::seed_from_u64(seed));
    generate(|| circuit.clone(), None, waste, points, &|_, _, _| {}).expect("a key")
}

/// log2 of the largest domain.
pub fn max_log() -> u32 {
    std::env::var("GPU_MAX_LOG").ok().map_or(14, |log| log.parse().expect("GPU_MAX_LOG is a number"))
}
