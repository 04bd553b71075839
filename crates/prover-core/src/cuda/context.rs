//! Primary contexts.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::api::Api;
use super::driver::{Device, Driver};
use super::error::{check, CudaError};
use super::raw::{CUcontext, CUdevice};

/// The primary context of a device, kept alive. CUDA's runtime API uses the same one, so memory, streams and events
/// may be shared with it.
///
/// No thread has it current but during a call: each call pushes it and pops it, so that it disturbs nobody.
pub struct Context {
    driver: &'static Driver,
    device: CUdevice,
    handle: CUcontext,
    description: Device,
}

// SAFETY: the driver may be called from any thread, and a context may be current in several at once.
unsafe impl Send for Context {}
// SAFETY: as above; the fields never change.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of device `ordinal`, creating it if nobody has yet: that takes a few hundred
    /// milliseconds and a few hundred MiB of device memory.
    ///
    /// # Errors
    /// No such device, use after fork, or what the driver says.
    pub fn retain(ordinal: usize) -> Result<Arc<Self>, CudaError> {
        Self::with(Driver::get()?, ordinal)
    }

    pub(super) fn with(driver: &'static Driver, ordinal: usize) -> Result<Arc<Self>, CudaError> {
        let device = driver.device(ordinal)?;
        let description = driver.describe(ordinal)?;
        let mut handle: CUcontext = ptr::null_mut();
        // SAFETY: a pointer to a handle that may be written; the device is the driver's own.
        let code = unsafe { (driver.api.primary_retain)(&mut handle, device) };
        check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Arc::new(Self { driver, device, handle, description }))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.description
    }

    /// The driver's handle.
    pub fn raw(&self) -> CUcontext {
        self.handle
    }

    /// Free and total device memory, in bytes.
    ///
    /// # Errors
    /// What the driver says.
    pub fn memory_info(&self) -> Result<(u64, u64), CudaError> {
        let (mut free, mut total) = (0usize, 0usize);
        self.call("cuMemGetInfo", |api| {
            // SAFETY: pointers to sizes that may be written.
            unsafe { (api.memory_info)(&mut free, &mut total) }
        })?;
        Ok((free as u64, total as u64))
    }

    /// Makes one call with the context current in this thread.
    pub(crate) fn call(&self, name: &'static str, call: impl FnOnce(&Api) -> i32) -> Result<(), CudaError> {
        self.driver.check_process()?;
        let api = &self.driver.api;
        // SAFETY: the context is retained, so it is one.
        check("cuCtxPushCurrent", unsafe { (api.context_push)(self.handle) })?;
        let code = call(api);
        let mut popped: CUcontext = ptr::null_mut();
        // SAFETY: a pointer to a handle that may be written; what is popped is what was pushed above.
        let pop = unsafe { (api.context_pop)(&mut popped) };
        check(name, code)?;
        check("cuCtxPopCurrent", pop)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.description).finish()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.driver.check_process().is_err() {
            return;
        }
        // SAFETY: retained once by this value, and released once. An error (the driver is shut down, the context is
        // lost) leaves nothing to do.
        let _ = unsafe { (self.driver.api.primary_release)(self.device) };
    }
}
