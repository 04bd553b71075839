//! Many circuits at a time: synthesis on the CPU, proofs on the devices, overlapped, under one memory budget.
//!
//! ```text
//!   submit ──► jobs, by priority and age ──► synthesis workers ──► ready ──► a worker for each device slot ──► check ──► handle
//!                       ▲                        │ sets of pinned memory          │
//!                       └──── room in the budget ┴──────── given back ────────────┘
//! ```
//!
//! How many syntheses run follows from the memory: each circuit is let in when the set that circuits of its kind were seen
//! to need fits beside those that are there. A set goes back as soon as the device has read it. Among jobs of one priority
//! a few small circuits may pass one that waits for memory, then it has its turn.
//!
//! A job fails alone: with its circuit's error or panic, its deadline, its owner's word. What it held goes back, all others
//! go on.
//!
//! - `config`, `request`: what is asked for;
//! - `job`: the handle, and how a job ends;
//! - `queue`: what is to be done next;
//! - `workers`: the threads;
//! - `timeline`, `intervals`: what ran when;
//! - `summary`, `metrics`: what was done, in numbers for programs and for Prometheus.

mod config;
mod intervals;
mod job;
mod metrics;
mod queue;
mod request;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod workers;

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellperson::groth16::Shape;
use bellperson::SynthesisError;

use self::job::Ticket;
use self::queue::JobInfo;
use self::workers::{Shared, Threads};
use crate::memory::pool::Pool;
use crate::memory::MemoryBudget;
use crate::prover::identity::{identity_of, vk_digest};
use crate::prover::Prover;

pub use self::config::EngineConfig;
pub use self::job::{JobError, JobHandle, JobName, Progress};
pub use self::request::JobRequest;
pub use self::summary::EngineSummary;
pub use self::timeline::DeviceTimes;

/// Why a job was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// As many circuits wait as may, or others wait to submit theirs.
    #[error("{pending} circuits wait already, and {circuits} more are too many: at most {most} may wait (EngineConfig::pending_max)")]
    Full {
        /// The job.
        request: Box<JobRequest>,
        /// Circuits that wait.
        pending: usize,
        /// Circuits of the job.
        circuits: usize,
        /// How many may wait.
        most: usize,
    },
    /// The engine is shutting down.
    #[error("the engine takes no more jobs: it is shutting down")]
    Closed,
    /// The verifying key cannot be read.
    #[error("the verifying key: {0}")]
    Key(#[from] SynthesisError),
}

/// Proves jobs. Dropping it ends those that are not done with [`JobError::ShutDown`].
pub struct Engine {
    shared: Arc<Shared>,
    _threads: Threads,
}

impl Engine {
    pub(crate) fn start(
        prover: Arc<Prover>,
        pool: Option<Pool>,
        budget: MemoryBudget,
        config: EngineConfig,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(prover, pool, budget, config));
        let threads = Threads::start(&shared)?;
        Ok(Self { shared, _threads: threads })
    }

    /// Takes a job; waits while too many circuits wait for their synthesis.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn submit(&self, request: JobRequest) -> Result<JobHandle, SubmitError> {
        self.take(request, None)
    }

    /// [`submit`](Self::submit), but does not wait.
    ///
    /// # Errors
    /// [`SubmitError::Full`] with the job, and as [`submit`](Self::submit).
    pub fn try_submit(&self, request: JobRequest) -> Result<JobHandle, SubmitError> {
        self.take(request, Some(Instant::now()))
    }

    /// [`submit`](Self::submit), but waits for at most `timeout`.
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit).
    pub fn submit_timeout(&self, request: JobRequest, timeout: Duration) -> Result<JobHandle, SubmitError> {
        self.take(request, Instant::now().checked_add(timeout))
    }

    fn take(&self, request: JobRequest, until: Option<Instant>) -> Result<JobHandle, SubmitError> {
        let shared = &self.shared;
        // The number of inputs is not known before the synthesis; no source that keeps its verifying key asks for it.
        let digest = vk_digest(request.key.vk(0)?);
        let circuits = request.circuits.len();
        let mut queue = shared.lock();
        // Those who wait have their turns, so that a large job is not kept out by many small ones.
        let turn = queue.take_turn();
        loop {
            let closed = shared.closed.load(Ordering::Relaxed);
            let late = || until.is_some_and(|until| until <= Instant::now());
            let may = queue.is_turn(turn) && shared.has_room(&queue, circuits);
            if closed || may || late() {
                queue.end_turn(turn);
                shared.next_turn();
                if closed {
                    return Err(SubmitError::Closed);
                }
                if may {
                    break;
                }
                let (pending, most) = (queue.counts.pending_now, shared.config.pending_max);
                return Err(SubmitError::Full { request: Box::new(request), pending, circuits, most });
            }
            queue = shared.wait_less(queue, until);
        }
        let number = queue.number();
        let JobRequest { key, params, type_name, circuits, priority, deadline, label, expected } = request;
        let ticket = Ticket::new(JobName { number, label }, circuits.len());
        if circuits.is_empty() {
            ticket.finish(Ok(Vec::new()));
        } else {
            let hint = identity_of(type_name, Some(&digest));
            let largest = params.as_ref().map(|params| Shape {
                constraints: params.h.len() + 1,
                inputs: params.vk.ic.len(),
                aux: params.l.len(),
            });
            let ticket = ticket.clone();
            let info = JobInfo { number, key, params, type_name, digest, hint, expected, largest, ticket };
            queue.submit(Arc::new(info), circuits, priority, deadline);
        }
        drop(queue);
        shared.submitted();
        Ok(JobHandle { ticket, engine: Arc::downgrade(shared) })
    }

    /// What was done so far.
    pub fn summary(&self) -> EngineSummary {
        let counts = self.shared.lock().counts;
        EngineSummary::new(
            counts,
            self.shared.prover.devices(),
            self.shared.timeline.devices(),
            (self.shared.budget.used(), self.shared.budget.total()),
            self.shared.pool.as_ref().map(Pool::stats),
        )
    }

    /// What ran when, as JSON in Chrome's trace format, for `chrome://tracing` or Perfetto. Empty unless
    /// [`EngineConfig::trace_spans`] says how many spans to keep.
    pub fn trace(&self) -> String {
        self.shared.timeline.chrome()
    }

    /// What was done so far, in the text format of Prometheus. Serve it as `application/openmetrics-text`.
    pub fn metrics(&self) -> String {
        self.shared.metrics.text(self.summary())
    }

    /// Takes no more jobs, and waits for those there are. Says whether all were over in time.
    pub fn drain(&self, timeout: Duration) -> bool {
        self.shared.close();
        let until = Instant::now().checked_add(timeout);
        let mut queue = self.shared.lock();
        while !queue.is_idle() {
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
            queue = self.shared.wait_less(queue, until);
        }
        true
    }

    /// Takes no more jobs, and ends those there are with [`JobError::ShutDown`]. Stages that run end first, for nothing.
    pub fn cancel_all(&self) {
        self.shared.close();
        let open = self.shared.lock().open_jobs();
        for number in open {
            self.shared.end(number, |job| JobError::ShutDown { job });
        }
    }
}

impl Drop for Engine {
    /// Waits for stages that run, also for one that waits for memory of the pool, as long as
    /// [`Exhaustion::Wait`](crate::memory::pool::Exhaustion::Wait) says.
    fn drop(&mut self) {
        self.cancel_all();
        self.shared.stop();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("summary", &self.summary()).finish()
    }
}
