//! When a device is done with a block.

use std::error::Error;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A point in a device's work, after which it no longer accesses a set of blocks.
///
/// Both functions are called with no lock held. One that panics counts as failed.
pub trait Fence: Send + 'static {
    /// Whether the device has passed it, without waiting.
    ///
    /// # Errors
    /// The device's work has failed: whether it still accesses the blocks is unknown, from now on.
    fn is_passed(&self) -> Result<bool, FenceError>;

    /// Waits until the device has passed it.
    ///
    /// # Errors
    /// As [`is_passed`](Self::is_passed).
    fn wait(&self) -> Result<(), FenceError>;
}

/// What a device says when its work has failed.
#[derive(Debug, thiserror::Error)]
#[error("the device failed while it used the memory: {0}")]
pub struct FenceError(#[from] pub Box<dyn Error + Send + Sync>);

impl Fence for Box<dyn Fence> {
    fn is_passed(&self) -> Result<bool, FenceError> {
        (**self).is_passed()
    }

    fn wait(&self) -> Result<(), FenceError> {
        (**self).wait()
    }
}

pub(super) fn is_passed(fence: &impl Fence) -> Result<bool, FenceError> {
    catch_unwind(AssertUnwindSafe(|| fence.is_passed())).unwrap_or_else(|_| Err(panicked()))
}

pub(super) fn wait(fence: &impl Fence) -> Result<(), FenceError> {
    catch_unwind(AssertUnwindSafe(|| fence.wait())).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> FenceError {
    FenceError("the fence panicked".into())
}
