//! The free lists: idle chunks by size.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::chunk::Chunk;

/// Idle chunks by exact size; in each list the one returned last is at the back. The back is reused first
/// (its pages are warm in caches), the front is given up first.
#[derive(Debug, Default)]
pub(super) struct Idle {
    by_size: BTreeMap<usize, VecDeque<Chunk>>,
    count: usize,
}

impl Idle {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn put(&mut self, chunk: Chunk) {
        self.count += 1;
        self.by_size.entry(chunk.size()).or_default().push_back(chunk);
    }

    /// Takes the smallest chunk of `size..=largest` bytes that is aligned to `align`: one of exactly `size`
    /// bytes if there is one.
    pub(super) fn take(&mut self, size: usize, largest: usize, align: usize) -> Option<Chunk> {
        let (size, index) = self.by_size.range(size..=largest.max(size)).find_map(|(size, list)| {
            Some((*size, list.iter().rposition(|chunk| chunk.is_aligned_to(align))?))
        })?;
        self.remove(size, index)
    }

    /// Takes a chunk to give up when `bytes` are wanted: the smallest that is enough by itself, else the
    /// largest.
    pub(super) fn take_for_need(&mut self, bytes: u64) -> Option<Chunk> {
        let enough = usize::try_from(bytes).ok().and_then(|size| self.by_size.range(size..).next());
        let size = enough.or_else(|| self.by_size.last_key_value()).map(|(size, _)| *size)?;
        self.remove(size, 0)
    }

    /// Takes the largest chunk of at most `most` bytes, the oldest of that size.
    pub(super) fn take_largest(&mut self, most: u64) -> Option<Chunk> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let size = *self.by_size.range(..=most).next_back()?.0;
        self.remove(size, 0)
    }

    /// As [`take_largest`](Self::take_largest), of those that have lain idle since `until` or longer.
    pub(super) fn take_largest_aged(&mut self, most: u64, until: Instant) -> Option<Chunk> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (size, index) = self.by_size.range(..=most).rev().find_map(|(size, list)| {
            Some((*size, list.iter().position(|chunk| chunk.idle_since <= until)?))
        })?;
        self.remove(size, index)
    }

    fn remove(&mut self, size: usize, index: usize) -> Option<Chunk> {
        let list = self.by_size.get_mut(&size)?;
        let chunk = list.remove(index)?;
        if list.is_empty() {
            self.by_size.remove(&size);
        }
        self.count -= 1;
        Some(chunk)
    }

    /// The sum over all lists, to check the counters with.
    pub(super) fn bytes(&self) -> u64 {
        self.by_size.iter().map(|(size, list)| *size as u64 * list.len() as u64).sum()
    }
}
