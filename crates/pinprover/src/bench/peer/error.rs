//! What can go wrong with the other process.

use std::path::PathBuf;
use std::process::ExitStatus;

/// Why there is no proof of the peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is no such program.
    #[error(
        "--peer: there is no program {}; build it with `cargo build --release -p pinprover --bin pinprover-peer --features \
         peer-supraseal`, or name it with --peer-program",
        program.display()
    )]
    Missing {
        /// Where it was looked for.
        program: PathBuf,
    },
    /// Its files do not fit the disk.
    #[error(
        "--peer-dir {}: the key and the circuit need {needed} bytes, {free} are free there; name another folder",
        folder.display()
    )]
    NoSpace {
        /// The folder.
        folder: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// It ended although it had something to do.
    #[error("the peer ended while it had to {doing} ({status}); its messages are above")]
    Died {
        /// What it had to do.
        doing: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It did not answer in time, and was killed.
    #[error("the peer did not {doing} within {seconds} seconds and was stopped; raise --peer-timeout")]
    Hung {
        /// What it had to do.
        doing: String,
        /// The limit.
        seconds: u64,
    },
    /// It says something that is no answer.
    #[error("the peer had to {doing} and answered {line:?}, which is no answer to that")]
    Nonsense {
        /// What it had to do.
        doing: String,
        /// The begin of what it said.
        line: String,
    },
    /// It says that it took longer than it did.
    #[error("the peer had to {doing} and says that it took {said} s, of {waited} s altogether")]
    Time {
        /// What it had to do.
        doing: String,
        /// Seconds, as it says.
        said: f64,
        /// Seconds that we waited.
        waited: f64,
    },
    /// It says what went wrong.
    #[error("the peer could not {doing}: {text}")]
    Failed {
        /// What it had to do.
        doing: String,
        /// What it says.
        text: String,
    },
    /// Its proof does not verify.
    #[error("the peer had to {doing} and gave a proof that {why}")]
    BadProof {
        /// What it had to do.
        doing: String,
        /// What is wrong with it.
        why: String,
    },
}
