//! The memory that proving vectors live in.
//!
//! - `pinned_vec`: a vector over a registered block or over the heap, and every `unsafe` that needs.

mod pinned_vec;

pub use pinned_vec::PinnedBacking;
pub(crate) use pinned_vec::{layout_for, PinnedVec};
