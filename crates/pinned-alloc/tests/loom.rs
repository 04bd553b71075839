//! A model of the registry: loom plays every interleaving of a few threads that register, allocate,
//! unregister and drop.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p pinned-alloc --test loom --release
//! ```
//!
//! What each model asks: every block is freed once and by the allocator it came from; `release` comes once,
//! after the last free, and only for an allocator that was registered. "After" is meant as the memory model
//! means it: the functions touch cells that loom watches for accesses without a happens-before edge. The
//! bookkeeping beside them is in `std` types, which loom does not see, so that it adds no such edge of its
//! own.
#![cfg(loom)]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use pinned_alloc::{AllocError, Block, RawBlock, Registration, Registry, Residency, VTable};

const BLOCKS: usize = 4;
const WORD: Layout = Layout::new::<u64>();

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Unused,
    Live,
    Freed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Books {
    slots: [Slot; BLOCKS],
    used: usize,
    releases: usize,
}

/// An allocator of [`BLOCKS`] blocks, each used once, with their contents in cells that loom watches.
struct Lab {
    name: &'static str,
    books: std::sync::Mutex<Books>,
    /// Read by every function, written by `release`.
    alive: UnsafeCell<bool>,
    contents: [UnsafeCell<usize>; BLOCKS],
}

// SAFETY: loom runs one thread at a time and reports accesses to the cells that nothing orders.
unsafe impl Send for Lab {}
// SAFETY: as above.
unsafe impl Sync for Lab {}

impl Lab {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            books: Default::default(),
            alive: UnsafeCell::new(true),
            contents: std::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    /// Registers the lab; the test holds it until the registry and all blocks are gone.
    fn register<'r>(self: &Arc<Self>, registry: &'r Registry) -> Option<Registration<'r>> {
        let vtable = VTable { name: self.name, allocate, grow, seal, free, release };
        // SAFETY: the functions keep their contracts but for the memory, which no test touches by the
        // pointers; each model keeps the lab to its end.
        unsafe { registry.register(vtable, Arc::as_ptr(self).cast()) }.ok()
    }

    fn assert_alive(&self) {
        // SAFETY: loom checks that no write is concurrent.
        self.alive.with(|alive| assert!(unsafe { *alive }, "used after release"));
    }

    /// A block's contents are written: by its allocator, its user, its allocator again.
    fn write(&self, token: usize) {
        // SAFETY: loom checks that no access is concurrent.
        self.contents[token].with_mut(|word| unsafe { *word += 1 });
    }

    fn take(&self) -> Option<usize> {
        self.assert_alive();
        let mut books = self.books.lock().unwrap();
        let token = books.used;
        *books.slots.get_mut(token)? = Slot::Live;
        books.used += 1;
        drop(books);
        self.write(token);
        Some(token)
    }

    fn give(&self, token: usize) {
        self.assert_alive();
        self.write(token);
        let slot = std::mem::replace(&mut self.books.lock().unwrap().slots[token], Slot::Freed);
        assert_eq!(slot, Slot::Live, "freed twice");
    }

    fn end(&self) {
        // SAFETY: loom checks that no access is concurrent.
        self.alive
            .with_mut(|alive| assert!(std::mem::replace(unsafe { &mut *alive }, false), "released twice"));
        let mut books = self.books.lock().unwrap();
        books.releases += 1;
        assert!(!books.slots.contains(&Slot::Live), "released with blocks out");
    }

    /// At the end of a model. Returns how many blocks were handed out.
    fn judge(&self, registrations: usize) -> usize {
        let books = self.books.lock().unwrap();
        assert_eq!(books.releases, registrations, "{}: releases", self.name);
        assert!(!books.slots.contains(&Slot::Live), "{}: {books:?}", self.name);
        books.used
    }
}

/// # Safety
/// `state` is from [`Lab::register`], and its model has not ended.
unsafe fn lab<'a>(state: *const ()) -> &'a Lab {
    // SAFETY: the caller's promise.
    unsafe { &*state.cast() }
}

