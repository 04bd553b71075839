//! What is to be done next: the jobs, and where each of their circuits is. Nothing here waits or runs; the workers ask under
//! one lock.
//!
//! ```text
//!   submit ──► pending ──begin_synthesis──► live ──► ready ──next_ready──► on a device ──► to be checked ──► proved
//!                                            └──────────── its memory ────────────┘ given_back
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellperson::groth16::{KeySource, Parameters, ProvingAssignment, Shape};
use blstrs::{Bls12, Scalar};

use super::job::{JobError, JobName, Ticket};
use super::request::CircuitRequest;
use super::workers::LiveSet;
use crate::hints::HintKey;
use crate::memory::Priority;
use crate::prover::device::KeyDigest;
use crate::prover::place::Computed;
use crate::prover::service::Noted;
use crate::prover::Proven;

/// Priority first, then age.
type Order = (Reverse<Priority>, u64);

/// What all circuits of a job share.
pub(super) struct JobInfo {
    pub(super) number: u64,
    pub(super) key: Arc<dyn KeySource>,
    pub(super) params: Option<Arc<Parameters<Bls12>>>,
    pub(super) type_name: &'static str,
    pub(super) digest: KeyDigest,
    pub(super) hint: HintKey,
    pub(super) expected: Option<Shape>,
    /// The most that the key lets a circuit be.
    pub(super) largest: Option<Shape>,
    pub(super) ticket: Arc<Ticket>,
}

/// A job that is not over.
struct Job {
    info: Arc<JobInfo>,
    priority: Priority,
    deadline: Option<Instant>,
    pending: VecDeque<(usize, CircuitRequest)>,
    proofs: Vec<Option<Proven>>,
    left: usize,
    /// Circuits that passed it while it waited for memory.
    overtaken: u32,
    /// Since when it waits for memory.
    short_since: Option<Instant>,
}

/// A circuit whose synthesis begins.
pub(super) struct Begun {
    pub(super) info: Arc<JobInfo>,
    pub(super) index: usize,
    pub(super) circuit: CircuitRequest,
    pub(super) live: LiveId,
    pub(super) expected: Option<Shape>,
}

/// A circuit that waits for a device.
pub(super) struct Ready {
    pub(super) info: Arc<JobInfo>,
    pub(super) index: usize,
    pub(super) assignment: ProvingAssignment<Scalar>,
    /// After the assignment: dropped in this order, its memory has gone back when it is counted.
    pub(super) live: LiveSet,
    pub(super) noted: Noted,
    pub(super) r: Scalar,
    pub(super) s: Scalar,
    pub(super) expected: Option<Shape>,
    pub(super) synthesis: Duration,
    pub(super) since: Instant,
}

/// A proof to be checked.
pub(super) struct Unchecked {
    pub(super) info: Arc<JobInfo>,
    pub(super) index: usize,
    pub(super) computed: Computed,
    pub(super) noted: Noted,
    pub(super) expected: Option<Shape>,
    pub(super) synthesis: Duration,
}

/// The number of a set in memory.
pub(super) type LiveId = u64;

/// A set in memory, from the begin of its synthesis to when it is given back.
struct Live {
    bytes: u64,
    /// The circuit whose size is being found out.
    measuring: Option<HintKey>,
}

/// What limits how many syntheses run.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Bytes that all sets together may take.
    pub(super) bytes: u64,
    /// Sets that may be there at a time.
    pub(super) sets: usize,
    /// Circuits that may pass one that waits for memory.
    pub(super) overtakes: u32,
}

#[derive(Default)]
pub(super) struct Queue {
    jobs: HashMap<u64, Job>,
    order: BTreeMap<Order, u64>,
    ready: BTreeMap<(Order, usize), Ready>,
    unchecked: VecDeque<Unchecked>,
    live: HashMap<LiveId, Live>,
    numbers: u64,
    lives: u64,
    /// Those who wait to submit, the first first.
    submitters: VecDeque<u64>,
    turns: u64,
    pub(super) counts: Counts,
}

/// What the summary tells of the queue. Counts since the engine began, but for what says "now".
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) jobs_submitted: u64,
    pub(super) jobs_done: u64,
    pub(super) jobs_failed: u64,
    pub(super) circuits_proved: u64,
    pub(super) pending_now: usize,
    pub(super) live_now: usize,
    pub(super) live_bytes_now: u64,
    pub(super) live_peak: usize,
    pub(super) live_bytes_peak: u64,
    pub(super) overtakes: u64,
    pub(super) waited_memory: Duration,
    pub(super) waited_device: Duration,
}

impl Queue {
    /// A new job's number.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Joins those who wait to submit.
    pub(super) fn take_turn(&mut self) -> u64 {
        self.turns += 1;
        self.submitters.push_back(self.turns);
        self.turns
    }

