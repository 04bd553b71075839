//! Circuits, keys, devices, and an engine with its memory.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bellperson::groth16::backend::{CircuitId, Job};
use bellperson::groth16::{native, prepare_verifying_key, verify_proof, Parameters, Shape};
use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::{Bls12, Scalar};
use pinned_alloc::REGISTRY;
use rand_core::OsRng;

use crate::config::Config;
use crate::engine::{Engine, EngineConfig, JobHandle, JobRequest};
use crate::hints::HintStore;
use crate::memory::backend::Heap;
use crate::memory::pool::{Exhaustion, Pool, PoolConfig, PoolRegistration};
use crate::memory::MemoryBudget;
use crate::prover::device::{Declined, KeyDigest, ProofDevice, Task};
use crate::prover::fleet::Fleet;
use crate::prover::place::Place;
use crate::prover::{DeviceReport, Proven, Prover};
use crate::setup::{generate, CpuFixedBase, ToxicWaste};

/// The chain x, x², x⁴, …, whose last element is public.
#[derive(Clone)]
pub(super) struct Squarings {
    pub(super) x: u64,
    pub(super) count: usize,
    pub(super) act: Act,
}

/// What a circuit does beside its duty.
#[derive(Clone)]
pub(super) enum Act {
    Nothing,
    Panics,
    Fails,
    /// Its witness does not satisfy it.
    Lies,
    /// Takes its time.
    Sleeps(Duration),
    /// Waits until it is let go.
    Waits(Arc<Gate>),
    /// Panics when it is dropped, whether it was proved or not.
    Explodes(#[expect(dead_code, reason = "it is there to be dropped")] Bomb),
}

impl Squarings {
    pub(super) fn new(x: u64, count: usize) -> Self {
        Self { x, count, act: Act::Nothing }
    }

    pub(super) fn that(mut self, act: Act) -> Self {
        self.act = act;
        self
    }

    pub(super) fn output(&self) -> Scalar {
        (0..self.count).fold(Scalar::from(self.x), |x, _| x * x)
    }
}

impl Circuit<Scalar> for Squarings {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        match &self.act {
            Act::Panics => panic!("the circuit of {} panics", self.x),
            Act::Fails => return Err(SynthesisError::AssignmentMissing),
            Act::Sleeps(time) => std::thread::sleep(*time),
            Act::Waits(gate) => gate.pass(),
            Act::Nothing | Act::Lies | Act::Explodes(_) => {}
        }
        let mut value = Scalar::from(self.x);
        let mut variable = cs.alloc(|| "x", || Ok(value))?;
        for i in 0..self.count {
            let square = value * value;
            let value_of = if matches!(self.act, Act::Lies) { square + Scalar::from(1) } else { square };
            let next = if i + 1 == self.count {
                cs.alloc_input(|| "out", || Ok(value_of))?
            } else {
                cs.alloc(|| "square", || Ok(value_of))?
            };
            cs.enforce(|| "square", |lc| lc + variable, |lc| lc + variable, |lc| lc + next);
            (value, variable) = (square, next);
        }
        Ok(())
    }
}

/// Its last drop panics.
#[derive(Clone, Default)]
pub(super) struct Bomb(Arc<()>);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(Arc::strong_count(&self.0) > 1 || std::thread::panicking(), "the bomb explodes");
    }
}

/// A door that is shut at first.
#[derive(Default)]
pub(super) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Gate {
    pub(super) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub(super) fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    /// Waits until so many stand before it.
    pub(super) fn wait_for(&self, count: usize) {
        eventually("somebody at the gate", || self.waiting.load(Ordering::SeqCst) >= count);
    }
}

/// Waits for something that must come.
pub(super) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: not within 30 seconds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The key of a chain, made once.
pub(super) fn key(count: usize) -> Arc<Parameters<Bls12>> {
    type Keys = Mutex<Vec<(usize, Arc<Parameters<Bls12>>)>>;
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let mut keys = KEYS.get_or_init(Mutex::default).lock().unwrap();
    if let Some((_, key)) = keys.iter().find(|(known, _)| *known == count) {
        return key.clone();
    }
    let waste = ToxicWaste::random(&mut OsRng);
    let circuit = || Squarings::new(3, count);
    let made = generate(circuit, None, waste, &CpuFixedBase::new(), &|_, _, _| {}).expect("a key");
    let made = Arc::new(made);
    keys.push((count, made.clone()));
    made
}

