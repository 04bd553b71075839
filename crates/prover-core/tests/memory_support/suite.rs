//! The behaviour that every backend has.

use pinned_alloc::{AllocError, Residency};
use prover_core::memory::backend::{rounded, wipe, Backend, Region, HUGE_PAGE, PAGE};

/// Small enough for the 8 MiB that ordinary users may lock, all of the suite's regions together.
pub const SMALL: usize = 3 * PAGE + 1;

pub fn bytes(region: &dyn Region) -> &[u8] {
    // SAFETY: a region's committed bytes are initialised and ours while it is borrowed; nobody writes
    // meanwhile.
    unsafe { std::slice::from_raw_parts(region.as_ptr().as_ptr(), region.committed()) }
}

pub fn bytes_mut(region: &mut dyn Region) -> &mut [u8] {
    // SAFETY: as above, and borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(region.as_ptr().as_ptr(), region.committed()) }
}

pub fn behaves(backend: &dyn Backend) {
    let name = backend.name();
    for (size, align, reserve) in [
        (1, 1, 0),
        (SMALL, 8, SMALL),
        (PAGE, PAGE, 1 << 20),
        (HUGE_PAGE, HUGE_PAGE, 64 << 20),
        (64, 4 * HUGE_PAGE, 0),
        (HUGE_PAGE + 1, 32, 1 << 40),
    ] {
        let mut region =
            backend.map(size, align, reserve).unwrap_or_else(|e| panic!("{name}, {size} bytes: {e}"));
        assert_eq!(region.committed(), rounded(size).unwrap(), "{name}, {size}");
        assert!(region.committed() < size + HUGE_PAGE, "{name}, {size}");
        assert!(region.reserved() >= region.committed());
        assert!(region.as_ptr().addr().get().is_multiple_of(align.max(PAGE)), "{name}, {align}");
        assert_eq!(region.residency(), backend.residency());
        assert!(bytes(&*region).iter().all(|byte| *byte == 0), "{name}: fresh memory is zero");
        bytes_mut(&mut *region).fill(0xA5);
        assert_eq!(region.seal(), Ok(backend.residency()));
        assert!(bytes(&*region).iter().all(|byte| *byte == 0xA5), "{name}: sealing keeps the bytes");
        let (first, committed) = (region.as_ptr(), region.committed());
        // SAFETY: the bytes are the region's and nobody else uses them.
        unsafe { wipe(first, committed) };
        assert!(bytes(&*region).iter().all(|byte| *byte == 0), "{name}: wiped");
    }
    grows(backend);
    refuses(backend);
    let mut region = backend.map(SMALL, 1, 0).unwrap();
    bytes_mut(&mut *region).fill(3);
    region.unpin().unwrap();
    // A driver's own memory cannot be parted from it.
    let unpinned = if name == "cuda-host-alloc" { Residency::Pinned } else { Residency::Pageable };
    assert_eq!(region.residency(), unpinned, "{name}");
    assert!(region.is_here());
    assert!(bytes(&*region).iter().all(|byte| *byte == 3), "{name}: unpinned memory stays mapped");
}

fn grows(backend: &dyn Backend) {
    let name = backend.name();
    let mut region = backend.map(SMALL, 8, 4 * HUGE_PAGE).unwrap();
    let (first, reserved) = (region.as_ptr(), region.reserved());
    for size in [0, 1, SMALL, region.committed()] {
        region.grow(size).unwrap();
        assert_eq!(region.committed(), rounded(SMALL).unwrap(), "{name}: it never shrinks");
    }
    bytes_mut(&mut *region).fill(7);
    let mut filled = region.committed();
    for size in [SMALL + PAGE, HUGE_PAGE / 2, HUGE_PAGE, 2 * HUGE_PAGE - 1] {
        if rounded(size).unwrap() > reserved {
            continue;
        }
        region.grow(size).unwrap_or_else(|e| panic!("{name}, {size}: {e}"));
        assert_eq!(
            (region.as_ptr(), region.committed()),
            (first, rounded(size).unwrap()),
            "{name}: in place"
        );
        let all = bytes_mut(&mut *region);
        assert!(all[..filled].iter().all(|byte| *byte == 7), "{name}: the old bytes stay");
        assert!(all[filled..].iter().all(|byte| *byte == 0), "{name}: the new bytes are zero");
        all.fill(7);
        filled = all.len();
    }
    for size in [reserved + 1, usize::MAX / 2, usize::MAX] {
        let error = region.grow(size).unwrap_err();
        assert_eq!(error, AllocError::CannotGrow { size: filled, requested: size }, "{name}");
    }
    assert_eq!(region.committed(), filled, "{name}: a refused growth changes nothing");
    assert!(bytes(&*region).iter().all(|byte| *byte == 7), "{name}");
    assert_eq!(region.seal(), Ok(backend.residency()));
}

/// Requests that no machine can serve are errors with the numbers, and the next request is fine.
fn refuses(backend: &dyn Backend) {
    for size in [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 2] {
        let error = backend.map(size, 1, 0).unwrap_err();
        assert_eq!(error, AllocError::CapacityOverflow { count: size, element_size: 1 });
    }
    let error = backend.map(1 << 60, 1, 0).unwrap_err();
    let AllocError::Refused { requested, cause } = &error else { panic!("{error}") };
    assert_eq!(*requested, 1 << 60);
    assert!(!cause.remedy.is_empty());
    let shown = error.to_string();
    assert!(shown.contains("host memory (system RAM)") && shown.contains("1152921504606846976"), "{shown}");
    drop(backend.map(PAGE, 1, usize::MAX).unwrap());
}
