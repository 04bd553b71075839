//! The fork.
pub use upstream::*;
