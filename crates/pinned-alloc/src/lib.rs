//! Registered function pointers for page-locked ("pinned") host memory.
//!
//! A library that fills large vectors (bellperson) must not know CUDA, and the prover that owns the pinned
//! memory must not be a dependency of that library. This crate is the joint between the two: the prover
//! [registers](register) a [`VTable`] of allocate / grow / seal / free functions at start-up, the library
//! asks for [`Block`]s.
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
//! - A registration can be dropped, and another made, while blocks of the first live: they are freed by the
//!   first, once. The state behind a registration is released when the registration and the last of its
//!   blocks are gone.
//! - Sizes of zero never reach the functions, nor do sizes that overflow. A function that panics or returns
//!   nonsense is an [`AllocError`]; a `free` that panics is swallowed (a leak is better than an abort).
//! - No lock is held while a registered function runs, nor while memory is allocated.
//!
//! # Example
//! An allocator over the heap, without growth. A real one would pool its blocks and lock their pages.
//!
//! ```
//! use std::alloc::{alloc_zeroed, dealloc, Layout};
//! use std::ptr::NonNull;
//! use std::sync::Mutex;
//!
//! use pinned_alloc::{array_layout, AllocError, RawBlock, Registry, Residency, VTable};
//!
//! /// The layout of each block; its index is the block's token.
//! #[derive(Default)]
//! struct Heap(Mutex<Vec<Layout>>);
//!
//! /// # Safety
//! /// `state` is what `main` registered, and `release` has not been called.
//! unsafe fn heap<'a>(state: *const ()) -> &'a Heap {
//!     // SAFETY: the caller's promise.
//!     unsafe { &*state.cast() }
//! }
//!
//! /// # Safety
//! /// As `VTable::allocate`.
//! unsafe fn allocate(
//!     state: *const (),
//!     layouts: &[Layout],
//!     out: &mut [Option<RawBlock>],
//! ) -> Result<(), AllocError> {
//!     // SAFETY: called between `register` and `release`.
//!     let mut known = unsafe { heap(state) }.0.lock().unwrap();
//!     for (layout, out) in layouts.iter().zip(out) {
//!         // SAFETY: no layout is empty.
//!         let Some(ptr) = NonNull::new(unsafe { alloc_zeroed(*layout) }) else {
//!             std::alloc::handle_alloc_error(*layout)
//!         };
//!         let (size, token) = (layout.size(), known.len());
//!         known.push(*layout);
//!         *out = Some(RawBlock { ptr, size, token, residency: Residency::Pageable });
//!     }
//!     Ok(())
//! }
//!
//! /// # Safety
//! /// As `VTable::grow`.
//! unsafe fn grow(_: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError> {
//!     Err(AllocError::CannotGrow { size: block.size, requested: min_size })
//! }
//!
//! /// # Safety
//! /// As `VTable::seal`.
//! unsafe fn seal(_: *const (), block: &RawBlock) -> Result<Residency, AllocError> {
//!     Ok(block.residency)
//! }
//!
//! /// # Safety
//! /// As `VTable::free`.
//! unsafe fn free(state: *const (), block: RawBlock) {
//!     // SAFETY: called between `register` and `release`.
//!     let layout = unsafe { heap(state) }.0.lock().unwrap()[block.token];
//!     // SAFETY: `allocate` made this block with this layout, and it is freed once.
//!     unsafe { dealloc(block.ptr.as_ptr(), layout) }
//! }
//!
//! /// # Safety
//! /// As `VTable::release`.
//! unsafe fn release(state: *const ()) {
//!     // SAFETY: `main` made it from a box, and this is its last use.
//!     drop(unsafe { Box::from_raw(state.cast::<Heap>().cast_mut()) });
//! }
//!
//! // A library asks in the static `pinned_alloc::REGISTRY` by `pinned_alloc::allocate`; a registry of one's
//! // own works alike.
//! static REGISTRY: Registry = Registry::new();
//! let layouts = [array_layout::<u64>(1000)?, array_layout::<u8>(10)?];
//! assert_eq!(REGISTRY.allocate(layouts).unwrap_err(), AllocError::NotRegistered);
//!
//! let vtable = VTable { name: "heap", allocate, grow, seal, free, release };
//! let state = Box::into_raw(Box::new(Heap::default()));
//! // SAFETY: the functions above keep the contracts; the state lives until `release`, and the heap is for
//! // every thread.
//! let registration = unsafe { REGISTRY.register(vtable, state.cast::<()>()) }?;
//!
//! let [numbers, bytes] = REGISTRY.allocate(layouts)?;
//! assert_eq!((numbers.origin().name(), bytes.size()), ("heap", 10));
//! for i in 0..1000 {
//!     // SAFETY: the block is aligned for `u64` and has 1000 of them; nobody else uses it.
//!     unsafe { numbers.as_ptr().cast::<u64>().add(i).write(i as u64) };
//! }
//!
//! drop(registration); // nobody gets a new block, but these two are still good
//! assert_eq!(REGISTRY.current_name(), None);
//! // SAFETY: as above, and it was written.
//! assert_eq!(unsafe { numbers.as_ptr().cast::<u64>().add(999).read() }, 999);
//! drop([numbers, bytes]); // `free` twice, then `release`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod block;
mod contain;
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
pub use vtable::{AllocateFn, Origin, RawBlock, Residency, VTable};
