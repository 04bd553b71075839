//! The parts of the `pinprover` tool: file formats, built-in circuits, commands.
//!
//! | module | subject |
//! |---|---|
//! | [`cli`] | the commands |
//! | [`circom`], [`keys`] | files of circom circuits; keys and proofs |
//! | [`circuits`] | the built-in circuits |
//! | [`proving`] | the one place where proofs are made |
//! | `running` | engines of a command, and how they end when it is interrupted |
//! | [`mod@bench`] | our prover against upstream's |
//! | [`output`], [`signals`] | files that appear only when whole |
//! | [`ui`], [`meter`], [`error`](Error) | what the user sees, memory figures, errors and exit codes |

pub mod bench;
pub mod circom;
pub mod circuits;
pub mod cli;
mod error;
pub mod keys;
pub mod meter;
pub mod output;
pub mod proving;
mod running;
pub mod signals;
pub mod ui;

pub use error::Error;