    /// Whether nobody came before.
    pub(super) fn is_turn(&self, turn: u64) -> bool {
        self.submitters.front() == Some(&turn)
    }

    /// Waits no more.
    pub(super) fn end_turn(&mut self, turn: u64) {
        self.submitters.retain(|other| *other != turn);
    }

    pub(super) fn submit(
        &mut self,
        info: Arc<JobInfo>,
        circuits: Vec<CircuitRequest>,
        priority: Priority,
        deadline: Option<Instant>,
    ) {
        let count = circuits.len();
        self.counts.jobs_submitted += 1;
        self.counts.pending_now += count;
        self.order.insert((Reverse(priority), info.number), info.number);
        let job = Job {
            priority,
            deadline,
            pending: circuits.into_iter().enumerate().collect(),
            proofs: (0..count).map(|_| None).collect(),
            left: count,
            overtaken: 0,
            short_since: None,
            info,
        };
        self.jobs.insert(job.info.number, job);
    }

    /// The circuit whose synthesis is to begin, if one may. `known` tells what is known of a circuit's size, `bytes` how much
    /// memory a circuit of a size takes.
    pub(super) fn begin_synthesis(
        &mut self,
        room: Room,
        known: impl Fn(&HintKey) -> Option<Shape>,
        bytes: impl Fn(Shape) -> u64,
        now: Instant,
    ) -> Option<Begun> {
        if self.live.len() >= room.sets && !self.live.is_empty() {
            return None;
        }
        let used = self.counts.live_bytes_now;
        // The first that waits for memory: those behind it pass it only so often.
        let mut short: Option<(u64, Priority)> = None;
        let mut chosen = None;
        // Asked once a walk: many jobs share few sizes.
        let mut sizes: HashMap<&HintKey, Option<Shape>> = HashMap::new();
        for number in self.order.values() {
            let Some(job) = self.jobs.get(number).filter(|job| !job.pending.is_empty()) else { continue };
            if let Some((first, priority)) = short {
                if priority != job.priority || self.jobs[&first].overtaken >= room.overtakes {
                    break;
                }
            }
            let hint = &job.info.hint;
            let expected = job.info.expected.or_else(|| *sizes.entry(hint).or_insert_with(|| known(hint)));
            let mut measured = self.live.values().filter_map(|live| live.measuring.as_ref());
            let need = match (expected, job.info.largest) {
                (Some(shape), _) => bytes(shape),
                // Its size is found out by one circuit, in as much room as the key lets it take.
                (None, Some(largest)) if measured.all(|other| other != hint) => bytes(largest),
                // Nothing is known: it is the only one of its kind.
                (None, None) if measured.next().is_none() => 0,
                _ => continue,
            };
            // One is always let in: what does not fit then is for the pool's policy.
            if self.live.is_empty() || used.saturating_add(need) <= room.bytes {
                chosen = Some((*number, expected, need));
                break;
            }
            short.get_or_insert((*number, job.priority));
        }
        if let Some(job) = short.and_then(|(number, _)| self.jobs.get_mut(&number)) {
            job.short_since.get_or_insert(now);
            if chosen.is_some() {
                job.overtaken += 1;
                self.counts.overtakes += 1;
            }
        }
        let (number, expected, need) = chosen?;
        let job = self.jobs.get_mut(&number)?;
        if let Some(since) = job.short_since.take() {
            self.counts.waited_memory += now.saturating_duration_since(since);
        }
        job.overtaken = 0;
        let (index, circuit) = job.pending.pop_front()?;
        let info = job.info.clone();
        self.counts.pending_now -= 1;
        self.lives += 1;
        let measuring = expected.is_none().then(|| info.hint.clone());
        self.live.insert(self.lives, Live { bytes: need, measuring });
        self.count_live(0, need);
        Some(Begun { info, index, circuit, live: self.lives, expected })
    }

    fn count_live(&mut self, before: u64, after: u64) {
        let counts = &mut self.counts;
        counts.live_now = self.live.len();
        counts.live_peak = counts.live_peak.max(counts.live_now);
        counts.live_bytes_now = counts.live_bytes_now - before + after;
        counts.live_bytes_peak = counts.live_bytes_peak.max(counts.live_bytes_now);
    }

    /// A synthesis ended, and its set takes so many bytes.
    pub(super) fn measured(&mut self, live: LiveId, bytes: u64) {
        if let Some(entry) = self.live.get_mut(&live) {
            let before = std::mem::replace(&mut entry.bytes, bytes);
            entry.measuring = None;
            self.count_live(before, bytes);
        }
    }

