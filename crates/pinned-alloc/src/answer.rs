//! Checks of what a registered function answered, as far as they are possible without trusting it.
//!
//! What can be seen from the numbers alone is checked: count, size, alignment, the range of addresses, and
//! that the blocks of one group share no byte. What cannot be seen is the allocator's promise: that the
//! memory is there, that it is initialised, and that no block of an earlier group lies in it.

use std::alloc::Layout;

use crate::vtable::RawBlock;

/// Whether `size` bytes from the address `addr` can be an object at all: at most `isize::MAX` bytes, and the
/// address does not wrap. Pointer arithmetic and slices rest on both.
pub(crate) fn fits_address_space(addr: usize, size: usize) -> bool {
    isize::try_from(size).is_ok() && addr.checked_add(size).is_some()
}

/// The first thing wrong with one block of an answer, or `None`.
pub(crate) fn flaw(raw: Option<&RawBlock>, layout: &Layout) -> Option<&'static str> {
    let Some(raw) = raw else {
        return Some("it returned too few blocks");
    };
    if raw.size < layout.size() {
        Some("it returned a block that is too small")
    } else if !raw.ptr.addr().get().is_multiple_of(layout.align()) {
        Some("it returned a misaligned block")
    } else if !fits_address_space(raw.ptr.addr().get(), raw.size) {
        Some("it returned a block that passes the end of the address space")
    } else {
        None
    }
}

/// Marks each block that has a byte in common with another one of its group.
pub(crate) fn overlaps<const N: usize>(group: &[Option<RawBlock>; N]) -> [bool; N] {
    let mut marks = [false; N];
    let mut by_address: [usize; N] = std::array::from_fn(|i| i);
    by_address.sort_unstable_by_key(|&i| group[i].map(|raw| raw.ptr.addr()));

    // Among the blocks seen so far, the one that reaches furthest, and its end. Whatever starts before that
    // end overlaps it.
    let mut furthest: Option<(usize, usize)> = None;
    for i in by_address {
        let Some(raw) = &group[i] else { continue };
        let start = raw.ptr.addr().get();
        // A block that claims no bytes, or more than there can be, is no reason to distrust its neighbours;
        // but it has its address, and would be freed by it.
        let size = if fits_address_space(start, raw.size) { raw.size.max(1) } else { 1 };
        let end = start.saturating_add(size);
        match furthest {
            Some((holder, reach)) if start < reach => {
                marks[i] = true;
                marks[holder] = true;
                if end > reach {
                    furthest = Some((i, end));
                }
            }
            _ => furthest = Some((i, end)),
        }
    }
    marks
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::num::NonZeroUsize;
    use std::ptr::NonNull;

    use super::*;
    use crate::Residency;

    fn raw(addr: usize, size: usize) -> Option<RawBlock> {
        let ptr = NonNull::without_provenance(NonZeroUsize::new(addr).expect("an address in the test"));
        Some(RawBlock { ptr, size, token: 0, residency: Residency::Pageable })
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert_eq!(overlaps(&[raw(300, 100), raw(100, 100), None, raw(200, 100)]), [false; 4]);
    }

    #[test]
    fn every_block_with_a_shared_byte_is_marked_and_no_other() {
        assert_eq!(overlaps(&[raw(100, 10), raw(100, 10), raw(200, 10)]), [true, true, false]);
        assert_eq!(overlaps(&[raw(190, 11), raw(100, 10), raw(200, 10)]), [true, false, true]);
        // One long block over two short ones that do not touch each other.
        assert_eq!(
            overlaps(&[raw(110, 5), raw(100, 100), raw(150, 5), raw(200, 1)]),
            [true, true, true, false]
        );
        // A chain.
        assert_eq!(
            overlaps(&[raw(100, 20), raw(110, 20), raw(125, 20), raw(145, 1)]),
            [true, true, true, false]
        );
        // Blocks that claim no bytes, and one that wraps.
        assert_eq!(overlaps(&[raw(100, 0), raw(100, 0)]), [true; 2]);
        assert_eq!(overlaps(&[raw(usize::MAX - 1, 100), raw(16, 8)]), [false; 2]);
        assert_eq!(overlaps(&[raw(16, usize::MAX / 2 + 1), raw(32, 8), raw(16, 8)]), [true, false, true]);
    }

    #[test]
    fn marks_agree_with_comparing_all_pairs() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((seed >> 33) % below) as usize
        };
        let (mut some, mut none) = (0, 0);
        for _ in 0..if cfg!(miri) { 50 } else { 5_000 } {
            let group: [Option<RawBlock>; 6] =
                std::array::from_fn(|_| if draw(8) == 0 { None } else { raw(1 + draw(200), 1 + draw(40)) });
            let expected: [bool; 6] = std::array::from_fn(|i| {
                let Some(a) = group[i] else { return false };
                (0..6).any(|j| {
                    let Some(b) = group[j] else { return false };
                    let (a0, b0) = (a.ptr.addr().get(), b.ptr.addr().get());
                    i != j && a0 < b0 + b.size && b0 < a0 + a.size
                })
            });
            assert_eq!(overlaps(&group), expected, "{group:?}");
            some += usize::from(expected.contains(&true));
            none += usize::from(!expected.contains(&true));
        }
        assert!(some > 0 && none > 0, "both outcomes were drawn: {some} and {none}");
    }

    #[test]
    fn the_end_of_the_address_space() {
        assert!(fits_address_space(1, isize::MAX as usize));
        assert!(!fits_address_space(1, isize::MAX as usize + 1));
        assert!(fits_address_space(usize::MAX - 8, 8));
        assert!(!fits_address_space(usize::MAX - 8, 9));
    }
}
