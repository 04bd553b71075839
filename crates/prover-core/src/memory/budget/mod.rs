//! One budget, in bytes, for all memory that a prover holds: pinned, pageable and key memory.
//!
//! # Order
//! Who cannot be served at once waits in one queue, by priority, then strictly first come, first served: a
//! small request never overtakes a large one of its own or a higher priority. What comes free is handed to
//! the head of the queue by whoever frees it, so a waiter does not race for it.
//!
//! Two things pass the queue on purpose. A holder [grows](Reservation::try_grow) its reservation whenever
//! there is room: it holds memory that the queue waits for, and it frees that sooner if it is not held up.
//! There are finitely many holders and new ones queue, so nobody starves. And a *dormant* ticket (one whose
//! owner waits for something else than room in the budget, such as the pool's own cap) keeps its place but
//! lets others pass until it is woken.
//!
//! # Eviction
//! Caches register an [evictor](MemoryBudget::on_pressure). The head of the queue asks them for what it
//! lacks: when it becomes the head, when a cache says that it has something new to give (`nudge`), and by a
//! timer. The timer makes a lost notification cost a moment instead of a hang; the loom model beside the code
//! shows that none is lost. Evictors run in the waiter's thread with no lock held.
//!
//! # Locks
//! The one lock guards the numbers and the queue and is held for a few instructions. A panic of an evictor is
//! caught. `used <= total` holds at every moment.

// The loom build has no pool, which is what uses the rest.
#![cfg_attr(loom, allow(dead_code))]

mod queue;
mod reservation;
mod ticket;

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use pinned_alloc::AllocError;

use self::queue::Queue;
pub use self::reservation::Reservation;
pub(crate) use self::ticket::{Event, Ticket};
use super::sync::{lock, Arc, AtomicUsize, Mutex, MutexGuard, Ordering};

/// How often a waiter asks the evictors again if nothing else wakes it.
const POLL: Duration = Duration::from_millis(100);

/// Who is served first: the higher number. Equal ones are served in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// Work nobody waits for.
    pub const LOW: Self = Self(64);
    /// The default.
    pub const NORMAL: Self = Self(128);
    /// Work that holds memory already, or that somebody waits for.
    pub const HIGH: Self = Self(192);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// Until when to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// As long as it takes.
    Never,
    /// Until this moment; one that has passed means not to wait at all.
    At(Instant),
}

impl Deadline {
    /// In `wait` from now. A time too far off to express is [`Deadline::Never`].
    pub fn after(wait: Duration) -> Self {
        Instant::now().checked_add(wait).map_or(Self::Never, Self::At)
    }

    /// Whether it has passed at `now`.
    pub fn passed(self, now: Instant) -> bool {
        matches!(self, Self::At(at) if at <= now)
    }

    /// This or `wait` from now, whichever is sooner.
    pub(crate) fn or_after(self, wait: Duration) -> Self {
        match (self, Self::after(wait)) {
            (Self::At(own), Self::At(other)) => Self::At(own.min(other)),
            (Self::Never, other) => other,
            (own, Self::Never) => own,
        }
    }

    /// The time left at `now`, at most `most`.
    pub(crate) fn left(self, now: Instant, most: Duration) -> Duration {
        match self {
            Self::Never => most,
            Self::At(at) => at.saturating_duration_since(now).min(most),
        }
    }
}

/// The counters of a budget. Byte counts are in bytes, the rest are events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(loom), derive(serde::Serialize))]
#[non_exhaustive]
pub struct BudgetStats {
    /// Bytes of the whole budget.
    pub total: u64,
    /// Bytes reserved now.
    pub used: u64,
    /// The most bytes that were ever reserved at once.
    pub peak: u64,
    /// Requests waiting now.
    pub waiting: usize,
    /// Requests served.
    pub granted: u64,
    /// Requests that had to wait, served or not.
    pub waited: u64,
    /// Requests that gave up at their deadline.
    pub timed_out: u64,
    /// Requests refused because there was no room (those that do not wait) or never could be.
    pub refused: u64,
    /// Times the evictors were asked.
    pub evictions: u64,
    /// Bytes that evictors said they freed.
    pub evicted_bytes: u64,
}

/// A cache that can give memory back. Closures `Fn(u64) -> u64` are ones too, with [`evict`](Self::evict)
/// alone.
///
/// Called from any thread that wants memory, several at once, with no lock held. It must not wait for memory.
pub trait Evictor: Send + Sync + 'static {
    /// About how many bytes it could free now. A request that does not wait evicts nothing if it would not be
    /// served even so; a cache that does not know leaves the default, "any number".
    fn evictable(&self) -> u64 {
        u64::MAX
    }

    /// Frees what it can of about `bytes`, before it returns. Answers how many bytes it gave back to the
    /// budget.
    fn evict(&self, bytes: u64) -> u64;
}

impl<F: Fn(u64) -> u64 + Send + Sync + 'static> Evictor for F {
    fn evict(&self, bytes: u64) -> u64 {
        self(bytes)
    }
}

