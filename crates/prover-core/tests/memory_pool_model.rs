//! Random histories of the pool against a simple model, and a whole scenario with a backend that fails at
//! every call.
#![cfg(not(loom))]

mod memory_support;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;

use memory_support::*;
use pinned_alloc::{AllocError, Block, Registry};
use proptest::collection::vec;
use proptest::prelude::*;
use prover_core::memory::backend::Heap;
use prover_core::memory::pool::{CheckedOut, InFlight, Pool};
use prover_core::memory::{MemoryBudget, Priority, Reservation};

const TOTAL: usize = 24 * MIB;
const CAP: usize = 16 * MIB;

#[derive(Clone, Debug)]
enum Step {
    CheckOut(Vec<usize>),
    Allocate(usize, usize),
    Return(usize),
    Grow(usize, usize),
    Seal(usize),
    Fly(usize),
    Land(usize),
    DropFlying(usize),
    Signal(usize, bool),
    Trim(usize),
    Pressure(usize),
    Free(usize),
    Sabotage(u64),
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1..300usize, 4000..70_000usize, (1..9usize).prop_map(|n| n * MIB / 2), 1..5 * MIB]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => vec(size(), 1..5).prop_map(Step::CheckOut),
        2 => (size(), size()).prop_map(|(a, b)| Step::Allocate(a, b)),
        4 => any::<usize>().prop_map(Step::Return),
        2 => (any::<usize>(), size()).prop_map(|(i, s)| Step::Grow(i, s)),
        1 => any::<usize>().prop_map(Step::Seal),
        3 => any::<usize>().prop_map(Step::Fly),
        2 => any::<usize>().prop_map(Step::Land),
        2 => any::<usize>().prop_map(Step::DropFlying),
        3 => (any::<usize>(), prop::bool::weighted(0.85)).prop_map(|(i, ok)| Step::Signal(i, ok)),
        1 => (0..CAP).prop_map(Step::Trim),
        1 => (1..TOTAL).prop_map(Step::Pressure),
        2 => any::<usize>().prop_map(Step::Free),
        1 => (1..4u64).prop_map(Step::Sabotage),
    ]
}

/// What a holder knows of its set: each block's bytes begin with a pattern of its own.
struct Held {
    set: CheckedOut,
    pattern: u8,
}

struct Flying {
    set: InFlight<TestFence>,
    fence: TestFence,
    signal: Signal,
    sizes: Vec<usize>,
}

struct World {
    pool: Pool,
    budget: MemoryBudget,
    ledger: Arc<Ledger>,
    registry: &'static Registry,
    held: Vec<Held>,
    flying: Vec<Flying>,
    /// Fences of sets whose holder has gone, not signalled yet: (fence, bytes).
    abandoned: Vec<(TestFence, u64)>,
    elsewhere: Vec<Reservation>,
    quarantined: u64,
    next_pattern: u8,
}

impl World {
    fn new(registry: &'static Registry) -> Self {
        let (pool, budget, ledger) = pool_over(Heap::with_headroom(4), TOTAL, |config| {
            config.max_bytes = Some(CAP as u64);
            config.slab_bytes = MIB;
        });
        Self {
            pool,
            budget,
            ledger,
            registry,
            held: Vec::new(),
            flying: Vec::new(),
            abandoned: Vec::new(),
            elsewhere: Vec::new(),
            quarantined: 0,
            next_pattern: 1,
        }
    }

    fn hold(&mut self, mut set: CheckedOut, asked: &[usize]) {
        let pattern = self.next_pattern;
        self.next_pattern = self.next_pattern.wrapping_add(1).max(1);
        assert_eq!(set.len(), asked.len());
        for (index, asked) in asked.iter().enumerate() {
            assert!(set.size(index) >= *asked);
            mark(set.bytes_mut(index), pattern);
        }
        self.held.push(Held { set, pattern });
    }

