//! Answers that cannot be true, one at a time: each is an error with its reason, the good blocks of the group
//! go back, and the allocator serves on.

use std::alloc::Layout;

use pinned_alloc::{AllocError, Registry, Residency};

use crate::kit::{bytes, check, fill, four, total, Call, How, Lab, Lie, REFUSED};

/// One false answer to a group of `layouts`. Then `freed` blocks were freed, and `lost` ones leaked.
#[track_caller]
fn caught(layouts: [Layout; 4], lie: Lie, what: &'static str, freed: usize, lost: usize) {
    let registry = Registry::new();
    let lab = Lab::new("liar");
    let registration = lab.register(&registry).expect("an empty registry");
    lab.lie(lie);
    let error = registry.allocate(layouts).expect_err("a false answer");
    assert_eq!(error, AllocError::BrokenAllocator { requested: total(layouts), what }, "{lie:?}");
    assert_eq!((lab.live(), lab.count(Call::Free)), (0, freed), "{lie:?}");

    let blocks = registry.allocate(layouts).expect("an honest answer");
    blocks.iter().for_each(|block| fill(block, 3));
    drop(registration);
    drop(blocks);
    lab.finish(lost);
}

#[test]
fn a_missing_block() {
    for i in 0..4 {
        caught(four(), Lie::Missing(i), "it returned too few blocks", 3, 0);
    }
}

#[test]
fn a_block_too_small() {
    for i in 0..4 {
        caught(four(), Lie::TooSmall(i), "it returned a block that is too small", 4, 0);
    }
    // Too small by one is no bytes at all here.
    let one = [Layout::new::<u8>(); 4];
    caught(one, Lie::TooSmall(2), "it returned a block that is too small", 4, 0);
}

#[test]
fn a_misaligned_block() {
    for i in [0, 1, 3] {
        caught(four(), Lie::Misaligned(i), "it returned a misaligned block", 4, 0);
    }
}

#[test]
fn a_size_that_no_object_can_have() {
    let what = "it returned a block that passes the end of the address space";
    for i in 0..4 {
        caught(four(), Lie::Huge(i), what, 4, 0);
        caught(bytes(), Lie::Wraps(i), what, 4, 0);
    }
}

#[test]
fn blocks_of_a_group_that_share_bytes_are_leaked_and_the_others_freed() {
    let what = "it returned blocks that overlap (they are leaked, not freed twice)";
    for (i, j) in [(0, 1), (1, 0), (0, 3), (3, 2)] {
        caught(bytes(), Lie::Twice(i, j), what, 2, 2);
        caught(bytes(), Lie::Overlap(i, j), what, 2, 2);
    }
}

#[test]
fn an_error_is_passed_on_as_it_is_and_its_blocks_are_ignored() {
    let registry = Registry::new();
    let lab = Lab::new("refuser");
    let registration = lab.register(&registry).expect("an empty registry");
    lab.lie(Lie::ErrWithBlocks);
    assert_eq!(registry.allocate(four()).expect_err("it refuses"), REFUSED);
    for i in 0..4 {
        lab.lie(Lie::FailHalfway(i));
        assert_eq!(registry.allocate(four()).expect_err("it refuses"), REFUSED);
    }
    assert_eq!(lab.calls(), [Call::Allocate; 5]);
    drop(registration);
    lab.finish(0);
}

#[test]
fn odd_pointers_generous_sizes_and_high_addresses_are_no_fault() {
    let registry = Registry::new();
    let lab = Lab::new("odd");
    let registration = lab.register(&registry).expect("an empty registry");
    lab.odd_pointers();
    lab.lie(Lie::Generous(1));
    let blocks = registry.allocate(bytes()).expect("an honest answer");
    for (block, layout) in blocks.iter().zip(bytes()) {
        assert!(!block.as_ptr().addr().is_multiple_of(2));
        fill(block, 9);
        check(block, layout.size(), 9);
    }
    assert_eq!(blocks.each_ref().map(|block| block.size()), [64, 97, 7, 128]);
    drop(blocks);

    lab.lie(Lie::HighAddress(0));
    let [block] = registry.allocate([bytes()[0]]).expect("the numbers fit");
    assert_eq!(block.as_ptr().addr() + block.size(), usize::MAX);
    drop((block, registration));
    lab.finish(0);
}

