//! The check-out of a set: a transaction, and the wait for room.
//!
//! ```text
//!   take what lies idle ─► claim under the pool's cap ─► pay the budget, once ─► map, fault, pin ─► publish
//!          │                        │                          │                        │
//!          └── put back ◄───────────┴── give the claim back ◄──┴── give the money back ◄┴── unmap
//! ```
//! Each arrow back is the drop of what the step before has made, so a panic of a backend takes them too.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::time::Instant;

use pinned_alloc::{AllocError, Residency};

use super::chunk::Chunk;
use super::config::Exhaustion;
use super::inner::{Inner, FENCE_POLL};
use super::slots::{self, MAX_SLOT};
use super::state::{Cap, State};
use super::table::{Phase, Storage, Token};
use crate::memory::backend::{rounded, Region};
use crate::memory::budget::{saturate, Event, Ticket};
use crate::memory::{Deadline, Priority, Reservation, KNOB_WAIT};

/// A block that has been checked out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) token: Token,
    pub(super) first: NonNull<u8>,
    /// Usable bytes.
    pub(super) size: usize,
    pub(super) residency: Residency,
}

/// One block that is wanted.
#[derive(Clone, Copy, Debug)]
struct Want {
    requested: u64,
    align: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A region of its own, of this many bytes.
    Chunk(usize),
    /// A slot of this many bytes.
    Slot(usize),
}

/// A set that is wanted.
#[derive(Debug)]
struct Plan {
    wants: Vec<Want>,
    slab_bytes: usize,
    /// Bytes to map if nothing lies idle.
    need: u64,
    /// Bytes asked for.
    requested: u64,
}

impl Plan {
    /// # Errors
    /// The caller's own mistakes: no bytes, or more than an address space holds.
    fn new(layouts: &[Layout], slab_bytes: usize) -> Result<Self, AllocError> {
        if layouts.is_empty() {
            return Err(AllocError::ZeroSize);
        }
        let mut wants = Vec::with_capacity(layouts.len());
        let mut requested = 0u64;
        for layout in layouts {
            let (size, align) = (layout.size(), layout.align());
            let overflow = AllocError::CapacityOverflow { count: size, element_size: 1 };
            if size == 0 {
                return Err(AllocError::ZeroSize);
            }
            let kind = match slots::slot_size(size, align, slab_bytes) {
                Some(slot) => Kind::Slot(slot),
                None => Kind::Chunk(rounded(size).ok_or(overflow.clone())?),
            };
            requested = requested.checked_add(size as u64).ok_or(overflow)?;
            wants.push(Want { requested: size as u64, align, kind });
        }
        let mut plan = Self { wants, slab_bytes, need: 0, requested };
        plan.need = plan.missing(&[]);
        Ok(plan)
    }

    /// Bytes to map beyond what is there already; what `got` does not reach counts as missing.
    fn missing(&self, got: &[Option<Storage>]) -> u64 {
        let absent = self.absent(got);
        let chunks = absent.iter().map(|want| match want.kind {
            Kind::Chunk(size) => size as u64,
            Kind::Slot(_) => 0,
        });
        let slabs: usize = self.slabs_for(&absent).iter().map(|(_, slabs)| slabs).sum();
        chunks
            .fold(0, u64::saturating_add)
            .saturating_add((slabs as u64).saturating_mul(self.slab_bytes as u64))
    }

    fn absent(&self, got: &[Option<Storage>]) -> Vec<Want> {
        let is_absent = |index: usize| got.get(index).is_none_or(Option::is_none);
        self.wants.iter().enumerate().filter(|(index, _)| is_absent(*index)).map(|(_, want)| *want).collect()
    }

    /// How many new slabs of which slot size the absent slots need.
    fn slabs_for(&self, absent: &[Want]) -> Vec<(usize, usize)> {
        let mut slots: Vec<(usize, usize)> = Vec::new();
        for want in absent {
            if let Kind::Slot(size) = want.kind {
                match slots.iter_mut().find(|(known, _)| *known == size) {
                    Some((_, count)) => *count += 1,
                    None => slots.push((size, 1)),
                }
            }
        }
        slots.iter_mut().for_each(|(size, count)| *count = count.div_ceil(self.slab_bytes / *size));
        slots
    }
}

