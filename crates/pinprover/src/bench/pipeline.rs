//! Many proofs at a time, over an engine: jobs of circuits whose shapes alternate, with the vectors in one kind of memory or
//! another.
//!
//! A run has its own prover. What does not count comes first: a job of each shape, which loads the keys; as many sets of pool
//! memory as will ever be in use, which maps and pins them; a few circuits of each shape one after the other, which tells what
//! one takes when nothing else runs. Then a fresh engine does the work, and every figure is of that engine or a difference of counters.

use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bellperson::groth16::{
    replicate, synthesize_with, MemoryPolicy, Parameters, ProvingAssignment, Shape, SynthesisOptions,
};
use blstrs::{Bls12, Scalar};
use prover_core::engine::{EngineConfig, JobError, JobHandle, JobRequest};
use prover_core::memory::pool::Pool;
use prover_core::{ProofReport, Proven};
use serde::Serialize;

pub use super::pipeline_figures::{text, DeviceFigures, Figures, PoolFigures, ResidentFigures};
use super::pipeline_figures::{Alone, Ended};
use super::pipeline_sample::Sampler;
use crate::circuits::{BuiltIn, Instance};
use crate::error::Error;
use crate::meter;
use crate::proving::{MemoryOptions, Session};
use crate::running::{job_error, submit_error, Interrupted, Running, POLL};
use crate::signals::Interruption;
use crate::ui::{self, Progress, Ui};

/// What it means that a proof of a built-in circuit does not verify.
const SELF_CHECK: &str =
    "the witness satisfies the circuit, so this is a fault of the prover or of the machine";

/// Circuits of each shape that are proved alone.
const ALONE: usize = 3;

/// Spans of a circuit in the trace, at most.
const SPANS: usize = 16;

/// Where the vectors live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Synthesis writes into the pool.
    ZeroCopy,
    /// Synthesis writes into ordinary vectors, which the device reads.
    Pageable,
    /// Synthesis writes into ordinary vectors, which are copied into the pool.
    Staging,
}

impl Variant {
    /// As it stands in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Pageable => "pageable",
            Self::Staging => "staging",
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Jobs; they take the shapes in turn.
    pub jobs: usize,
    /// Circuits of a job.
    pub circuits: usize,
    /// Threads that synthesise.
    pub workers: usize,
    /// Finished syntheses that may wait for a device; `None`: as many as there are slots.
    pub ready: Option<usize>,
    /// What a synthesis takes at least.
    pub pace: Duration,
    /// Keep spans for the trace.
    pub trace: bool,
}

/// Circuits of one shape.
pub struct Work {
    /// Which circuit.
    pub circuit: BuiltIn,
    /// Its counts, as the prover counts them.
    pub shape: Shape,
    /// Its key.
    pub params: Arc<Parameters<Bls12>>,
    /// A witness.
    pub instance: Instance<Scalar>,
    /// The vectors of that witness, if they are to be ready-made.
    pub template: Option<Arc<ProvingAssignment<Scalar>>>,
}

impl Work {
    /// Synthesises the witness once, so that from now on each circuit is a copy of it.
    ///
    /// # Errors
    /// What the synthesis returns.
    pub fn make_ready(&mut self) -> Result<(), Error> {
        self.template = Some(Arc::new(self.on_heap()?));
        Ok(())
    }

    fn options(&self) -> SynthesisOptions {
        SynthesisOptions::default().expecting(self.shape).memory(MemoryPolicy::Heap)
    }

    /// The vectors of one circuit, in ordinary memory.
    fn on_heap(&self) -> Result<ProvingAssignment<Scalar>, Error> {
        let made = match &self.template {
            Some(template) => replicate(template, self.options()),
            None => synthesize_with(self.instance.circuit.clone(), self.options()),
        };
        made.map_err(Error::synthesis("synthesise"))
    }

    fn request(&self, count: usize, pace: Duration) -> JobRequest {
        let params = self.params.clone();
        match &self.template {
            Some(template) => JobRequest::replicas(params, template.clone(), count, pace),
            None => {
                let circuits = std::iter::repeat_with(|| self.instance.circuit.clone()).take(count);
                JobRequest::new(params, circuits).expecting(self.shape)
            }
        }
        .label(self.circuit.to_string())
    }

