//! Functions that panic: the panic stops at the crate, a group or a growth becomes an error, `free` and
//! `release` leak.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pinned_alloc::{AllocError, Registry, Residency};

use crate::kit::{check, fill, four, total, Call, How, Lab, Lie};

const PANICS: [How; 3] = [How::Panic, How::Bomb, How::Hydra];

#[test]
fn in_allocate() {
    let broken =
        AllocError::BrokenAllocator { requested: total(four()), what: "its allocate function panicked" };
    for how in PANICS {
        let registry = Registry::new();
        let lab = Lab::new("panics");
        let registration = lab.register(&registry).expect("an empty registry");
        lab.fault_at(1, how);
        assert_eq!(registry.allocate(four()).expect_err("a panic"), broken);
        let blocks = registry.allocate(four()).expect("the registry is whole");
        drop((registration, blocks));
        lab.finish(0);
    }
}

#[test]
fn in_allocate_with_blocks_made_already() {
    let registry = Registry::new();
    let lab = Lab::new("panics");
    let registration = lab.register(&registry).expect("an empty registry");
    lab.lie(Lie::PanicHalfway);
    assert!(matches!(registry.allocate(four()), Err(AllocError::BrokenAllocator { .. })));
    assert_eq!(lab.count(Call::Free), 0, "what a panic left in the answer is not touched");
    drop(registration);
    lab.finish(1);
}

#[test]
fn in_grow_and_seal() {
    for how in PANICS {
        let registry = Registry::new();
        let lab = Lab::new("panics");
        let registration = lab.register(&registry).expect("an empty registry");
        let [mut block] = registry.allocate([four()[0]]).expect("an honest answer");
        fill(&block, 40);
        lab.fault_at(1, how);
        let what = "its grow function panicked";
        assert_eq!(block.grow(100), Err(AllocError::BrokenAllocator { requested: 100, what }));
        assert_eq!(block.size(), 64);
        lab.fault_at(1, how);
        let what = "its seal function panicked";
        assert_eq!(block.seal(), Err(AllocError::BrokenAllocator { requested: 64, what }));
        assert_eq!(block.residency(), Residency::Pageable);
        check(&block, 64, 40);
        block.grow(100).expect("the block is whole");
        block.seal().expect("the block is whole");
        drop((registration, block));
        lab.finish(0);
    }
}

#[test]
fn in_free() {
    for how in PANICS {
        for n in 1..=4 {
            let registry = Registry::new();
            let lab = Lab::new("panics");
            let registration = lab.register(&registry).expect("an empty registry");
            let blocks = registry.allocate(four()).expect("an honest answer");
            lab.fault_at(n, how);
            drop(blocks);
            assert_eq!(lab.count(Call::Free), 4, "the others are freed, and none is tried twice");
            drop(registration);
            lab.finish(1);
        }
    }
}

#[test]
fn in_free_while_a_panic_unwinds() {
    for how in PANICS {
        let registry = Registry::new();
        let lab = Lab::new("panics");
        let registration = lab.register(&registry).expect("an empty registry");
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _blocks = registry.allocate(four()).expect("an honest answer");
            lab.fault_at(2, how);
            panic!("synthesis failed");
        }));
        let payload = unwound.expect_err("it panicked");
        assert_eq!(payload.downcast_ref(), Some(&"synthesis failed"));
        assert_eq!(lab.count(Call::Free), 4);
        drop(registration);
        lab.finish(1);
    }
}

#[test]
fn in_free_of_the_good_blocks_of_a_false_group() {
    let registry = Registry::new();
    let lab = Lab::new("panics");
    let registration = lab.register(&registry).expect("an empty registry");
    lab.lie(Lie::Missing(0));
    lab.fault_at(2, How::Bomb);
    let broken = AllocError::BrokenAllocator { requested: total(four()), what: "it returned too few blocks" };
    assert_eq!(registry.allocate(four()).expect_err("a false answer"), broken);
    assert_eq!(lab.count(Call::Free), 3);
    drop(registration);
    lab.finish(1);
}

#[test]
fn in_release() {
    for how in PANICS {
        let registry = Registry::new();
        let lab = Lab::new("panics");
        let registration = lab.register(&registry).expect("an empty registry");
        lab.fault_at(1, how);
        drop(registration);
        lab.finish(0);
        let next = Lab::new("next");
        drop(next.register(&registry).expect("the place is free again"));
        next.finish(0);

        // The last block, not the registration, sets the release off.
        let lab = Lab::new("panics");
        let registration = lab.register(&registry).expect("an empty registry");
        let [block] = registry.allocate([four()[0]]).expect("an honest answer");
        drop(registration);
        lab.fault_at(2, how);
        drop(block);
        lab.finish(0);
    }
}
