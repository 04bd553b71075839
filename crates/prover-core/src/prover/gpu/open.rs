//! A device for kernels, by its number.

use prover_cuda::device::Device;
use prover_cuda::error::{Error, Kind};

use crate::cuda;

/// Opens a device, and says what it is. The driver is asked for what there is first: no other device gets a context.
///
/// # Errors
/// [`Kind::NoDevice`] with the devices there are; what the kernels' library says.
pub(super) fn open(ordinal: u32) -> Result<(Device, cuda::Device), Error> {
    let known = match cuda::devices() {
        Ok(known) => known,
        Err(error) if error.is_absence() => return Err(Error::new(Kind::NoDevice, 0, error.to_string())),
        Err(error) => return Err(Error::new(Kind::Device, error.code().unwrap_or(0), error.to_string())),
    };
    let Some(about) = known.iter().find(|device| device.ordinal == ordinal as usize).cloned() else {
        let valid: Vec<String> = known.iter().map(|d| format!("{} ({})", d.ordinal, d.name)).collect();
        let text = format!("no CUDA device {ordinal}: there are {}", valid.join(", "));
        return Err(Error::new(Kind::NoDevice, 0, text));
    };
    let opened = Device::open(&[ordinal])?;
    let device = opened.first().copied();
    Ok((device.ok_or_else(|| Error::new(Kind::Internal, 0, "no device was opened"))?, about))
}