    /// Bytes of a, b, c and the witness of one circuit.
    fn bytes(&self) -> u64 {
        let Shape { constraints, aux, .. } = self.shape;
        (3 * constraints as u64 + aux as u64) * size_of::<Scalar>() as u64
    }
}

/// What a run may use, and whom it tells.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Where the user is told.
    pub ui: &'a Ui,
    /// How far it is.
    pub progress: &'a Progress,
}

/// What came out of one variant.
pub struct Measured {
    /// The figures.
    pub figures: Figures,
    /// The first failure.
    pub failure: Option<Error>,
    /// The trace, if it was asked for.
    pub trace: Option<String>,
}

/// Does the work with the vectors in one kind of memory.
///
/// # Errors
/// What the prover's start and the warm-up return; [`Error::Interrupted`]. A job that fails after that is in the figures.
pub fn measure(
    variant: Variant,
    plan: &Plan,
    works: &[Work],
    memory: &MemoryOptions,
    context: Context<'_>,
) -> Result<Measured, Error> {
    let interruption = Interruption::watch();
    let mut memory = memory.clone();
    memory.no_pool |= variant == Variant::Pageable;
    meter::release_free_memory();
    let resident_before = meter::resident();
    let session = Session::open_checked(&memory)?;
    let run = Run { variant, plan, works, session: &session, interruption: &interruption, context };
    let step = |what: &str| format!("{}: {what}", variant.name());
    let (warmed, warm_up) = context.progress.step(&step("warm up"), || run.warm_up());
    let warmed = warmed?;
    let what = step(&format!("{} circuits", plan.jobs * plan.circuits));
    let (ended, trace) = context.progress.step(&what, || run.timed()).0?;
    let Ended { results, .. } = &ended;
    let mut failures =
        results.iter().enumerate().filter_map(|(job, result)| Some((job, result.as_ref().err()?)));
    let failure = failures.next().map(|(_, error)| error.to_string());
    let figures = Figures::new(&run.about(warm_up, warmed, resident_before), &ended, failure);
    let first = ended.results.into_iter().find_map(Result::err);
    Ok(Measured { figures, failure: first.map(|error| job_error(error, SELF_CHECK)), trace })
}

/// What is known before the clock starts.
pub(super) struct Before {
    pub(super) variant: Variant,
    pub(super) warm_up: Duration,
    pub(super) key_load: Option<Duration>,
    pub(super) alone: Vec<Alone>,
    /// Bytes resident before the prover was started.
    pub(super) resident: Option<u64>,
    pub(super) circuits: usize,
    /// Bytes to upload, by circuit of the whole run.
    pub(super) upload_bytes: u64,
    /// What all circuits would take one after the other, by their times alone.
    pub(super) alone_total: f64,
}

struct Warmed {
    key_load: Option<Duration>,
    alone: Vec<Alone>,
}

struct Run<'a> {
    variant: Variant,
    plan: &'a Plan,
    works: &'a [Work],
    session: &'a Session,
    interruption: &'a Interruption,
    context: Context<'a>,
}

