//! A backend that keeps a ledger, fails, panics or peeks at chosen calls, over any real backend.
#![allow(dead_code, unreachable_pub)]

#[cfg(unix)]
pub mod driver;
pub mod log;
pub mod process;
#[cfg(unix)]
pub mod suite;

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinned_alloc::{AllocError, Cause, Residency};
use prover_core::memory::backend::{Backend, Heap, Region};
use prover_core::memory::pool::{Exhaustion, Fence, FenceError, Pool, PoolConfig};
use prover_core::memory::MemoryBudget;

pub const MIB: usize = 1 << 20;
pub const LONG: Duration = Duration::from_secs(20);

/// What a [`Ledger`] does at the call it is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    Refuse,
    Panic,
}

type Peek = Box<dyn Fn(&'static str) + Send + Sync>;

/// Counts and sabotage, shared by a backend and its regions.
#[derive(Default)]
pub struct Ledger {
    pub maps: AtomicU64,
    pub unmaps: AtomicU64,
    pub grows: AtomicU64,
    pub seals: AtomicU64,
    pub unpins: AtomicU64,
    pub live_bytes: AtomicU64,
    pub peak_bytes: AtomicU64,
    /// Regions that held something else than zeros when they were unmapped.
    pub unmapped_dirty: AtomicU64,
    pub sizes_unmapped: Mutex<Vec<usize>>,
    calls: AtomicU64,
    fail_at: AtomicU64,
    fail_from_then_on: AtomicBool,
    mischief: Mutex<Option<Mischief>>,
    refuse_above: AtomicU64,
    peek: Mutex<Option<Arc<Peek>>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({} live bytes)", self.live_bytes.load(SeqCst))
    }
}

impl Ledger {
    /// The `n`-th call from now (1 is the next) of map, grow, seal or unpin misbehaves, once.
    pub fn fail_at(&self, n: u64, mischief: Mischief) {
        *self.mischief.lock().unwrap() = Some(mischief);
        self.fail_from_then_on.store(false, SeqCst);
        self.calls.store(0, SeqCst);
        self.fail_at.store(n, SeqCst);
    }

    /// As [`fail_at`](Self::fail_at), and every call after it refuses too.
    pub fn fail_from(&self, n: u64) {
        self.fail_at(n, Mischief::Refuse);
        self.fail_from_then_on.store(true, SeqCst);
    }

    pub fn behave(&self) {
        self.fail_at(0, Mischief::Refuse);
    }

    pub fn refuse_above(&self, bytes: u64) {
        self.refuse_above.store(bytes, SeqCst);
    }

    /// Calls `peek` in every call of the backend, unmapping included.
    pub fn peek(&self, peek: impl Fn(&'static str) + Send + Sync + 'static) {
        *self.peek.lock().unwrap() = Some(Arc::new(Box::new(peek)));
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    fn call(&self, name: &'static str, size: usize) -> Result<(), AllocError> {
        self.look(name);
        let call = self.calls.fetch_add(1, SeqCst) + 1;
        let fail_at = self.fail_at.load(SeqCst);
        let fails = call == fail_at || (fail_at > 0 && call > fail_at && self.fail_from_then_on.load(SeqCst));
        let limit = self.refuse_above.load(SeqCst);
        if !fails && (limit == 0 || size as u64 <= limit) {
            return Ok(());
        }
        if fails && *self.mischief.lock().unwrap() == Some(Mischief::Panic) {
            panic!("the backend panics in {name}");
        }
        Err(AllocError::Refused { requested: size, cause: Cause::new(name, 12, "ask for less") })
    }

    fn look(&self, name: &'static str) {
        let peek = self.peek.lock().unwrap().clone();
        if let Some(peek) = peek {
            peek(name);
        }
    }

    fn more(&self, bytes: usize) {
        let live = self.live_bytes.fetch_add(bytes as u64, SeqCst) + bytes as u64;
        self.peak_bytes.fetch_max(live, SeqCst);
    }
}

#[derive(Debug)]
pub struct Watched {
    backend: Box<dyn Backend>,
    ledger: Arc<Ledger>,
}

impl Watched {
    pub fn new(backend: Box<dyn Backend>) -> (Self, Arc<Ledger>) {
        let ledger = Arc::new(Ledger::default());
        (Self { backend, ledger: ledger.clone() }, ledger)
    }
}

impl Backend for Watched {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn residency(&self) -> Residency {
        self.backend.residency()
    }

    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        self.ledger.call("map", size)?;
        let region = self.backend.map(size, align, reserve)?;
        self.ledger.maps.fetch_add(1, SeqCst);
        self.ledger.more(region.committed());
        Ok(Box::new(WatchedRegion { region, ledger: self.ledger.clone() }))
    }
}

#[derive(Debug)]
struct WatchedRegion {
    region: Box<dyn Region>,
    ledger: Arc<Ledger>,
}

// SAFETY: all is delegated to a region that keeps the contract.
unsafe impl Region for WatchedRegion {
    fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    fn committed(&self) -> usize {
        self.region.committed()
    }

    fn reserved(&self) -> usize {
        self.region.reserved()
    }

    fn residency(&self) -> Residency {
        self.region.residency()
    }

    fn is_here(&self) -> bool {
        self.region.is_here()
    }

    fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        self.ledger.call("grow", size)?;
        let before = self.region.committed();
        self.region.grow(size)?;
        self.ledger.grows.fetch_add(1, SeqCst);
        self.ledger.more(self.region.committed() - before);
        Ok(())
    }

