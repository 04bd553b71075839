//! Everything under the pool's lock. Nothing here blocks, maps, unmaps or logs; what is to be unmapped is
//! handed out.

use std::time::Instant;

use super::chunk::Chunk;
use super::handles::Parked;
use super::idle::Idle;
use super::slots::Slots;
use super::stats::PoolStats;
use super::table::{Entry, Phase, Storage, Table};

/// Byte counts. A block is in one of the four; `mapped` is kept apart, so that the two can be compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    pub(super) mapped: u64,
    pub(super) idle: u64,
    pub(super) out: u64,
    pub(super) in_flight: u64,
    pub(super) quarantined: u64,
    /// Spoken for by check-outs and growths that are mapping right now.
    pub(super) pending: u64,
    /// Taken off the lists, not yet unmapped.
    pub(super) leaving: u64,
    /// What the holders asked for.
    pub(super) requested: u64,
    pub(super) peak: u64,
}

impl Bytes {
    /// All that is mapped, or may be at this moment.
    pub(super) fn at_most_mapped(&self) -> u64 {
        self.mapped + self.pending + self.leaving
    }

    pub(super) fn of(&mut self, phase: Phase) -> &mut u64 {
        match phase {
            Phase::Out => &mut self.out,
            Phase::InFlight => &mut self.in_flight,
            Phase::Quarantined => &mut self.quarantined,
        }
    }
}

/// Whether more may be mapped under the pool's own cap.
pub(super) enum Cap {
    /// Yes; the bytes are counted as pending.
    Fits,
    /// When these are unmapped; ask again then.
    After(Vec<Chunk>),
    /// No: so many bytes could be.
    Full(u64),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) bytes: Bytes,
    pub(super) idle: Idle,
    pub(super) slots: Slots,
    pub(super) table: Table,
    /// Unpinned, never used again.
    pub(super) quarantine: Vec<Chunk>,
    /// In flight with nobody waiting for them.
    pub(super) parked: Vec<Parked>,
    /// Sets in `parked`, or taken from it to be looked at.
    pub(super) parked_sets: usize,
    /// Counts what has come to lie idle, so that a check-out sees that there is more than when it looked.
    pub(super) returns: u64,
    /// No more check-outs; what comes back is unmapped.
    pub(super) closing: bool,
    /// The last handle is gone: nobody looks after parked sets any more.
    pub(super) closed: bool,
    pub(super) last_check_out: Instant,
    /// Bytes of the largest set so far.
    pub(super) largest_set: u64,
    /// Only the event counters of it are used.
    pub(super) events: PoolStats,
}

impl State {
    pub(super) fn new(events: PoolStats) -> Self {
        Self {
            bytes: Bytes::default(),
            idle: Idle::default(),
            slots: Slots::default(),
            table: Table::default(),
            quarantine: Vec::new(),
            parked: Vec::new(),
            parked_sets: 0,
            returns: 0,
            closing: false,
            closed: false,
            last_check_out: Instant::now(),
            largest_set: 0,
            events,
        }
    }

    /// The law of conservation. A no-op in release builds.
    pub(super) fn check(&self, cap: Option<u64>) {
        if cfg!(debug_assertions) {
            let bytes = &self.bytes;
            assert_eq!(
                bytes.mapped,
                bytes.idle + bytes.out + bytes.in_flight + bytes.quarantined,
                "{bytes:?}"
            );
            assert!(bytes.at_most_mapped() <= cap.unwrap_or(u64::MAX), "{bytes:?}");
            // The lists themselves, as long as that is cheap.
            if self.idle.count() + self.slots.slabs() <= 64 {
                assert_eq!(bytes.idle, self.idle.bytes() + self.slots.idle_bytes(), "{bytes:?}");
            }
        }
    }

    /// Asks to map `extra` bytes more.
    pub(super) fn claim(&mut self, extra: u64, cap: Option<u64>) -> Cap {
        let cap = cap.unwrap_or(u64::MAX);
        let over = self.bytes.at_most_mapped().saturating_add(extra).saturating_sub(cap);
        if over == 0 {
            self.bytes.pending += extra;
            self.bytes.peak = self.bytes.peak.max(self.bytes.at_most_mapped());
            return Cap::Fits;
        }
        let evictable = self.evictable();
        if evictable < over {
            return Cap::Full(cap.saturating_sub(self.bytes.at_most_mapped()) + evictable);
        }
        Cap::After(self.take_victims(over))
    }

