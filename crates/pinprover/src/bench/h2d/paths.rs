//! The four ways from a vector to a device.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use prover_core::cuda::{Context, DeviceMemory};
use prover_core::memory::backend::{Backend, CudaHostAlloc, CudaRegister};
use prover_core::memory::pool::{CheckedOut, Exhaustion, Pool, PoolConfig};
use prover_core::memory::MemoryBudget;

use super::host::{fill_random, while_copying};
use super::report::{CheckOut, Rate, Report, HOST_ALLOC, PAGEABLE, REGISTERED, STAGING};
use super::{failed, refused, Clock, Plan, GIB};
use crate::error::Error;
use crate::ui::Progress;

/// Check-outs of one set, the last of which is looked at.
const CHECK_OUTS: usize = 100;

/// Measures vectors of `bytes` bytes.
pub(super) fn measure(
    plan: &Plan,
    bytes: u64,
    context: &Arc<Context>,
    budget: &MemoryBudget,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Error> {
    let size = usize::try_from(bytes).map_err(refused)?;
    let made = progress.step(&format!("memory for vectors of {:.1} GiB", bytes as f64 / GIB), || {
        Memory::make(plan, size, context, budget, report)
    });
    let memory = made.0?;
    let device = DeviceMemory::new(context, size).map_err(failed)?;
    let clock = Clock::new(context)?;
    for &threads in &plan.copying {
        let what = format!("vectors of {:.1} GiB, {threads} threads copying", bytes as f64 / GIB);
        let (rates, _) =
            progress.step(&what, || while_copying(threads, || memory.rates(plan.rounds, &clock, &device)));
        let (seconds, host) = rates;
        for (path, seconds) in seconds? {
            report.rates.push(Rate::new(path, bytes, threads, seconds, host));
        }
    }
    Ok(())
}

/// One vector of each kind, full of random bytes.
struct Memory {
    pageable: Vec<u8>,
    registered: CheckedOut,
    host_alloc: CheckedOut,
}

impl Memory {
    fn make(
        plan: &Plan,
        size: usize,
        context: &Arc<Context>,
        budget: &MemoryBudget,
        report: &mut Report,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let mut pageable: Vec<u8> = Vec::new();
        pageable.try_reserve_exact(size).map_err(refused)?;
        // One thread touches it first, as one that pushes to a vector does.
        pageable.resize(size, 1);
        let per_gib = started.elapsed().as_secs_f64() / (size as f64 / GIB);
        report.check_outs.push(CheckOut::once(PAGEABLE, size as u64, per_gib));
        fill_random(&mut pageable, 1);
        let registered = pooled(plan, size, CudaRegister::new(context.clone()), REGISTERED, budget, report)?;
        let host_alloc = pooled(plan, size, CudaHostAlloc::new(context.clone()), HOST_ALLOC, budget, report)?;
        Ok(Self { pageable, registered, host_alloc })
    }

    /// The seconds that each path takes.
    fn rates(
        &self,
        rounds: usize,
        clock: &Clock,
        device: &DeviceMemory,
    ) -> Result<Vec<(&'static str, f64)>, Error> {
        let size = self.pageable.len();
        let pageable = NonNull::from(self.pageable.as_slice()).cast::<u8>();
        let pinned = self.host_alloc.as_ptr(0);
        let upload = |source: NonNull<u8>| {
            clock.median(rounds, |stream| {
                // SAFETY: the source has `size` readable bytes, lives in `self`, and `median` waits before anybody
                // writes to it; the device memory outlives the call too.
                unsafe { stream.upload(source, size, device, 0) }
            })
        };
        Ok(vec![
            (PAGEABLE, upload(pageable)?),
            (
                STAGING,
                clock.median(rounds, |stream| {
                    // SAFETY: both have `size` bytes and are apart; the earlier copies from `pinned` have ended, as
                    // `median` has waited, and nobody else uses it: `self` is not shared.
                    unsafe {
                        pinned.copy_from_nonoverlapping(pageable, size);
                        stream.upload(pinned, size, device, 0)
                    }
                })?,
            ),
            (HOST_ALLOC, upload(pinned)?),
            (REGISTERED, upload(self.registered.as_ptr(0))?),
        ])
    }
}

/// A pool over `backend`: what check-outs of a set of vectors cost, and one vector of it.
fn pooled(
    plan: &Plan,
    size: usize,
    backend: impl Backend,
    path: &'static str,
    budget: &MemoryBudget,
    report: &mut Report,
) -> Result<CheckedOut, Error> {
    let mut config = PoolConfig::default();
    config.exhaustion = Exhaustion::Fail;
    config.idle_timeout = None;
    let pool = Pool::new(backend, budget.clone(), config);
    let layout = Layout::from_size_align(size, 32).map_err(refused)?;
    let layouts = vec![layout; plan.vectors];
    let mut times = Vec::with_capacity(CHECK_OUTS);
    for _ in 0..CHECK_OUTS {
        let started = Instant::now();
        let set = pool.check_out(&layouts).map_err(refused)?;
        times.push(started.elapsed().as_secs_f64());
        drop(set);
    }
    let bytes = (size * plan.vectors) as u64;
    report.check_outs.push(CheckOut::pooled(path, bytes, &times));
    // The rest of the set goes back before more memory is made.
    let mut vector = pool.check_out(&[layout]).map_err(refused)?;
    pool.trim_all();
    fill_random(vector.bytes_mut(0), 2);
    vector.seal().map_err(refused)?;
    Ok(vector)
}