#[test]
fn growth_keeps_address_and_bytes_and_frees_with_the_true_size() {
    let registry = Registry::new();
    let lab = Lab::new("grower");
    let registration = lab.register(&registry).expect("an empty registry");
    let mut blocks = registry.allocate(four()).expect("an honest answer");
    for (block, layout) in blocks.iter_mut().zip(four()) {
        let (ptr, size) = (block.as_ptr(), layout.size());
        fill(block, 77);
        block.grow(size).expect("no more than it has");
        block.grow(0).expect("no more than it has");
        block.grow(size + 1).expect("within the reserve");
        assert_eq!((block.as_ptr(), block.size()), (ptr, size + 8));
        block.grow(size * 4).expect("within the reserve");
        assert_eq!((block.as_ptr(), block.size()), (ptr, size * 4));
        check(block, size, 77);
        // The bytes gained are initialised: Miri would object to this.
        fill(block, 78);
        assert_eq!(
            block.grow(size * 4 + 1),
            Err(AllocError::CannotGrow { size: size * 4, requested: size * 4 + 1 })
        );
        assert_eq!(block.size(), size * 4);
        check(block, size * 4, 78);
    }
    assert_eq!(lab.count(Call::Grow), 4 * 3, "a growth to no more than the block has asks nobody");
    drop((registration, blocks));
    lab.finish(0);
}

#[test]
fn a_false_growth_leaves_the_block_as_it_was() {
    let registry = Registry::new();
    let lab = Lab::new("liar");
    let registration = lab.register(&registry).expect("an empty registry");
    let [mut block] = registry.allocate([four()[0]]).expect("an honest answer");
    fill(&block, 5);
    for (lie, what) in [
        (Lie::GrowShort, "it grew a block to less than was asked for"),
        (Lie::GrowHuge, "it grew a block past the end of the address space"),
    ] {
        lab.lie(lie);
        assert_eq!(block.grow(100), Err(AllocError::BrokenAllocator { requested: 100, what }));
        assert_eq!(block.size(), 64);
        check(&block, 64, 5);
    }
    // One byte less than asked for, and less than the block had.
    lab.lie(Lie::GrowShort);
    block.grow(65).expect_err("64 bytes are not 65");
    lab.fault_at(1, How::Fail);
    assert_eq!(block.grow(100), Err(REFUSED));
    block.grow(100).expect("an honest answer");
    check(&block, 64, 5);
    drop((registration, block));
    lab.finish(0);
}

#[test]
fn a_growth_that_would_wrap_is_caught() {
    let registry = Registry::new();
    let lab = Lab::new("liar");
    let registration = lab.register(&registry).expect("an empty registry");
    lab.lie(Lie::HighAddress(0));
    let [mut block] = registry.allocate([bytes()[0]]).expect("the numbers fit");
    lab.lie(Lie::GrowSaysYes);
    let what = "it grew a block past the end of the address space";
    assert_eq!(block.grow(4096), Err(AllocError::BrokenAllocator { requested: 4096, what }));
    assert_eq!(block.size(), 4095);
    drop((registration, block));
    lab.finish(0);
}

#[test]
fn residency_is_what_the_last_seal_made_of_it() {
    let registry = Registry::new();
    let lab = Lab::new("sealer");
    let registration = lab.register(&registry).expect("an empty registry");
    let [mut block] = registry.allocate([four()[3]]).expect("an honest answer");
    assert_eq!(block.residency(), Residency::Locked);
    fill(&block, 1);
    block.seal().expect("an honest answer");
    assert_eq!(block.residency(), Residency::Pinned);
    lab.fault_at(1, How::Fail);
    assert_eq!(block.seal(), Err(REFUSED));
    assert_eq!(block.residency(), Residency::Pageable);
    check(&block, 80, 1);
    block.seal().expect("an honest answer");
    assert_eq!(block.residency(), Residency::Pinned);
    drop((registration, block));
    lab.finish(0);
}
