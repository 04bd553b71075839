//! The threads of an engine, and what they share.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bellperson::groth16::{Placement, ProvingAssignment, Shape};
use bellperson::SynthesisError;
use blstrs::Scalar;
use tracing::{debug, info_span, warn};

use super::config::EngineConfig;
use super::job::{JobError, JobName};
use super::metrics::Metrics;
use super::queue::{Begun, JobInfo, LiveId, Queue, Ready, Room, Unchecked};
use super::request::{discard, panic_text};
use super::timeline::{Span, Stage, Timeline};
use crate::memory::backend::rounded;
use crate::memory::pool::Pool;
use crate::memory::MemoryBudget;
use crate::prover::check::check_parameters;
use crate::prover::device::Task;
use crate::prover::service::{About, Prover};
use crate::prover::ProveError;

/// How often a worker that waits for memory looks whether others gave some back.
const POLL: Duration = Duration::from_millis(50);

/// What the threads and the handles share.
pub(super) struct Shared {
    pub(super) prover: Arc<Prover>,
    pub(super) pool: Option<Pool>,
    pub(super) budget: MemoryBudget,
    pub(super) config: EngineConfig,
    /// Sets that may be in memory at a time.
    pub(super) sets: usize,
    queue: Mutex<Queue>,
    /// For those who synthesise: there are circuits, or memory came back.
    more: Condvar,
    /// For those who prove: a circuit is ready.
    ready: Condvar,
    /// For the one who checks: there is a proof, or a deadline.
    check: Condvar,
    /// For those who submit, or wait for the engine to be idle.
    less: Condvar,
    /// No more jobs.
    pub(super) closed: AtomicBool,
    /// The threads end as soon as they can.
    stop: AtomicBool,
    pub(super) timeline: Timeline,
    pub(super) metrics: Metrics,
}

