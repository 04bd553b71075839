//! One behaviour suite over all backends that need no device, and what each adds to it. Those of a device are in
//! `cuda_memory.rs`, and over a hostile driver in `cuda_hostile.rs`.
#![cfg(all(unix, not(loom)))]

mod memory_support;

use memory_support::suite::{behaves, bytes, bytes_mut, SMALL};
use pinned_alloc::{AllocError, Residency};
use prover_core::memory::backend::{rounded, Backend, Heap, Mlock, Pages, Region, HUGE_PAGE, PAGE};

#[test]
fn heap() {
    behaves(&Heap::new());
    assert_eq!(Heap::new().map(SMALL, 1, 1 << 30).unwrap().reserved(), rounded(SMALL).unwrap());
}

#[test]
fn heap_with_headroom() {
    behaves(&Heap::with_headroom(64));
    assert_eq!(Heap::with_headroom(64).map(PAGE, 1, 1 << 30).unwrap().reserved(), 64 * PAGE);
}

#[test]
fn pages() {
    behaves(&Pages::new());
}

#[test]
fn mlock() {
    // The suite needs less than 8 MiB locked at a time but for one region; where even that is refused, as in
    // some containers, the refusal must say what to do, and that is what is tested.
    match Mlock::new().map(6 * HUGE_PAGE, 1, 0) {
        Ok(region) => {
            drop(region);
            behaves(&Mlock::new());
        }
        Err(error) => assert!(error.to_string().contains("ulimit -l"), "{error}"),
    }
}

