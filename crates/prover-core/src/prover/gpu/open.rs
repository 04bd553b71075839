//! A device for kernels.

use prover_cuda::device::Device;
use prover_cuda::error::{Error, Kind};

use crate::cuda;

/// Opens a device and asks it for known answers. No other device gets a context.
///
/// # Errors
/// What the kernels' library says; an architecture it was not built for; a wrong answer.
pub(super) fn open(about: &cuda::Device) -> Result<Device, Error> {
    let ordinal = u32::try_from(about.ordinal).unwrap_or(u32::MAX);
    let opened = Device::open(&[ordinal])?;
    let device =
        opened.first().copied().ok_or_else(|| Error::new(Kind::Internal, 0, "no device was opened"))?;
    let (major, minor) = about.compute_capability;
    device.self_test().map_err(|mut error| {
        let built = prover_cuda::ARCHITECTURES;
        error.message = match error.kind {
            Kind::WrongArchitecture => {
                format!(
                    "{}: built for sm_{built}, the device is sm_{major}{minor}; set PINPROVER_CUDA_ARCHS and build again",
                    about.name
                )
            }
            _ => format!("{} (sm_{major}{minor}) is refused: {}", about.name, error.message),
        };
        error
    })?;
    Ok(device)
}
