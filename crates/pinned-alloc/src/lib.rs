//! Registered function pointers for page-locked ("pinned") host memory.
//!
//! A library that fills large vectors (bellperson) must not know CUDA, and the prover that owns the pinned memory must
//! not be a dependency of that library. This crate is the joint between the two: the prover [registers](register) a
//! [`VTable`] of allocate / grow / seal / free functions at start-up, the library asks for [`Block`]s.
//!
//! ```text
//!   library (bellperson)            this crate                      prover (prover-core)
//!   ────────────────────            ──────────                      ────────────────────
//!   allocate([a, b, c, aux]) ─────► Registry ──► Origin ──────────► VTable::allocate(state, …)
//!        │                                        ▲                        │
//!        ▼                                        │ Arc                    ▼
//!      [Block; 4] ── each holds its RawBlock and its Origin ◄──────── four RawBlocks, or an error and none
//!        │
//!        └─ drop ──► VTable::free(state, raw)      the Origin it came from, whatever is registered by then
//! ```
//!
//! # Rules
//! - A block remembers its own origin, size and free function; nobody passes them back in.
//! - A group of blocks is allocated as a whole or not at all.
//! - A registration can be dropped, and another made, while blocks of the first live: they are freed by the first, once.
//!   The state behind a registration is released when the registration and the last of its blocks are gone.
//! - Sizes of zero never reach the functions, nor do sizes that overflow. A function that panics or returns nonsense is
//!   an [`AllocError`]; a `free` that panics is swallowed (a leak is better than an abort).
//! - No lock is held while a registered function runs.

mod block;
mod error;
mod layout;
mod registry;
mod sync;
mod vtable;

pub use block::Block;
pub use error::{AllocError, AlreadyRegistered, Cause};
pub use layout::array_layout;
#[cfg(not(loom))]
pub use registry::{allocate, current_name, register, REGISTRY};
pub use registry::{Registration, Registry};
pub use vtable::{Origin, RawBlock, Residency, VTable};
