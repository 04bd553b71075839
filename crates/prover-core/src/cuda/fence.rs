//! Events as the pool's fences.

use std::sync::Arc;

use super::context::Context;
use super::error::CudaError;
use super::raw::{CUevent, CUstream};
use super::stream::{Event, Stream};
use crate::memory::pool::{Fence, FenceError};

/// The point in a stream after which the device no longer reads a set of blocks.
///
/// An error of the driver, also one of work before the point, means that the device may be anywhere: the pool
/// quarantines the set. Only a driver that is shut down counts as passed: it has ended all work.
#[derive(Debug)]
pub struct CudaFence(Event);

impl CudaFence {
    /// The point after everything queued on `stream` so far.
    ///
    /// # Errors
    /// What the driver says. Whether copies that were queued before have ended is then unknown: synchronise the
    /// stream, and do not return the set if that fails too.
    pub fn record(stream: &Stream) -> Result<Self, CudaError> {
        let event = Event::untimed(stream.context())?;
        event.record(stream)?;
        Ok(Self(event))
    }

    /// [`record`](Self::record) on a stream of other code, for instance a `cudaStream_t` or cudarc's `cu_stream()`.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    ///
    /// # Safety
    /// `stream` is a live stream of `context`.
    pub unsafe fn record_raw(context: &Arc<Context>, stream: CUstream) -> Result<Self, CudaError> {
        let event = Event::untimed(context)?;
        // SAFETY: the caller's promise.
        unsafe { event.record_raw(stream) }?;
        Ok(Self(event))
    }

    /// The point that an event marks. One that was never recorded counts as passed, as the driver has it.
    pub fn of(event: Event) -> Self {
        Self(event)
    }

    /// Takes an event of other code over, for instance a `cudaEvent_t`, and destroys it in the end.
    ///
    /// # Safety
    /// `event` is a live event of `context`, has been recorded after the last copy that reads the set, is not recorded
    /// again, and nobody else destroys it.
    pub unsafe fn from_raw(context: &Arc<Context>, event: CUevent) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Event::from_raw(context, event) })
    }
}

/// With the driver shut down there is no copy left to wait for.
fn or_shut_down<T>(answer: Result<T, CudaError>, over: T) -> Result<T, FenceError> {
    match answer {
        Err(error) if error.is_shut_down() => Ok(over),
        answer => answer.map_err(|error| FenceError(Box::new(error))),
    }
}

impl Fence for CudaFence {
    fn is_passed(&self) -> Result<bool, FenceError> {
        or_shut_down(self.0.is_passed(), true)
    }

    fn wait(&self) -> Result<(), FenceError> {
        or_shut_down(self.0.wait(), ())
    }
}