#[test]
fn backends_say_what_they_are() {
    let backends: [(&dyn Backend, _, _); 3] = [
        (&Heap::new(), "heap", Residency::Pageable),
        (&Pages::new(), "pages", Residency::Pageable),
        (&Mlock::new(), "mlock", Residency::Locked),
    ];
    for (backend, name, residency) in backends {
        assert_eq!((backend.name(), backend.residency()), (name, residency));
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::memory_support::process::in_own_process;
    use super::*;

    /// The flags of the mappings that the region lies in. The kernel merges neighbours of equal flags, so a mapping may be
    /// larger than the region: what is counted by the mapping, like its resident bytes, says nothing about the region.
    fn mapping_flags(region: &dyn Region) -> Vec<String> {
        let (start, end) = (region.as_ptr().addr().get(), region.as_ptr().addr().get() + region.committed());
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = Vec::new();
        let mut inside = false;
        for line in text.lines() {
            let first = line.split_ascii_whitespace().next().unwrap_or_default();
            if let Some((from, to)) = first.split_once('-') {
                let parse = |hex| usize::from_str_radix(hex, 16).unwrap();
                inside = parse(from) < end && parse(to) > start;
            } else if inside && first == "VmFlags:" {
                found.push(line.to_owned() + " ");
            }
        }
        assert!(!found.is_empty(), "no mapping of the region in smaps");
        found
    }

    /// Bytes of the region that are in memory.
    fn resident(region: &dyn Region) -> usize {
        let mut pages = vec![0u8; region.committed().div_ceil(PAGE)];
        // SAFETY: the region is mapped, and there is a byte for each of its pages.
        let rc =
            unsafe { libc::mincore(region.as_ptr().as_ptr().cast(), region.committed(), pages.as_mut_ptr()) };
        assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|page| *page & 1 == 1).count() * PAGE
    }

    #[test]
    fn pages_are_resident_private_to_us_and_not_dumped() {
        let mut region = Pages::new().map(6 << 20, 1, 1 << 30).unwrap();
        region.grow(10 << 20).unwrap();
        assert_eq!(resident(&*region), 10 << 20, "all of it is faulted in");
        for flags in mapping_flags(&*region) {
            assert!(flags.contains(" dd ") && flags.contains(" dc "), "no dump, no fork: {flags}");
            assert!(!flags.contains(" lo "), "not locked: {flags}");
        }
    }

    #[test]
    fn a_small_region_takes_small_pages_only() {
        let region = Pages::new().map(5 * PAGE, 1, 1 << 30).unwrap();
        assert_eq!((region.committed(), resident(&*region)), (5 * PAGE, 5 * PAGE));
    }

    #[test]
    fn large_regions_are_faulted_in_by_all_threads() {
        let region = Pages::new().map(300 << 20, 1, 0).unwrap();
        assert_eq!(resident(&*region), 300 << 20);
        assert!(bytes(&*region).iter().step_by(PAGE).all(|byte| *byte == 0));
    }

    /// Whether all of the region is locked; it never is in part.
    fn is_locked(region: &dyn Region) -> bool {
        let locked: Vec<bool> = mapping_flags(region).iter().map(|flags| flags.contains(" lo ")).collect();
        assert!(locked.iter().all(|each| *each == locked[0]), "locked in part: {locked:?}");
        locked[0]
    }

    #[test]
    fn locked_pages_are_locked_and_unlocked() {
        let Ok(mut region) = Mlock::new().map(2 << 20, 1, 1 << 30) else {
            return assert!(Mlock::new().map(2 << 20, 1, 0).unwrap_err().to_string().contains("ulimit -l"));
        };
        assert!(is_locked(&*region));
        region.grow(4 << 20).unwrap();
        assert!(is_locked(&*region));
        region.unpin().unwrap();
        assert!(!is_locked(&*region));
    }

    /// Bytes that this process has locked.
    fn locked_by_process() -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.split_ascii_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
    }

    fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: a valid `rlimit`.
        assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
    }

    /// Gives up root's exemption from limits, in this thread.
    fn become_nobody() {
        // SAFETY: the raw call changes the ids of this thread only; the process is this test's own.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534), 0);
            }
        }
    }

    #[test]
    fn a_low_memlock_limit_is_a_refusal_with_the_remedy() {
        in_own_process("linux::a_low_memlock_limit_is_a_refusal_with_the_remedy", || {
            set_limit(libc::RLIMIT_MEMLOCK, 1 << 20);
            become_nobody();
            let backend = Mlock::new();
            let error = backend.map(4 << 20, 1, 0).unwrap_err();
            let AllocError::Refused { requested, cause } = &error else { panic!("{error}") };
            assert_eq!((*requested, cause.call), (4 << 20, "mlock"));
            let shown = error.to_string();
            assert!(shown.contains("4194304") && shown.contains("ulimit -l"), "{shown}");

            // Below the limit it works; growth beyond it is refused and changes nothing.
            let mut region = backend.map(512 << 10, 1, 16 << 20).unwrap();
            bytes_mut(&mut *region).fill(9);
            let error = region.grow(4 << 20).unwrap_err();
            assert!(
                matches!(error, AllocError::Refused { cause: ref c, .. } if c.call == "mlock"),
                "{error}"
            );
            assert_eq!((region.committed(), locked_by_process()), (512 << 10, 512 << 10));
            assert!(bytes(&*region).iter().all(|byte| *byte == 9));
            region.grow(768 << 10).unwrap();
            assert_eq!(locked_by_process(), 768 << 10);
            // Ordinary memory is there as ever.
            drop(Pages::new().map(64 << 20, 1, 0).unwrap());
        });
    }

    #[test]
    fn a_limit_on_address_space_leaves_less_to_grow_into() {
        in_own_process("linux::a_limit_on_address_space_leaves_less_to_grow_into", || {
            set_limit(libc::RLIMIT_AS, 4 << 30);
            let mut region = Pages::new().map(64 << 20, 1, 1 << 40).unwrap();
            assert!(region.reserved() >= 64 << 20 && region.reserved() < 4 << 30, "{}", region.reserved());
            assert!(matches!(region.grow(4 << 30), Err(AllocError::CannotGrow { .. })));
            let error = Pages::new().map(5 << 30, 1, 0).unwrap_err();
            assert!(error.to_string().contains("mmap of 5368709120 bytes failed"), "{error}");
            drop(Pages::new().map(PAGE, 1, 0).unwrap());
        });
    }

    #[test]
    fn a_forked_child_does_not_have_the_memory() {
        let mut region = Pages::new().map(PAGE, 1, 0).unwrap();
        bytes_mut(&mut *region).fill(1);
        // SAFETY: the child makes only calls that are safe after fork: mincore and _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut present = [0u8; 1];
                let answer = libc::mincore(region.as_ptr().as_ptr().cast(), PAGE, present.as_mut_ptr());
                // ENOMEM: nothing is mapped there.
                libc::_exit(if answer == -1 { 42 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "{status:#x}");
        }
    }
}