    /// `Ok` or an error that is right for a full or a sabotaged pool.
    fn acceptable<T>(result: Result<T, AllocError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(
                AllocError::Exhausted { .. }
                | AllocError::TooLarge { .. }
                | AllocError::Refused { .. }
                | AllocError::CannotGrow { .. },
            ) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::CheckOut(sizes) => {
                if let Some(set) = Self::acceptable(self.pool.check_out(&layouts(sizes))) {
                    self.hold(set, sizes);
                }
            }
            Step::Allocate(a, b) => {
                let registration = self.pool.register(self.registry).unwrap();
                let blocks = self.registry.allocate([layout(*a), layout(*b)]);
                drop(registration);
                if let Some(blocks) = Self::acceptable(blocks) {
                    let blocks: Vec<Block> = blocks.into();
                    let set = self.pool.adopt(blocks).unwrap();
                    self.hold(set, &[*a, *b]);
                }
            }
            Step::Return(index) => drop(pick(&mut self.held, *index)),
            Step::Grow(index, size) => {
                let count = self.held.len();
                if count > 0 {
                    let held = &mut self.held[index % count];
                    let block = index % held.set.len();
                    let before = (held.set.as_ptr(block), held.set.size(block));
                    let grown = Self::acceptable(held.set.grow(block, *size));
                    let after = (held.set.as_ptr(block), held.set.size(block));
                    assert_eq!(before.0, after.0);
                    assert!(if grown.is_some() {
                        after.1 >= *size && after.1 >= before.1
                    } else {
                        after == before
                    });
                    assert_marked(held.set.bytes(block), held.pattern, before.1);
                    mark(held.set.bytes_mut(block), held.pattern);
                }
            }
            Step::Seal(index) => {
                let count = self.held.len();
                if count > 0 {
                    Self::acceptable(self.held[index % count].set.seal());
                }
            }
            Step::Fly(index) => {
                if let Some(Held { set, .. }) = pick(&mut self.held, *index) {
                    let fence = TestFence::new();
                    let sizes = (0..set.len()).map(|i| set.size(i)).collect();
                    let set = set.in_flight(fence.clone());
                    self.flying.push(Flying { set, fence, signal: Signal::Running, sizes });
                }
            }
            Step::Land(index) => {
                if let Some(flying) = pick(&mut self.flying, *index) {
                    let bytes: u64 = flying.sizes.iter().map(|size| *size as u64).sum();
                    match flying.set.try_wait() {
                        Ok(Ok(set)) => {
                            assert_eq!(flying.signal, Signal::Passed);
                            self.hold(set, &flying.sizes);
                        }
                        Ok(Err(set)) => {
                            assert_eq!(flying.signal, Signal::Running);
                            self.flying.push(Flying { set, ..flying });
                        }
                        Err(lost) => {
                            assert_eq!((flying.signal, lost.bytes), (Signal::Failed, bytes));
                            self.quarantined += bytes;
                        }
                    }
                }
            }
            Step::DropFlying(index) => {
                if let Some(flying) = pick(&mut self.flying, *index) {
                    let bytes = flying.sizes.iter().map(|size| *size as u64).sum();
                    drop(flying.set);
                    match flying.signal {
                        Signal::Running => self.abandoned.push((flying.fence, bytes)),
                        Signal::Failed => self.quarantined += bytes,
                        _ => {}
                    }
                }
            }
            Step::Signal(index, passes) => {
                let signal = if *passes { Signal::Passed } else { Signal::Failed };
                let choices = self.flying.len() + self.abandoned.len();
                let Some(choice) = index.checked_rem(choices) else { return };
                if let Some(flying) = self.flying.get_mut(choice) {
                    if flying.signal == Signal::Running {
                        flying.signal = signal;
                        flying.fence.signal(signal);
                    }
                } else {
                    let (fence, bytes) = self.abandoned.remove(choice - self.flying.len());
                    fence.signal(signal);
                    // Anything that wants memory makes the pool look at its fences.
                    self.budget.evict(1);
                    self.quarantined += if *passes { 0 } else { bytes };
                }
            }
            Step::Trim(keep) => {
                let before = self.pool.stats().idle_bytes;
                let freed = self.pool.trim(*keep as u64);
                assert_eq!(self.pool.stats().idle_bytes, before - freed);
            }
            Step::Pressure(bytes) => {
                if let Ok(reservation) = self.budget.try_reserve(*bytes as u64, Priority::NORMAL) {
                    self.elsewhere.push(reservation);
                }
            }
            Step::Free(index) => drop(pick(&mut self.elsewhere, *index)),
            Step::Sabotage(call) => self.ledger.fail_at(*call, Mischief::Refuse),
        }
        self.check();
    }

    /// The model: what the holders have is what the pool counts, and all of it is paid for.
    fn check(&self) {
        let sum = |sets: &mut dyn Iterator<Item = usize>| sets.map(|size| size as u64).sum::<u64>();
        let sizes_of = |set: &CheckedOut| (0..set.len()).map(|i| set.size(i)).collect::<Vec<_>>();
        let out = sum(&mut self.held.iter().flat_map(|held| sizes_of(&held.set)));
        let flying = sum(&mut self.flying.iter().flat_map(|flying| flying.sizes.clone()));
        let abandoned: u64 = self.abandoned.iter().map(|(_, bytes)| bytes).sum();
        let elsewhere: u64 = self.elsewhere.iter().map(Reservation::bytes).sum();
        let stats = self.pool.stats();
        assert_eq!(stats.out_bytes, out);
        assert_eq!(stats.in_flight_bytes, flying + abandoned);
        assert_eq!(stats.quarantined_bytes, self.quarantined);
        assert_eq!(stats.mapped_bytes, stats.idle_bytes + out + flying + abandoned + self.quarantined);
        assert_eq!(stats.mapped_bytes, self.ledger.live_bytes.load(SeqCst));
        assert_eq!(self.budget.used(), stats.mapped_bytes + elsewhere);
        assert!(stats.mapped_bytes <= CAP as u64 && self.budget.used() <= TOTAL as u64);
        assert!(self.ledger.peak_bytes.load(SeqCst) <= CAP as u64);
        assert_eq!(stats.changing_bytes, 0);
        let mut ranges: Vec<(usize, usize)> = self
            .held
            .iter()
            .map(|held| &held.set)
            .flat_map(|set| (0..set.len()).map(|i| (set.as_ptr(i).addr().get(), set.size(i))))
            .chain(
                self.flying
                    .iter()
                    .flat_map(|f| (0..f.set.len()).map(|i| (f.set.as_ptr(i).addr().get(), f.set.size(i)))),
            )
            .collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "blocks overlap");
        for Held { set, pattern } in &self.held {
            (0..set.len()).for_each(|i| assert_marked(set.bytes(i), *pattern, set.size(i)));
        }
    }

    fn end(mut self) {
        self.ledger.behave();
        self.held.clear();
        for flying in self.flying.drain(..) {
            if flying.signal == Signal::Running {
                flying.fence.signal(Signal::Passed);
            } else if flying.signal == Signal::Failed {
                self.quarantined += flying.sizes.iter().map(|size| *size as u64).sum::<u64>();
            }
        }
        self.abandoned.drain(..).for_each(|(fence, _)| fence.signal(Signal::Passed));
        self.elsewhere.clear();
        self.budget.evict(1);
        self.pool.trim_all();
        let stats = self.pool.stats();
        assert_eq!((stats.out_bytes, stats.in_flight_bytes, stats.requested_bytes), (0, 0, 0));
        assert_eq!(stats.quarantined_bytes, self.quarantined);
        if self.quarantined == 0 {
            assert_eq!((self.budget.used(), self.ledger.live_bytes.load(SeqCst)), (0, 0));
        }
    }
}

