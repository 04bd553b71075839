//! The pool itself: return, growth, sealing, quarantine and closing.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use pinned_alloc::{AllocError, Cause, Residency};

use super::chunk::Chunk;
use super::config::PoolConfig;
use super::handles::Parked;
use super::state::{Cap, State};
use super::stats::PoolStats;
use super::table::{Phase, Storage, Token};
use super::DrainError;
use crate::memory::backend::{rounded, Backend};
use crate::memory::budget::{saturate, Group};
use crate::memory::sync::{lock, MutexGuard};
use crate::memory::{Deadline, MemoryBudget, KNOB_PINNED_MAX};

/// How often fences that nobody waits for are looked at while something waits for their blocks.
pub(super) const FENCE_POLL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) backend: Box<dyn Backend>,
    pub(super) budget: MemoryBudget,
    pub(super) config: PoolConfig,
    /// This pool in the budget's queue: what waits for the pool's own cap.
    pub(super) group: Group,
    state: Mutex<State>,
    /// Something has come back. For who closes the pool.
    returned: Condvar,
    pub(super) warned: AtomicBool,
    /// The number of this pool among the budget's caches.
    pub(super) own_evictor: OnceLock<u64>,
    /// Who made it.
    process: u32,
}

impl Inner {
    pub(super) fn new(backend: Box<dyn Backend>, budget: MemoryBudget, config: PoolConfig) -> Self {
        let events = PoolStats::new(backend.name(), backend.residency(), backend.numa_node());
        Self {
            group: budget.new_group(),
            backend,
            budget,
            config,
            state: Mutex::new(State::new(events)),
            returned: Condvar::new(),
            warned: AtomicBool::new(false),
            own_evictor: OnceLock::new(),
            process: process::id(),
        }
    }