impl Run<'_> {
    fn about(&self, warm_up: Duration, warmed: Warmed, resident: Option<u64>) -> Before {
        let per_circuit = |of: &dyn Fn(usize) -> f64| -> f64 {
            (0..self.plan.jobs).map(|job| of(job % self.works.len()) * self.plan.circuits as f64).sum()
        };
        let alone_total = per_circuit(&|shape| warmed.alone[shape].seconds);
        Before {
            variant: self.variant,
            warm_up,
            key_load: warmed.key_load,
            resident,
            circuits: self.plan.jobs * self.plan.circuits,
            upload_bytes: per_circuit(&|shape| self.works[shape].bytes() as f64) as u64,
            alone_total,
            alone: warmed.alone,
        }
    }

    fn work_of(&self, job: usize) -> &Work {
        &self.works[job % self.works.len()]
    }

    fn config(&self) -> EngineConfig {
        let mut config = EngineConfig::default();
        config.synthesis_workers = self.plan.workers;
        config.ready_max = self.plan.ready;
        // All jobs are there from the beginning.
        config.pending_max = usize::MAX / 2;
        if self.plan.trace {
            config.trace_spans = self.plan.jobs.saturating_mul(self.plan.circuits).saturating_mul(SPANS);
        }
        config
    }

    /// Sets in memory at a time, at most.
    fn sets(&self) -> usize {
        let slots: usize = self.session.guard().devices().iter().map(|device| device.slots).sum();
        self.plan.workers.max(1) + self.plan.ready.unwrap_or(slots.max(1)).max(1)
    }

    fn start(&self) -> Result<Running<'_>, Error> {
        Running::start(self.session, self.config(), self.interruption)
    }

    fn stopped(&self, running: Running<'_>, done: u64) -> Error {
        let all = self.plan.jobs * self.plan.circuits;
        running.stop(format!("{}, {done} of {all} circuits proved", self.variant.name()), self.context.ui)
    }

    /// So many jobs one after the other, outside the clock: their proofs, and the seconds in which devices computed.
    fn before(&self, work: &Work, jobs: usize, circuits: usize) -> Result<(Vec<Proven>, f64), Error> {
        let running = self.start()?;
        let mut all = Vec::new();
        for _ in 0..jobs {
            let job =
                running.engine().submit(work.request(circuits, Duration::ZERO)).map_err(submit_error)?;
            match running.wait(job, || {}) {
                Ok(result) => all.extend(result.map_err(|error| job_error(error, SELF_CHECK))?),
                Err(Interrupted) => return Err(self.stopped(running, 0)),
            }
        }
        let devices = running.engine().summary().device_times;
        let computing = devices.iter().map(|device| device.computing).sum();
        Ok((all, computing))
    }

    fn warm_up(&self) -> Result<Warmed, Error> {
        let mut key_load = None;
        for work in self.works {
            let (proven, _) = self.before(work, 1, self.plan.circuits.min(self.sets()))?;
            let devices = proven.iter().filter_map(|proven| proven.report.device.as_ref());
            key_load =
                key_load.max(devices.filter(|device| device.key_loaded).map(|device| device.key).max());
        }
        self.map_sets();
        let mut alone = Vec::new();
        for work in self.works {
            let (proven, computing) = self.before(work, ALONE, 1)?;
            // The CPU computes all the time.
            let prove: f64 =
                proven.iter().map(|Proven { report, .. }| report.phases.prove.as_secs_f64()).sum();
            let on_device = proven.iter().all(|Proven { report, .. }| report.device.is_some());
            let seconds = if on_device { computing } else { prove } / ALONE as f64;
            alone.push(Alone { constraints: work.shape.constraints, seconds });
        }
        Ok(Warmed { key_load, alone })
    }

    /// Maps as many sets of each shape as may be in use at a time, and leaves them idle.
    fn map_sets(&self) {
        let guard = self.session.guard();
        let Some(pool) = guard.pool() else { return };
        for work in self.works {
            // On the CPU a, b and c are extended where they are.
            let rows = match guard.devices().is_empty() {
                true => work.shape.domain_size(),
                false => work.shape.constraints,
            };
            let (Ok(abc), Ok(aux)) =
                (Layout::array::<Scalar>(rows), Layout::array::<Scalar>(work.shape.aux.max(1)))
            else {
                continue;
            };
            let bytes = 3 * abc.size() as u64 + aux.size() as u64;
            let stats = pool.stats();
            let others = guard.budget().used().saturating_sub(stats.mapped_bytes);
            let room =
                pool.max_bytes().unwrap_or(u64::MAX).min(guard.budget().total().saturating_sub(others));
            let count = self.sets().min(usize::try_from(room / bytes).unwrap_or(usize::MAX));
            let sets: Vec<_> = (0..count).map_while(|_| pool.check_out(&[abc, abc, abc, aux]).ok()).collect();
            tracing::info!(sets = sets.len(), bytes, "sets mapped before the clock starts");
        }
    }

    fn timed(&self) -> Result<(Ended, Option<String>), Error> {
        let guard = self.session.guard();
        let warm = (guard.pool().map(Pool::stats), meter::resident(), guard.budget().used());
        let reset = meter::reset_peak();
        let sampler = Sampler::start(guard).map_err(Error::io("start", "a thread"))?;
        let running = self.start()?;
        let start = Instant::now();
        let jobs = match self.variant {
            Variant::Staging => self.submit_staged(&running),
            _ => self.submit(&running),
        };
        let results = jobs.and_then(|jobs| self.wait(&running, jobs));
        let wall = start.elapsed();
        let samples = sampler.stop();
        let results = match results {
            Ok(results) => results,
            Err(Stopped::Interrupted) => {
                let done = running.engine().summary().circuits_proved;
                return Err(self.stopped(running, done));
            }
            Err(Stopped::Failed(error)) => return Err(error),
        };
        let summary = running.engine().summary();
        let trace = self.plan.trace.then(|| running.engine().trace());
        let (pool_before, resident_warm, budget_warm) = warm;
        let resident_peak = meter::peak_resident().filter(|_| reset).max(samples.resident_peak);
        Ok((
            Ended { results, wall, summary, samples, pool_before, resident_warm, resident_peak, budget_warm },
            trace,
        ))
    }

    fn submit(&self, running: &Running<'_>) -> Result<Vec<JobHandle>, Stopped> {
        (0..self.plan.jobs)
            .map(|job| {
                let request = self.work_of(job).request(self.plan.circuits, self.plan.pace);
                running.engine().submit(request).map_err(|error| Stopped::Failed(submit_error(error)))
            })
            .collect()
    }

    /// Threads of our own synthesise into ordinary memory; each circuit is then a job that copies it into the pool. A thread
    /// goes on when its circuit was copied, so that no more than the plan's workers synthesise or copy at a time.
    fn submit_staged(&self, running: &Running<'_>) -> Result<Vec<JobHandle>, Stopped> {
        let all = self.plan.jobs * self.plan.circuits;
        let next = AtomicUsize::new(0);
        let jobs: Mutex<Vec<(usize, JobHandle)>> = Mutex::default();
        let work = || -> Result<(), Stopped> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= all {
                    return Ok(());
                }
                let work = self.work_of(at / self.plan.circuits);
                let until = Instant::now() + self.plan.pace;
                let made = work.on_heap().map_err(Stopped::Failed)?;
                while let Some(left) =
                    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
                {
                    if running.interrupted() {
                        return Err(Stopped::Interrupted);
                    }
                    std::thread::sleep(left.min(POLL));
                }
                let copy = JobRequest::replicas(work.params.clone(), Arc::new(made), 1, Duration::ZERO);
                let copy = copy.label(work.circuit.to_string());
                let job = running.engine().submit(copy).map_err(|e| Stopped::Failed(submit_error(e)))?;
                while job.progress().synthesised == 0 && !job.is_over() {
                    if running.interrupted() {
                        return Err(Stopped::Interrupted);
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
                jobs.lock().unwrap_or_else(PoisonError::into_inner).push((at, job));
            }
        };
        std::thread::scope(|scope| {
            // What cannot be had for one is not tried for the rest.
            let work = || work().inspect_err(|_| next.store(all, Ordering::Relaxed));
            let threads: Vec<_> = (0..self.plan.workers.max(1)).map(|_| scope.spawn(work)).collect();
            let panicked = |_| Stopped::Failed(Error::Input("a synthesis panicked".to_owned()));
            threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
        })?;
        let mut jobs = jobs.into_inner().unwrap_or_else(PoisonError::into_inner);
        jobs.sort_by_key(|(at, _)| *at);
        Ok(jobs.into_iter().map(|(_, job)| job).collect())
    }

    fn wait(
        &self,
        running: &Running<'_>,
        jobs: Vec<JobHandle>,
    ) -> Result<Vec<Result<Vec<Proven>, JobError>>, Stopped> {
        let all = (self.plan.jobs * self.plan.circuits) as u64;
        let tell = || {
            let done = running.engine().summary().circuits_proved;
            ui::detail(|| Some(format!("{done} proved {}", ui::part(done, all))));
        };
        jobs.into_iter()
            .map(|job| running.wait(job, tell).map_err(|Interrupted| Stopped::Interrupted))
            .collect()
    }
}

/// Why there are no results.
enum Stopped {
    Interrupted,
    Failed(Error),
}

/// The reports of all proofs that there are.
pub(super) fn reports(results: &[Result<Vec<Proven>, JobError>]) -> impl Iterator<Item = &ProofReport> {
    results.iter().flatten().flatten().map(|proven| &proven.report)
}
