//! A vector that may lie over a block of registered memory.
//!
//! Stable Rust has no allocator parameter for `Vec`, so the vector is kept in a [`ManuallyDrop`] beside what owns its
//! memory. Two states:
//!
//! ```text
//!   backing = None        vec owns its memory, from the global allocator
//!   backing = Some(block) vec is a view: its pointer is the block's, its capacity is what fits into the block
//! ```
//!
//! In the second state the `Vec` must never reach the global allocator, neither by growing nor by dropping. So `vec` is
//! private to this file; a method that can reallocate is called only in the first state, and [`Drop`] drops `vec` only
//! there. Elements are `Copy`: they need no drop and may be moved as bytes.

use std::alloc::Layout;
use std::fmt;
use std::mem::ManuallyDrop;

use pinned_alloc::{AllocError, Block, Residency};

/// The registered block under a proving vector. Dropping it gives the block back to the allocator it came from.
#[derive(Debug)]
pub struct PinnedBacking {
    block: Block,
}

impl PinnedBacking {
    /// Where the bytes live. Only [`Residency::Pinned`] memory is read by DMA.
    pub fn residency(&self) -> Residency {
        self.block.residency()
    }

    /// The name of the allocator that the block came from.
    pub fn allocator(&self) -> &'static str {
        self.block.origin().name()
    }

    /// Size of the block in bytes.
    pub fn size(&self) -> usize {
        self.block.size()
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }
}

/// A growable vector of plain values over registered memory or the heap.
pub(crate) struct PinnedVec<T: Copy> {
    vec: ManuallyDrop<Vec<T>>,
    backing: Option<PinnedBacking>,
}

impl<T: Copy> PinnedVec<T> {
    /// An empty vector on the heap; nothing is allocated.
    pub(crate) const fn new() -> Self {
        Self { vec: ManuallyDrop::new(Vec::new()), backing: None }
    }

    /// An empty vector on the heap with room for `capacity` elements, or with none if the system refuses that: the
    /// capacity is a guess, and a wrong guess must not end the process.
    pub(crate) fn with_heap_capacity(capacity: usize) -> Self {
        let mut vec = Vec::new();
        // A refusal leaves the vector empty; it grows as it is filled.
        let _ = vec.try_reserve_exact(capacity);
        Self { vec: ManuallyDrop::new(vec), backing: None }
    }

    /// An empty vector over `block`, with as many elements as fit.
    ///
    /// # Panics
    /// If the block is not aligned for its elements (the layouts of [`layout_for`] ask for it).
    pub(crate) fn over(block: Block) -> Self {
        assert!(block.as_ptr().cast::<T>().is_aligned(), "the block is not aligned for its elements");
        let mut this = Self { vec: ManuallyDrop::new(Vec::new()), backing: Some(PinnedBacking { block }) };
        this.view(0);
        this
    }

    /// Makes `vec` a view of the backing with `len` elements, which were written before. On the heap it does nothing.
    fn view(&mut self, len: usize) {
        let Some(PinnedBacking { block }) = &self.backing else { return };
        let capacity = block.size() / size_of::<T>();
        assert!(len <= capacity);
        // SAFETY: the block's `size` bytes are ours alone and initialised, aligned for `T` (checked in `over`; the
        // address never changes), and hold `capacity` elements. `len` is 0 or the length of the previous view of this
        // block, whose bytes stayed. `Vec::from_raw_parts` also asks that the memory came from the global allocator,
        // because the `Vec` could hand it back there: it cannot, since `vec` sits in a `ManuallyDrop` that is dropped,
        // or grown, only while `backing` is `None`.
        let vec = unsafe { Vec::from_raw_parts(block.as_ptr().cast::<T>(), len, capacity) };
        // The previous view is forgotten, not dropped.
        self.vec = ManuallyDrop::new(vec);
    }

    pub(crate) fn len(&self) -> usize {
        self.vec.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.vec.capacity()
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        &self.vec
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.vec
    }

    pub(crate) fn backing(&self) -> Option<&PinnedBacking> {
        self.backing.as_ref()
    }