/// Why an attempt came to nothing.
enum Blocked {
    /// No room in the budget now.
    Room(AllocError),
    /// No room under the pool's own cap now: only blocks that come back help.
    Cap(AllocError),
    /// Something came to lie idle meanwhile: look again.
    Again(AllocError),
    /// Waiting will not help.
    Final(AllocError),
}

/// How often an attempt looks again before it lets its caller wait.
const MAX_LOOKS: usize = 16;

impl Blocked {
    fn into_error(self) -> AllocError {
        match self {
            Self::Room(error) | Self::Cap(error) | Self::Again(error) | Self::Final(error) => error,
        }
    }
}

impl From<AllocError> for Blocked {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::Exhausted { .. } => Self::Room(error),
            _ => Self::Final(error),
        }
    }
}

/// Which idle blocks will do.
#[derive(Clone, Copy, Debug)]
enum Fit {
    /// The smallest that is large enough, within the bound on waste.
    Best,
    Exact,
}

/// How to pay.
enum Payment<'t> {
    /// What is there now, if nobody of this priority or a higher one waits.
    Now(Priority),
    /// From a place in the queue.
    Queued(&'t mut Ticket),
}

impl Payment<'_> {
    /// # Errors
    /// How many bytes are missing; 0 if it is not for lack of room.
    fn take(&mut self, pool: &Inner, bytes: u64) -> Result<Reservation, u64> {
        match self {
            Self::Now(priority) => pool.budget.try_now(bytes, *priority, pool.group),
            Self::Queued(ticket) => {
                ticket.resize(bytes);
                ticket.take().ok_or_else(|| ticket.short_of())
            }
        }
    }
}

/// On which terms a set is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Terms {
    /// The pool's policy.
    Policy,
    /// Larger blocks for vectors of a set that is out already. They do not wait: the asker holds what others
    /// wait for, and two such would wait for each other. For the same reason they pass the queue, as growth
    /// in place does.
    Move,
}

impl Inner {
    /// Checks a set out.
    pub(super) fn acquire(&self, layouts: &[Layout], terms: Terms) -> Result<Vec<Lease>, AllocError> {
        let plan = self.plan(layouts)?;
        self.check_process(plan.requested)?;
        let priority = match terms {
            Terms::Policy => self.config.priority,
            Terms::Move => self.config.priority.max(Priority::HIGH),
        };
        let blocked = if self.budget.is_clear(priority, self.group) {
            match self.attempt(&plan, &mut Payment::Now(priority)) {
                Ok(leases) => return Ok(leases),
                Err(blocked) => blocked,
            }
        } else {
            Blocked::Room(self.no_turn(&plan))
        };
        let result = match (blocked, self.config.exhaustion, terms) {
            (Blocked::Final(error), ..) => Err(error),
            // One of rayon's threads may have picked this up while a proof below it on the same stack waits for its
            // own parallel work: it would wait for memory that only it can give back.
            (_, Exhaustion::Wait(wait), Terms::Policy) if rayon::current_thread_index().is_none() => {
                self.wait_for(&plan, Deadline::after(wait))
            }
            (blocked, ..) => Err(blocked.into_error()),
        };
        result.inspect_err(|error| self.refused(&plan, error))
    }

    fn plan(&self, layouts: &[Layout]) -> Result<Plan, AllocError> {
        let slab_bytes = rounded(self.config.slab_bytes.max(1)).unwrap_or(0);
        let slab_bytes = if self.config.slab_bytes == 0 { 0 } else { slab_bytes };
        let (limit, knob) = self.limit();
        let mut plan = Plan::new(layouts, slab_bytes)?;
        if plan.need > limit && slab_bytes > 0 {
            // A budget too small for a slab may still have room for a page.
            plan = Plan::new(layouts, 0)?;
        }
        if plan.need > limit {
            let error = AllocError::TooLarge { requested: saturate(plan.need), limit: saturate(limit), knob };
            self.refused(&plan, &error);
            return Err(error);
        }
        Ok(plan)
    }

    fn refused(&self, plan: &Plan, error: &AllocError) {
        let falls_back = self.config.exhaustion == Exhaustion::Heap;
        let mut state = self.state();
        if falls_back {
            state.events.fallbacks += 1;
        } else {
            state.events.refusals += 1;
        }
        drop(state);
        if falls_back {
            self.warn_of_fallback(plan.requested, error);
        }
    }

