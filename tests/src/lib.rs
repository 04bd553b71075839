//! What the integration tests share: circuits, keys, and the oracle.
//!
//! The oracle is the published bellperson 0.26.0 (crate `upstream`): with fixed r and s, every path of ours must give its
//! proofs byte for byte. Where upstream would take hours, the secrets behind the key tell what the proof must be ([`trapdoor`]).

pub mod allocator;
pub mod circuits;
pub mod oracle;
pub mod process;
pub mod trapdoor;
