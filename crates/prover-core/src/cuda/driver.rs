//! Loading the driver, and what it shows.

use std::ffi::{c_char, c_int, c_uint, CStr};
use std::fmt;
use std::process;
use std::sync::OnceLock;

use super::api::{Api, Status};
use super::error::{check, CudaError, NO_DEVICE};
use super::raw::CUdevice;

/// The variable by which a user hides devices. The driver reads it itself; here it only makes messages clear.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();

/// The initialised driver of this process.
pub struct Driver {
    pub(super) api: Api,
    /// The process that called `cuInit`.
    process: u32,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Driver {
    /// Loads and initialises the driver the first time, which makes no context and takes no device memory.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`], [`CudaError::NoDevice`], [`CudaError::AfterFork`], or what `cuInit` says. The first
    /// answer is kept for the life of the process.
    pub fn get() -> Result<&'static Self, CudaError> {
        let driver = DRIVER.get_or_init(|| Self::with(Api::load()?)).as_ref().map_err(Clone::clone)?;
        driver.check_process()?;
        Ok(driver)
    }

    /// Initialises the driver behind `api`.
    pub(super) fn with(api: Api) -> Result<Self, CudaError> {
        // SAFETY: `cuInit` may be called at any time; its flags must be 0.
        match unsafe { (api.init)(0) } {
            NO_DEVICE => Err(CudaError::NoDevice { visible: visible() }),
            code => check("cuInit", code),
        }?;
        Ok(Self { api, process: process::id() })
    }

    /// Answers at once if this process is a forked child of the one that initialised CUDA: the driver would hang
    /// there, or fail with something that names no cause.
    pub(super) fn check_process(&self) -> Result<(), CudaError> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(CudaError::AfterFork { parent: self.process })
        }
    }

    /// The newest CUDA version that the driver knows, as (major, minor).
    ///
    /// # Errors
    /// What the driver says.
    pub fn version(&self) -> Result<(u32, u32), CudaError> {
        let mut version: c_int = 0;
        // SAFETY: a pointer to an int that may be written.
        check("cuDriverGetVersion", unsafe { (self.api.driver_version)(&mut version) })?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok((version / 1000, version % 1000 / 10))
    }

    /// How many devices the driver shows to this process.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`] for none.
    pub fn device_count(&self) -> Result<usize, CudaError> {
        let mut count: c_int = 0;
        // SAFETY: a pointer to an int that may be written.
        match unsafe { (self.api.device_count)(&mut count) } {
            NO_DEVICE => {}
            code => check("cuDeviceGetCount", code)?,
        }
        match usize::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(CudaError::NoDevice { visible: visible() }),
        }
    }

    /// The driver's handle of device `ordinal`.
    pub(super) fn device(&self, ordinal: usize) -> Result<CUdevice, CudaError> {
        let count = self.device_count()?;
        let index = c_int::try_from(ordinal).ok().filter(|_| ordinal < count);
        let index = index.ok_or_else(|| CudaError::NoSuchDevice { ordinal, count, visible: visible() })?;
        let mut device: CUdevice = 0;
        // SAFETY: a pointer to a handle that may be written.
        check("cuDeviceGet", unsafe { (self.api.device)(&mut device, index) })?;
        Ok(device)
    }

    /// What the driver tells of device `ordinal`. Makes no context.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`], or what the driver says.
    pub fn describe(&self, ordinal: usize) -> Result<Device, CudaError> {
        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
        const MAJOR: c_uint = 75;
        const MINOR: c_uint = 76;
        let device = self.device(ordinal)?;
        let attribute = |attribute| {
            let mut value: c_int = 0;
            // SAFETY: a pointer to an int that may be written; the device is the driver's own.
            check("cuDeviceGetAttribute", unsafe {
                (self.api.device_attribute)(&mut value, attribute, device)
            })?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let mut memory = 0usize;
        // SAFETY: a pointer to a size that may be written; the device is the driver's own.
        check("cuDeviceTotalMem", unsafe { (self.api.device_memory)(&mut memory, device) })?;
        let mut uuid = [0u8; 16];
        // SAFETY: a pointer to the 16 bytes of a CUuuid; the device is the driver's own.
        check("cuDeviceGetUuid", unsafe { (self.api.device_uuid)(&mut uuid, device) })?;
        Ok(Device {
            ordinal,
            name: text("cuDeviceGetName", device, self.api.device_name)?,
            compute_capability: (attribute(MAJOR)?, attribute(MINOR)?),
            memory: memory as u64,
            pci_bus_id: text("cuDeviceGetPCIBusId", device, self.api.device_pci_bus_id)?,
            uuid: format_uuid(&uuid),
        })
    }

    /// Whether device `ordinal` has a primary context in this process, made by anybody.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`], or what the driver says.
    pub fn has_context(&self, ordinal: usize) -> Result<bool, CudaError> {
        let device = self.device(ordinal)?;
        let (mut flags, mut active): (c_uint, c_int) = (0, 0);
        // SAFETY: pointers to integers that may be written; the device is the driver's own.
        let code = unsafe { (self.api.primary_state)(device, &mut flags, &mut active) };
        check("cuDevicePrimaryCtxGetState", code)?;
        Ok(active != 0)
    }

    /// This driver as a process sees it that was forked from one that initialised it.
    #[cfg(test)]
    pub(super) fn after_fork(mut self) -> Self {
        self.process += 1;
        self
    }
}

/// A device, as the driver tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Its number in this process, from 0. `CUDA_VISIBLE_DEVICES` decides the order.
    pub ordinal: usize,
    /// Its name, for instance `NVIDIA H200`.
    pub name: String,
    /// Compute capability, (major, minor).
    pub compute_capability: (u32, u32),
    /// Its memory, in bytes.
    pub memory: u64,
    /// Where it is on the bus, for instance `0000:3B:00.0`.
    pub pci_bus_id: String,
    /// What never changes about it, as `nvidia-smi` and `CUDA_VISIBLE_DEVICES` write it: `GPU-` and 36 characters.
    pub uuid: String,
}

fn format_uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::from("GPU-");
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// The devices that this process may use, at least one. Makes no context.
///
/// # Errors
/// [`CudaError::NoDriver`] or [`CudaError::NoDevice`] where there is none ([`CudaError::is_absence`]), and what the
/// driver says.
pub fn devices() -> Result<Vec<Device>, CudaError> {
    let driver = Driver::get()?;
    (0..driver.device_count()?).map(|ordinal| driver.describe(ordinal)).collect()
}

fn visible() -> Option<String> {
    std::env::var_os(VISIBLE).map(|value| value.to_string_lossy().into_owned())
}

type TextOf = unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> Status;

fn text(call: &'static str, device: CUdevice, of: TextOf) -> Result<String, CudaError> {
    const LENGTH: u8 = 255;
    let mut buffer = [0u8; LENGTH as usize + 1];
    // SAFETY: the buffer has more bytes than the driver is told; the device is the driver's own.
    check(call, unsafe { of(buffer.as_mut_ptr().cast(), c_int::from(LENGTH), device) })?;
    let text = CStr::from_bytes_until_nul(&buffer).expect("the last byte is not the driver's, and zero");
    Ok(text.to_string_lossy().into_owned())
}