    fn no_turn(&self, plan: &Plan) -> AllocError {
        let (total, knob) = self.limit();
        AllocError::Exhausted {
            requested: saturate(plan.need),
            available: saturate(self.budget.available()),
            total: saturate(total),
            knob,
        }
    }

    /// Waits in the budget's queue. Idle blocks are looked at again whenever one comes back, and are not held
    /// meanwhile.
    fn wait_for(&self, plan: &Plan, deadline: Deadline) -> Result<Vec<Lease>, AllocError> {
        let started = Instant::now();
        let mut ticket = self.budget.enqueue(plan.need, self.config.priority, self.group)?;
        let result = loop {
            // Whoever's turn it is, what has landed may serve them.
            self.reap();
            let (closing, fences) = self.waiting_for();
            if closing {
                break Err(AllocError::ShuttingDown);
            }
            if ticket.is_turn() {
                match self.attempt(plan, &mut Payment::Queued(&mut ticket)) {
                    Ok(leases) => break Ok(leases),
                    Err(Blocked::Final(error)) => break Err(error),
                    Err(Blocked::Room(_) | Blocked::Again(_)) => {}
                    Err(Blocked::Cap(_)) => ticket.sleep(),
                }
                // Whoever looked while this attempt held idle blocks did not see them.
                ticket.nudge_others();
            }
            // A fence wakes nobody; it has to be asked.
            let until = if fences { deadline.or_after(FENCE_POLL) } else { deadline };
            if ticket.wait(until) == Event::TimedOut && deadline.passed(Instant::now()) {
                break Err(AllocError::TimedOut {
                    requested: saturate(plan.need),
                    waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                    knob: KNOB_WAIT,
                });
            }
        };
        drop(ticket);
        let mut state = self.state();
        state.events.waits += 1;
        state.events.waited_ms += u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        result
    }

    /// One attempt, without sleeping.
    fn attempt(&self, plan: &Plan, payment: &mut Payment<'_>) -> Result<Vec<Lease>, Blocked> {
        self.reap();
        let mut looks = 0;
        loop {
            let mut result = self.attempt_with(plan, payment, Fit::Best);
            if let Err(Blocked::Room(_) | Blocked::Cap(_)) = result {
                // Idle blocks that are a little too large may be just what fills the budget: evict them
                // instead.
                result = self.attempt_with(plan, payment, Fit::Exact);
            }
            looks += 1;
            match result {
                Err(Blocked::Again(_)) if looks < MAX_LOOKS => continue,
                result => return result,
            }
        }
    }

    fn attempt_with(&self, plan: &Plan, payment: &mut Payment<'_>, fit: Fit) -> Result<Vec<Lease>, Blocked> {
        let mut take = self.take_idle(plan, fit, matches!(payment, Payment::Now(_)))?;
        if take.claimed > 0 {
            let mut money = self.pay(take.claimed, take.seen, payment)?;
            let absent = plan.absent(&take.got);
            let sizes: Vec<(usize, usize)> = absent
                .iter()
                .filter_map(|want| match want.kind {
                    Kind::Chunk(size) => Some((size, want.align)),
                    Kind::Slot(_) => None,
                })
                .collect();
            for (region, (size, align)) in self.map_all(&sizes)?.into_iter().zip(&sizes) {
                take.chunks.push(self.own(region, *size, *align, &mut money)?);
            }
            for (slot_size, count) in plan.slabs_for(&absent) {
                for _ in 0..count {
                    let region = self.map(plan.slab_bytes, MAX_SLOT, 0)?;
                    take.slabs.push((self.own(region, plan.slab_bytes, MAX_SLOT, &mut money)?, slot_size));
                }
            }
        }
        take.publish(plan).map_err(Blocked::Final)
    }

