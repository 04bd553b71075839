//! The states of a set as types.

use std::fmt;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use pinned_alloc::{AllocError, Block, Residency};

use super::acquire::Lease;
use super::fence::{self, Fence, FenceError};
use super::inner::Inner;
use super::table::{Phase, Token};

/// One block of a set, and who gives it back.
struct Part {
    lease: Lease,
    /// Came through `pinned-alloc`: dropping the block gives it back.
    block: Option<Block>,
}

// SAFETY: a part owns its bytes alone, like a `Box<[u8]>`.
unsafe impl Send for Part {}
// SAFETY: through `&Part` only plain values are read, or the bytes by `&CheckedOut`, which nobody writes
// meanwhile.
unsafe impl Sync for Part {}

/// A set of blocks that its holder may read and write. Dropping it returns the set to the pool.
///
/// A device that copies from the set must be given it as [`in_flight`](Self::in_flight).
#[must_use = "dropping a set returns it to the pool"]
pub struct CheckedOut {
    pool: Arc<Inner>,
    parts: Vec<Part>,
}

impl CheckedOut {
    pub(super) fn new(pool: Arc<Inner>, leases: Vec<Lease>) -> Self {
        Self { pool, parts: leases.into_iter().map(|lease| Part { lease, block: None }).collect() }
    }

    pub(super) fn adopt(pool: &Arc<Inner>, blocks: Vec<Block>) -> Result<Self, Vec<Block>> {
        // The state pointer is this pool's own address: while the pool lives, no other allocator's can be
        // equal.
        let ours = |block: &Block| block.origin().state() == Arc::as_ptr(pool).cast();
        if blocks.is_empty() || !blocks.iter().all(ours) {
            return Err(blocks);
        }
        let parts = blocks.into_iter().map(|block| {
            let raw = block.raw();
            let lease = Lease { token: raw.token, first: raw.ptr, size: raw.size, residency: raw.residency };
            Part { lease, block: Some(block) }
        });
        Ok(Self { pool: pool.clone(), parts: parts.collect() })
    }

    /// Blocks in the set, at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// The first byte of block `index`. Valid for reads and writes of [`size`](Self::size) bytes while the
    /// set lives, in flight too.
    ///
    /// # Panics
    /// If there is no such block; so do all functions that take an index.
    pub fn as_ptr(&self, index: usize) -> NonNull<u8> {
        self.parts[index].lease.first
    }

    /// Usable bytes of block `index`.
    pub fn size(&self, index: usize) -> usize {
        self.parts[index].lease.size
    }

    /// Where block `index` lives.
    pub fn residency(&self, index: usize) -> Residency {
        self.parts[index].lease.residency
    }

    /// The bytes of block `index`: initialised, to anything.
    pub fn bytes(&self, index: usize) -> &[u8] {
        let Lease { first, size, .. } = self.parts[index].lease;
        // SAFETY: the block's bytes are initialised and this set's alone; nobody writes while `&self` is
        // borrowed.
        unsafe { slice::from_raw_parts(first.as_ptr(), size) }
    }

    /// The bytes of block `index`, to write.
    pub fn bytes_mut(&mut self, index: usize) -> &mut [u8] {
        let Lease { first, size, .. } = self.parts[index].lease;
        // SAFETY: as in `bytes`, and `&mut self` is borrowed.
        unsafe { slice::from_raw_parts_mut(first.as_ptr(), size) }
    }

    /// Grows block `index` in place to at least `min_size` bytes. Address and contents stay.
    ///
    /// # Errors
    /// [`AllocError::CannotGrow`] without address space, [`AllocError::Exhausted`] without room in the budget
    /// (growing does not wait), [`AllocError::Refused`]. The block is as it was.
    pub fn grow(&mut self, index: usize, min_size: usize) -> Result<(), AllocError> {
        let Part { lease, block } = &mut self.parts[index];
        if min_size > lease.size {
            lease.size = match block {
                Some(block) => block.grow(min_size).map(|()| block.size())?,
                None => self.pool.grow(lease.token, min_size)?,
            };
        }
        Ok(())
    }

    /// Makes every block one region, ready for a device, after growth. May be called again.
    ///
    /// # Errors
    /// What the backend says; contents stay. A block that failed counts as pageable.
    pub fn seal(&mut self) -> Result<(), AllocError> {
        for Part { lease, block } in &mut self.parts {
            let sealed = match block {
                Some(block) => block.seal().map(|()| block.residency()),
                None => self.pool.seal(lease.token),
            };
            lease.residency = *sealed.as_ref().unwrap_or(&Residency::Pageable);
            sealed?;
        }
        Ok(())
    }

    /// From now on a device accesses the set, until `fence` has passed.
    pub fn in_flight<F: Fence>(self, fence: F) -> InFlight<F> {
        self.pool.change_phase(self.tokens(), Phase::Out, Phase::InFlight);
        InFlight { flying: Some((self, fence)) }
    }

