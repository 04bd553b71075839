//! An engine for a command: how it is waited for, and how it ends when the user interrupts the command.

use std::time::Duration;

use prover_core::engine::{Engine, EngineConfig, JobError, JobHandle, SubmitError};
use prover_core::Proven;

use crate::error::Error;
use crate::proving::{prove_error, Session};
use crate::signals::{self, Interruption};
use crate::ui::Ui;

/// How often somebody who waits looks for an interruption.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// How long stages that run are waited for after an interruption.
const GRACE: Duration = Duration::from_secs(5);

/// The user interrupted the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupted;

/// An engine, while the command may be interrupted.
pub(crate) struct Running<'c> {
    engine: Engine,
    interruption: &'c Interruption,
}

impl<'c> Running<'c> {
    /// Starts an engine.
    ///
    /// # Errors
    /// [`Error::Configuration`] if the system starts no more threads.
    pub(crate) fn start(
        session: &Session,
        config: EngineConfig,
        interruption: &'c Interruption,
    ) -> Result<Self, Error> {
        let failed = |cause| Error::Configuration(format!("cannot start the engine: {cause}"));
        let engine = session.guard().engine(config).map_err(failed)?;
        Ok(Self { engine, interruption })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether the user interrupted the command.
    pub(crate) fn interrupted(&self) -> bool {
        self.interruption.requested()
    }

    /// Waits for a job. `meanwhile` is called now and then.
    pub(crate) fn wait(
        &self,
        mut job: JobHandle,
        mut meanwhile: impl FnMut(),
    ) -> Result<Result<Vec<Proven>, JobError>, Interrupted> {
        loop {
            job = match job.wait_timeout(POLL) {
                Ok(result) => return Ok(result),
                Err(job) => job,
            };
            if self.interrupted() {
                return Err(Interrupted);
            }
            meanwhile();
        }
    }

    /// Ends all jobs for an interruption; `what` says what became of the work. Stages that run are waited for, but not for
    /// long: one that goes on is left behind, and the process ends here.
    pub(crate) fn stop(self, what: String, ui: &Ui) -> Error {
        let error = Error::Interrupted(what);
        self.engine.cancel_all();
        if self.engine.drain(GRACE) {
            return error;
        }
        ui.failure(&error);
        signals::leave();
    }
}

/// A failed job as the tool's error; `self_check` says what it means that a proof does not verify.
pub(crate) fn job_error(error: JobError, self_check: &'static str) -> Error {
    match error {
        JobError::Circuit { cause, .. } if cause.is_self_check() => Error::SelfCheck(self_check),
        JobError::Circuit { cause, .. } => prove_error(cause),
        other => Error::Input(other.to_string()),
    }
}

/// A job that was not taken as the tool's error.
pub(crate) fn submit_error(error: SubmitError) -> Error {
    Error::Input(error.to_string())
}
