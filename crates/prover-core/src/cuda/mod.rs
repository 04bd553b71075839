//! The CUDA driver, as far as host memory and copies need it. Kernels live in `prover-cuda`.
//!
//! Nothing is linked: `cudarc` finds and loads the driver's library when somebody first asks, so one binary runs
//! with and without a device. No driver, no device, a device that is hidden: each is a plain [`CudaError`].
//!
//! ```text
//!   Driver ── loaded once, remembers the process that initialised it; asking makes no context
//!     └─► Context ── the primary context of a device, which CUDA's runtime API uses too
//!           ├─► Stream, Event, DeviceMemory ── copies and their times
//!           ├─► CudaFence ── tells the pool when a copy has ended
//!           └─► memory::backend::{CudaRegister, CudaHostAlloc} ── host memory that a device reads by DMA
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `error` | [`CudaError`]: the call, the number, its name, and what to do |
//! | `api` | the table of the driver's functions |
//! | `driver` | loading, the guard against use after fork, the list of devices |
//! | `select` | devices as people name them |
//! | `numa` | the NUMA node near to devices |
//! | `context` | primary contexts, and making one current for a call |
//! | `stream` | streams, events, device memory, copies |
//! | `host` | page-locking host memory: the calls behind the pool's backends |
//! | `fence` | events as the pool's fences |
//!
//! # Why a table of our own
//! cudarc's bindings return a Rust enum of the error numbers that one CUDA version knows. A newer driver may return
//! another number, and a Rust enum with an unknown value is undefined behaviour. They also panic on a function that
//! the driver does not have. So the functions are looked up in the library that cudarc has loaded, with the number
//! as a number, and a missing one is an error. The handle types are cudarc's.

mod api;
mod context;
mod driver;
mod error;
mod fence;
mod host;
mod numa;
mod select;
mod stream;
#[cfg(test)]
mod tests;

pub use context::Context;
pub use driver::{devices, Device, Driver};
pub use error::CudaError;
pub(crate) use error::{NOT_PERMITTED, NOT_REGISTERED, NOT_SUPPORTED, OUT_OF_MEMORY};
pub use fence::CudaFence;
pub use numa::numa_node;
pub use select::{select, BadSelector, DeviceSelector, SelectError};
pub use stream::{DeviceMemory, Event, Stream};

/// The handles of the driver, for code that shares streams, events or contexts with other CUDA libraries. The
/// runtime API's `cudaStream_t` and `cudaEvent_t` are the same types.
pub mod raw {
    pub use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUstream};
}
