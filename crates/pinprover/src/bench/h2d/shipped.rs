//! The path as shipped: vectors that bellperson synthesised into the pool, uploaded from where they lie.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use bellperson::groth16::{self, SynthesisOptions};
use blstrs::Scalar;
use prover_core::cuda::{Context, DeviceMemory};
use prover_core::memory::pool::Pool;
use prover_core::{Config, MemoryBackend};
use rand_core::OsRng;

use super::host::while_copying;
use super::report::{Report, Shipped};
use super::{failed, Clock, Plan};
use crate::circuits::{Instance, Shape};
use crate::error::Error;
use crate::ui::Progress;

pub(super) fn measure(
    plan: &Plan,
    memory: u64,
    context: &Arc<Context>,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Error> {
    let mut config = Config::default();
    config.backend = MemoryBackend::CudaRegister;
    config.memory_budget = Some(memory);
    let guard = prover_core::init(config).map_err(|e| Error::Configuration(e.to_string()))?;
    let shape = Shape::of(plan.circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
    let expected = groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux };
    let instance: Instance<Scalar> = plan.circuit.instance(&mut OsRng);
    let what = format!("synthesis of {} into the pool", plan.circuit);
    let (assignment, synthesis) = progress
        .step(&what, || {
            let started = Instant::now();
            let options = SynthesisOptions::default().expecting(expected);
            let assignment = groth16::synthesize_with(instance.circuit, options);
            assignment
                .map(|assignment| (assignment, started.elapsed()))
                .map_err(Error::synthesis("synthesise"))
        })
        .0?;
    let placement = assignment.placement();
    // Registered memory's, so page-locked.
    let residency = guard.pool().map(Pool::residency);
    let vectors: Vec<&[Scalar]> =
        vec![assignment.a(), assignment.b(), assignment.c(), assignment.aux_assignment()];
    let size = |vector: &[Scalar]| size_of_val(vector);
    let bytes: usize = vectors.iter().map(|vector| size(vector)).sum();
    let targets: Vec<DeviceMemory> = vectors
        .iter()
        .map(|vector| DeviceMemory::new(context, size(vector)).map_err(failed))
        .collect::<Result<_, _>>()?;
    let clock = Clock::new(context)?;
    for &threads in &plan.copying {
        let what = format!("upload of {}, {threads} threads copying", plan.circuit);
        let ((seconds, host), _) = progress.step(&what, || {
            while_copying(threads, || {
                clock.median(plan.rounds, |stream| {
                    for (vector, target) in vectors.iter().zip(&targets) {
                        let source = NonNull::from(*vector).cast::<u8>();
                        // SAFETY: the vector is borrowed from the assignment, which nobody writes and which outlives
                        // the wait in `median`; so does the target.
                        unsafe { stream.upload(source, size(vector), target, 0) }?;
                    }
                    Ok(())
                })
            })
        });
        report.shipped.push(Shipped {
            circuit: plan.circuit.to_string(),
            bytes: bytes as u64,
            copying_threads: threads,
            pinned: [placement.abc_residency, placement.aux_residency].map(Some) == [residency; 2],
            backend: placement.abc_allocator.unwrap_or("heap").to_owned(),
            synthesis_seconds: synthesis.as_secs_f64(),
            gb_per_second: bytes as f64 / seconds? / 1e9,
            share_of_best: 0.0,
            host_copy_gb_per_second: host / 1e9,
        });
    }
    drop(assignment);
    drop(guard);
    Ok(())
}