struct Inner {
    total: u64,
    knob: &'static str,
    poll: Duration,
    queue: Mutex<Queue>,
    /// Length of the queue, so that the common question "does anybody wait?" takes no lock.
    waiting: AtomicUsize,
    /// The callbacks are `std`'s `Arc`s: loom's does not hold unsized values, and nothing of interest happens
    /// to them.
    evictors: Mutex<Vec<(u64, std::sync::Arc<dyn Evictor>)>>,
}

/// A handle to a budget. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Inner>);

impl MemoryBudget {
    /// A budget of `total` bytes.
    pub fn new(total: u64) -> Self {
        Self::with(total, super::KNOB_BUDGET, POLL)
    }

    /// A budget of `total` bytes whose errors name `knob` as the setting to change, and whose waiters ask the
    /// evictors again every `poll`.
    pub fn with(total: u64, knob: &'static str, poll: Duration) -> Self {
        Self(Arc::new(Inner {
            total,
            knob,
            poll: poll.max(Duration::from_micros(100)),
            queue: Mutex::new(Queue::new(total)),
            waiting: AtomicUsize::new(0),
            evictors: Mutex::new(Vec::new()),
        }))
    }

    /// Bytes of the whole budget.
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        lock(&self.0.queue).used()
    }

    /// Bytes not reserved now.
    pub fn available(&self) -> u64 {
        self.0.total - self.used()
    }

    /// The counters, all of one moment.
    pub fn stats(&self) -> BudgetStats {
        lock(&self.0.queue).stats()
    }

    /// Whether `other` is a handle to the same budget.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Reserves `bytes`, waiting in the queue until `deadline`. 0 bytes are always granted.
    ///
    /// Do not call it while holding a lock, or from an evictor.
    ///
    /// # Errors
    /// [`AllocError::TooLarge`] at once if `bytes` is more than the total, [`AllocError::TimedOut`] at the
    /// deadline.
    pub fn reserve(
        &self,
        bytes: u64,
        priority: Priority,
        deadline: Deadline,
    ) -> Result<Reservation, AllocError> {
        let started = Instant::now();
        let mut ticket = self.enqueue(bytes, priority, NO_GROUP)?;
        loop {
            if let Some(reservation) = ticket.take() {
                return Ok(reservation);
            }
            if ticket.is_turn() && self.evict(ticket.short_of()) > 0 {
                // What was freed is handed out by who freed it; look before sleeping.
                if let Some(reservation) = ticket.take() {
                    return Ok(reservation);
                }
            }
            if ticket.wait(deadline) == Event::TimedOut {
                return match ticket.give_up() {
                    Some(reservation) => Ok(reservation),
                    None => Err(self.timed_out(bytes, started)),
                };
            }
        }
    }

    /// Reserves `bytes` now or not at all. Asks the evictors once if there is no room. Does not overtake the
    /// queue.
    ///
    /// # Errors
    /// [`AllocError::TooLarge`] if `bytes` is more than the total, [`AllocError::Exhausted`] if there is no
    /// room or somebody of the same or a higher priority waits for it.
    pub fn try_reserve(&self, bytes: u64, priority: Priority) -> Result<Reservation, AllocError> {
        self.check_size(bytes)?;
        self.try_now(bytes, priority, NO_GROUP).or_else(|short| {
            self.evict_if_enough(short);
            self.try_now(bytes, priority, NO_GROUP).map_err(|_| {
                lock(&self.0.queue).count_refused();
                self.lack(bytes)
            })
        })
    }

    /// [`try_reserve`](Self::try_reserve) without evicting, for a member of `group`: dormant members of it
    /// are not passed either.
    ///
    /// # Errors
    /// How many bytes are missing; 0 if it is not for lack of room.
    pub(crate) fn try_now(&self, bytes: u64, priority: Priority, group: Group) -> Result<Reservation, u64> {
        let mut queue = lock(&self.0.queue);
        if !queue.is_clear(priority, group) {
            return Err(0);
        }
        let short = bytes.saturating_sub(queue.available());
        if queue.try_take(bytes) {
            return Ok(Reservation::new(self.clone(), bytes));
        }
        Err(short)
    }

    /// The error for a request that found no room.
    pub(crate) fn lack(&self, bytes: u64) -> AllocError {
        self.exhausted(bytes, self.available())
    }

    /// Registers a cache that is asked for bytes when a request lacks them, until the handle is dropped.
    pub fn on_pressure(&self, evictor: impl Evictor) -> EvictorHandle {
        let id = lock(&self.0.queue).next_id();
        lock(&self.0.evictors).push((id, std::sync::Arc::new(evictor)));
        EvictorHandle { budget: self.clone(), id }
    }

    /// Asks the caches, in the order they were registered, until they have freed `bytes`. Returns the bytes
    /// freed.
    pub fn evict(&self, bytes: u64) -> u64 {
        self.evict_but(bytes, None)
    }

    /// As [`evict`](Self::evict), but without asking the cache of the handle with this number: for a cache
    /// that wants memory itself and sees to its own first.
    pub(crate) fn evict_but(&self, bytes: u64, own: Option<u64>) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let evictors = self.evictors_but(own);
        let mut freed = 0u64;
        for evictor in &evictors {
            if freed >= bytes {
                break;
            }
            freed = freed.saturating_add(calmly(|| evictor.evict(bytes - freed)));
        }
        if !evictors.is_empty() {
            lock(&self.0.queue).count_eviction(freed);
        }
        freed
    }

    /// What the caches say they could free, but for the one of the handle with this number.
    pub(crate) fn evictable_but(&self, own: Option<u64>) -> u64 {
        let evictors = self.evictors_but(own);
        evictors.iter().fold(0, |sum: u64, evictor| sum.saturating_add(calmly(|| evictor.evictable())))
    }

    /// As [`evict`](Self::evict), but only if the caches say that they have that much.
    fn evict_if_enough(&self, bytes: u64) {
        if self.evictable_but(None) >= bytes {
            self.evict(bytes);
        }
    }

    fn evictors_but(&self, own: Option<u64>) -> Vec<std::sync::Arc<dyn Evictor>> {
        let evictors = lock(&self.0.evictors);
        evictors.iter().filter(|(id, _)| Some(*id) != own).map(|(_, evictor)| evictor.clone()).collect()
    }

    /// Tells those who wait that there may be something to evict now. Cheap if nobody waits.
    pub fn nudge(&self) {
        if self.has_waiters() {
            lock(&self.0.queue).nudge();
        }
    }

    /// As [`nudge`](Self::nudge), but wakes everybody who waits, whether or not it is their turn.
    pub(crate) fn nudge_all(&self) {
        lock(&self.0.queue).nudge_all();
    }

    /// Whether anybody waits. A waiter that has queued before this thread's last lock is always seen.
    pub fn has_waiters(&self) -> bool {
        self.0.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether a newcomer of `group` would not overtake anybody.
    pub(crate) fn is_clear(&self, priority: Priority, group: Group) -> bool {
        !self.has_waiters() || lock(&self.0.queue).is_clear(priority, group)
    }

    /// Queues up without waiting. The ticket is granted at once if there is room and nobody is overtaken.
    pub(crate) fn enqueue(&self, bytes: u64, priority: Priority, group: Group) -> Result<Ticket, AllocError> {
        self.check_size(bytes)?;
        let mut queue = self.queue();
        let key = queue.enqueue(bytes, priority, group);
        drop(queue);
        Ok(Ticket::new(self.clone(), key))
    }

    /// A number no other group of this budget has.
    pub(crate) fn new_group(&self) -> Group {
        Group(lock(&self.0.queue).next_id())
    }

    pub(crate) fn timed_out(&self, bytes: u64, started: Instant) -> AllocError {
        AllocError::TimedOut {
            requested: saturate(bytes),
            waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            knob: self.0.knob,
        }
    }

    fn exhausted(&self, bytes: u64, available: u64) -> AllocError {
        AllocError::Exhausted {
            requested: saturate(bytes),
            available: saturate(available),
            total: saturate(self.0.total),
            knob: self.0.knob,
        }
    }

    fn check_size(&self, bytes: u64) -> Result<(), AllocError> {
        if bytes <= self.0.total {
            return Ok(());
        }
        lock(&self.0.queue).count_refused();
        Err(AllocError::TooLarge {
            requested: saturate(bytes),
            limit: saturate(self.0.total),
            knob: self.0.knob,
        })
    }

    /// The queue, for changes to who waits: keeps `waiting` true.
    fn queue(&self) -> QueueGuard<'_> {
        QueueGuard { queue: lock(&self.0.queue), waiting: &self.0.waiting }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryBudget").field(&self.stats()).finish()
    }
}

