//! Small blocks, many to a region, so that a great number of them does not become a great number of mappings
//! (a process has 65530) and page-lock calls.
//!
//! A slab is a chunk cut into slots of one power of two. A slot never grows; it is left for a larger block.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::time::Instant;

use pinned_alloc::Residency;

use super::chunk::Chunk;

/// The largest slot, in bytes.
pub(super) const MAX_SLOT: usize = 64 << 10;
/// The smallest slot, in bytes: a cache line.
pub(super) const MIN_SLOT: usize = 64;

/// A slot that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) slab: usize,
    pub(super) index: u32,
    pub(super) first: NonNull<u8>,
    pub(super) size: usize,
    pub(super) residency: Residency,
}

// SAFETY: a slot is the right to its bytes, like an owned block; only one value of it is out at a time.
unsafe impl Send for Slot {}

#[derive(Debug)]
struct Slab {
    chunk: Chunk,
    slot_size: usize,
    /// Free slots, lowest first out of fresh slabs.
    free: Vec<u32>,
    slots: u32,
    /// Slots that are never used again.
    quarantined: u32,
}

impl Slab {
    fn is_empty(&self) -> bool {
        self.free.len() == self.slots as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    slabs: Vec<Option<Slab>>,
    /// Slabs with a free slot: (slot size, index). The lowest index is used first, so that the others run
    /// empty.
    open: BTreeSet<(usize, usize)>,
    /// Slabs with no slot in use.
    empty: BTreeSet<usize>,
    /// Slots that are out.
    out: usize,
}

/// The slot size for a request, or `None` if it is no small one.
pub(super) fn slot_size(size: usize, align: usize, slab_bytes: usize) -> Option<usize> {
    let slot = size.max(align).max(MIN_SLOT).checked_next_power_of_two()?;
    (slot <= MAX_SLOT && slot <= slab_bytes / 8).then_some(slot)
}

impl Slots {
    pub(super) fn slabs(&self) -> usize {
        self.slabs.iter().flatten().count()
    }

    pub(super) fn take(&mut self, slot_size: usize) -> Option<Slot> {
        let (_, slab) = *self.open.range((slot_size, 0)..=(slot_size, usize::MAX)).next()?;
        let place = self.slabs[slab].as_mut()?;
        let index = place.free.pop()?;
        if place.free.is_empty() {
            self.open.remove(&(slot_size, slab));
        }
        self.empty.remove(&slab);
        self.out += 1;
        place.chunk.mark_dirty();
        // SAFETY: `index < slots` and `slots * slot_size <= chunk.size()`, so the slot lies inside the chunk.
        let first = unsafe { place.chunk.first().add(index as usize * slot_size) };
        Some(Slot { slab, index, first, size: slot_size, residency: place.chunk.residency() })
    }

    /// Takes a slot back.
    pub(super) fn put(&mut self, slot: Slot) {
        self.out -= 1;
        let place = self.slabs[slot.slab].as_mut().expect("a slab with a slot out is not removed");
        place.free.push(slot.index);
        place.chunk.idle_since = Instant::now();
        self.open.insert((place.slot_size, slot.slab));
        if place.is_empty() {
            self.empty.insert(slot.slab);
        }
    }

    /// Never hands the slot out again.
    pub(super) fn quarantine(&mut self, slot: Slot) {
        self.out -= 1;
        self.slabs[slot.slab].as_mut().expect("a slab with a slot out is not removed").quarantined += 1;
    }

    /// Adds a fresh slab.
    pub(super) fn add(&mut self, chunk: Chunk, slot_size: usize) {
        let slots = u32::try_from(chunk.size() / slot_size).unwrap_or(u32::MAX);
        let slab = Slab { chunk, slot_size, free: (0..slots).rev().collect(), slots, quarantined: 0 };
        let index = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        if index == self.slabs.len() {
            self.slabs.push(None);
        }
        self.slabs[index] = Some(slab);
        self.open.insert((slot_size, index));
        self.empty.insert(index);
    }

    /// Removes a slab with no slot in use; with `aged`, one of at most so many bytes that has been so since
    /// then or longer.
    pub(super) fn take_empty(&mut self, aged: Option<(u64, Instant)>) -> Option<Chunk> {
        let old_enough = |index: &usize| {
            self.slabs[*index].as_ref().is_some_and(|slab| {
                aged.is_none_or(|(most, until)| slab.chunk.bytes() <= most && slab.chunk.idle_since <= until)
            })
        };
        // The last one: the first are those that `take` fills up again.
        let index = self.empty.iter().rev().copied().find(old_enough)?;
        self.empty.remove(&index);
        let slab = self.slabs[index].take()?;
        self.open.remove(&(slab.slot_size, index));
        Some(slab.chunk)
    }

    /// Bytes not out and not quarantined, to check the counters with.
    pub(super) fn idle_bytes(&self) -> u64 {
        let idle = |slab: &Slab| {
            slab.chunk.bytes() - (u64::from(slab.slots) - slab.free.len() as u64) * slab.slot_size as u64
        };
        self.slabs.iter().flatten().map(idle).sum()
    }

    /// Bytes of slabs with no slot in use.
    pub(super) fn empty_bytes(&self) -> u64 {
        self.empty.iter().filter_map(|index| self.slabs[*index].as_ref()).map(|slab| slab.chunk.bytes()).sum()
    }

    /// All slabs, when the pool is gone; those with a quarantined slot stay mapped for ever.
    pub(super) fn leak_quarantined(&mut self) {
        for slab in self.slabs.drain(..).flatten() {
            if slab.quarantined > 0 {
                slab.chunk.leak();
            }
        }
    }
}