fn pick<T>(list: &mut Vec<T>, index: usize) -> Option<T> {
    index.checked_rem(list.len()).map(|index| list.swap_remove(index))
}

/// The ends of a block carry its holder's mark: a block handed out twice would show another's.
fn mark(bytes: &mut [u8], pattern: u8) {
    let last = bytes.len() - 1;
    bytes[0] = pattern;
    bytes[last / 2] = pattern;
    bytes[last] = pattern;
}

fn assert_marked(bytes: &[u8], pattern: u8, size: usize) {
    let last = size - 1;
    assert_eq!([bytes[0], bytes[last / 2], bytes[last]], [pattern; 3]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_agrees_with_the_model(steps in vec(step(), 1..60)) {
        let registry: &'static Registry = Box::leak(Box::new(Registry::new()));
        let mut world = World::new(registry);
        steps.iter().for_each(|step| world.run(step));
        world.end();
    }
}

/// Everything that calls the backend, once. Every error is an answer; what was checked out is returned.
fn scenario(pool: &Pool, registry: &Registry) -> Result<(), AllocError> {
    let _registration = pool.register(registry).unwrap();
    let mut blocks = registry.allocate([2 * MIB, MIB, MIB, 100].map(layout))?;
    // SAFETY: the block is ours.
    unsafe { blocks[0].as_ptr().write_bytes(1, 2 * MIB) };
    // A refused growth is survived: the caller moves to a larger block.
    let moved = match blocks[1].grow(MIB + 1) {
        Ok(()) => None,
        Err(_) => Some(registry.allocate([layout(2 * MIB)])?),
    };
    drop(moved);
    blocks[1].seal()?;
    let mut set = pool.adopt(blocks.into()).unwrap();
    let second = pool.check_out(&layouts(&[MIB, 5000, 3 * MIB]))?;
    set.grow(2, 2 * MIB)?;
    set.seal()?;
    let fence = TestFence::new();
    let flying = set.in_flight(fence.clone());
    fence.signal(Signal::Passed);
    drop(second);
    drop(flying);
    let third = pool.check_out(&layouts(&[12 * MIB]))?;
    drop(third);
    drop(pool.check_out(&layouts(&[MIB]))?);
    Ok(())
}

#[test]
fn a_backend_that_fails_at_any_call_leaves_nothing_behind() {
    hush_expected_panics();
    let mut failures = 0;
    for mischief in [Some(Mischief::Refuse), Some(Mischief::Panic), None] {
        for n in 1.. {
            let registry = Registry::new();
            let (pool, budget, ledger) = pool(16 * MIB, |_| {});
            match mischief {
                Some(mischief) => ledger.fail_at(n, mischief),
                None => ledger.fail_from(n),
            }
            // A panic of the backend passes through a direct call; through the registry it is an error.
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scenario(&pool, &registry)));
            let calls = ledger.calls();
            if let Ok(Err(error)) = &result {
                let fits = matches!(error, AllocError::Refused { .. } | AllocError::BrokenAllocator { .. });
                assert!(fits, "call {n}: {error}");
            }
            failures += u32::from(!matches!(result, Ok(Ok(()))));
            ledger.behave();
            let stats = pool.stats();
            assert_eq!((stats.out_bytes, stats.in_flight_bytes, stats.changing_bytes), (0, 0, 0), "call {n}");
            assert_eq!(stats.mapped_bytes, ledger.live_bytes.load(SeqCst), "call {n}");
            assert_eq!(stats.mapped_bytes, budget.used(), "call {n}");
            // And the pool is as good as new.
            scenario(&pool, &registry).unwrap();
            pool.trim_all();
            assert_eq!(
                (budget.used(), ledger.live_bytes.load(SeqCst), ledger.unmapped_dirty.load(SeqCst)),
                (0, 0, 0)
            );
            if calls < n {
                assert!(n > 10, "the scenario makes {calls} calls");
                break;
            }
        }
    }
    assert!(failures > 20, "{failures}");
}
