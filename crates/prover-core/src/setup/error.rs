//! Why a key could not be made.

use bellperson::SynthesisError;

use super::FixedBaseError;
use crate::size::format_size;

/// Why a key could not be made. One line that says what, with numbers, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The circuit could not be synthesised, or has no key: bellperson's generator returns the same.
    #[error(transparent)]
    Synthesis(#[from] SynthesisError),
    /// A generator of the toxic waste is the identity: every proof would verify.
    #[error("a generator of the toxic waste is the point at infinity: such a key proves nothing")]
    IdentityGenerator,
    /// The circuit is not what it was said to be, or not the same each time it is synthesised.
    #[error(
        "the circuit changed between two passes over it: expected {expected} {what}, found {found}; a circuit must \
         not depend on its witness"
    )]
    ShapeChanged {
        /// What is counted.
        what: &'static str,
        /// What the caller or the first pass said.
        expected: usize,
        /// What the last pass found.
        found: usize,
    },
    /// The circuit uses a variable that it has not allocated.
    #[error("the circuit uses a variable that it has not allocated: {kind} {index} of {count}")]
    UnknownVariable {
        /// `"input"` or `"auxiliary variable"`.
        kind: &'static str,
        /// Its number, from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// More memory is needed than this process may use. Found before it was taken.
    #[error(
        "the key needs {} of memory ({constraints} constraints), {} are in use, and this process may use {} ({}): \
         raise that limit ({knob}) or make the circuit smaller",
        format_size(*.needed), format_size(*.used), format_size(*.total), source_of_limit
    )]
    MemoryLimit {
        /// Bytes for the key and what is needed to make it, at the peak.
        needed: u64,
        /// Bytes that the process uses already.
        used: u64,
        /// Bytes that the process may use.
        total: u64,
        /// Where the limit comes from.
        source_of_limit: String,
        /// What raises it.
        knob: &'static str,
        /// Constraints of the circuit, with one for each input.
        constraints: usize,
    },
    /// Memory ran out although no limit is known that forbids it.
    #[error(
        "no memory for {what}: {} asked for; free memory, raise the limit of this process, or make the circuit smaller",
        format_size(*.bytes)
    )]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// Bytes asked for.
        bytes: u64,
    },
    /// What multiplies points failed.
    #[error(transparent)]
    FixedBase(#[from] FixedBaseError),
}

impl SetupError {
    /// Whether memory is the reason, of the host or of a device.
    pub fn is_memory(&self) -> bool {
        matches!(
            self,
            Self::MemoryLimit { .. }
                | Self::OutOfMemory { .. }
                | Self::FixedBase(FixedBaseError::OutOfMemory { .. })
        )
    }
}