    /// Appends a value.
    ///
    /// # Panics
    /// If the vector is full: the owner makes room first, since growing is a decision about a whole set.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.vec.len() < self.vec.capacity(), "push into a full vector");
        // There is room, so this does not reallocate, in either state.
        self.vec.push(value);
    }

    /// Appends values.
    ///
    /// # Panics
    /// If they do not fit, as [`push`](Self::push).
    pub(crate) fn extend_from_slice(&mut self, values: &[T]) {
        assert!(values.len() <= self.vec.capacity() - self.vec.len(), "extend beyond the capacity");
        self.vec.extend_from_slice(values);
    }

    /// Appends `value` until there are `len` elements.
    ///
    /// # Panics
    /// If they do not fit, as [`push`](Self::push).
    pub(crate) fn fill_to(&mut self, len: usize, value: T) {
        assert!(len <= self.vec.capacity(), "fill beyond the capacity");
        if len > self.vec.len() {
            self.vec.resize(len, value);
        }
    }

    /// Shortens to `len` elements. Keeps the memory.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.vec.truncate(len);
    }

    /// Makes room for `capacity` elements on the heap.
    ///
    /// # Panics
    /// If the vector is over a block.
    pub(crate) fn reserve_on_heap(&mut self, capacity: usize) {
        assert!(self.backing.is_none(), "a block never reaches the global allocator");
        let len = self.vec.len();
        self.vec.reserve(capacity.saturating_sub(len));
    }

    /// Makes room for `capacity` elements in the block.
    ///
    /// # Errors
    /// The allocator cannot grow this block, or there is no block; nothing has changed.
    pub(crate) fn grow_in_place(&mut self, capacity: usize) -> Result<(), AllocError> {
        let len = self.vec.len();
        let size = layout_for::<T>(capacity)?.size();
        let Some(backing) = self.backing.as_mut() else {
            return Err(AllocError::CannotGrow { size: len * size_of::<T>(), requested: size });
        };
        backing.block.grow(size)?;
        self.view(len);
        Ok(())
    }

    /// Moves the elements into `block` and gives the former memory back.
    ///
    /// # Panics
    /// If the block is too small.
    pub(crate) fn move_to(&mut self, block: Block) {
        let mut moved = Self::over(block);
        moved.extend_from_slice(&self.vec);
        *self = moved;
    }

    /// Moves the elements to the heap, with room for `capacity`, and gives the block back.
    pub(crate) fn move_to_heap(&mut self, capacity: usize) {
        let mut vec = Vec::with_capacity(capacity.max(self.vec.len()));
        vec.extend_from_slice(&self.vec);
        *self = Self { vec: ManuallyDrop::new(vec), backing: None };
    }

    /// Makes the block one region for a device.
    ///
    /// # Errors
    /// The allocator could not; the elements are whole, but the block is pageable.
    pub(crate) fn seal(&mut self) -> Result<(), AllocError> {
        self.backing.as_mut().map_or(Ok(()), |backing| backing.block.seal())
    }

    /// The block, whose memory stays as it is. A vector on the heap is leaked.
    pub(crate) fn into_block(self) -> Option<Block> {
        let mut this = ManuallyDrop::new(self);
        this.backing.take().map(|backing| backing.block)
    }

    /// Gives the memory back, now. The vector is empty afterwards.
    pub(crate) fn release(&mut self) {
        *self = Self::new();
    }
}

impl<T: Copy> Drop for PinnedVec<T> {
    fn drop(&mut self) {
        if self.backing.is_none() {
            // SAFETY: without a backing the vector owns memory of the global allocator, and it is dropped once: `drop`
            // runs once, and every assignment to `vec` either replaces a view or goes through `*self = …`.
            unsafe { ManuallyDrop::drop(&mut self.vec) }
        }
        // With a backing, the block is dropped after this body, and `vec`, a view of it, is forgotten.
    }
}

impl<T: Copy> fmt::Debug for PinnedVec<T> {
    /// The values may be secret: only their number is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedVec").field("len", &self.len()).field("backing", &self.backing).finish()
    }
}

/// The layout of `capacity` elements, in bytes.
pub(crate) fn layout_for<T>(capacity: usize) -> Result<Layout, AllocError> {
    pinned_alloc::array_layout::<T>(capacity)
}
