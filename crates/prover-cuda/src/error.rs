//! What the library says when something fails.

use std::ffi::CStr;

use crate::sys;

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A mistake inside the library.
    Internal,
    /// The device reported an error. Most of them end the device's use by this process.
    Device,
    /// Device memory, or memory of the host that the library needs.
    OutOfMemory,
    /// No driver, no device, or not this one.
    NoDevice,
    /// The library holds no code for this device.
    WrongArchitecture,
    /// Sizes that do not fit together.
    Usage,
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", code_text(*code))]
#[non_exhaustive]
pub struct Error {
    /// What kind of failure.
    pub kind: Kind,
    /// CUDA's number, or 0.
    pub code: i32,
    /// What happened, in words.
    pub message: String,
}

fn code_text(code: i32) -> String {
    if code == 0 {
        String::new()
    } else {
        format!(" (CUDA error {code})")
    }
}

impl Error {
    /// An error of the caller's own making, to be handled as the library's are.
    pub fn new(kind: Kind, code: i32, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into() }
    }

    /// A mistake of the caller.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, code: 0, message: message.into() }
    }
}

/// Calls a function of the C ABI and reads its error.
pub(crate) fn call(function: impl FnOnce(*mut sys::Error) -> i32) -> Result<(), Error> {
    let mut error = sys::Error { kind: sys::INTERNAL, code: 0, message: [0; 504] };
    if function(&mut error) == 0 {
        return Ok(());
    }
    let kind = match error.kind {
        sys::DEVICE => Kind::Device,
        sys::OUT_OF_MEMORY => Kind::OutOfMemory,
        sys::NO_DEVICE => Kind::NoDevice,
        sys::WRONG_ARCHITECTURE => Kind::WrongArchitecture,
        sys::USAGE => Kind::Usage,
        _ => Kind::Internal,
    };
    // SAFETY: a byte of an array is as good as a `u8`, and the slice covers exactly the array.
    let bytes =
        unsafe { std::slice::from_raw_parts(error.message.as_ptr().cast::<u8>(), error.message.len()) };
    let message = CStr::from_bytes_until_nul(bytes)
        .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    Err(Error { kind, code: error.code, message })
}
