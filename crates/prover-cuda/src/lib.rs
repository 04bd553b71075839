//! The kernels of a Groth16 proof for BLS12-381 in CUDA C++, and their safe face.
//!
//! With feature `cuda` (which needs nvcc) the crate holds:
//!
//! | module | subject |
//! |---|---|
//! | `device` | devices and their memory |
//! | `slot` | one proof at a time on a device |
//! | `key` | the queries of a proving key on a device, or in host memory to be streamed |
//! | `fault` | calls that fail on purpose, for tests |
//! | `error` | what the library says when something fails |
//! | `sys` | the C ABI (`cuda/prover_cuda.h`) |
//!
//! Without the feature it is empty, so that a workspace with it builds anywhere. The CUDA runtime is linked statically and
//! opens the driver when the first function is called: a binary with the kernels starts on a machine without a GPU.

#[cfg(feature = "cuda")]
pub mod device;
#[cfg(feature = "cuda")]
pub mod error;
#[cfg(feature = "cuda")]
pub mod fault;
#[cfg(feature = "cuda")]
pub mod key;
#[cfg(feature = "cuda")]
pub mod slot;
#[cfg(feature = "cuda")]
mod sys;

/// The compute capabilities that the kernels were compiled for, for instance `"80,90"`; empty without feature `cuda`.
pub const ARCHITECTURES: &str = match option_env!("PINPROVER_CUDA_ARCHS") {
    Some(list) if cfg!(feature = "cuda") => list,
    _ => "",
};