/// Those who share a resource beside the budget; see the module's text on dormant tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(u64);

/// Belongs to no group.
pub(crate) const NO_GROUP: Group = Group(0);

struct QueueGuard<'b> {
    queue: MutexGuard<'b, Queue>,
    waiting: &'b AtomicUsize,
}

impl std::ops::Deref for QueueGuard<'_> {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl std::ops::DerefMut for QueueGuard<'_> {
    fn deref_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.waiting.store(self.queue.len(), Ordering::Release);
    }
}

/// Keeps an evictor registered.
#[must_use = "dropping the handle removes the evictor"]
pub struct EvictorHandle {
    budget: MemoryBudget,
    id: u64,
}

impl EvictorHandle {
    /// The number of its cache.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for EvictorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EvictorHandle").field(&self.id).finish()
    }
}

impl Drop for EvictorHandle {
    fn drop(&mut self) {
        let mut evictors = lock(&self.budget.0.evictors);
        let removed = evictors.iter().position(|(id, _)| *id == self.id).map(|index| evictors.remove(index));
        // What the callback owns may take locks of its own when it is dropped.
        drop(evictors);
        drop(removed);
    }
}

/// A cache that panics is a cache that frees nothing; its own state is its own matter.
fn calmly(ask: impl FnOnce() -> u64) -> u64 {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or(0)
}

/// Bytes for an error, whose fields are `usize`.
pub(crate) fn saturate(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
