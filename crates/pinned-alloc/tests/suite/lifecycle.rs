//! Registering, unregistering and registering again, with blocks out.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

use pinned_alloc::{
    allocate, current_name, AllocError, AlreadyRegistered, Block, Origin, RawBlock, Registration, Registry,
    Residency, VTable, REGISTRY,
};

use crate::kit::{check, fill, four, Call, Lab};

#[test]
fn what_crosses_threads() {
    fn both<T: Send + Sync>() {}
    both::<Registry>();
    both::<Registration<'static>>();
    both::<Block>();
    both::<Origin>();
    both::<AllocError>();
}

#[test]
fn one_at_a_time_and_the_refused_one_is_left_alone() {
    let registry = Registry::default();
    let (a, b) = (Lab::new("a"), Lab::new("b"));
    let registration = a.register(&registry).expect("an empty registry");
    assert_eq!(registry.current_name(), Some("a"));
    assert_eq!(registration.origin().name(), "a");
    assert_eq!(b.register(&registry).err(), Some(AlreadyRegistered { by: "a" }));
    assert_eq!(a.register(&registry).err(), Some(AlreadyRegistered { by: "a" }));
    assert_eq!(b.calls(), [], "`release` is not called for a refused state");
    assert_eq!(registry.current_name(), Some("a"));
    drop(registration);
    assert_eq!(registry.current_name(), None);
    a.finish(0);
    let registration = b.register(&registry).expect("the place is free again");
    assert_eq!(registry.current_name(), Some("b"));
    drop(registration);
    b.finish(0);
}

#[test]
fn blocks_go_back_to_where_they_came_from() {
    let registry = Registry::new();
    let (a, b) = (Lab::new("a"), Lab::new("b"));

    let registration = a.register(&registry).expect("an empty registry");
    let mut of_a = registry.allocate(four()).expect("an honest answer");
    of_a.iter().for_each(|block| fill(block, 1));
    drop(registration);
    assert!(!a.released(), "blocks are out");
    assert_eq!(registry.allocate(four()).expect_err("nobody is there"), AllocError::NotRegistered);

    let registration = b.register(&registry).expect("an empty registry");
    let of_b = registry.allocate(four()).expect("an honest answer");
    of_b.iter().for_each(|block| fill(block, 2));

    // Growing and sealing goes to a as well; its ledger checks that a free tells the size after growth.
    for (block, layout) in of_a.iter_mut().zip(four()) {
        assert_eq!(block.origin().name(), "a");
        assert_eq!(block.origin().state(), std::sync::Arc::as_ptr(&a).cast());
        check(block, layout.size(), 1);
        block.grow(layout.size() * 2).expect("within the reserve");
        block.seal().expect("an honest answer");
        assert_eq!((block.residency(), block.raw().residency), (Residency::Pinned, Residency::Pinned));
        fill(block, 3);
    }
    let [a0, a1, a2, a3] = of_a;
    drop([a2, a0, a3]);
    assert_eq!((a.count(Call::Free), a.released(), a.live()), (3, false, 1));
    drop(a1);
    assert_eq!((a.count(Call::Free), a.released()), (4, true), "released right after its last block");
    assert_eq!(b.count(Call::Free), 0);
    a.finish(0);

    of_b.iter().zip(four()).for_each(|(block, layout)| check(block, layout.size(), 2));
    drop(of_b);
    assert!(!b.released(), "still registered");
    drop(registration);
    b.finish(0);
}