impl Shared {
    pub(super) fn new(
        prover: Arc<Prover>,
        pool: Option<Pool>,
        budget: MemoryBudget,
        config: EngineConfig,
    ) -> Self {
        let slots = prover.slots();
        let sets = config.synthesis_workers.max(1) + config.ready_max.unwrap_or(slots).max(1);
        Self {
            timeline: Timeline::new(config.trace_spans),
            metrics: Metrics::new(),
            prover,
            pool,
            budget,
            config,
            sets,
            queue: Mutex::default(),
            more: Condvar::new(),
            ready: Condvar::new(),
            check: Condvar::new(),
            less: Condvar::new(),
            closed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that sets may take: what the pool may have, without what the budget gave to others.
    fn room(&self) -> Room {
        let stats = self.pool.as_ref().map(Pool::stats);
        let mapped = stats.as_ref().map_or(0, |stats| stats.mapped_bytes + stats.changing_bytes);
        let lost = stats.as_ref().map_or(0, |stats| stats.quarantined_bytes);
        let out = stats.as_ref().map_or(0, |stats| stats.out_bytes + stats.in_flight_bytes);
        // What the pool lent to others than this engine is theirs until it comes back.
        let lent = out.saturating_sub(self.lock().counts.live_bytes_now);
        let others = self.budget.used().saturating_sub(mapped) + lent;
        let most = self.pool.as_ref().and_then(Pool::max_bytes).unwrap_or(u64::MAX);
        let bytes = most.min(self.budget.total().saturating_sub(others)).saturating_sub(lost);
        Room { bytes, sets: self.sets, overtakes: self.config.overtakes_max }
    }

    /// Bytes of a set for circuits of this size.
    fn set_bytes(&self, shape: Shape) -> u64 {
        let rows = match self.prover.pads_to_domain() {
            true => shape.domain_size(),
            false => shape.constraints,
        };
        let vector = |elements: usize| {
            let bytes = elements.saturating_mul(size_of::<Scalar>());
            // As the pool maps them.
            rounded(bytes).unwrap_or(usize::MAX) as u64
        };
        vector(rows).saturating_mul(3).saturating_add(vector(shape.aux))
    }

    /// Ends a job, if it is not over.
    pub(super) fn end(&self, job: u64, why: impl FnOnce(JobName) -> JobError) {
        let dropped = self.lock().end(job, why);
        self.less.notify_all();
        self.check.notify_all();
        // Assignments and circuits go without the lock: that takes time, counts memory under it, and is anybody's code.
        dropped.into_iter().for_each(discard);
        self.more.notify_all();
    }

    /// Whether there is room for so many more circuits; an empty queue takes any number.
    pub(super) fn has_room(&self, queue: &Queue, circuits: usize) -> bool {
        let pending = queue.counts.pending_now;
        pending == 0 || pending + circuits <= self.config.pending_max
    }

    /// Lets the next one look who waits to submit.
    pub(super) fn next_turn(&self) {
        self.less.notify_all();
    }

    /// Waits for a change that makes room in the queue, or makes it idle.
    pub(super) fn wait_less<'q>(
        &self,
        queue: MutexGuard<'q, Queue>,
        until: Option<Instant>,
    ) -> MutexGuard<'q, Queue> {
        let left = until.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
        self.less.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// No more jobs; who waits to submit one is told.
    pub(super) fn close(&self) {
        let _queue = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        self.less.notify_all();
    }

    pub(super) fn submitted(&self) {
        self.more.notify_all();
        // A deadline may be the next one now.
        self.check.notify_all();
    }

    pub(super) fn stop(&self) {
        // Under the lock, so that nobody checks and then sleeps through it.
        let _queue = self.lock();
        self.stop.store(true, Ordering::Relaxed);
        for waiting in [&self.more, &self.ready, &self.check, &self.less] {
            waiting.notify_all();
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn failed(&self, info: &JobInfo, circuit: usize, cause: impl Into<ProveError>) {
        let cause = cause.into();
        self.end(info.number, |job| JobError::Circuit { job, circuit, cause });
    }

    fn panicked(&self, info: &JobInfo, circuit: usize, stage: &'static str, text: String) {
        warn!(job = info.number, circuit, stage, text, "a circuit panicked: its job fails");
        self.end(info.number, |job| JobError::Panicked { job, circuit, stage, text });
    }
}

/// A span of the timeline, which ends when it is dropped, also by a panic.
struct Recorded<'s> {
    shared: &'s Shared,
    info: &'s JobInfo,
    circuit: usize,
    stage: Stage,
    begin: Instant,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        let Self { stage, circuit, begin, .. } = *self;
        let span = Span { stage, job: self.info.number, circuit, begin, end: Instant::now() };
        self.shared.timeline.record(span);
    }
}

/// A set in memory; dropping it says that its memory has gone back.
pub(super) struct LiveSet {
    shared: Arc<Shared>,
    id: LiveId,
}

impl LiveSet {
    fn given_back(&self) {
        self.shared.lock().given_back(self.id);
        self.shared.more.notify_all();
        self.shared.less.notify_all();
    }
}

impl Drop for LiveSet {
    fn drop(&mut self) {
        self.given_back();
    }
}

/// The threads; they are joined when it is dropped.
pub(super) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts them all.
    ///
    /// # Errors
    /// The system's; those that were started have ended then.
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let mut threads = Self(Vec::new());
        let mut start = |name: String, work: fn(&Arc<Shared>)| {
            let shared = shared.clone();
            let spawned = std::thread::Builder::new().name(name).spawn(move || work(&shared));
            spawned.map(|thread| threads.0.push(thread))
        };
        let mut all = || -> std::io::Result<()> {
            for number in 0..shared.config.synthesis_workers.max(1) {
                start(format!("synthesis-{number}"), synthesise)?;
            }
            for number in 0..shared.prover.slots() {
                start(format!("slot-{number}"), prove)?;
            }
            start("check".to_owned(), check)
        };
        let started = all();
        if started.is_err() {
            shared.stop();
        }
        started.map(|()| threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let this = std::thread::current().id();
        // A circuit that owns the engine may drop it on one of these threads.
        for thread in self.0.drain(..).filter(|thread| thread.thread().id() != this) {
            // Its own panics were caught: there is nothing to hear.
            let _ = thread.join();
        }
    }
}

/// One step of a thread for one circuit. A panic, the circuit's or anybody's, ends that circuit's job, not the thread.
fn guarded(
    shared: &Arc<Shared>,
    info: Arc<JobInfo>,
    circuit: usize,
    stage: &'static str,
    step: impl FnOnce(),
) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(step)) {
        shared.panicked(&info, circuit, stage, panic_text(payload));
    }
    // Perhaps the last that has the key.
    discard(info);
}

fn synthesise(shared: &Arc<Shared>) {
    loop {
        let room = shared.room();
        let mut queue = shared.lock();
        if shared.stopped() {
            return;
        }
        let now = Instant::now();
        let begun = queue.begin_synthesis(
            room,
            |hint| shared.prover.expected(hint),
            |shape| shared.set_bytes(shape),
            now,
        );
        let Some(begun) = begun else {
            // Memory that others hold comes back without a word.
            let wait = if queue.has_pending() { POLL } else { Duration::from_secs(3600) };
            drop(shared.more.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner));
            continue;
        };
        drop(queue);
        shared.less.notify_all();
        let live = LiveSet { shared: shared.clone(), id: begun.live };
        let (info, circuit) = (begun.info.clone(), begun.index);
        guarded(shared, info, circuit, "synthesis", || synthesise_one(shared, begun, live));
    }
}