    /// Bytes that could be unmapped now.
    pub(super) fn evictable(&self) -> u64 {
        self.idle.bytes() + self.slots.empty_bytes()
    }

    /// Takes idle regions of at least `need` bytes together, or all there are, off the lists, to be unmapped.
    pub(super) fn take_victims(&mut self, need: u64) -> Vec<Chunk> {
        let mut victims = Vec::new();
        let mut freed = 0;
        while freed < need {
            let left = need - freed;
            let Some(chunk) = self.idle.take_for_need(left).or_else(|| self.slots.take_empty(None)) else {
                break;
            };
            freed += chunk.bytes();
            victims.push(chunk);
        }
        self.leave(&victims);
        victims
    }

    /// Takes idle regions off the lists, the largest first and slabs last, until at most `keep` bytes lie
    /// idle.
    pub(super) fn take_surplus(&mut self, keep: u64) -> Vec<Chunk> {
        let mut victims = Vec::new();
        let mut idle = self.bytes.idle;
        while idle > keep {
            let next = self.idle.take_largest(u64::MAX).or_else(|| self.slots.take_empty(None));
            let Some(chunk) = next else { break };
            idle -= chunk.bytes();
            victims.push(chunk);
        }
        self.leave(&victims);
        victims
    }

    /// Takes regions off the lists that have lain idle since `until` or longer, the largest first and slabs
    /// last, as long as at least `keep` bytes stay idle.
    pub(super) fn take_aged(&mut self, keep: u64, until: Instant) -> Vec<Chunk> {
        let mut victims = Vec::new();
        let mut surplus = self.bytes.idle.saturating_sub(keep);
        while let Some(chunk) = self.idle.take_largest_aged(surplus, until) {
            surplus -= chunk.bytes();
            victims.push(chunk);
        }
        while let Some(chunk) = self.slots.take_empty(Some((surplus, until))) {
            surplus -= chunk.bytes();
            victims.push(chunk);
        }
        self.leave(&victims);
        victims
    }

    fn leave(&mut self, victims: &[Chunk]) {
        let freed: u64 = victims.iter().map(Chunk::bytes).sum();
        self.bytes.idle -= freed;
        self.bytes.mapped -= freed;
        self.bytes.leaving += freed;
    }

    /// Counts idle storage as out.
    pub(super) fn checked_out(&mut self, storage: &Storage) {
        self.bytes.idle -= storage.bytes();
        self.bytes.out += storage.bytes();
    }

    /// Puts storage that was counted under `phase` on the lists. A chunk of a closing pool is handed back, to
    /// be unmapped.
    #[must_use = "what is handed back must be unmapped"]
    pub(super) fn put_idle(&mut self, storage: Storage, phase: Phase) -> Option<Chunk> {
        *self.bytes.of(phase) -= storage.bytes();
        self.bytes.idle += storage.bytes();
        self.returns += 1;
        match storage {
            Storage::Slot(slot) => {
                self.slots.put(slot);
                None
            }
            Storage::Chunk(mut chunk) => {
                if self.closing {
                    self.leave(std::slice::from_ref(&chunk));
                    return Some(chunk);
                }
                chunk.idle_since = Instant::now();
                self.idle.put(chunk);
                None
            }
        }
    }

    /// Moves a block between out and in flight. `None` if it is not in phase `from`, or its storage is in
    /// use.
    pub(super) fn change_phase(&mut self, token: usize, from: Phase, to: Phase) -> Option<()> {
        let entry = self.table.get_mut(token).filter(|entry| entry.phase == from)?;
        let bytes = entry.storage.as_ref()?.bytes();
        entry.phase = to;
        *self.bytes.of(from) -= bytes;
        *self.bytes.of(to) += bytes;
        Some(())
    }

    /// Removes a block from the table.
    pub(super) fn remove(&mut self, token: usize) -> Option<Entry> {
        let entry = self.table.remove(token)?;
        self.bytes.requested -= entry.requested;
        Some(entry)
    }

    /// Adds a block that is out to the table.
    pub(super) fn insert_out(&mut self, storage: Storage, requested: u64) -> usize {
        self.bytes.requested += requested;
        self.table.insert(Entry { storage: Some(storage), phase: Phase::Out, requested })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // A device may still be at them: their memory is never anybody else's.
        self.quarantine.drain(..).for_each(Chunk::leak);
        self.slots.leak_quarantined();
    }
}
