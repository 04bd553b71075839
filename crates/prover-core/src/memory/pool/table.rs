//! Blocks that are out, found by their token.

use std::ptr::NonNull;

use pinned_alloc::Residency;

use super::chunk::Chunk;
use super::slots::Slot;

/// What a block is made of.
#[derive(Debug)]
pub(super) enum Storage {
    Chunk(Chunk),
    Slot(Slot),
}

impl Storage {
    pub(super) fn first(&self) -> NonNull<u8> {
        match self {
            Self::Chunk(chunk) => chunk.first(),
            Self::Slot(slot) => slot.first,
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.size(),
            Self::Slot(slot) => slot.size,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.size() as u64
    }

    pub(super) fn residency(&self) -> Residency {
        match self {
            Self::Chunk(chunk) => chunk.residency(),
            Self::Slot(slot) => slot.residency,
        }
    }
}

/// Where a block that is out stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Out,
    InFlight,
    /// Its storage has gone to the quarantine; the entry waits for its holder to let go.
    Quarantined,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// `None` while it grows or is sealed (its one user does that), and when it is quarantined.
    pub(super) storage: Option<Storage>,
    pub(super) phase: Phase,
    /// Bytes its holder asked for.
    pub(super) requested: u64,
}

/// The name of a block that is out. A place in the table and a count of its uses, so that a token used twice
/// is found out.
pub(super) type Token = usize;

const _: () = assert!(usize::BITS >= 64, "a token holds two 32-bit numbers");

#[derive(Debug, Default)]
struct Place {
    uses: u32,
    entry: Option<Entry>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Table {
    /// Blocks that are out.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, entry: Entry) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 blocks are out at once")
        });
        let place = &mut self.places[index as usize];
        place.entry = Some(entry);
        (place.uses as usize) << 32 | index as usize
    }

    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut Entry> {
        let place = self.places.get_mut(token & u32::MAX as usize)?;
        if place.uses as usize != token >> 32 {
            return None;
        }
        place.entry.as_mut()
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<Entry> {
        self.get_mut(token)?;
        let index = token & u32::MAX as usize;
        let place = &mut self.places[index];
        place.uses = place.uses.wrapping_add(1);
        self.free.push(index as u32);
        place.entry.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_one_block() {
        let entry = || Entry { storage: None, phase: Phase::Out, requested: 1 };
        let mut table = Table::default();
        let first = table.insert(entry());
        let second = table.insert(entry());
        assert_eq!(table.len(), 2);
        assert!(table.remove(first).is_some());
        assert!(table.remove(first).is_none() && table.get_mut(first).is_none());
        let third = table.insert(entry());
        assert_ne!(first, third, "the place is used again, the token is not");
        assert!(table.get_mut(first).is_none() && table.get_mut(third).is_some());
        assert!(table.remove(second).is_some() && table.remove(third).is_some());
        assert_eq!(table.len(), 0);
        assert!(table.remove(usize::MAX).is_none());
    }
}
