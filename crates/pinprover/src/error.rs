//! The tool's errors, and the exit code of each kind.

use std::io;
use std::path::{Path, PathBuf};

use bellperson::SynthesisError;

use crate::bench::peer::PeerError;
use crate::circom::json::{JsonError, JsonFileError};
use crate::circom::{CircuitError, FormatError, FormatFileError};
use crate::circuits::SizeError;
use crate::keys::{KeyError, KeyFileError};

/// Why a command failed. The text is one line that says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A size on the command line that the circuit cannot have.
    #[error("{option}: {cause}")]
    Size {
        /// The option.
        option: &'static str,
        /// What is wrong.
        cause: SizeError,
    },
    /// The environment or a settings file makes no sense, or asks for what this machine does not have.
    #[error("{0}")]
    Configuration(String),
    /// A device was asked for, and there is none, or it failed.
    #[error("{0}")]
    NoDevice(String),
    /// The memory could not be had.
    #[error("{0}")]
    Memory(String),
    /// A file or stream could not be read or written.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// An input file is not what it should be. The text names the file.
    #[error("{0}")]
    Input(String),
    /// A key does not belong to the circuit.
    #[error("{}: {cause}", key.display())]
    KeyMismatch {
        /// The file with the key.
        key: PathBuf,
        /// The count that differs, as expected and as found.
        cause: String,
    },
    /// The witness does not satisfy the circuit.
    #[error("{0}")]
    Witness(String),
    /// The circuit could not be synthesised, or the prover failed.
    #[error("{action}: {cause}")]
    Synthesis {
        /// What was being done.
        action: &'static str,
        /// What bellperson said.
        cause: SynthesisError,
    },
    /// A proof was made and does not pass its own check. It is not handed out.
    #[error("self-check failed: the finished proof does not verify, so it was not written; {0}")]
    SelfCheck(&'static str),
    /// A proof that was given does not verify.
    #[error("{}: the proof does not verify with this key and these public inputs", proof.display())]
    Invalid {
        /// The file with the proof.
        proof: PathBuf,
    },
    /// Two provers that must agree do not.
    #[error("{circuit}: for the same witness, key, r and s the proof of {other} differs from that of {one}")]
    ProofsDiffer {
        /// The circuit.
        circuit: String,
        /// A prover.
        one: String,
        /// The prover whose proof is another one.
        other: String,
    },
    /// The user ended it.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// The process that is measured against did not do its part.
    #[error("{0}")]
    Peer(#[from] PeerError),
}

impl Error {
    /// The process's exit code: 1 failure, 2 usage, 3 configuration, 4 no device or a device that failed, 5 memory, 6 proof does not
    /// verify, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Size { .. } => 2,
            Self::Configuration(_) => 3,
            Self::NoDevice(_) => 4,
            Self::Memory(_) => 5,
            Self::Io { cause, .. } if cause.kind() == io::ErrorKind::OutOfMemory => 5,
            Self::SelfCheck(_) | Self::Invalid { .. } => 6,
            Self::Interrupted(_) => crate::signals::INTERRUPTED,
            Self::Io { .. }
            | Self::Input(_)
            | Self::KeyMismatch { .. }
            | Self::Witness(_)
            | Self::Synthesis { .. }
            | Self::ProofsDiffer { .. }
            | Self::Peer(_) => 1,
        }
    }

    /// One word for the kind, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) | Self::Size { .. } => "usage",
            Self::Configuration(_) => "configuration",
            Self::NoDevice(_) => "no-device",
            Self::Memory(_) => "memory",
            Self::Io { .. } => "io",
            Self::Input(_) => "input",
            Self::KeyMismatch { .. } => "key-mismatch",
            Self::Witness(_) => "witness",
            Self::Synthesis { .. } => "synthesis",
            Self::SelfCheck(_) => "self-check",
            Self::Invalid { .. } => "invalid",
            Self::ProofsDiffer { .. } => "proofs-differ",
            Self::Interrupted(_) => "interrupted",
            Self::Peer(_) => "peer",
        }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |cause| Self::Io { action, path, cause }
    }

    pub(crate) fn synthesis(action: &'static str) -> impl FnOnce(SynthesisError) -> Self {
        move |cause| Self::Synthesis { action, cause }
    }
}

impl Error {
    /// `cause`, which shows in the file at `path`.
    pub(crate) fn circuit(path: &Path, cause: CircuitError) -> Self {
        let text = format!("{}: {cause}", path.display());
        match cause {
            CircuitError::WitnessLength { .. }
            | CircuitError::WitnessOne
            | CircuitError::Unsatisfied { .. } => Self::Witness(text),
            CircuitError::KeyMismatch { .. } => {
                Self::KeyMismatch { key: path.to_owned(), cause: cause.to_string() }
            }
            _ => Self::Input(text),
        }
    }
}

impl From<FormatFileError> for Error {
    fn from(error: FormatFileError) -> Self {
        match error.cause {
            FormatError::OutOfMemory { .. } => Self::Memory(error.to_string()),
            FormatError::Io(cause) => Self::io("read", error.path)(cause),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<KeyFileError> for Error {
    fn from(error: KeyFileError) -> Self {
        match error.cause {
            KeyError::OutOfMemory { .. } => Self::Memory(error.to_string()),
            KeyError::Io(cause) => Self::io("read", error.path)(cause),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<JsonFileError> for Error {
    fn from(error: JsonFileError) -> Self {
        match error.cause {
            JsonError::Io(cause) => Self::io("read", error.path)(cause),
            _ => Self::Input(error.to_string()),
        }
    }
}