    /// Refuses a forked child of the process that made the pool: its idle blocks are not mapped there, and a lock may
    /// be held by a thread that does not exist there. So this comes before any of both.
    pub(super) fn check_process(&self, requested: u64) -> Result<(), AllocError> {
        if self.process == process::id() {
            return Ok(());
        }
        let remedy = match self.backend.residency() {
            Residency::Pinned => {
                "CUDA used after fork: the process that forked this one holds the pool; start the prover in the child, or \
                 start children by exec"
            }
            _ => "the process that forked this one holds the pool; start the prover in the child",
        };
        Err(AllocError::Refused {
            requested: saturate(requested),
            cause: Cause::new("check-out after fork", 0, remedy),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn check(&self, state: &State) {
        state.check(self.config.max_bytes);
    }

    /// The most bytes that can ever be mapped, and the setting that says so.
    pub(super) fn limit(&self) -> (u64, &'static str) {
        match self.config.max_bytes {
            Some(max) if max < self.budget.total() => (max, KNOB_PINNED_MAX),
            _ => (self.budget.total(), crate::memory::KNOB_BUDGET),
        }
    }

    pub(super) fn full(&self, requested: u64, available: u64) -> AllocError {
        AllocError::Exhausted {
            requested: saturate(requested),
            available: saturate(available),
            total: saturate(self.config.max_bytes.unwrap_or(u64::MAX)),
            knob: KNOB_PINNED_MAX,
        }
    }

    pub(super) fn stats(&self) -> PoolStats {
        let state = self.state();
        self.check(&state);
        let bytes = state.bytes;
        PoolStats {
            requested_bytes: bytes.requested,
            mapped_bytes: bytes.mapped,
            idle_bytes: bytes.idle,
            out_bytes: bytes.out,
            in_flight_bytes: bytes.in_flight,
            quarantined_bytes: bytes.quarantined,
            changing_bytes: bytes.pending + bytes.leaving,
            peak_bytes: bytes.peak,
            blocks_out: state.table.len(),
            blocks_idle: state.idle.count(),
            slabs: state.slots.slabs(),
            ..state.events.clone()
        }
    }

    /// Unmaps chunks taken off the lists, and tells those who wait. Returns their bytes.
    pub(super) fn unmap(&self, chunks: Vec<Chunk>) -> u64 {
        if chunks.is_empty() {
            return 0;
        }
        let count = chunks.len() as u64;
        let bytes = chunks.iter().map(Chunk::bytes).sum();
        drop(chunks);
        let mut state = self.state();
        state.bytes.leaving -= bytes;
        state.events.trims += count;
        state.events.trimmed_bytes += bytes;
        self.check(&state);
        drop(state);
        self.returned.notify_all();
        self.budget.nudge();
        bytes
    }

    /// Takes blocks back, whatever they were. A token that names nothing is ignored.
    pub(super) fn give_back(&self, tokens: impl Iterator<Item = Token>) {
        let mut state = self.state();
        let mut returned: Vec<(Storage, Phase)> = Vec::new();
        for token in tokens {
            let entry = state.remove(token);
            debug_assert!(entry.is_some(), "a block came back twice");
            let Some(entry) = entry else { continue };
            debug_assert!(
                entry.storage.is_some() || entry.phase == Phase::Quarantined,
                "it came back in use"
            );
            returned.extend(entry.storage.map(|storage| (storage, entry.phase)));
        }
        if self.config.wipe_on_return && !returned.is_empty() {
            drop(state);
            returned.iter_mut().for_each(|(storage, _)| wipe(storage));
            state = self.state();
        }
        let mut unmap = Vec::new();
        for (storage, phase) in returned {
            unmap.extend(state.put_idle(storage, phase));
        }
        if state.closing {
            unmap.extend(state.take_surplus(0));
        }
        self.check(&state);
        drop(state);
        self.unmap(unmap);
        self.budget.nudge();
        self.returned.notify_all();
    }

    /// Lends out the storage of a block that is out, to be changed by its one user with no lock held.
    fn borrow(&self, token: Token) -> Option<Borrowed<'_>> {
        let mut state = self.state();
        let entry = state.table.get_mut(token).filter(|entry| entry.phase == Phase::Out)?;
        let storage = entry.storage.take()?;
        Some(Borrowed { inner: self, token, counted: storage.bytes(), pending: 0, storage: Some(storage) })
    }

    /// Grows a block in place to at least `min_size` bytes; pays without waiting. Returns its new size.
    pub(super) fn grow(&self, token: Token, min_size: usize) -> Result<usize, AllocError> {
        let grown = self.try_grow(token, min_size);
        let mut state = self.state();
        match grown {
            Ok(_) => {
                state.events.growths += 1;
                if let Some(entry) = state.table.get_mut(token) {
                    let before = std::mem::replace(&mut entry.requested, min_size as u64);
                    entry.requested = entry.requested.max(before);
                    let more = entry.requested - before;
                    state.bytes.requested += more;
                }
            }
            Err(_) => state.events.growths_refused += 1,
        }
        grown
    }

    fn try_grow(&self, token: Token, min_size: usize) -> Result<usize, AllocError> {
        let not_ours =
            AllocError::BrokenAllocator { requested: min_size, what: "the block is not checked out" };
        let mut block = self.borrow(token).ok_or(not_ours)?;
        let size = block.storage().size();
        let cannot = AllocError::CannotGrow { size, requested: min_size };
        let Storage::Chunk(chunk) = block.storage() else { return Err(cannot) };
        if min_size <= size {
            return Ok(size);
        }
        let reserved = chunk.reserved();
        let least = rounded(min_size).filter(|least| *least <= reserved).ok_or(cannot)?;
        let generous = rounded(self.config.generous_growth(size, min_size)).unwrap_or(least);
        let generous = generous.min(reserved).max(least);
        let mut grown = block.grow(generous);
        if grown.is_err() && generous > least {
            grown = block.grow(least);
        }
        grown
    }

    /// Counts `extra` bytes as pending under the pool's cap, evicting idle memory for it.
    fn claim(&self, extra: u64) -> Result<(), AllocError> {
        loop {
            let answer = self.state().claim(extra, self.config.max_bytes);
            match answer {
                Cap::Fits => return Ok(()),
                // Each turn unmaps something, so this ends.
                Cap::After(victims) => self.unmap(victims),
                Cap::Full(available) => return Err(self.full(extra, available)),
            };
        }
    }

    /// Makes a block one region for a device.
    pub(super) fn seal(&self, token: Token) -> Result<Residency, AllocError> {
        let mut block = self
            .borrow(token)
            .ok_or(AllocError::BrokenAllocator { requested: 0, what: "the block is not checked out" })?;
        match block.storage() {
            Storage::Chunk(chunk) => chunk.seal(),
            // A slab is registered as one when it is made, and never grows.
            Storage::Slot(slot) => Ok(slot.residency),
        }
    }

    /// Moves blocks between out and in flight.
    pub(super) fn change_phase(&self, tokens: impl Iterator<Item = Token>, from: Phase, to: Phase) {
        let mut state = self.state();
        for token in tokens {
            let changed = state.change_phase(token, from, to);
            debug_assert!(changed.is_some(), "the holder of a block knows its phase");
        }
        self.check(&state);
    }

    /// Takes blocks out of use for good: a device may still access them. They stay mapped, and paid for.
    /// Returns their bytes.
    pub(super) fn quarantine(&self, tokens: impl Iterator<Item = Token>) -> u64 {
        let mut state = self.state();
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for token in tokens {
            let Some(entry) = state.table.get_mut(token) else { continue };
            let phase = std::mem::replace(&mut entry.phase, Phase::Quarantined);
            let Some(storage) = entry.storage.take() else { continue };
            *state.bytes.of(phase) -= storage.bytes();
            state.bytes.quarantined += storage.bytes();
            bytes += storage.bytes();
            match storage {
                Storage::Chunk(chunk) => chunks.push(chunk),
                Storage::Slot(slot) => state.slots.quarantine(slot),
            }
        }
        self.check(&state);
        drop(state);
        for mut chunk in chunks {
            match chunk.unpin() {
                Ok(()) => self.state().quarantine.push(chunk),
                Err(error) => {
                    tracing::error!(bytes = chunk.bytes(), %error, "a quarantined block cannot be unpinned");
                    chunk.leak();
                }
            }
        }
        self.returned.notify_all();
        bytes
    }

    pub(super) fn release_quarantined(&self) -> u64 {
        let mut state = self.state();
        let chunks = std::mem::take(&mut state.quarantine);
        let bytes: u64 = chunks.iter().map(Chunk::bytes).sum();
        state.bytes.quarantined -= bytes;
        state.bytes.mapped -= bytes;
        state.bytes.leaving += bytes;
        drop(state);
        self.unmap(chunks)
    }

    /// Keeps a set whose fence nobody waits for. Hands it back if nobody will look after it either.
    pub(super) fn park(&self, parked: Parked) -> Result<(), Parked> {
        let mut state = self.state();
        if state.closed {
            return Err(parked);
        }
        state.parked_sets += 1;
        state.parked.push(parked);
        Ok(())
    }

    /// Looks at the fences that nobody waits for.
    pub(super) fn reap(&self) {
        let mut state = self.state();
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        if parked.is_empty() {
            return;
        }
        let before = parked.len();
        // Settled sets are returned or quarantined by this.
        let pending: Vec<Parked> = parked.into_iter().filter_map(Parked::settle).collect();
        let mut state = self.state();
        state.parked_sets -= before - pending.len();
        state.parked.extend(pending);
    }

    /// Refuses requests from now on.
    fn close(&self) {
        self.state().closing = true;
        self.budget.nudge_all();
    }

    /// Waits until `done`, looking after fences meanwhile. Returns whether it was done before the deadline.
    fn wait_until(&self, deadline: Deadline, done: impl Fn(&State) -> bool) -> bool {
        loop {
            self.reap();
            let state = self.state();
            if done(&state) {
                return true;
            }
            let now = Instant::now();
            if deadline.passed(now) {
                return false;
            }
            let poll = if state.parked_sets > 0 { FENCE_POLL } else { Duration::from_millis(50) };
            drop(self.returned.wait_timeout(state, deadline.left(now, poll)));
        }
    }

    pub(super) fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let started = Instant::now();
        self.close();
        let drained = self.wait_until(Deadline::after(timeout), |state| {
            state.bytes.out + state.bytes.in_flight + state.bytes.pending == 0
        });
        self.trim_to(0);
        // What another thread is unmapping is paid for until it is done.
        let drained = drained && self.wait_until(Deadline::after(timeout), |state| state.bytes.leaving == 0);
        if drained {
            return Ok(());
        }
        let bytes = self.state().bytes;
        Err(DrainError {
            out_bytes: bytes.out,
            in_flight_bytes: bytes.in_flight,
            waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// The last handle is gone.
    pub(super) fn close_for_good(&self) {
        self.state().closed = true;
        self.close();
        let deadline = Deadline::after(self.config.close_timeout);
        if !self.wait_until(deadline, |state| state.parked_sets == 0) {
            // They hold this pool, so nothing of it is ever unmapped.
            let bytes = self.state().bytes.in_flight;
            tracing::error!(bytes, "a pool was closed with copies in flight; their memory is kept");
        }
        self.trim_to(0);
    }

    /// Whether it is closing, and whether there are fences that nobody waits for.
    pub(super) fn waiting_for(&self) -> (bool, bool) {
        let state = self.state();
        (state.closing, state.parked_sets > 0)
    }

    /// Says that ordinary memory is used, once for each pool.
    pub(super) fn warn_of_fallback(&self, requested: u64, error: &AllocError) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                requested_bytes = requested,
                backend = self.backend.name(),
                %error,
                "no memory from the pool; ordinary memory is used instead (further ones are only counted)"
            );
        }
    }
}

fn wipe(storage: &mut Storage) {
    match storage {
        Storage::Chunk(chunk) => chunk.wipe(),
        Storage::Slot(slot) => {
            // SAFETY: the slot has just been returned and is on no list yet, so its bytes are ours alone.
            unsafe { crate::memory::backend::wipe(slot.first, slot.size) }
        }
    }
}

/// The storage of a block while it is changed. Goes back into the table when dropped, even by a panic: its
/// holder goes on using the memory.
struct Borrowed<'p> {
    inner: &'p Inner,
    token: Token,
    /// Bytes as the counters know them.
    counted: u64,
    /// Bytes counted as pending for a growth under way.
    pending: u64,
    storage: Option<Storage>,
}