/// # Safety
/// As `VTable::allocate`.
unsafe fn allocate(state: *const (), _: &[Layout], out: &mut [Option<RawBlock>]) -> Result<(), AllocError> {
    for out in out {
        // SAFETY: called before `release`.
        let token = unsafe { lab(state) }.take().expect("a model asks for no more than there are");
        // A number only: the contents are in the lab.
        let ptr = NonNull::without_provenance((4096 + 8 * token).try_into().unwrap());
        *out = Some(RawBlock { ptr, size: 8, token, residency: Residency::Pageable });
    }
    Ok(())
}

/// # Safety
/// As `VTable::grow`.
unsafe fn grow(state: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError> {
    // SAFETY: called before `release`.
    unsafe { lab(state) }.assert_alive();
    Err(AllocError::CannotGrow { size: block.size, requested: min_size })
}

/// # Safety
/// As `VTable::seal`.
unsafe fn seal(state: *const (), block: &RawBlock) -> Result<Residency, AllocError> {
    // SAFETY: called before `release`.
    unsafe { lab(state) }.assert_alive();
    Ok(block.residency)
}

/// # Safety
/// As `VTable::free`.
unsafe fn free(state: *const (), block: RawBlock) {
    // SAFETY: called before `release`.
    unsafe { lab(state) }.give(block.token);
}

/// # Safety
/// As `VTable::release`.
unsafe fn release(state: *const ()) {
    // SAFETY: this is the `release`.
    unsafe { lab(state) }.end();
}

/// Uses a block as its owner does.
fn use_block(block: &mut Block) {
    // SAFETY: the block is live, so its origin is not released.
    unsafe { lab(block.origin().state()) }.write(block.raw().token);
    assert!(block.grow(9).is_err());
    block.seal().unwrap();
}

/// Allocates one block, uses and drops it. Whether there was anybody to allocate from.
fn use_one(registry: &Registry) -> bool {
    match registry.allocate([WORD]) {
        Ok([mut block]) => {
            use_block(&mut block);
            true
        }
        Err(AllocError::NotRegistered) => false,
        Err(e) => panic!("{e}"),
    }
}

/// Counts over all interleavings of a model, to see that it reached what it is for.
#[derive(Default)]
struct Seen(std::sync::Mutex<std::collections::BTreeSet<&'static str>>);

impl Seen {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().insert(what);
    }

    #[track_caller]
    fn assert(&self, all: &[&'static str]) {
        let seen = self.0.lock().unwrap().iter().copied().collect::<Vec<_>>();
        assert_eq!(seen, all, "outcomes that the model reached");
    }
}

#[test]
fn allocate_against_unregister() {
    let seen = Arc::new(Seen::default());
    let seen_in = seen.clone();
    loom::model(move || {
        let (registry, lab) = (Arc::new(Registry::new()), Lab::new("a"));
        let registration = lab.register(&registry).unwrap();
        let worker = thread::spawn({
            let registry = registry.clone();
            move || use_one(&registry)
        });
        drop(registration);
        let late = lab.books.lock().unwrap().releases == 0;
        let got = worker.join().unwrap();
        assert_eq!(registry.current_name(), None);
        assert_eq!(lab.judge(1), usize::from(got));
        seen_in.add(match (got, late) {
            (false, _) => "nobody was there",
            (true, false) => "freed before the end of the registration",
            (true, true) => "outlived the registration",
        });
    });
    seen.assert(&[
        "freed before the end of the registration",
        "nobody was there",
        "outlived the registration",
    ]);
}

#[test]
fn two_allocate_against_unregister() {
    loom::model(|| {
        let (registry, lab) = (Arc::new(Registry::new()), Lab::new("a"));
        let registration = lab.register(&registry).unwrap();
        let workers = [(); 2].map(|()| {
            let registry = registry.clone();
            thread::spawn(move || use_one(&registry))
        });
        drop(registration);
        let got = workers.map(|worker| worker.join().unwrap());
        assert_eq!(lab.judge(1), got.iter().filter(|got| **got).count());
    });
}

#[test]
fn blocks_of_one_group_dropped_by_three_threads() {
    loom::model(|| {
        let (registry, lab) = (Registry::new(), Lab::new("a"));
        let registration = lab.register(&registry).unwrap();
        let [mut x, mut y] = registry.allocate([WORD; 2]).unwrap();
        let x = thread::spawn(move || use_block(&mut x));
        let y = thread::spawn(move || use_block(&mut y));
        drop(registration);
        x.join().unwrap();
        y.join().unwrap();
        assert_eq!(lab.judge(1), 2);
    });
}

#[test]
fn allocate_against_another_registration() {
    let seen = Arc::new(Seen::default());
    let seen_in = seen.clone();
    loom::model(move || {
        let registry = Arc::new(Registry::new());
        let (a, b) = (Lab::new("a"), Lab::new("b"));
        let registration = a.register(&registry).unwrap();
        let worker = thread::spawn({
            let registry = registry.clone();
            move || {
                let [mut block] = registry.allocate([WORD]).ok()?;
                use_block(&mut block);
                Some(block.origin().name())
            }
        });
        drop(registration);
        let registration = b.register(&registry).expect("the place is free");
        let from = worker.join().unwrap();
        drop(registration);
        assert_eq!(a.judge(1), usize::from(from == Some("a")));
        assert_eq!(b.judge(1), usize::from(from == Some("b")));
        seen_in.add(from.unwrap_or("nobody"));
    });
    seen.assert(&["a", "b", "nobody"]);
}

#[test]
fn a_block_lives_on_under_the_next_registration() {
    loom::model(|| {
        let registry = Arc::new(Registry::new());
        let (a, b) = (Lab::new("a"), Lab::new("b"));
        let registration = a.register(&registry).unwrap();
        let [mut block] = registry.allocate([WORD]).unwrap();
        let worker = thread::spawn({
            let registry = registry.clone();
            move || {
                use_block(&mut block);
                drop(block);
                use_one(&registry)
            }
        });
        drop(registration);
        let registration = b.register(&registry).expect("the place is free");
        worker.join().unwrap();
        drop(registration);
        assert!(a.judge(1) >= 1);
        b.judge(1);
    });
}

#[test]
fn two_register_and_a_third_allocates() {
    let seen = Arc::new(Seen::default());
    let seen_in = seen.clone();
    loom::model(move || {
        let registry = Arc::new(Registry::new());
        let labs = [Lab::new("a"), Lab::new("b")];
        let racers = labs.clone().map(|lab| {
            let registry = registry.clone();
            thread::spawn(move || lab.register(&registry).is_some())
        });
        let got = use_one(&registry);
        let won = racers.map(|racer| racer.join().unwrap());
        assert!(won.contains(&true), "one found the place free");
        let blocks: usize = labs.iter().zip(won).map(|(lab, won)| lab.judge(usize::from(won))).sum();
        assert_eq!(blocks, usize::from(got));
        seen_in.add(match (won, got) {
            ([true, true], _) => "one after the other",
            (_, true) => "one, and a block",
            (_, false) => "one, and no block",
        });
    });
    seen.assert(&["one after the other", "one, and a block", "one, and no block"]);
}

/// Registries with a bug each, to see that the labs notice.
mod broken {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::Mutex;

    use super::*;

    /// Unregistering releases at once, as if no block could be out.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn release_that_does_not_wait_for_blocks() {
        loom::model(|| {
            let lab = Lab::new("a");
            let current = Arc::new(Mutex::new(Some(lab.clone())));
            let worker = thread::spawn({
                let current = current.clone();
                move || {
                    let Some(lab) = current.lock().unwrap().clone() else { return };
                    let token = lab.take().unwrap();
                    lab.give(token);
                }
            });
            if let Some(lab) = current.lock().unwrap().take() {
                lab.end();
            }
            worker.join().unwrap();
        });
    }

    /// Blocks are counted, but the count orders nothing: the release may not see the last free.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn a_count_without_ordering() {
        loom::model(|| {
            let (lab, count) = (Lab::new("a"), Arc::new(AtomicUsize::new(2)));
            let token = lab.take().unwrap();
            let leave = |lab: &Lab, count: &AtomicUsize| {
                if count.fetch_sub(1, Ordering::Relaxed) == 1 {
                    lab.end();
                }
            };
            let worker = thread::spawn({
                let (lab, count) = (lab.clone(), count.clone());
                move || {
                    lab.give(token);
                    leave(&lab, &count);
                }
            });
            leave(&lab, &count);
            worker.join().unwrap();
        });
    }
}
