//! A job from its owner's side: its handle, its progress, its end.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::workers::Shared;
use crate::prover::{ProveError, Proven};

/// Why a job has no proofs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A circuit could not be proved.
    #[error("circuit {circuit} of {job}: {cause}")]
    Circuit {
        /// The job.
        job: JobName,
        /// Its number in the job, from 0.
        circuit: usize,
        /// Why.
        cause: ProveError,
    },
    /// The code of a circuit panicked.
    #[error("circuit {circuit} of {job} panicked in its {stage}: {text}")]
    Panicked {
        /// The job.
        job: JobName,
        /// Its number in the job, from 0.
        circuit: usize,
        /// `"synthesis"`, `"proof"` or `"check"`.
        stage: &'static str,
        /// What the panic said.
        text: String,
    },
    /// Its owner cancelled it.
    #[error("{job} was cancelled with {done} of {circuits} circuits proved")]
    Cancelled {
        /// The job.
        job: JobName,
        /// Circuits proved by then.
        done: usize,
        /// All circuits.
        circuits: usize,
    },
    /// Its deadline passed.
    #[error("{job} passed its deadline with {done} of {circuits} circuits proved")]
    DeadlinePassed {
        /// The job.
        job: JobName,
        /// Circuits proved by then.
        done: usize,
        /// All circuits.
        circuits: usize,
    },
    /// The engine was shut down.
    #[error("the engine was shut down before {job} was done")]
    ShutDown {
        /// The job.
        job: JobName,
    },
}

/// A job as people read of it: the engine's number, and its label if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Counts up from 1 in each engine.
    pub number: u64,
    /// What the caller called it.
    pub label: String,
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label.as_str() {
            "" => write!(f, "job {}", self.number),
            label => write!(f, "job {} ({label})", self.number),
        }
    }
}

/// How far a job is, in circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// All of them.
    pub circuits: usize,
    /// Whose synthesis has ended.
    pub synthesised: usize,
    /// Proved and checked.
    pub proved: usize,
}

/// What the engine and the handle share.
pub(super) struct Ticket {
    pub(super) name: JobName,
    circuits: usize,
    pub(super) synthesised: AtomicUsize,
    pub(super) proved: AtomicUsize,
    end: Mutex<End>,
    ended: Condvar,
}

#[derive(Default)]
struct End {
    result: Option<Result<Vec<Proven>, JobError>>,
    /// Also after the result was taken.
    over: bool,
}

impl Ticket {
    pub(super) fn new(name: JobName, circuits: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            circuits,
            synthesised: AtomicUsize::new(0),
            proved: AtomicUsize::new(0),
            end: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first end counts.
    pub(super) fn finish(&self, result: Result<Vec<Proven>, JobError>) {
        let mut end = self.lock();
        if !end.over {
            end.over = true;
            end.result = Some(result);
            drop(end);
            self.ended.notify_all();
        }
    }

    pub(super) fn done(&self) -> (usize, usize) {
        (self.proved.load(Ordering::Relaxed), self.circuits)
    }
}

/// A job that was submitted. Dropping the handle leaves the job alone: it goes on, and its proofs are lost.
#[must_use = "the proofs come through the handle"]
pub struct JobHandle {
    pub(super) ticket: Arc<Ticket>,
    pub(super) engine: Weak<Shared>,
}

impl JobHandle {
    /// Which job it is.
    pub fn name(&self) -> &JobName {
        &self.ticket.name
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            circuits: self.ticket.circuits,
            synthesised: self.ticket.synthesised.load(Ordering::Relaxed),
            proved: self.ticket.proved.load(Ordering::Relaxed),
        }
    }

    /// Whether it is over, one way or another.
    pub fn is_over(&self) -> bool {
        self.ticket.lock().over
    }

    /// Waits for the proofs, in the order of the job's circuits.
    ///
    /// # Errors
    /// See [`JobError`].
    pub fn wait(self) -> Result<Vec<Proven>, JobError> {
        let mut end = self.ticket.lock();
        loop {
            if let Some(result) = end.result.take() {
                return result;
            }
            end = self.ticket.ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// [`wait`](Self::wait) for at most `timeout`.
    ///
    /// # Errors
    /// The handle, if the job is not over by then; else what [`wait`](Self::wait) gives.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<Vec<Proven>, JobError>, Self> {
        let until = Instant::now().checked_add(timeout);
        let mut end = self.ticket.lock();
        loop {
            if let Some(result) = end.result.take() {
                return Ok(result);
            }
            let left = match until {
                // Too far off to express.
                None => Duration::from_secs(3600),
                Some(until) => until.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                drop(end);
                return Err(self);
            }
            let waited = self.ticket.ended.wait_timeout(end, left);
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the job with [`JobError::Cancelled`], unless it is over. A stage that runs ends first, for nothing.
    pub fn cancel(&self) {
        if let Some(engine) = self.engine.upgrade() {
            let (done, circuits) = self.ticket.done();
            engine.end(self.ticket.name.number, |job| JobError::Cancelled { job, done, circuits });
        }
    }
}

impl fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("name", &self.ticket.name)
            .field("progress", &self.progress())
            .finish()
    }
}
