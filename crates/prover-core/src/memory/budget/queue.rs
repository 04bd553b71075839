//! The numbers of a budget and the queue of those who wait. All of it runs under the budget's lock; none of
//! it blocks.

use std::collections::BTreeMap;

use super::{BudgetStats, Group, Priority, NO_GROUP};
use crate::memory::sync::{Arc, Condvar};

/// A place in the queue: highest priority first, then in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    rank: u8,
    seq: u64,
}

pub(super) struct Waiter {
    bytes: u64,
    group: Group,
    /// Waits for something else than room: keeps its place, lets others pass.
    dormant: bool,
    /// There is something new to look at since its owner last slept.
    nudged: bool,
    wake: Arc<Condvar>,
}

pub(super) struct Queue {
    stats: BudgetStats,
    next_id: u64,
    waiting: BTreeMap<Key, Waiter>,
    /// Served, but the owner has not yet taken its bytes. They count as used.
    granted: BTreeMap<Key, Waiter>,
    /// The first that waits for room, as of the last [`advance`](Self::advance).
    head: Option<Key>,
}

impl Queue {
    pub(super) fn new(total: u64) -> Self {
        Self {
            stats: BudgetStats { total, ..BudgetStats::default() },
            next_id: 1,
            waiting: BTreeMap::new(),
            granted: BTreeMap::new(),
            head: None,
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.stats.used
    }

    pub(super) fn available(&self) -> u64 {
        self.stats.total - self.stats.used
    }

    pub(super) fn stats(&self) -> BudgetStats {
        BudgetStats { waiting: self.waiting.len(), ..self.stats }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(super) fn count_refused(&mut self) {
        self.stats.refused += 1;
    }

    pub(super) fn count_eviction(&mut self, bytes: u64) {
        self.stats.evictions += 1;
        self.stats.evicted_bytes = self.stats.evicted_bytes.saturating_add(bytes);
    }

    /// Takes `bytes` if there is room. The caller has seen to the order.
    pub(super) fn try_take(&mut self, bytes: u64) -> bool {
        let fits = self.try_extend(bytes);
        self.stats.granted += u64::from(fits);
        fits
    }

    /// As [`try_take`](Self::try_take), for one that has been granted something already.
    pub(super) fn try_extend(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.available();
        if fits {
            self.stats.used += bytes;
            self.stats.peak = self.stats.peak.max(self.stats.used);
        }
        fits
    }

    /// Gives `bytes` back and serves those who now fit.
    pub(super) fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.stats.used, "{bytes} bytes released of {}", self.stats.used);
        self.stats.used = self.stats.used.saturating_sub(bytes);
        self.advance();
    }

    /// Whether a newcomer would overtake nobody.
    pub(super) fn is_clear(&self, priority: Priority, group: Group) -> bool {
        self.is_turn(Key { rank: rank(priority), seq: u64::MAX }, group)
    }

    /// Whether nobody before `key` stands in the way: all of them are dormant and of other groups.
    fn is_turn(&self, key: Key, group: Group) -> bool {
        let mut open = OpenTo::default();
        self.waiting.range(..key).all(|(_, w)| open.passes(w) && !(group != NO_GROUP && w.group == group))
    }

    pub(super) fn is_turn_of(&self, key: Key) -> bool {
        self.waiting.get(&key).is_some_and(|waiter| self.is_turn(key, waiter.group))
    }

    pub(super) fn enqueue(&mut self, bytes: u64, priority: Priority, group: Group) -> Key {
        let key = Key { rank: rank(priority), seq: self.next_id() };
        self.waiting.insert(key, Waiter::new(bytes, group));
        self.advance();
        self.stats.waited += u64::from(self.waiting.contains_key(&key));
        key
    }

    /// Changes what the ticket at `key` asks for, in its place. A granted one goes back to waiting if it asks
    /// for more than there is room for. A dormant one is awake again.
    pub(super) fn resize(&mut self, key: Key, bytes: u64) {
        if let Some(mut waiter) = self.granted.remove(&key) {
            self.stats.used -= waiter.bytes;
            self.stats.granted -= 1;
            waiter.bytes = bytes;
            self.waiting.insert(key, waiter);
        } else if let Some(waiter) = self.waiting.get_mut(&key) {
            waiter.bytes = bytes;
            waiter.dormant = false;
        }
        self.advance();
    }