fn synthesise_one(shared: &Arc<Shared>, begun: Begun, live: LiveSet) {
    let Begun { info, index, circuit, expected, .. } = begun;
    let _span = info_span!("synthesis", job = info.number, circuit = index).entered();
    let start = Instant::now();
    let recorded = Recorded { shared, info: &info, circuit: index, stage: Stage::Synthesis, begin: start };
    let options = shared.prover.options_for(expected);
    let synthesised = (circuit.synthesis)(options);
    drop(recorded);
    let took = start.elapsed();
    let mut assignment = match synthesised {
        Ok(assignment) => assignment,
        Err(error) => return shared.failed(&info, index, error),
    };
    if let Some(params) = &info.params {
        if let Err(mismatch) = check_parameters(params, &assignment) {
            return shared.failed(&info, index, mismatch);
        }
    }
    let noted = match shared.prover.admit(&info.hint, &mut assignment) {
        Ok(noted) => noted,
        Err(error) => return shared.failed(&info, index, error),
    };
    let bytes = bytes_of(&assignment);
    let ready = Ready {
        index,
        assignment,
        live,
        noted,
        r: circuit.r,
        s: circuit.s,
        expected,
        synthesis: took,
        since: Instant::now(),
        info,
    };
    let mut queue = shared.lock();
    queue.measured(ready.live.id, bytes);
    let refused = queue.ready(ready);
    drop(queue);
    shared.ready.notify_one();
    // A size is known that was not.
    shared.more.notify_all();
    // Its memory goes back without the lock.
    drop(refused);
}

fn bytes_of(assignment: &ProvingAssignment<Scalar>) -> u64 {
    let Placement { abc_bytes, aux_bytes, .. } = assignment.placement();
    abc_bytes as u64 + aux_bytes as u64
}

fn prove(shared: &Arc<Shared>) {
    loop {
        let mut queue = shared.lock();
        let ready = loop {
            if shared.stopped() {
                return;
            }
            if let Some(ready) = queue.next_ready(Instant::now()) {
                break ready;
            }
            queue = shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        let (info, circuit) = (ready.info.clone(), ready.index);
        guarded(shared, info, circuit, "proof", || prove_one(shared, ready));
    }
}

fn prove_one(shared: &Arc<Shared>, ready: Ready) {
    let Ready { info, index, assignment, live, noted, r, s, expected, synthesis, .. } = ready;
    let _span = info_span!("proof", job = info.number, circuit = index).entered();
    let start = Instant::now();
    let given_back = || live.given_back();
    let (key, digest) = (&*info.key, info.digest);
    let task = Task { assignment, key, digest, r, s, given_back: &given_back };
    let computed = shared.prover.compute(task);
    drop(live);
    let computed = match computed {
        Ok(computed) => computed,
        Err(error) => return shared.failed(&info, index, error),
    };
    match &computed.device {
        Some(device) => shared.timeline.record_device(info.number, index, device),
        None => drop(Recorded { shared, info: &info, circuit: index, stage: Stage::Cpu, begin: start }),
    }
    let late = shared.lock().computed(Unchecked { info, index, computed, noted, expected, synthesis });
    shared.check.notify_one();
    // Without the lock: it may be the last that has the key.
    drop(late);
}

fn check(shared: &Arc<Shared>) {
    loop {
        let mut queue = shared.lock();
        let (unchecked, expired) = loop {
            if shared.stopped() {
                return;
            }
            let (expired, next) = queue.expired(Instant::now());
            let unchecked = queue.next_unchecked();
            if unchecked.is_some() || !expired.is_empty() {
                break (unchecked, expired);
            }
            let left =
                next.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            queue = shared.check.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(queue);
        for number in expired {
            shared.expire(number);
        }
        if let Some(unchecked) = unchecked {
            let (info, circuit) = (unchecked.info.clone(), unchecked.index);
            guarded(shared, info, circuit, "check", || check_one(shared, unchecked));
        }
    }
}

impl Shared {
    fn expire(&self, number: u64) {
        let done = self.lock().progress(number);
        let Some((done, circuits)) = done else { return };
        self.end(number, |job| JobError::DeadlinePassed { job, done, circuits });
    }
}

fn check_one(shared: &Arc<Shared>, unchecked: Unchecked) {
    let Unchecked { info, index, computed, noted, expected, synthesis } = unchecked;
    let _span = info_span!("check", job = info.number, circuit = index).entered();
    let begin = Instant::now();
    let recorded = Recorded { shared, info: &info, circuit: index, stage: Stage::Check, begin };
    let finish = || -> Result<_, SynthesisError> {
        let vk = info.key.vk(noted.inputs_len())?;
        let about = About { circuit: info.type_name, vk, digest: info.digest, synthesis, expected };
        shared.prover.finish(&about, computed, noted)
    };
    let finished = finish();
    drop(recorded);
    match finished {
        Ok(proven) => {
            shared.metrics.record(&proven.report);
            if shared.lock().proved(info.number, index, proven) {
                debug!(job = info.number, "job done");
                shared.less.notify_all();
            }
        }
        Err(error) => shared.failed(&info, index, error),
    }
}
