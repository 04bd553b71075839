//! A registered allocator for tests: it keeps a ledger of every block, hands out memory that is not zero, and can refuse.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinned_alloc::{AllocError, Cause, RawBlock, Registration, Residency, VTable};

/// What the allocator does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// Blocks can grow in place to so many times their first size; 0 and 1 mean not at all.
    pub growth: usize,
    /// Refuse from this call on (allocate, grow and seal count; the first is 0).
    pub refuse_from: Option<usize>,
    /// Refuse this call only.
    pub refuse_once: Option<usize>,
}

struct Entry {
    size: usize,
    layout: Layout,
}

#[derive(Default)]
struct Ledger {
    /// By token, which is the address.
    blocks: HashMap<usize, Entry>,
    calls: usize,
    allocated: usize,
    grown: usize,
    released: bool,
}

/// The allocator's state: its behaviour and its ledger.
pub struct TestAllocator {
    behaviour: Behaviour,
    ledger: Mutex<Ledger>,
}

/// The process has one registry, so tests that register take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Keeps a [`TestAllocator`] registered. Dropping it checks that every block came back.
pub struct Registered {
    allocator: Arc<TestAllocator>,
    registration: Option<Registration<'static>>,
    _turn: MutexGuard<'static, ()>,
}

/// Waits until no other test has an allocator registered, and keeps it so.
pub fn nobody_registered() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registered {
    /// Registers an allocator in the process's registry.
    pub fn new(behaviour: Behaviour) -> Self {
        let turn = nobody_registered();
        let allocator = Arc::new(TestAllocator { behaviour, ledger: Mutex::default() });
        let vtable = VTable { name: "test", allocate, grow, seal, free, release };
        let state = Arc::into_raw(allocator.clone()).cast::<()>();
        // SAFETY: the functions below keep their contracts; `state` owns a reference until `release`.
        let registration = unsafe { pinned_alloc::register(vtable, state) }.expect("nobody else registers");
        Self { allocator, registration: Some(registration), _turn: turn }
    }

    /// Calls of allocate, grow and seal so far, refused ones included.
    pub fn calls(&self) -> usize {
        self.allocator.lock().calls
    }

    /// Blocks allocated so far.
    pub fn allocated(&self) -> usize {
        self.allocator.lock().allocated
    }

    /// Blocks that grew in place so far.
    pub fn grown(&self) -> usize {
        self.allocator.lock().grown
    }

    /// Blocks that are out now.
    pub fn out(&self) -> usize {
        self.allocator.lock().blocks.len()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registration = None;
        if std::thread::panicking() {
            return;
        }
        let ledger = self.allocator.lock();
        assert_eq!(ledger.blocks.len(), 0, "blocks did not come back");
        assert!(ledger.released, "the state was not released");
    }
}

impl TestAllocator {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and refuses it if it is its turn.
    fn call(&self, requested: usize) -> Result<(), AllocError> {
        let call = {
            let mut ledger = self.lock();
            ledger.calls += 1;
            ledger.calls - 1
        };
        let refused = self.behaviour.refuse_once == Some(call)
            || self.behaviour.refuse_from.is_some_and(|from| call >= from);
        if refused {
            return Err(AllocError::Refused { requested, cause: Cause::new("test", 12, "ask again") });
        }
        Ok(())
    }
}

/// # Safety
/// `state` came from `Registered::new` and `release` was not called.
unsafe fn allocator<'a>(state: *const ()) -> &'a TestAllocator {
    // SAFETY: `state` is an `Arc<TestAllocator>` turned raw, and holds its reference until `release`.
    unsafe { &*state.cast::<TestAllocator>() }
}

unsafe fn allocate(
    state: *const (),
    layouts: &[Layout],
    out: &mut [Option<RawBlock>],
) -> Result<(), AllocError> {
    // SAFETY: the registry passes what was registered.
    let this = unsafe { allocator(state) };
    this.call(layouts.iter().map(Layout::size).sum())?;
    let mut ledger = this.lock();
    for (layout, out) in layouts.iter().zip(out) {
        let layout = Layout::from_size_align(layout.size() * this.behaviour.growth.max(1), layout.align())
            .expect("tests ask for little");
        // SAFETY: the size is not zero (the registry checks).
        let ptr = NonNull::new(unsafe { std::alloc::alloc(layout) }).expect("memory for a test");
        // Whoever relies on zeros shall notice. SAFETY: the block has that many bytes.
        unsafe { ptr.write_bytes(0xa5, layout.size()) };
        let size = layout.size() / this.behaviour.growth.max(1);
        let token = ptr.addr().get();
        ledger.blocks.insert(token, Entry { size, layout });
        ledger.allocated += 1;
        *out = Some(RawBlock { ptr, size, token, residency: Residency::Pinned });
    }
    Ok(())
}

unsafe fn grow(state: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError> {
    // SAFETY: the registry passes what was registered.
    let this = unsafe { allocator(state) };
    this.call(min_size)?;
    let mut ledger = this.lock();
    let entry = ledger.blocks.get_mut(&block.token).expect("a block of ours");
    assert_eq!((block.token, entry.size), (block.ptr.addr().get(), block.size));
    if min_size > entry.layout.size() {
        return Err(AllocError::CannotGrow { size: entry.size, requested: min_size });
    }
    entry.size = min_size;
    ledger.grown += 1;
    Ok(min_size)
}

unsafe fn seal(state: *const (), block: &RawBlock) -> Result<Residency, AllocError> {
    // SAFETY: the registry passes what was registered.
    let this = unsafe { allocator(state) };
    this.call(block.size)?;
    Ok(Residency::Pinned)
}

unsafe fn free(state: *const (), block: RawBlock) {
    // SAFETY: the registry passes what was registered.
    let this = unsafe { allocator(state) };
    let entry = this.lock().blocks.remove(&block.token).expect("a block of ours, freed once");
    let came_back = (block.ptr.addr().get(), block.size);
    assert_eq!((block.token, entry.size), came_back, "the true size comes back");
    // SAFETY: it came from `alloc` with that layout, and it is out of the ledger.
    unsafe { std::alloc::dealloc(block.ptr.as_ptr(), entry.layout) };
}

unsafe fn release(state: *const ()) {
    // SAFETY: takes back the reference that `Registered::new` gave, once.
    let this = unsafe { Arc::from_raw(state.cast::<TestAllocator>()) };
    this.lock().released = true;
}
