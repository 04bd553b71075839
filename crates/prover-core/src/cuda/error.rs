//! What the driver says when it cannot.

/// Why CUDA cannot do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library is not on this machine.
    #[error(
        "no CUDA device: the driver's library (libcuda.so.1) was not found; install the NVIDIA driver, or pass it \
         into the container"
    )]
    NoDriver,
    /// The driver is too old.
    #[error("the CUDA driver has no {symbol}; install a driver for CUDA 12.0 or newer")]
    MissingSymbol {
        /// The function it lacks.
        symbol: &'static str,
    },
    /// There is a driver, and it shows no device.
    #[error("no CUDA device: the driver shows none{}", hidden(.visible))]
    NoDevice {
        /// `CUDA_VISIBLE_DEVICES`, if it is set.
        visible: Option<String>,
    },
    /// A device that is not there.
    #[error("there is no CUDA device {ordinal}: the driver shows {count}, numbered from 0{}", hidden(.visible))]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
        /// `CUDA_VISIBLE_DEVICES`, if it is set.
        visible: Option<String>,
    },
    /// This process was forked from one that uses CUDA. The driver works in that one only.
    #[error(
        "CUDA used after fork: process {parent} initialised it, and a forked child cannot use it; start the prover \
         in the child, or start children by exec"
    )]
    AfterFork {
        /// The process that initialised CUDA.
        parent: u32,
    },
    /// A copy that leaves its memory.
    #[error("a copy of {bytes} bytes at offset {offset} leaves device memory of {size} bytes")]
    OutOfBounds {
        /// Where it starts, in bytes.
        offset: usize,
        /// Its bytes.
        bytes: usize,
        /// Bytes of the device memory.
        size: usize,
    },
    /// A call failed.
    #[error("{call} failed with CUDA error {code} ({}); {}", name(*.code), remedy(*.code))]
    Call {
        /// The driver's function.
        call: &'static str,
        /// Its answer.
        code: i32,
    },
}

impl CudaError {
    /// The driver has been shut down, as it is while the process ends: nothing runs on a device any more, and
    /// all that was registered is not.
    pub fn is_shut_down(&self) -> bool {
        matches!(self, Self::Call { code: DEINITIALIZED, .. })
    }

    /// The driver's number, if the driver was asked.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Call { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// There is no device here (rather than one that fails).
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoDriver | Self::NoDevice { .. } | Self::NoSuchDevice { .. })
    }
}

/// Makes an error of a status.
pub(crate) fn check(call: &'static str, code: i32) -> Result<(), CudaError> {
    match code {
        SUCCESS => Ok(()),
        code => Err(CudaError::Call { call, code }),
    }
}

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const OUT_OF_MEMORY: i32 = 2;
pub(crate) const NOT_INITIALIZED: i32 = 3;
pub(crate) const DEINITIALIZED: i32 = 4;
pub(crate) const NO_DEVICE: i32 = 100;
pub(crate) const NOT_READY: i32 = 600;
pub(crate) const ALREADY_REGISTERED: i32 = 712;
pub(crate) const NOT_REGISTERED: i32 = 713;
pub(crate) const NOT_PERMITTED: i32 = 800;
pub(crate) const NOT_SUPPORTED: i32 = 801;

/// The names in `cuda.h` of the numbers that these calls return. Known without the driver, which may be the thing
/// that is broken.
fn name(code: i32) -> &'static str {
    match code {
        INVALID_VALUE => "CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => "CUDA_ERROR_OUT_OF_MEMORY",
        NOT_INITIALIZED => "CUDA_ERROR_NOT_INITIALIZED",
        DEINITIALIZED => "CUDA_ERROR_DEINITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        NO_DEVICE => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        201 => "CUDA_ERROR_INVALID_CONTEXT",
        214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        400 => "CUDA_ERROR_INVALID_HANDLE",
        NOT_READY => "CUDA_ERROR_NOT_READY",
        700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
        709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        ALREADY_REGISTERED => "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        NOT_REGISTERED => "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        719 => "CUDA_ERROR_LAUNCH_FAILED",
        NOT_PERMITTED => "CUDA_ERROR_NOT_PERMITTED",
        NOT_SUPPORTED => "CUDA_ERROR_NOT_SUPPORTED",
        802 => "CUDA_ERROR_SYSTEM_NOT_READY",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "see CUresult in cuda.h",
    }
}

/// What to do about it, for failures that are not host memory's (those know more, see the backends).
fn remedy(code: i32) -> &'static str {
    match code {
        OUT_OF_MEMORY => "free device memory: see nvidia-smi for who holds it, or prove with fewer slots",
        NOT_INITIALIZED | DEINITIALIZED => "the process is ending, or was forked from one that uses CUDA",
        34 => "the library found is a build-time stub: take its folder out of LD_LIBRARY_PATH",
        46 => "the device is in exclusive use by another process, or failing: see nvidia-smi",
        802 => "start the fabric manager (nvidia-fabricmanager) and wait until it is ready",
        803 => "kernel module and libcuda differ in version: reboot, or install them from one package",
        804 => "remove the forward-compatibility libcuda: this device does not support it",
        214 | 700 | 709 | 719 => "the device's context is lost: restart the process",
        NOT_SUPPORTED | NOT_PERMITTED => "the device or its driver mode does not allow it",
        999 => "see the kernel log (dmesg, Xid) and that the nvidia_uvm module is loaded",
        _ => "see nvidia-smi for the device's state",
    }
}

fn hidden(visible: &Option<String>) -> String {
    match visible {
        Some(value) => format!(" (CUDA_VISIBLE_DEVICES={value:?} decides which it may show)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_names_the_cause_and_the_knob() {
        let visible = || Some("-1".to_owned());
        for (error, parts) in [
            (CudaError::NoDriver, &["no CUDA device", "libcuda.so.1", "install"][..]),
            (CudaError::MissingSymbol { symbol: "cuInit" }, &["cuInit", "12.0"]),
            (CudaError::NoDevice { visible: visible() }, &["no CUDA device", "CUDA_VISIBLE_DEVICES=\"-1\""]),
            (
                CudaError::NoSuchDevice { ordinal: 7, count: 2, visible: None },
                &["no CUDA device 7", "shows 2", "from 0"],
            ),
            (CudaError::AfterFork { parent: 4711 }, &["CUDA used after fork", "4711", "exec"]),
            (
                CudaError::Call { call: "cuInit", code: 803 },
                &["cuInit", "803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "reboot"],
            ),
            // A number of a driver newer than this list.
            (CudaError::Call { call: "cuInit", code: 54321 }, &["54321", "cuda.h"]),
        ] {
            let shown = error.to_string();
            for part in parts {
                assert!(shown.contains(part), "{shown}");
            }
        }
        assert!(!CudaError::NoDevice { visible: None }.to_string().contains("VISIBLE"));
    }
}