    /// Keeps the place of `key` but lets others pass until the next [`resize`](Self::resize). What was
    /// granted to it is given back.
    pub(super) fn sleep(&mut self, key: Key) {
        if let Some(waiter) = self.granted.remove(&key) {
            self.stats.used -= waiter.bytes;
            self.stats.granted -= 1;
            self.waiting.insert(key, waiter);
        }
        if let Some(waiter) = self.waiting.get_mut(&key) {
            waiter.dormant = true;
        }
        self.advance();
    }

    /// Takes what was granted to `key`, in bytes.
    pub(super) fn take(&mut self, key: Key) -> Option<u64> {
        self.granted.remove(&key).map(|waiter| waiter.bytes)
    }

    pub(super) fn is_granted(&self, key: Key) -> bool {
        self.granted.contains_key(&key)
    }

    /// What `key` asks for beyond what is there, in bytes.
    pub(super) fn short_of(&self, key: Key) -> u64 {
        self.waiting.get(&key).map_or(0, |waiter| waiter.bytes.saturating_sub(self.available()))
    }

    /// Removes `key`; what was granted to it is given back.
    pub(super) fn cancel(&mut self, key: Key) {
        if let Some(waiter) = self.granted.remove(&key) {
            self.stats.granted -= 1;
            self.release(waiter.bytes);
        } else if self.waiting.remove(&key).is_some() {
            self.advance();
        }
    }

    pub(super) fn count_timed_out(&mut self) {
        self.stats.timed_out += 1;
    }

    /// Takes the mark that something has happened. What is granted counts as such.
    pub(super) fn take_nudge(&mut self, key: Key) -> bool {
        self.waiting.get_mut(&key).is_none_or(|waiter| std::mem::take(&mut waiter.nudged))
    }

    pub(super) fn condvar(&self, key: Key) -> Option<Arc<Condvar>> {
        self.waiting.get(&key).map(|waiter| waiter.wake.clone())
    }

    /// Wakes the head and the dormant.
    pub(super) fn nudge(&mut self) {
        for (key, waiter) in &mut self.waiting {
            if waiter.dormant || self.head == Some(*key) {
                waiter.nudge();
            }
        }
    }

    /// As [`nudge`](Self::nudge), but not `own`, which knows already.
    pub(super) fn nudge_others(&mut self, own: Key) {
        for (key, waiter) in &mut self.waiting {
            if *key != own && (waiter.dormant || self.head == Some(*key)) {
                waiter.nudge();
            }
        }
    }

    pub(super) fn nudge_all(&mut self) {
        self.waiting.values_mut().for_each(Waiter::nudge);
    }

    /// Serves whoever is next and fits, in order, until one does not fit. A new head is woken, so that it
    /// evicts.
    fn advance(&mut self) {
        let mut open = OpenTo::default();
        let mut served = Vec::new();
        let mut room = self.available();
        let mut head = None;
        for (key, waiter) in &self.waiting {
            if open.passes(waiter) {
                continue;
            }
            if waiter.bytes > room {
                head = Some(*key);
                break;
            }
            room -= waiter.bytes;
            served.push(*key);
        }
        for key in served {
            let waiter = self.waiting.remove(&key).expect("it was just seen in the queue");
            let fits = self.try_take(waiter.bytes);
            debug_assert!(fits, "the sum was checked above");
            waiter.wake.notify_one();
            self.granted.insert(key, waiter);
        }
        if self.head != head {
            self.head = head;
            if let Some(waiter) = head.and_then(|key| self.waiting.get_mut(&key)) {
                waiter.nudge();
            }
        }
    }
}

impl Waiter {
    fn new(bytes: u64, group: Group) -> Self {
        Self { bytes, group, dormant: false, nudged: false, wake: Arc::new(Condvar::new()) }
    }

    fn nudge(&mut self) {
        self.nudged = true;
        self.wake.notify_one();
    }
}

/// Walks the queue in order and says who lets those behind pass: the dormant, and who stands behind a dormant
/// one of the same group.
#[derive(Default)]
struct OpenTo {
    dormant_groups: Vec<Group>,
}

impl OpenTo {
    fn passes(&mut self, waiter: &Waiter) -> bool {
        if waiter.dormant && waiter.group != NO_GROUP && !self.dormant_groups.contains(&waiter.group) {
            self.dormant_groups.push(waiter.group);
        }
        waiter.dormant || self.dormant_groups.contains(&waiter.group)
    }
}

fn rank(Priority(priority): Priority) -> u8 {
    u8::MAX - priority
}