    fn seal(&mut self) -> Result<Residency, AllocError> {
        self.ledger.call("seal", self.region.committed())?;
        self.ledger.seals.fetch_add(1, SeqCst);
        self.region.seal()
    }

    fn unpin(&mut self) -> Result<(), AllocError> {
        self.ledger.call("unpin", self.region.committed())?;
        self.ledger.unpins.fetch_add(1, SeqCst);
        self.region.unpin()
    }
}

impl Drop for WatchedRegion {
    fn drop(&mut self) {
        self.ledger.look("unmap");
        let size = self.region.committed();
        // SAFETY: the region's bytes are initialised, and nobody else has them while it is dropped.
        let bytes = unsafe { std::slice::from_raw_parts(self.region.as_ptr().as_ptr(), size) };
        // Miri would take minutes over every byte.
        let step = if cfg!(miri) { 65_537 } else { 1 };
        if bytes.iter().step_by(step).any(|byte| *byte != 0) {
            self.ledger.unmapped_dirty.fetch_add(1, SeqCst);
        }
        self.ledger.unmaps.fetch_add(1, SeqCst);
        self.ledger.sizes_unmapped.lock().unwrap().push(size);
        self.ledger.live_bytes.fetch_sub(size as u64, SeqCst);
    }
}

/// A budget whose timers never fire, so that a lost notification shows as a time-out.
pub fn budget(total: usize) -> MemoryBudget {
    MemoryBudget::with(total as u64, "--memory-budget", Duration::from_secs(3600))
}

/// A pool with a ledger, with settings changed by `change`, over the backend under test: the heap, or the one that
/// `PROVER_CORE_TEST_BACKEND` names (`pages`, or `cuda-register` on a machine with a device).
pub fn pool(total: usize, change: impl FnOnce(&mut PoolConfig)) -> (Pool, MemoryBudget, Arc<Ledger>) {
    pool_over_boxed(backend_under_test(), total, change)
}

fn backend_under_test() -> Box<dyn Backend> {
    match std::env::var("PROVER_CORE_TEST_BACKEND").as_deref() {
        Err(_) | Ok("heap") => Box::new(Heap::with_headroom(16)),
        #[cfg(unix)]
        Ok("pages") => Box::new(prover_core::memory::backend::Pages::new()),
        #[cfg(unix)]
        Ok("cuda-register") => {
            let context =
                prover_core::cuda::Context::retain(0).expect("PROVER_CORE_TEST_BACKEND wants a device");
            Box::new(prover_core::memory::backend::CudaRegister::new(context))
        }
        Ok(other) => panic!("PROVER_CORE_TEST_BACKEND={other}: no such backend"),
    }
}

/// Whether tests run over the heap, whose regions are what the counts in them say.
pub fn over_the_heap() -> bool {
    backend_under_test().name() == "heap"
}

pub fn pool_over(
    backend: impl Backend,
    total: usize,
    change: impl FnOnce(&mut PoolConfig),
) -> (Pool, MemoryBudget, Arc<Ledger>) {
    pool_over_boxed(Box::new(backend), total, change)
}

pub fn pool_over_boxed(
    backend: Box<dyn Backend>,
    total: usize,
    change: impl FnOnce(&mut PoolConfig),
) -> (Pool, MemoryBudget, Arc<Ledger>) {
    let budget = budget(total);
    let (backend, ledger) = Watched::new(backend);
    let mut config = PoolConfig::default();
    config.exhaustion = Exhaustion::Fail;
    config.idle_timeout = None;
    config.close_timeout = LONG;
    change(&mut config);
    (Pool::new(backend, budget.clone(), config), budget, ledger)
}

pub fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 32).unwrap()
}

pub fn layouts(sizes: &[usize]) -> Vec<Layout> {
    sizes.iter().map(|size| layout(*size)).collect()
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::sleep(Duration::from_micros(200));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Running,
    Passed,
    Failed,
    Panics,
}

/// A fence that a test, or a thread that plays the device, signals.
#[derive(Clone)]
pub struct TestFence(Arc<(Mutex<Signal>, Condvar)>);

impl TestFence {
    pub fn new() -> Self {
        Self(Arc::new((Mutex::new(Signal::Running), Condvar::new())))
    }

    pub fn signal(&self, signal: Signal) {
        *self.0 .0.lock().unwrap() = signal;
        self.0 .1.notify_all();
    }

    fn answer(signal: Signal) -> Result<bool, FenceError> {
        match signal {
            Signal::Running => Ok(false),
            Signal::Passed => Ok(true),
            Signal::Failed => Err(FenceError("error 700".into())),
            Signal::Panics => panic!("the driver panics"),
        }
    }
}

impl Fence for TestFence {
    fn is_passed(&self) -> Result<bool, FenceError> {
        let signal = *self.0 .0.lock().unwrap();
        Self::answer(signal)
    }

    fn wait(&self) -> Result<(), FenceError> {
        let guard = self.0 .0.lock().unwrap();
        let signal = *self.0 .1.wait_while(guard, |signal| *signal == Signal::Running).unwrap();
        Self::answer(signal).map(|_| ())
    }
}

/// Keeps the panics that tests cause on purpose out of the output; printing their backtraces takes seconds.
pub fn hush_expected_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>().map(String::as_str);
            let text = text.or(info.payload().downcast_ref::<&str>().copied()).unwrap_or_default();
            if !text.starts_with("the backend panics") && !text.starts_with("the driver panics") {
                usual(info);
            }
        }));
    });
}