#[test]
fn the_same_state_can_come_back_as_another_registration() {
    let registry = Registry::new();
    let lab = Lab::new("twice");
    let registration = lab.register(&registry).expect("an empty registry");
    drop(registration);
    lab.finish(0);
    // A static state, as an allocator without one has: two registrations share it, each is released once.
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
    let nothing = std::ptr::null::<()>();
    /// # Safety
    /// As `VTable::allocate`.
    unsafe fn refuse(
        _: *const (),
        _: &[std::alloc::Layout],
        _: &mut [Option<RawBlock>],
    ) -> Result<(), AllocError> {
        ALLOCATED.fetch_add(1, Relaxed);
        Err(AllocError::ShuttingDown)
    }
    /// # Safety
    /// None.
    unsafe fn no_grow(_: *const (), _: &RawBlock, _: usize) -> Result<usize, AllocError> {
        Err(AllocError::ShuttingDown)
    }
    /// # Safety
    /// None.
    unsafe fn no_seal(_: *const (), _: &RawBlock) -> Result<Residency, AllocError> {
        Err(AllocError::ShuttingDown)
    }
    /// # Safety
    /// None.
    unsafe fn no_free(_: *const (), _: RawBlock) {}
    /// # Safety
    /// None.
    unsafe fn count(_: *const ()) {
        RELEASED.fetch_add(1, Relaxed);
    }
    let vtable = VTable {
        name: "null",
        allocate: refuse,
        grow: no_grow,
        seal: no_seal,
        free: no_free,
        release: count,
    };
    for round in 1..=3 {
        // SAFETY: the functions use no state and never hand out a block.
        let registration = unsafe { registry.register(vtable, nothing) }.expect("an empty registry");
        // SAFETY: as above.
        let refused = unsafe { registry.register(vtable, nothing) };
        assert!(refused.is_err());
        assert_eq!(RELEASED.load(Relaxed), round - 1);
        assert_eq!(registry.allocate(four()).expect_err("it refuses"), AllocError::ShuttingDown);
        drop(registration);
        assert_eq!((ALLOCATED.load(Relaxed), RELEASED.load(Relaxed)), (round, round));
    }
}

#[test]
fn a_group_is_one_call() {
    let registry = Registry::new();
    let lab = Lab::new("counter");
    let registration = lab.register(&registry).expect("an empty registry");
    let blocks = registry.allocate([four()[0]; 32]).expect("an honest answer");
    assert_eq!(lab.calls(), [Call::Allocate]);
    drop((registration, blocks));
    assert_eq!(lab.count(Call::Free), 32);
    lab.finish(0);
}

