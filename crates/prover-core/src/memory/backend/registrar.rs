//! The four calls of a device driver that page-lock host memory, as a trait: the tests fail them one by one.

use std::fmt;
use std::ptr::NonNull;

use pinned_alloc::Cause;

use crate::cuda::{self, Context, CudaError};

/// Page-locks memory and makes it known to devices.
///
/// # Safety
/// What [`allocate`](Self::allocate) returns may be read and written by its owner alone until [`free`](Self::free).
/// A call that fails has changed nothing.
pub unsafe trait Registrar: fmt::Debug + Send + Sync + 'static {
    /// Page-locks `size` bytes from `first`: portable to all contexts, cached, one registration.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// The range is mapped for reading and writing, in whole pages, until it is [unregistered](Self::unregister).
    unsafe fn register(&self, first: NonNull<u8>, size: usize) -> Result<(), CudaError>;

    /// Undoes the registration that begins at `first`.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// No device reads the range any more.
    unsafe fn unregister(&self, first: NonNull<u8>) -> Result<(), CudaError>;

    /// `size` bytes of page-locked memory, aligned to a page, initialised to anything.
    ///
    /// # Errors
    /// What the driver says.
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, CudaError>;

    /// Frees what [`allocate`](Self::allocate) returned.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// `first` came from `allocate` and is freed once; neither a device nor the CPU uses the memory any more.
    unsafe fn free(&self, first: NonNull<u8>) -> Result<(), CudaError>;
}

// SAFETY: the driver's memory belongs to the caller until it is freed, and calls that fail change nothing.
unsafe impl Registrar for Context {
    unsafe fn register(&self, first: NonNull<u8>, size: usize) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.host_register(first, size) }
    }

    unsafe fn unregister(&self, first: NonNull<u8>) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.host_unregister(first) }
    }

    fn allocate(&self, size: usize) -> Result<NonNull<u8>, CudaError> {
        self.host_alloc(size)
    }

    unsafe fn free(&self, first: NonNull<u8>) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.host_free(first) }
    }
}

/// From this size on one registration fails with drivers of today, and a region must be one registration: a copy
/// that spans two fails.
pub(super) const TOO_LARGE: usize = 512 << 30;

/// The refusal of a region that no driver registers as one. Known before any page is faulted in.
pub(super) const fn too_large(call: &'static str) -> Cause {
    Cause::new(
        call,
        1,
        "one registration holds less than 512 GiB; split the circuit, or use --memory-backend pages",
    )
}

/// The refusal as the pool's errors have it: about host memory, with the knob.
pub(super) fn cause(call: &'static str, error: &CudaError) -> Cause {
    const LIMITS: &str = "(CUDA_ERROR_OUT_OF_MEMORY) the system lets the driver lock no more host RAM, device memory \
                          is not meant: lower --pinned-max, raise the container's memory limit or its memlock limit \
                          (`ulimit -l`, --ulimit memlock=), or use --memory-backend pages";
    let remedy = match error {
        CudaError::AfterFork { .. } => {
            "CUDA used after fork: the process that forked this one initialised it; start the prover in the child, or \
             start children by exec"
        }
        _ if error.is_shut_down() => "the driver is shutting down with the process",
        CudaError::Call { code: cuda::OUT_OF_MEMORY, .. } => LIMITS,
        CudaError::Call { code: cuda::NOT_SUPPORTED | cuda::NOT_PERMITTED, .. } => {
            "(CUDA_ERROR_NOT_SUPPORTED or _NOT_PERMITTED) this system's driver does not lock memory of a process \
             (WSL2 and some containers): use --memory-backend cuda-host-alloc, or pages"
        }
        _ => "see the number in cuda.h (CUresult); to prove without page-locked memory use --memory-backend pages",
    };
    Cause::new(call, error.code().unwrap_or(0), remedy)
}

/// After a call that takes memory away from the driver: whether the driver has let go of it. It has also if it did
/// not know the memory, or is shut down (at the end of the process), which is nothing to talk about.
pub(super) fn let_go(answer: Result<(), CudaError>) -> Result<(), CudaError> {
    match answer {
        Err(CudaError::Call { code: cuda::NOT_REGISTERED, .. }) => Ok(()),
        Err(error) if error.is_shut_down() => Ok(()),
        answer => answer,
    }
}
