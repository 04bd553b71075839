//! What a device offers to those who give it proofs to make.

use bellperson::groth16::native::Proved;
use bellperson::groth16::{KeySource, ProvingAssignment};
use bellperson::SynthesisError;
use blstrs::Scalar;

use super::report::DeviceReport;

/// SHA-256 of a verifying key: what tells proving keys apart.
pub(crate) type KeyDigest = [u8; 32];

/// One circuit to prove.
pub(crate) struct Task<'t> {
    pub(crate) assignment: ProvingAssignment<Scalar>,
    pub(crate) key: &'t dyn KeySource,
    pub(crate) digest: KeyDigest,
    pub(crate) r: Scalar,
    pub(crate) s: Scalar,
    /// Called when the assignment's memory has gone back, which may be long before the proof is there.
    pub(crate) given_back: &'t (dyn Fn() + Sync),
}

/// Why there is no proof.
pub(crate) enum Declined {
    /// The device cannot take it; the assignment is whole.
    Unable { assignment: Box<ProvingAssignment<Scalar>>, why: String },
    /// The device is lost for good, and the assignment with it, unless it had not been handed over yet.
    Lost { assignment: Option<Box<ProvingAssignment<Scalar>>>, why: String },
    /// The circuit or its key are at fault: no device could prove it.
    Failed(SynthesisError),
}

impl From<SynthesisError> for Declined {
    fn from(error: SynthesisError) -> Self {
        Self::Failed(error)
    }
}

/// Something that proves, several circuits at a time.
pub(crate) trait ProofDevice: Send + Sync {
    /// For reports and errors.
    fn name(&self) -> &str;

    /// Its number among those that the driver shows.
    fn ordinal(&self) -> u32;

    /// How many proofs it makes at a time.
    fn slots(&self) -> usize;

    /// Whether the key is there already.
    fn holds(&self, key: &KeyDigest) -> bool;

    /// Bytes of its memory that keys take.
    fn key_bytes(&self) -> u64;

    /// Proves one circuit. Called by as many threads at a time as there are slots.
    fn prove(&self, task: Task<'_>) -> Result<(Proved, DeviceReport), Declined>;
}