/// How a device answers its next proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Has no room; the next one may fit.
    Unable,
    /// Is lost before it took the assignment.
    LostBefore,
    /// Is lost with the assignment.
    LostWith,
    /// Its code panics.
    Panics,
    /// One bit of the proof is wrong.
    WrongAnswer,
}

/// A device that proves on the CPU.
pub(super) struct Simulated {
    name: String,
    ordinal: u32,
    slots: usize,
    delay: Duration,
    /// The nth proof from now (from 1) has this fault.
    fault: Mutex<Option<(usize, Fault)>>,
    keys: Mutex<HashSet<KeyDigest>>,
    pub(super) proofs: AtomicUsize,
    pub(super) now: AtomicUsize,
    pub(super) most: AtomicUsize,
    dead: AtomicBool,
    late: AtomicUsize,
    pub(super) gate: Option<Arc<Gate>>,
}

impl Simulated {
    pub(super) fn new(ordinal: u32) -> Self {
        Self {
            name: format!("simulated {ordinal}"),
            ordinal,
            slots: 2,
            delay: Duration::ZERO,
            fault: Mutex::default(),
            keys: Mutex::default(),
            proofs: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            late: AtomicUsize::new(0),
            gate: None,
        }
    }

    pub(super) fn slow(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub(super) fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    pub(super) fn behind(mut self, gate: &Arc<Gate>) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub(super) fn fail(&self, nth: usize, fault: Fault) {
        *self.fault.lock().unwrap() = Some((nth, fault));
    }

    pub(super) fn load(&self, key: &Parameters<Bls12>) {
        self.keys.lock().unwrap().insert(crate::prover::identity::vk_digest(&key.vk));
    }

    fn due(&self) -> Option<Fault> {
        let mut fault = self.fault.lock().unwrap();
        let (nth, what) = fault.take()?;
        if nth > 1 {
            *fault = Some((nth - 1, what));
            return None;
        }
        Some(what)
    }
}

impl ProofDevice for Simulated {
    fn name(&self) -> &str {
        &self.name
    }