    fn tokens(&self) -> impl Iterator<Item = Token> + '_ {
        self.parts.iter().map(|part| part.lease.token)
    }

    /// The device is done with it.
    fn landed(self) -> Self {
        self.pool.change_phase(self.tokens(), Phase::InFlight, Phase::Out);
        self
    }

    /// The device may never be done with it.
    fn quarantine(self, error: FenceError) -> Quarantined {
        let bytes = self.pool.quarantine(self.tokens());
        let blocks = self.parts.len();
        // Dropping the set now only removes its entries.
        drop(self);
        tracing::error!(bytes, blocks, %error, "memory is quarantined: a device failed while it used it");
        Quarantined { bytes, blocks, error }
    }
}

impl fmt::Debug for CheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<usize> = self.parts.iter().map(|part| part.lease.size).collect();
        f.debug_tuple("CheckedOut").field(&sizes).finish()
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        let own = self.parts.iter().filter(|part| part.block.is_none()).map(|part| part.lease.token);
        let own: Vec<Token> = own.collect();
        if !own.is_empty() {
            self.pool.give_back(own.into_iter());
        }
        // The others give themselves back as `parts` is dropped.
    }
}

/// A set that a device may be accessing.
///
/// Dropping it does not wait: if the fence has not passed, the pool keeps the set until it has. (Only if the
/// pool itself is gone by then, the drop waits.) Forgetting it leaks the set, which is safe.
#[must_use = "dropping it leaves the set to the pool, which reuses it once the fence has passed"]
pub struct InFlight<F: Fence> {
    /// `None` only once taken apart.
    flying: Option<(CheckedOut, F)>,
}

impl<F: Fence> InFlight<F> {
    /// The fence.
    pub fn fence(&self) -> &F {
        &self.flying.as_ref().expect("it is whole until it is consumed").1
    }

    /// Blocks in the set.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.set().len()
    }

    /// The first byte of block `index`, for the device; see [`CheckedOut::as_ptr`].
    pub fn as_ptr(&self, index: usize) -> NonNull<u8> {
        self.set().as_ptr(index)
    }

    /// Usable bytes of block `index`.
    pub fn size(&self, index: usize) -> usize {
        self.set().size(index)
    }

    fn set(&self) -> &CheckedOut {
        &self.flying.as_ref().expect("it is whole until it is consumed").0
    }

    /// Waits until the device is done, and has the set back.
    ///
    /// # Errors
    /// [`Quarantined`] if the fence fails: the set is lost.
    pub fn wait(mut self) -> Result<CheckedOut, Quarantined> {
        let (set, fence) = self.flying.take().expect("it is whole until it is consumed");
        match fence::wait(&fence) {
            Ok(()) => Ok(set.landed()),
            Err(error) => Err(set.quarantine(error)),
        }
    }

    /// Has the set back if the device is done.
    ///
    /// # Errors
    /// `Ok(Err(self))` if it is not; [`Quarantined`] if the fence fails.
    pub fn try_wait(mut self) -> Result<Result<CheckedOut, Self>, Quarantined> {
        let (set, fence) = self.flying.take().expect("it is whole until it is consumed");
        match fence::is_passed(&fence) {
            Ok(true) => Ok(Ok(set.landed())),
            Ok(false) => Ok(Err(Self { flying: Some((set, fence)) })),
            Err(error) => Err(set.quarantine(error)),
        }
    }
}

impl<F: Fence> fmt::Debug for InFlight<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(self.set()).finish()
    }
}

impl<F: Fence> Drop for InFlight<F> {
    fn drop(&mut self) {
        let Some((set, fence)) = self.flying.take() else { return };
        let pool = set.pool.clone();
        let parked = Parked { set, fence: Box::new(fence) };
        let Some(parked) = parked.settle() else { return };
        if let Err(Parked { set, fence }) = pool.park(parked) {
            match fence::wait(&fence) {
                Ok(()) => drop(set),
                Err(error) => drop(set.quarantine(error)),
            }
        }
    }
}

/// A set in flight that nobody waits for; the pool looks after it.
pub(super) struct Parked {
    set: CheckedOut,
    fence: Box<dyn Fence>,
}

impl Parked {
    /// Returns the set to the pool if the fence has passed, quarantines it if that has failed, and hands it
    /// back if neither.
    pub(super) fn settle(self) -> Option<Self> {
        match fence::is_passed(&self.fence) {
            Ok(true) => None,
            Ok(false) => Some(self),
            Err(error) => {
                self.set.quarantine(error);
                None
            }
        }
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parked").field(&self.set).finish()
    }
}

/// What is left of a set whose fence has failed: the device may access it still, so nobody else ever will. It
/// stays mapped (unpinned), and its bytes stay reserved in the budget, until
/// [`Pool::release_quarantined`](super::Pool::release_quarantined) or the end of the process.
#[derive(Debug, thiserror::Error)]
#[error("{blocks} blocks of {bytes} bytes are quarantined and stay reserved: {error}")]
pub struct Quarantined {
    /// Bytes of the set.
    pub bytes: u64,
    /// Blocks in the set.
    pub blocks: usize,
    /// Why.
    #[source]
    pub error: FenceError,
}
