//! Page-locking host memory. What may be done in which order, and what a failure means, is the business of
//! [`crate::memory::backend`]; here are the calls.

use std::ffi::{c_uint, c_void};
use std::ptr::{self, NonNull};

use super::context::Context;
use super::error::{CudaError, OUT_OF_MEMORY};

/// Known to all contexts of the process. Neither mapped (`DEVICEMAP`) nor write-combined: the CPU reads and writes it
/// at full speed.
const PORTABLE: c_uint = 1;

impl Context {
    /// # Safety
    /// The range is mapped for reading and writing until it is unregistered.
    pub(crate) unsafe fn host_register(&self, first: NonNull<u8>, size: usize) -> Result<(), CudaError> {
        self.call("cuMemHostRegister", |api| {
            // SAFETY: the caller's promise.
            unsafe { (api.host_register)(first.as_ptr().cast(), size, PORTABLE) }
        })
    }

    /// # Safety
    /// `first` was registered, and no device reads the range any more.
    pub(crate) unsafe fn host_unregister(&self, first: NonNull<u8>) -> Result<(), CudaError> {
        self.call("cuMemHostUnregister", |api| {
            // SAFETY: the caller's promise.
            unsafe { (api.host_unregister)(first.as_ptr().cast()) }
        })
    }

    /// Page-locked memory of the driver's own, initialised to anything.
    pub(crate) fn host_alloc(&self, size: usize) -> Result<NonNull<u8>, CudaError> {
        const CALL: &str = "cuMemHostAlloc";
        let mut first: *mut c_void = ptr::null_mut();
        self.call(CALL, |api| {
            // SAFETY: a pointer to an address that may be written.
            unsafe { (api.host_alloc)(&mut first, size, PORTABLE) }
        })?;
        // Success with no memory is not in the manual.
        NonNull::new(first.cast()).ok_or(CudaError::Call { call: CALL, code: OUT_OF_MEMORY })
    }

    /// # Safety
    /// `first` came from [`host_alloc`](Self::host_alloc), and nobody uses the memory any more.
    pub(crate) unsafe fn host_free(&self, first: NonNull<u8>) -> Result<(), CudaError> {
        self.call("cuMemFreeHost", |api| {
            // SAFETY: the caller's promise.
            unsafe { (api.host_free)(first.as_ptr().cast()) }
        })
    }
}
