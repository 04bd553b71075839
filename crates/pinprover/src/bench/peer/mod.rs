//! supraseal-c2 beside us: the same key, witness, r and s, in a process of its own.
//!
//! ```text
//!   bench prove --peer                     pinprover-peer FOLDER
//!     key, synthesised circuit ──files──►    reads, proves once
//!     removes the files        ◄─"ready"──
//!     "prove pageable|pinned"  ──pipe───►    proves
//!     checks, compares         ◄─"proof"──   seconds and 192 bytes
//!     closes the pipe          ─────────►    ends
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `files` | the folder with both files, which goes with its value and when the process is interrupted |
//! | [`sibling`] | the other process: started, asked, waited for, ended |
//! | [`wire`] | the format of the file and of the lines |
//! | `error` | [`PeerError`] |

mod error;
mod files;
pub mod sibling;
pub mod wire;

pub use error::PeerError;
pub use files::Files;
