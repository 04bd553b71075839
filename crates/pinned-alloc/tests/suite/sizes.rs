//! Sizes that must not reach a function, and those that must.

use std::alloc::Layout;

use pinned_alloc::{array_layout, AllocError, Registry};

use crate::kit::{check, fill, four, Call, Lab, LIMIT, LIMIT_KNOB};

#[test]
fn no_bytes_and_too_many_never_reach_a_function() {
    let registry = Registry::new();
    let lab = Lab::new("unasked");
    let registration = lab.register(&registry).expect("an empty registry");

    assert_eq!(registry.allocate([]).map(|_: [_; 0]| ()), Err(AllocError::ZeroSize));
    let empty = Layout::from_size_align(0, 4096).expect("a layout");
    assert_eq!(registry.allocate([empty]).expect_err("no bytes"), AllocError::ZeroSize);
    for i in 0..4 {
        let mut layouts = four();
        layouts[i] = array_layout::<u64>(0).expect("a layout");
        assert_eq!(registry.allocate(layouts).expect_err("no bytes"), AllocError::ZeroSize);
    }
    let no_size = array_layout::<()>(usize::MAX).expect("no bytes, however many");
    assert_eq!(registry.allocate([no_size]).expect_err("no bytes"), AllocError::ZeroSize);

    // Each is a good layout, the group is not.
    let most = array_layout::<u8>(usize::MAX / 2).expect("isize::MAX bytes are a layout");
    let one = array_layout::<u8>(1).expect("a layout");
    let overflow = AllocError::CapacityOverflow { count: usize::MAX / 2 + 1, element_size: 1 };
    assert_eq!(registry.allocate([most, one]).expect_err("too many bytes"), overflow);
    assert_eq!(registry.allocate([one, most]).expect_err("too many bytes"), overflow);
    let twice = AllocError::CapacityOverflow { count: usize::MAX - 1, element_size: 1 };
    assert_eq!(registry.allocate([most, most, most]).expect_err("too many bytes"), twice);

    assert_eq!(lab.calls(), []);
    drop(registration);
    lab.finish(0);
}

#[test]
fn counts_that_overflow() {
    for count in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8 + 1] {
        assert_eq!(array_layout::<u64>(count), Err(AllocError::CapacityOverflow { count, element_size: 8 }));
    }
    assert_eq!(array_layout::<[u64; 4]>(3).map(|l| (l.size(), l.align())), Ok((96, 8)));
    assert!(array_layout::<u8>(isize::MAX as usize).is_ok());
    assert!(array_layout::<u8>(isize::MAX as usize + 1).is_err());
}

#[test]
fn growth_to_sizes_that_overflow() {
    let registry = Registry::new();
    let lab = Lab::new("unasked");
    let registration = lab.register(&registry).expect("an empty registry");
    let [mut block] = registry.allocate([four()[0]]).expect("an honest answer");
    for size in [usize::MAX, isize::MAX as usize + 1] {
        assert_eq!(block.grow(size), Err(AllocError::CapacityOverflow { count: size, element_size: 1 }));
    }
    assert_eq!(lab.count(Call::Grow), 0);
    let most = isize::MAX as usize;
    assert_eq!(block.grow(most), Err(AllocError::CannotGrow { size: 64, requested: most }));
    assert_eq!(block.size(), 64);
    drop((registration, block));
    lab.finish(0);
}

#[test]
fn the_largest_layout_is_the_allocators_to_refuse() {
    let registry = Registry::new();
    let lab = Lab::new("refuser");
    let registration = lab.register(&registry).expect("an empty registry");
    let requested = usize::MAX / 2;
    let most = array_layout::<u8>(requested).expect("isize::MAX bytes are a layout");
    let too_large = AllocError::TooLarge { requested, limit: LIMIT, knob: LIMIT_KNOB };
    assert_eq!(registry.allocate([most]).expect_err("the lab has a limit"), too_large);
    // A refusal in the middle of a group takes the blocks before it back, and the next request is served.
    let tib = array_layout::<u64>(1 << 37).expect("1 TiB is a layout");
    let [a, b, c, _] = four();
    assert!(matches!(registry.allocate([a, b, c, tib]), Err(AllocError::TooLarge { .. })));
    assert_eq!(lab.live(), 0);
    let blocks = registry.allocate(four()).expect("an honest answer");
    drop((registration, blocks));
    lab.finish(0);
}

#[test]
fn alignments_are_kept() {
    let registry = Registry::new();
    let lab = Lab::new("aligner");
    let registration = lab.register(&registry).expect("an empty registry");
    for shift in 0..=16 {
        let layout = Layout::from_size_align(33, 1 << shift).expect("a layout");
        let blocks = registry.allocate([layout; 3]).expect("an honest answer");
        for block in &blocks {
            assert!(block.as_ptr().addr().is_multiple_of(1 << shift));
            assert!(block.size() >= 33);
            fill(block, shift);
            check(block, 33, shift);
        }
    }
    drop(registration);
    lab.finish(0);
}