    fn ordinal(&self) -> u32 {
        self.ordinal
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn holds(&self, key: &KeyDigest) -> bool {
        self.keys.lock().unwrap().contains(key)
    }

    fn key_bytes(&self) -> u64 {
        self.keys.lock().unwrap().len() as u64
    }

    fn prove(&self, task: Task<'_>) -> Result<(native::Proved, DeviceReport), Declined> {
        if self.dead.load(Ordering::SeqCst) {
            // Whoever had a slot already may still come.
            let late = self.late.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(late < self.slots, "a lost device gets no more work");
            let assignment = Some(Box::new(task.assignment));
            return Err(Declined::Lost { assignment, why: "fell off the bus".to_owned() });
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        assert!(now <= self.slots, "no more proofs than slots");
        struct Leaves<'d>(&'d AtomicUsize);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let _leaves = Leaves(&self.now);
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        let Task { assignment, key, digest, r, s, given_back } = task;
        let fault = self.due();
        match fault {
            Some(Fault::Unable) => {
                return Err(Declined::Unable { assignment: Box::new(assignment), why: "no room".to_owned() });
            }
            Some(Fault::LostBefore) => {
                self.dead.store(true, Ordering::SeqCst);
                let assignment = Some(Box::new(assignment));
                return Err(Declined::Lost { assignment, why: "fell off the bus".to_owned() });
            }
            Some(Fault::LostWith) => {
                self.dead.store(true, Ordering::SeqCst);
                drop(assignment);
                given_back();
                return Err(Declined::Lost { assignment: None, why: "fell off the bus".to_owned() });
            }
            Some(Fault::Panics) => panic!("the device's code panics"),
            Some(Fault::WrongAnswer) | None => {}
        }
        self.keys.lock().unwrap().insert(digest);
        let begun = DeviceReport::empty(&self.name, self.ordinal);
        let job = Job::new(CircuitId::new("", None), vec![assignment], key, vec![r], vec![s]);
        let mut proved = native::prove(job)?.pop().expect("one proof");
        given_back();
        std::thread::sleep(self.delay);
        if fault == Some(Fault::WrongAnswer) {
            proved.proof.a = -proved.proof.a;
        }
        self.proofs.fetch_add(1, Ordering::SeqCst);
        let mut report = begun;
        report.busy = report.begun.elapsed();
        report.spans = vec![DeviceReport::span("NTT", false, Duration::ZERO, report.busy)];
        Ok((proved, report))
    }
}

/// One engine at a time: the memory is registered with the process.
static ALONE: Mutex<()> = Mutex::new(());

/// An engine with its memory.
pub(super) struct Rig {
    // Dropped in this order.
    engine: Option<Engine>,
    _registration: PoolRegistration<'static>,
    pub(super) pool: Pool,
    pub(super) budget: MemoryBudget,
    _alone: MutexGuard<'static, ()>,
}

/// How to build one.
pub(super) struct Plan {
    pub(super) budget: u64,
    pub(super) engine: EngineConfig,
    pub(super) fallback: bool,
    pub(super) exhaustion: Exhaustion,
}

impl Default for Plan {
    fn default() -> Self {
        let engine = EngineConfig { synthesis_workers: 2, ..EngineConfig::default() };
        Self { budget: 64 << 20, engine, fallback: false, exhaustion: Exhaustion::Fail }
    }
}

impl Plan {
    /// Over devices; over the CPU if there are none.
    pub(super) fn over(self, devices: &[Arc<Simulated>]) -> Rig {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = MemoryBudget::new(self.budget);
        let pool_config = PoolConfig {
            exhaustion: self.exhaustion,
            idle_timeout: None,
            slab_bytes: 0,
            ..PoolConfig::default()
        };
        let pool = Pool::new(Heap::new(), budget.clone(), pool_config);
        let registration = pool.register(&REGISTRY).expect("nothing is registered");
        let config = Config { exhaustion: self.exhaustion, ..Config::default() };
        let place = match devices {
            [] => Place::Cpu,
            devices => {
                let fleet = devices.iter().map(|device| device.clone() as Arc<dyn ProofDevice>).collect();
                Place::simulated(Fleet::new(fleet), 0, self.fallback)
            }
        };
        let prover = Arc::new(Prover::new(HintStore::in_memory(self.budget), place, &config));
        let engine = Engine::start(prover, Some(pool.clone()), budget.clone(), self.engine).expect("threads");
        Rig { engine: Some(engine), _registration: registration, pool, budget, _alone: alone }
    }
}

impl Rig {
    pub(super) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is there until the end")
    }

    pub(super) fn submit(&self, request: JobRequest) -> JobHandle {
        self.engine().submit(request).expect("the engine takes jobs")
    }

    /// Everything is back where it was.
    pub(super) fn is_at_rest(&self) {
        eventually("the engine at rest", || {
            let summary = self.engine().summary();
            (summary.pending, summary.live, summary.live_bytes) == (0, 0, 0)
                && summary.devices.iter().all(|device| device.busy == 0)
        });
        let stats = self.pool.stats();
        assert_eq!((stats.out_bytes, stats.in_flight_bytes, stats.blocks_out), (0, 0, 0), "{stats:?}");
        assert_eq!(self.budget.used(), stats.mapped_bytes, "only what the pool keeps");
        self.pool.trim_all();
        assert_eq!(self.budget.used(), 0);
    }

    pub(super) fn stop(mut self) {
        self.is_at_rest();
        self.engine = None;
    }
}

/// The shape of a chain.
pub(super) fn shape(count: usize) -> Shape {
    Shape { constraints: count + 2, inputs: 2, aux: count }
}

/// A job of chains that begin with these numbers.
pub(super) fn job(count: usize, xs: impl IntoIterator<Item = u64>) -> JobRequest {
    let circuits: Vec<Squarings> = xs.into_iter().map(|x| Squarings::new(x, count)).collect();
    JobRequest::new(key(count), circuits)
}

/// The proofs are those of these chains, in this order.
pub(super) fn are_of(proofs: &[Proven], count: usize, xs: impl IntoIterator<Item = u64>) {
    let vk = prepare_verifying_key(&key(count).vk);
    let xs: Vec<u64> = xs.into_iter().collect();
    assert_eq!(proofs.len(), xs.len());
    for (proven, x) in proofs.iter().zip(xs) {
        let output = Squarings::new(x, count).output();
        assert!(verify_proof(&vk, &proven.proof, &[output]).expect("inputs fit"), "the proof of {x}");
    }
}