    /// Takes what lies idle and claims the rest under the cap.
    fn take_idle(&self, plan: &Plan, fit: Fit, nudge: bool) -> Result<Take<'_>, Blocked> {
        loop {
            let mut state = self.state();
            if state.closing {
                return Err(Blocked::Final(AllocError::ShuttingDown));
            }
            let got: Vec<Option<Storage>> =
                plan.wants.iter().map(|want| self.find(&mut state, want, fit)).collect();
            let missing = plan.missing(&got);
            let seen = state.returns;
            let answer = match missing {
                0 => Cap::Fits,
                _ => state.claim(missing, self.config.max_bytes),
            };
            self.check(&state);
            let mut take =
                Take { inner: self, got, claimed: 0, seen, chunks: Vec::new(), slabs: Vec::new(), nudge };
            match answer {
                Cap::Fits => {
                    take.claimed = missing;
                    return Ok(take);
                }
                Cap::After(victims) => {
                    drop(state);
                    // They go before anything new comes; what was taken goes back on the lists until then.
                    take.nudge = false;
                    drop(take);
                    self.unmap(victims);
                }
                Cap::Full(available) => {
                    drop(state);
                    drop(take);
                    return Err(Blocked::Cap(self.full(missing, available)));
                }
            }
        }
    }

    fn find(&self, state: &mut State, want: &Want, fit: Fit) -> Option<Storage> {
        let storage = match want.kind {
            Kind::Chunk(size) => {
                let largest = match fit {
                    Fit::Best => self.config.largest_for(size),
                    Fit::Exact => size,
                };
                Storage::Chunk(state.idle.take(size, largest, want.align)?)
            }
            Kind::Slot(size) => Storage::Slot(state.slots.take(size)?),
        };
        state.checked_out(&storage);
        Some(storage)
    }

    /// Reserves `missing` bytes in the budget, evicting for it what lies idle here and elsewhere. Nothing of
    /// the pool is evicted that was not there at the look (`seen`) that found it useless for this set.
    fn pay(&self, missing: u64, seen: u64, payment: &mut Payment<'_>) -> Result<Reservation, Blocked> {
        let short = match payment.take(self, missing) {
            Ok(money) => return Ok(money),
            Err(0) => return Err(Blocked::Room(self.budget.lack(missing))),
            Err(short) => short,
        };
        let own = self.own_evictor.get().copied();
        let mut state = self.state();
        if state.returns != seen {
            drop(state);
            return Err(Blocked::Again(self.budget.lack(missing)));
        }
        let evictable = state.evictable();
        // Who waits takes what there is; who does not, all that is lacking or nothing.
        let all_or_nothing = matches!(payment, Payment::Now(_)) && evictable < short;
        if all_or_nothing {
            drop(state);
            if evictable.saturating_add(self.budget.evictable_but(own)) < short {
                return Err(Blocked::Room(self.budget.lack(missing)));
            }
            state = self.state();
        }
        let victims = state.take_victims(short);
        drop(state);
        let freed = self.unmap(victims);
        self.budget.evict_but(short.saturating_sub(freed), own);
        payment.take(self, missing).map_err(|_| Blocked::Room(self.budget.lack(missing)))
    }

    /// Maps regions of these sizes and alignments, all or none. Large ones side by side: while one is registered with a
    /// device, which takes one thread, the next is faulted in by the others.
    fn map_all(&self, sizes: &[(usize, usize)]) -> Result<Vec<Box<dyn Region>>, AllocError> {
        /// Below, threads cost more than they save. Bytes.
        const LARGE: usize = 256 << 20;
        let map = |&(size, align): &(usize, usize)| self.map(size, align, self.config.reserve_for(size));
        let total = sizes.iter().fold(0, |sum: usize, (size, _)| sum.saturating_add(*size));
        if sizes.len() < 2 || total < LARGE {
            return sizes.iter().map(map).collect();
        }
        std::thread::scope(|scope| {
            let start = |size| {
                let thread = std::thread::Builder::new().name("memory".into());
                // Without a thread to be had it is done later, here.
                (size, thread.spawn_scoped(scope, move || map(size)).ok())
            };
            let started: Vec<_> = sizes.iter().map(start).collect();
            let mapped = started.into_iter().map(|(size, thread)| match thread.map(|thread| thread.join()) {
                Some(Ok(mapped)) => mapped,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => map(size),
            });
            // All are waited for. Those that were refused while others had the idle memory are asked for once more.
            let mapped: Vec<_> = mapped.collect();
            let again = |(mapped, size)| match mapped {
                Err(AllocError::Refused { .. }) => map(size),
                mapped => mapped,
            };
            mapped.into_iter().zip(sizes).map(again).collect()
        })
    }

    /// Maps a region of `size` bytes, a rounded size. If the system refuses while memory lies idle, that is given back and the
    /// system asked once more.
    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        match self.backend.map(size, align, reserve) {
            Err(AllocError::Refused { .. }) if self.trim_to(0) > 0 => self.backend.map(size, align, reserve),
            answer => answer,
        }
    }

    /// Makes a new region the pool's, paid out of `money`.
    fn own(
        &self,
        region: Box<dyn Region>,
        size: usize,
        align: usize,
        money: &mut Reservation,
    ) -> Result<Chunk, AllocError> {
        let broken = |what| AllocError::BrokenAllocator { requested: size, what };
        if region.committed() != size || !region.as_ptr().addr().get().is_multiple_of(align) {
            return Err(broken("the backend mapped another size or alignment than was asked for"));
        }
        let paid = money.split(size as u64).ok_or(broken("the set costs more than its plan says"))?;
        Ok(Chunk::new(region, paid, self.config.secret))
    }
}

