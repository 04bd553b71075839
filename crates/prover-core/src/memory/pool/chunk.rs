//! One mapped region with what belongs to it.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::NonNull;
use std::time::Instant;

use pinned_alloc::{AllocError, Residency};

use crate::memory::backend::{wipe, Region};
use crate::memory::Reservation;

/// A mapped region and the reservation that pays for it. Dropping it wipes the bytes if they are secret,
/// unmaps them, and gives the reservation back, in this order.
#[derive(Debug)]
pub(super) struct Chunk {
    region: Box<dyn Region>,
    reservation: Reservation,
    secret: bool,
    /// It may hold something.
    dirty: bool,
    /// Since when it lies idle.
    pub(super) idle_since: Instant,
}

impl Chunk {
    pub(super) fn new(region: Box<dyn Region>, reservation: Reservation, secret: bool) -> Self {
        debug_assert_eq!(region.committed() as u64, reservation.bytes());
        Self { region, reservation, secret, dirty: false, idle_since: Instant::now() }
    }

    pub(super) fn first(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    /// Usable bytes.
    pub(super) fn size(&self) -> usize {
        self.region.committed()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.size() as u64
    }

    pub(super) fn reserved(&self) -> usize {
        self.region.reserved()
    }

    pub(super) fn residency(&self) -> Residency {
        self.region.residency()
    }

    pub(super) fn is_aligned_to(&self, align: usize) -> bool {
        self.first().addr().get().is_multiple_of(align)
    }

    /// From now on it may hold something.
    pub(super) fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Zeroes all of it. The caller has made sure that nobody uses the bytes: the chunk is neither out nor in
    /// flight.
    pub(super) fn wipe(&mut self) {
        // In a forked child there is nothing to wipe, not even a mapping.
        if std::mem::take(&mut self.dirty) && self.region.is_here() {
            // SAFETY: the region's committed bytes are writable and its owner's; `&mut self` and the caller's
            // promise say that nobody else uses them.
            unsafe { wipe(self.first(), self.size()) };
        }
    }

    /// Grows to `size` bytes (a rounded size), paid for first. On an error, and on a panic of the backend, it
    /// is as it was.
    pub(super) fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        self.reservation.try_grow(size.saturating_sub(self.size()) as u64)?;
        let grown = catch_unwind(AssertUnwindSafe(|| self.region.grow(size)));
        // What it did not become is not paid for.
        self.reservation.shrink(self.reservation.bytes().saturating_sub(self.bytes()));
        grown.unwrap_or_else(|panic| resume_unwind(panic))
    }

    pub(super) fn seal(&mut self) -> Result<Residency, AllocError> {
        self.region.seal()
    }

    pub(super) fn unpin(&mut self) -> Result<(), AllocError> {
        self.region.unpin()
    }

    /// Leaves the memory mapped for the rest of the process, and paid for.
    pub(super) fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.secret {
            self.wipe();
        }
        // The fields follow in order: `region` unmaps, then `reservation` gives its bytes back.
    }
}