impl Borrowed<'_> {
    fn storage(&mut self) -> &mut Storage {
        self.storage.as_mut().expect("it is taken by drop alone")
    }

    /// Grows the chunk to `target` bytes, a rounded size, and returns its size then.
    fn grow(&mut self, target: usize) -> Result<usize, AllocError> {
        let extra = target as u64 - self.counted;
        self.inner.claim(extra)?;
        self.pending = extra;
        let grown = match self.storage() {
            Storage::Chunk(chunk) => chunk.grow(target).map(|()| chunk.size()),
            Storage::Slot(slot) => Err(AllocError::CannotGrow { size: slot.size, requested: target }),
        };
        self.settle(&mut self.inner.state());
        grown
    }

    /// Makes the counters true again, in one step: what was pending is mapped, or is not.
    fn settle(&mut self, state: &mut State) {
        let bytes = self.storage.as_ref().map_or(self.counted, Storage::bytes);
        let grown = bytes - std::mem::replace(&mut self.counted, bytes);
        state.bytes.pending -= std::mem::take(&mut self.pending);
        state.bytes.mapped += grown;
        state.bytes.out += grown;
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        self.settle(&mut state);
        let Some(storage) = self.storage.take() else { return };
        match state.table.get_mut(self.token) {
            Some(entry) => entry.storage = Some(storage),
            // It was freed by another thread while this one used it: the contract is broken, the memory is
            // left alone.
            None => std::mem::forget(storage),
        }
    }
}
