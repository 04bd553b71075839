//! The products of key generation on a device.

use blstrs::{G1Affine, G2Affine, Scalar};
use prover_cuda::device::Device;
use prover_cuda::error::{Error, Kind};

use super::cast;
use super::open::open;
use crate::cuda::{devices, select, DeviceSelector};
use crate::setup::{FixedBase, FixedBaseError};

/// One base by many scalars, on a CUDA device.
#[derive(Debug)]
pub struct GpuFixedBase {
    device: Device,
    name: String,
}

impl GpuFixedBase {
    /// On this device.
    ///
    /// # Errors
    /// [`FixedBaseError::Device`] without it.
    pub fn new(selector: &DeviceSelector) -> Result<Self, FixedBaseError> {
        let failed = |message: String| FixedBaseError::Device { device: "CUDA".to_owned(), message };
        let known = devices().map_err(|error| failed(error.to_string()))?;
        let chosen =
            select(std::slice::from_ref(selector), &known).map_err(|error| failed(error.to_string()))?;
        let about = chosen.into_iter().next().ok_or_else(|| failed("no device".to_owned()))?;
        let device = open(&about).map_err(|error| device_error(&about.name, error))?;
        Ok(Self { device, name: about.name })
    }

    fn error(&self, error: Error) -> FixedBaseError {
        device_error(&self.name, error)
    }
}

fn device_error(device: &str, error: Error) -> FixedBaseError {
    match error.kind {
        // The library's tables and buffers.
        Kind::OutOfMemory => {
            FixedBaseError::OutOfMemory { place: device.to_owned(), needed: 1 << 30, available: None }
        }
        _ => FixedBaseError::Device { device: device.to_owned(), message: error.to_string() },
    }
}

impl FixedBase for GpuFixedBase {
    fn name(&self) -> &str {
        &self.name
    }

    fn chunk(&self) -> usize {
        // The table of multiples is made anew for each call.
        1 << 24
    }

    fn g1(&self, base: &G1Affine, scalars: &[Scalar], out: &mut [G1Affine]) -> Result<(), FixedBaseError> {
        self.device
            .fixed_base_g1(
                &cast::g1(std::slice::from_ref(base))[0],
                cast::scalars(scalars),
                cast::g1_mut(out),
            )
            .map_err(|error| self.error(error))
    }

    fn g2(&self, base: &G2Affine, scalars: &[Scalar], out: &mut [G2Affine]) -> Result<(), FixedBaseError> {
        self.device
            .fixed_base_g2(
                &cast::g2(std::slice::from_ref(base))[0],
                cast::scalars(scalars),
                cast::g2_mut(out),
            )
            .map_err(|error| self.error(error))
    }
}
