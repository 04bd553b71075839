//! One point times many scalars.
//!
//! - this file: the trait and its error;
//! - `cpu`: tables of multiples, on all threads;
//! - `affine`: many independent additions that share one inversion;
//! - `digits`: scalars in signed digits.

mod affine;
mod cpu;
mod digits;

use blstrs::{G1Affine, G2Affine, Scalar};

use crate::size::format_size;

pub use self::cpu::CpuFixedBase;
pub(super) use self::cpu::TABLE_BYTES;

/// Multiplies one point by many scalars.
///
/// The same base comes again and again with other scalars, so implementations keep what they computed for it. They
/// forget it when they are dropped. The scalars are secrets: no copy of them may stay behind, no value may be logged.
pub trait FixedBase: Sync {
    /// What multiplies, for logs: `"cpu"`, or the device.
    fn name(&self) -> &str;

    /// The number of scalars that callers with many should pass in one call.
    fn chunk(&self) -> usize {
        1 << 20
    }

    /// Sets `out[i]` to `scalars[i] * base`, in G1. Zero gives the identity.
    ///
    /// # Errors
    /// If memory or the device fails. `out` then holds nothing of use.
    ///
    /// # Panics
    /// If the lengths differ.
    fn g1(&self, base: &G1Affine, scalars: &[Scalar], out: &mut [G1Affine]) -> Result<(), FixedBaseError>;

    /// Sets `out[i]` to `scalars[i] * base`, in G2.
    ///
    /// # Errors
    /// As [`g1`](Self::g1).
    ///
    /// # Panics
    /// As [`g1`](Self::g1).
    fn g2(&self, base: &G2Affine, scalars: &[Scalar], out: &mut [G2Affine]) -> Result<(), FixedBaseError>;
}

/// Why points could not be multiplied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FixedBaseError {
    /// Memory of the host or of a device ran out.
    #[error(
        "no memory for the multiples of a point on {place}: {} needed{}",
        format_size(*.needed),
        .available.map(|bytes| format!(", {} available", format_size(bytes))).unwrap_or_default()
    )]
    OutOfMemory {
        /// `"the host"`, or the device.
        place: String,
        /// Bytes asked for.
        needed: u64,
        /// Bytes that were there, if known.
        available: Option<u64>,
    },
    /// A device failed.
    #[error("{device}: {message}")]
    Device {
        /// Which.
        device: String,
        /// What it said.
        message: String,
    },
}