/// A check-out under way. Dropping it undoes it.
struct Take<'p> {
    inner: &'p Inner,
    /// For each want what lay idle. Counted as out.
    got: Vec<Option<Storage>>,
    /// Bytes counted as pending.
    claimed: u64,
    /// [`State::returns`] at the look at what lay idle.
    seen: u64,
    /// Mapped for the wants that got nothing, in their order.
    chunks: Vec<Chunk>,
    slabs: Vec<(Chunk, usize)>,
    /// Tell those who wait when what was taken lies idle again.
    nudge: bool,
}

impl Take<'_> {
    /// Makes all of it the caller's, in one step.
    fn publish(mut self, plan: &Plan) -> Result<Vec<Lease>, AllocError> {
        let inner = self.inner;
        let mut state = inner.state();
        if state.closing {
            drop(state);
            return Err(AllocError::ShuttingDown);
        }
        let maps = (self.chunks.len() + self.slabs.len()) as u64;
        let hits = self.got.iter().flatten().count() as u64;
        state.bytes.pending -= std::mem::take(&mut self.claimed);
        let fresh: u64 =
            self.chunks.iter().chain(self.slabs.iter().map(|(slab, _)| slab)).map(Chunk::bytes).sum();
        state.bytes.mapped += fresh;
        state.bytes.idle += fresh;
        for (slab, slot_size) in self.slabs.drain(..) {
            state.slots.add(slab, slot_size);
        }
        let mut chunks = self.chunks.drain(..);
        for (got, want) in self.got.iter_mut().zip(&plan.wants) {
            if got.is_none() {
                // There is one for each: `absent` and `slabs_for` have counted them, and nobody came in
                // between.
                let storage = match want.kind {
                    Kind::Chunk(_) => chunks.next().map(Storage::Chunk),
                    Kind::Slot(size) => state.slots.take(size).map(Storage::Slot),
                };
                let storage = storage.expect("what was missing has been mapped");
                state.checked_out(&storage);
                *got = Some(storage);
            }
        }
        drop(chunks);
        let mut set = 0;
        let leases = std::mem::take(&mut self.got)
            .into_iter()
            .flatten()
            .zip(&plan.wants)
            .map(|(mut storage, want)| {
                if let Storage::Chunk(chunk) = &mut storage {
                    chunk.mark_dirty();
                }
                set += storage.bytes();
                let (first, size, residency) = (storage.first(), storage.size(), storage.residency());
                Lease { token: state.insert_out(storage, want.requested), first, size, residency }
            })
            .collect();
        state.last_check_out = Instant::now();
        state.largest_set = state.largest_set.max(set);
        state.events.check_outs += 1;
        state.events.hits += hits;
        state.events.misses += plan.wants.len() as u64 - hits;
        state.events.maps += maps;
        inner.check(&state);
        Ok(leases)
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        if self.claimed == 0 && self.got.iter().all(Option::is_none) {
            return;
        }
        // Unmapped before the claim is given back, so that the cap holds.
        self.chunks.clear();
        self.slabs.clear();
        let mut state = self.inner.state();
        state.bytes.pending -= self.claimed;
        let mut unmap = Vec::new();
        for storage in self.got.drain(..).flatten() {
            unmap.extend(state.put_idle(storage, Phase::Out));
        }
        self.inner.check(&state);
        drop(state);
        self.inner.unmap(unmap);
        if self.nudge {
            self.inner.budget.nudge();
        }
    }
}
