//! The function pointers, the raw blocks they exchange, and the origin that ties a block to its functions.

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;

use crate::contain::contain;
use crate::AllocError;

/// Where a block's bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Residency {
    /// Ordinary memory that the system may page out; a device stages copies from it.
    Pageable,
    /// Locked in RAM by the operating system, but unknown to a device: no DMA.
    Locked,
    /// Page-locked and registered with a device driver: read by DMA.
    Pinned,
}

/// A block as the registered functions see it: a range of memory and a word of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBlock {
    /// The first byte.
    pub ptr: NonNull<u8>,
    /// Usable bytes from `ptr`. May be more than was asked for.
    pub size: usize,
    /// The allocator's own: how it finds the block again. Handed back as it was given, never looked at.
    pub token: usize,
    /// Where the bytes live.
    pub residency: Residency,
}

/// The type of [`VTable::allocate`]. See there for the contract.
pub type AllocateFn =
    unsafe fn(state: *const (), layouts: &[Layout], out: &mut [Option<RawBlock>]) -> Result<(), AllocError>;

/// The functions of an allocator. `state` is the pointer given to [`register`](crate::Registry::register).
///
/// Every function may be called from any thread, several at once. None runs under a lock of this crate, so
/// each may use the registry itself, but not the block that it was called for.
///
/// None should panic. A panic is stopped here and reported as [`AllocError::BrokenAllocator`] (in `free` and
/// `release`, which cannot report, it is a leak); with `panic = "abort"` it ends the process. An exception of
/// another language must not leave a function.
///
/// ```text
///   Registry ──► Origin ──► VTable { allocate, grow, seal, free, release }
///                  │
///                  └──────► state: *const ()   alive from register() to release()
/// ```
#[derive(Clone, Copy)]
pub struct VTable {
    /// A short name for logs and reports, for instance `"pages"`.
    pub name: &'static str,

    /// Allocates one block for each layout, all or nothing.
    ///
    /// Given: `layouts` is not empty, each size is at least 1 byte, all sizes together at most `isize::MAX`
    /// bytes, any alignment; `out.len() == layouts.len()` and `out` holds `None`.
    ///
    /// Contract:
    /// - On `Ok`, each `out[i]` is `Some(raw)`: `raw.ptr` is aligned to `layouts[i].align()`, `raw.size >=
    ///   layouts[i].size()`, and the `raw.size` bytes may be read and written by the caller alone until
    ///   `free`. They are initialised (to anything), so that reading them is never undefined.
    /// - `raw.ptr` stays good for the block as [`grow`](Self::grow) makes it: it is a pointer into the whole
    ///   reserve.
    /// - On `Err` nothing stays allocated; what is in `out` is ignored.
    ///
    /// An `Ok` with a block missing, too small or misaligned is an error to the caller; the blocks that are
    /// there go to `free` as they came. Blocks of the group that overlap are the exception: they are leaked,
    /// since freeing the one could free the other. After a panic `out` is ignored too.
    pub allocate: AllocateFn,

    /// Grows a block in place to at least `min_size` bytes and returns its new size.
    ///
    /// Given: `block` is live and used by no one else during the call; `block.size < min_size <= isize::MAX`.
    ///
    /// Contract:
    /// - On `Ok(size)`, `size >= min_size`, and what [`allocate`](Self::allocate) promises holds for all
    ///   `size` bytes, the new ones initialised. The address stays, and so do the bytes that were there.
    /// - On `Err` the block is as it was.
    ///
    /// After an `Ok` with an impossible size, and after a panic, the block keeps the size it had, and that is
    /// what `free` is told.
    pub grow: unsafe fn(state: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError>,

    /// Makes a block ready to be handed to a device: after growth it may consist of several registered
    /// regions, and one copy must not span two. Called once synthesis is done, before any consumer sees the
    /// pointer; may be called again.
    ///
    /// Given: `block` is live and used by no one else during the call.
    ///
    /// Contract: address, size and bytes stay, on `Err` too; the returned residency is what the block has
    /// from now on.
    pub seal: unsafe fn(state: *const (), block: &RawBlock) -> Result<Residency, AllocError>,

    /// Takes a block back. Called exactly once for each block that `allocate` returned.
    ///
    /// Given: `block` is live and used by no one from now on. Its pointer and token are those from
    /// `allocate`, its size is the true one after all growth, its residency what the last seal made of it
    /// ([`Residency::Pageable`] if that failed).
    pub free: unsafe fn(state: *const (), block: RawBlock),

    /// The registration and all blocks are gone: `state` is never used again. Called exactly once, on the
    /// thread that dropped the last of them.
    pub release: unsafe fn(state: *const ()),
}

impl fmt::Debug for VTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VTable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A registered allocator: its functions and their state. Blocks keep it alive.
pub struct Origin {
    pub(crate) vtable: VTable,
    pub(crate) state: *const (),
}

// SAFETY: `VTable`'s contract says that every function may be called with `state` from any thread.
unsafe impl Send for Origin {}
// SAFETY: as above; the fields are never written after construction.
unsafe impl Sync for Origin {}

impl Origin {
    /// The allocator's name.
    pub fn name(&self) -> &'static str {
        self.vtable.name
    }

    /// The state pointer it was registered with, so that an allocator can tell its own blocks: while one of
    /// them lives the state does, and no other state has that address (unless it is a pointer to nothing,
    /// such as null).
    pub fn state(&self) -> *const () {
        self.state
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Origin").field(&self.vtable.name).finish()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let (release, state) = (self.vtable.release, self.state);
        // SAFETY: an `Origin` is dropped once, when the registration and the last block are gone, so this is
        // the one and last use of `state`, as the contract of `release` asks.
        let released = contain(|| unsafe { release(state) });
        // A panic in `release` leaks the allocator's state; unwinding out of a drop could abort the process.
        let _: Option<()> = released;
    }
}