    /// A set's memory has gone back. A second call does nothing.
    pub(super) fn given_back(&mut self, live: LiveId) {
        if let Some(entry) = self.live.remove(&live) {
            self.count_live(entry.bytes, 0);
        }
    }

    /// Whether the job is not over.
    pub(super) fn is_open(&self, job: u64) -> bool {
        self.jobs.contains_key(&job)
    }

    /// A circuit is ready for a device. It comes back if its job is over.
    pub(super) fn ready(&mut self, ready: Ready) -> Option<Ready> {
        let Some(job) = self.jobs.get(&ready.info.number) else { return Some(ready) };
        let order = (Reverse(job.priority), ready.info.number);
        job.info.ticket.synthesised.fetch_add(1, Ordering::Relaxed);
        self.ready.insert((order, ready.index), ready);
        None
    }

    pub(super) fn next_ready(&mut self, now: Instant) -> Option<Ready> {
        let (_, ready) = self.ready.pop_first()?;
        self.counts.waited_device += now.saturating_duration_since(ready.since);
        Some(ready)
    }

    /// A proof is to be checked. It comes back if its job is over.
    pub(super) fn computed(&mut self, unchecked: Unchecked) -> Option<Unchecked> {
        if !self.is_open(unchecked.info.number) {
            return Some(unchecked);
        }
        self.unchecked.push_back(unchecked);
        None
    }

    pub(super) fn next_unchecked(&mut self) -> Option<Unchecked> {
        self.unchecked.pop_front()
    }

    /// A proof is done. Says whether its job is.
    pub(super) fn proved(&mut self, number: u64, index: usize, proven: Proven) -> bool {
        let Some(job) = self.jobs.get_mut(&number) else { return false };
        debug_assert!(job.proofs[index].is_none(), "a circuit is proved once");
        job.proofs[index] = Some(proven);
        job.left -= 1;
        job.info.ticket.proved.fetch_add(1, Ordering::Relaxed);
        self.counts.circuits_proved += 1;
        if job.left > 0 {
            return false;
        }
        if let Some(job) = self.remove(number) {
            self.counts.jobs_done += 1;
            job.info.ticket.finish(Ok(job.proofs.into_iter().flatten().collect()));
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<Job> {
        let job = self.jobs.remove(&number)?;
        self.order.remove(&(Reverse(job.priority), number));
        self.counts.pending_now -= job.pending.len();
        Some(job)
    }

    /// Ends a job without proofs. What it had in the queue comes back, to be dropped without the lock.
    pub(super) fn end(&mut self, number: u64, why: impl FnOnce(JobName) -> JobError) -> Vec<Box<dyn Send>> {
        let Some(mut job) = self.remove(number) else { return Vec::new() };
        self.counts.jobs_failed += 1;
        job.info.ticket.finish(Err(why(job.info.ticket.name.clone())));
        let mut dropped: Vec<Box<dyn Send>> = Vec::new();
        let order = (Reverse(job.priority), number);
        let waiting: Vec<_> =
            self.ready.range((order, 0)..=(order, usize::MAX)).map(|(place, _)| *place).collect();
        for place in waiting {
            if let Some(ready) = self.ready.remove(&place) {
                dropped.push(Box::new(ready));
            }
        }
        let (ended, others) = self.unchecked.drain(..).partition(|unchecked| unchecked.info.number == number);
        self.unchecked = others;
        let ended: VecDeque<Unchecked> = ended;
        dropped.push(Box::new(ended));
        // One by one: a circuit's drop may panic.
        for (_, circuit) in std::mem::take(&mut job.pending) {
            dropped.push(Box::new(circuit));
        }
        // With the key, if nobody else has it.
        dropped.push(Box::new(job));
        dropped
    }

    /// Proved and all circuits of a job that is not over.
    pub(super) fn progress(&self, number: u64) -> Option<(usize, usize)> {
        self.jobs.get(&number).map(|job| job.info.ticket.done())
    }

    /// The numbers of the jobs that are not over, in order.
    pub(super) fn open_jobs(&self) -> Vec<u64> {
        self.order.values().copied().collect()
    }

    /// The jobs whose deadline has passed, with proved and all circuits, and the next deadline.
    pub(super) fn expired(&self, now: Instant) -> (Vec<u64>, Option<Instant>) {
        let passed = |job: &&Job| job.deadline.is_some_and(|deadline| deadline <= now);
        let expired = self.jobs.values().filter(passed).map(|job| job.info.number).collect();
        let next = self.jobs.values().filter_map(|job| job.deadline).filter(|at| *at > now).min();
        (expired, next)
    }

    /// Whether nothing is queued, running or in memory.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.live.is_empty() && self.unchecked.is_empty()
    }

    /// Whether a circuit waits for memory.
    pub(super) fn has_pending(&self) -> bool {
        self.counts.pending_now > 0
    }
}