/// Each function uses the registry that it is called from. A lock held around a call would hang this test.
#[test]
fn functions_may_use_the_registry() {
    static OUTER: Registry = Registry::new();
    static INNER: Registry = Registry::new();
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    /// The inner block behind each outer one, by its token.
    static BLOCKS: Mutex<Vec<Option<Block>>> = Mutex::new(Vec::new());

    fn with<R>(block: &RawBlock, f: impl FnOnce(&mut Option<Block>) -> R) -> R {
        f(&mut BLOCKS.lock().expect("nothing panics under it")[block.token])
    }
    /// # Safety
    /// As `VTable::allocate`.
    unsafe fn allocate(
        _: *const (),
        layouts: &[std::alloc::Layout],
        out: &mut [Option<RawBlock>],
    ) -> Result<(), AllocError> {
        assert_eq!(OUTER.current_name(), Some("outer"));
        if layouts.len() > 1 {
            return Err(AllocError::ShuttingDown);
        }
        // Asks itself for two, in the middle of being asked for one.
        assert!(OUTER.allocate([layouts[0], layouts[0]]).is_err());
        let [block] = INNER.allocate([layouts[0]])?;
        let mut blocks = BLOCKS.lock().expect("nothing panics under it");
        out[0] = Some(RawBlock { token: blocks.len(), ..*block.raw() });
        blocks.push(Some(block));
        Ok(())
    }
    /// # Safety
    /// As `VTable::grow`.
    unsafe fn grow(_: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError> {
        assert!(OUTER.allocate([four()[0], four()[1]]).is_err());
        with(block, |inner| {
            let inner = inner.as_mut().expect("live");
            inner.grow(min_size)?;
            Ok(inner.size())
        })
    }
    /// # Safety
    /// As `VTable::seal`.
    unsafe fn seal(_: *const (), block: &RawBlock) -> Result<Residency, AllocError> {
        assert_eq!(OUTER.current_name(), Some("outer"));
        with(block, |inner| {
            let inner = inner.as_mut().expect("live");
            inner.seal().map(|()| inner.residency())
        })
    }
    /// # Safety
    /// As `VTable::free`.
    unsafe fn free(_: *const (), block: RawBlock) {
        assert_eq!(OUTER.current_name(), None);
        drop(with(&block, Option::take).expect("live"));
    }
    /// # Safety
    /// None.
    unsafe fn release(_: *const ()) {
        // Registers a successor on its way out.
        if RELEASED.fetch_add(1, Relaxed) == 0 {
            // SAFETY: the functions use no state.
            drop(unsafe { OUTER.register(vtable(), std::ptr::null()) }.expect("the place is free by now"));
        }
    }
    fn vtable() -> VTable {
        VTable { name: "outer", allocate, grow, seal, free, release }
    }

    let lab = Lab::new("inner");
    let inner = lab.register(&INNER).expect("an empty registry");
    // SAFETY: the functions keep their contracts over blocks of `INNER`, and use no state.
    let outer = unsafe { OUTER.register(vtable(), std::ptr::null()) }.expect("an empty registry");
    let [mut block] = OUTER.allocate([four()[0]]).expect("an honest answer");
    fill(&block, 8);
    block.grow(128).expect("within the reserve");
    block.seal().expect("an honest answer");
    check(&block, 64, 8);
    drop(outer);
    assert_eq!(RELEASED.load(Relaxed), 0);
    drop(block);
    assert_eq!(RELEASED.load(Relaxed), 2, "itself and its successor");
    drop(inner);
    lab.finish(0);
}

#[test]
fn a_forgotten_registration_stays_and_harms_nobody() {
    // A static, in which the forgotten one is no leak to those who look for leaks.
    static REGISTRY: Registry = Registry::new();
    let lab = Lab::new("stays");
    std::mem::forget(lab.register(&REGISTRY).expect("an empty registry"));
    assert_eq!(REGISTRY.current_name(), Some("stays"));
    drop(REGISTRY.allocate(four()).expect("an honest answer"));
    assert!(Lab::new("other").register(&REGISTRY).is_err());
    assert_eq!((lab.live(), lab.released()), (0, false));
}

/// The one test of the process's registry, so that no other one is in its way.
#[test]
fn the_process_has_one_registry() {
    assert_eq!(current_name(), None);
    assert_eq!(allocate(four()).expect_err("nobody is there"), AllocError::NotRegistered);

    let lab = Lab::new("process");
    let registration: Registration<'static> = lab.register(&REGISTRY).expect("an empty registry");
    assert_eq!(current_name(), Some("process"));
    let blocks = std::thread::spawn(|| allocate(four())).join().expect("no panic").expect("an honest answer");
    blocks.iter().for_each(|block| fill(block, 1));

    // The registration is dropped by another thread, the blocks by a third.
    std::thread::spawn(move || drop(registration)).join().expect("no panic");
    assert_eq!(current_name(), None);
    assert_eq!(allocate(four()).expect_err("nobody is there"), AllocError::NotRegistered);
    assert!(!lab.released());
    std::thread::spawn(move || drop(blocks)).join().expect("no panic");
    lab.finish(0);

    let vtable = VTable { name: "free function", ..INERT };
    // SAFETY: the functions use no state and never hand out a block.
    let registration = unsafe { pinned_alloc::register(vtable, std::ptr::null()) }.expect("free again");
    assert_eq!(current_name(), Some("free function"));
    drop(registration);
    assert_eq!(current_name(), None);
}

const INERT: VTable = VTable {
    name: "inert",
    allocate: |_, _, _| Err(AllocError::ShuttingDown),
    grow: |_, _, _| Err(AllocError::ShuttingDown),
    seal: |_, _| Err(AllocError::ShuttingDown),
    free: |_, _| (),
    release: |_| (),
};
