//! Streams, events, device memory, and copies between.

use std::ffi::c_uint;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::error::{CudaError, NOT_READY};
use super::raw::{CUdeviceptr, CUevent, CUstream};

const STREAM_NON_BLOCKING: c_uint = 1;
const EVENT_BLOCKING_SYNC: c_uint = 1;
const EVENT_DISABLE_TIMING: c_uint = 2;

/// A queue of copies on a device. Not the default one, and not ordered with it.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    handle: CUstream,
}

// SAFETY: a stream may be used from any thread; the driver locks.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let mut handle: CUstream = ptr::null_mut();
        context.call("cuStreamCreate", |api| {
            // SAFETY: a pointer to a handle that may be written.
            unsafe { (api.stream_create)(&mut handle, STREAM_NON_BLOCKING) }
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// The context it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The driver's handle.
    pub fn raw(&self) -> CUstream {
        self.handle
    }

    /// Waits until everything queued so far has been done.
    ///
    /// # Errors
    /// What the driver says, also of work queued earlier.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.call("cuStreamSynchronize", |api| {
            // SAFETY: the stream is ours and alive.
            unsafe { (api.stream_synchronize)(self.handle) }
        })
    }

    /// Queues a copy of `bytes` bytes from host memory to `offset` in `target`. From pinned memory the call returns at
    /// once; from any other the driver copies through memory of its own and returns late.
    ///
    /// # Errors
    /// [`CudaError::OutOfBounds`], or what the driver says: `CUDA_ERROR_INVALID_VALUE` if the range spans two
    /// registrations of memory.
    ///
    /// # Safety
    /// The bytes are readable, and nobody writes, frees or unregisters them, until the stream has done the copy.
    /// `target` lives until then.
    pub unsafe fn upload(
        &self,
        source: NonNull<u8>,
        bytes: usize,
        target: &DeviceMemory,
        offset: usize,
    ) -> Result<(), CudaError> {
        let to = target.at(offset, bytes)?;
        self.context.call("cuMemcpyHtoDAsync", |api| {
            // SAFETY: the caller's promise for the source; the target has room, as just checked.
            unsafe { (api.copy_to_device)(to, source.as_ptr().cast(), bytes, self.handle) }
        })
    }

    /// Copies from `offset` in `source` into `target`, and waits for it and for all that was queued before.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    pub fn download(&self, source: &DeviceMemory, offset: usize, target: &mut [u8]) -> Result<(), CudaError> {
        let from = source.at(offset, target.len())?;
        self.context.call("cuMemcpyDtoHAsync", |api| {
            // SAFETY: the target is borrowed mutably until the wait below is over, and the source has the bytes.
            let queued =
                unsafe { (api.copy_to_host)(target.as_mut_ptr().cast(), from, target.len(), self.handle) };
            // Waited for even after an error: nothing may write to the target once the borrow has ended.
            // SAFETY: the stream is ours and alive.
            let done = unsafe { (api.stream_synchronize)(self.handle) };
            if queued != 0 {
                queued
            } else {
                done
            }
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What is queued is still done. After an error there is nothing left to do.
        let _ = self.context.call("cuStreamDestroy", |api| {
            // SAFETY: the stream is ours, and this is its last use.
            unsafe { (api.stream_destroy)(self.handle) }
        });
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: CUevent,
}

// SAFETY: an event may be used from any thread; the driver locks.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event whose time can be told. Who waits for it spins.
    ///
    /// # Errors
    /// What the driver says.
    pub fn timed(context: &Arc<Context>) -> Result<Self, CudaError> {
        Self::with_flags(context, 0)
    }

    /// An event that has no time. Who waits for it sleeps.
    ///
    /// # Errors
    /// What the driver says.
    pub fn untimed(context: &Arc<Context>) -> Result<Self, CudaError> {
        Self::with_flags(context, EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING)
    }

    fn with_flags(context: &Arc<Context>, flags: c_uint) -> Result<Self, CudaError> {
        let mut handle: CUevent = ptr::null_mut();
        context.call("cuEventCreate", |api| {
            // SAFETY: a pointer to a handle that may be written.
            unsafe { (api.event_create)(&mut handle, flags) }
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Takes an event over: from now on it is this value's to destroy.
    ///
    /// # Safety
    /// `handle` is a live event of `context`, and nobody else destroys it.
    pub unsafe fn from_raw(context: &Arc<Context>, handle: CUevent) -> Self {
        Self { context: context.clone(), handle }
    }

    /// The driver's handle.
    pub fn raw(&self) -> CUevent {
        self.handle
    }

    /// Marks the point after everything queued on `stream` so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        unsafe { self.record_raw(stream.raw()) }
    }

    /// [`record`](Self::record) on a stream of other code, for instance a `cudaStream_t` or cudarc's.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// `stream` is a live stream of the event's context.
    pub unsafe fn record_raw(&self, stream: CUstream) -> Result<(), CudaError> {
        self.context.call("cuEventRecord", |api| {
            // SAFETY: the event is ours and alive; the caller's promise for the stream.
            unsafe { (api.event_record)(self.handle, stream) }
        })
    }

    /// Whether the device has passed the point, without waiting.
    ///
    /// # Errors
    /// What the driver says, also of the work before the point.
    pub fn is_passed(&self) -> Result<bool, CudaError> {
        let mut pending = false;
        self.context.call("cuEventQuery", |api| {
            // SAFETY: the event is ours and alive.
            let code = unsafe { (api.event_query)(self.handle) };
            pending = code == NOT_READY;
            if pending {
                0
            } else {
                code
            }
        })?;
        Ok(!pending)
    }

    /// Waits until the device has passed the point.
    ///
    /// # Errors
    /// As [`is_passed`](Self::is_passed).
    pub fn wait(&self) -> Result<(), CudaError> {
        self.context.call("cuEventSynchronize", |api| {
            // SAFETY: the event is ours and alive.
            unsafe { (api.event_synchronize)(self.handle) }
        })
    }

    /// The device's time from `start` to this event, which must both be [timed](Self::timed) and passed.
    ///
    /// # Errors
    /// What the driver says: `CUDA_ERROR_NOT_READY` if one is not passed, `CUDA_ERROR_INVALID_HANDLE` if one has no
    /// time or was never recorded.
    pub fn since(&self, start: &Self) -> Result<Duration, CudaError> {
        let mut milliseconds = 0f32;
        self.context.call("cuEventElapsedTime", |api| {
            // SAFETY: a pointer to a float that may be written; both events are alive.
            unsafe { (api.event_elapsed)(&mut milliseconds, start.handle, self.handle) }
        })?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // After an error there is nothing left to do.
        let _ = self.context.call("cuEventDestroy", |api| {
            // SAFETY: the event is ours, and this is its last use. The driver keeps what is pending.
            unsafe { (api.event_destroy)(self.handle) }
        });
    }
}

/// Memory on a device.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Arc<Context>,
    first: CUdeviceptr,
    size: usize,
}

impl DeviceMemory {
    /// Allocates `size` bytes, initialised to anything.
    ///
    /// # Errors
    /// What the driver says; a size of 0 is refused too.
    pub fn new(context: &Arc<Context>, size: usize) -> Result<Self, CudaError> {
        let mut first: CUdeviceptr = 0;
        context.call("cuMemAlloc", |api| {
            // SAFETY: a pointer to an address that may be written.
            unsafe { (api.alloc)(&mut first, size) }
        })?;
        Ok(Self { context: context.clone(), first, size })
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The device's address of the first byte.
    pub fn raw(&self) -> CUdeviceptr {
        self.first
    }

    fn at(&self, offset: usize, bytes: usize) -> Result<CUdeviceptr, CudaError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.size => Ok(self.first + offset as CUdeviceptr),
            _ => Err(CudaError::OutOfBounds { offset, bytes, size: self.size }),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // Waits for the device's work on it. After an error there is nothing left to do.
        let _ = self.context.call("cuMemFree", |api| {
            // SAFETY: the memory is ours, and this is its last use.
            unsafe { (api.free)(self.first) }
        });
    }
}
