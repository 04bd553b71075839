//! Cases from the field that need no device: 7, 19 to 26, 27, 29.
#![cfg(all(unix, not(loom)))]

mod memory_support;

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use memory_support::log::Warnings;
use memory_support::*;
use pinned_alloc::{AllocError, Registry};
use prover_core::memory::backend::{Heap, Mlock, Pages};
use prover_core::memory::pool::{Exhaustion, Pool};
use prover_core::memory::Priority;

const SET: [usize; 4] = [MIB, MIB, MIB, MIB / 2];
const SET_BYTES: u64 = (3 * MIB + MIB / 2) as u64;

/// 7: a source buffer is neither reused nor freed while its copy is in flight. A slow thread plays the
/// device.
#[test]
fn case_7_a_slow_copy_never_sees_the_next_holders_bytes() {
    const ROUNDS: usize = 100;
    let (pool, budget, _ledger) =
        pool_over(Pages::new(), 64 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let (device, jobs) = mpsc::channel::<(usize, usize, u8, TestFence)>();
    thread::scope(|scope| {
        let copies = scope.spawn(move || {
            let mut wrong = 0;
            for (address, size, pattern, fence) in jobs {
                thread::sleep(Duration::from_micros(300));
                let first = std::ptr::with_exposed_provenance::<u8>(address);
                // SAFETY: the block is in flight until the fence is signalled, so it is mapped and nobody
                // writes to it.
                let bytes = unsafe { std::slice::from_raw_parts(first, size) };
                wrong += bytes.iter().filter(|byte| **byte != pattern).count();
                fence.signal(Signal::Passed);
            }
            wrong
        });
        for round in 0..ROUNDS {
            let mut set = pool.check_out(&layouts(&[64 << 10, 128 << 10])).unwrap();
            let pattern = round as u8 | 1;
            let fence = TestFence::new();
            (0..2).for_each(|i| set.bytes_mut(i).fill(pattern));
            let job = (set.as_ptr(1).as_ptr().expose_provenance(), set.size(1), pattern, fence.clone());
            let flying = set.in_flight(fence);
            device.send(job).unwrap();
            if round % 2 == 0 {
                // The error path: dropped while the copy runs.
                drop(flying);
            } else {
                drop(flying.wait().unwrap());
            }
            // The next holder fills what it gets at once.
            let mut next = pool.check_out(&layouts(&[64 << 10, 128 << 10])).unwrap();
            (0..2).for_each(|i| next.bytes_mut(i).fill(0xFF));
            if round % 10 == 0 {
                pool.trim_all();
            }
        }
        drop(device);
        assert_eq!(copies.join().unwrap(), 0, "bytes changed under a copy");
    });
    budget.evict(1);
    pool.trim_all();
    assert_eq!((pool.stats().in_flight_bytes, budget.used()), (0, 0));
}

/// 19: pool and other memory together never pass the budget; under pressure the cache shrinks by what is
/// needed.
#[test]
fn case_19_big_jobs_then_small_jobs_stay_inside_the_budget() {
    let (pool, budget, ledger) =
        pool_over(Pages::new(), 32 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let outside = AtomicU64::new(0);
    let over = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..4usize {
            let (pool, budget, ledger, outside, over) = (&pool, &budget, &ledger, &outside, &over);
            scope.spawn(move || {
                for job in 0..25usize {
                    let size = if job < 10 { 3 * MIB } else { (1 + (worker + job) % 3) * MIB / 2 };
                    let set = pool.check_out(&layouts(&[size, size, size])).unwrap();
                    if let Ok(key) = budget.try_reserve(6 << 20, Priority::NORMAL) {
                        let all =
                            outside.fetch_add(6 << 20, SeqCst) + (6 << 20) + ledger.live_bytes.load(SeqCst);
                        over.fetch_max(all.saturating_sub(32 << 20), SeqCst);
                        outside.fetch_sub(6 << 20, SeqCst);
                        drop(key);
                    }
                    drop(set);
                }
            });
        }
    });
    assert_eq!(over.load(SeqCst), 0);
    let stats = pool.stats();
    assert!(
        stats.idle_bytes > 0 && budget.used() == stats.mapped_bytes,
        "the idle cache is counted: {stats:?}"
    );
    assert!(budget.stats().peak <= 32 << 20);

    pool.trim_all();
    drop([2, 2, 2, 2, 8].map(|mib| pool.check_out(&layouts(&[mib * MIB])).unwrap()));
    let before = pool.stats().trims;
    let key = budget.try_reserve(18 << 20, Priority::NORMAL).unwrap();
    assert_eq!(
        (pool.stats().trims - before, pool.stats().idle_bytes),
        (1, 14 << 20),
        "one block, the smallest that is enough"
    );
    drop(key);
    pool.trim_all();
    assert_eq!(budget.used(), 0);
}

/// 20: a burst of equal jobs maps a few sets and reuses them.
#[test]
fn case_20_a_burst_of_equal_jobs_reuses_sets() {
    const CONCURRENCY: usize = 4;
    let (pool, budget, ledger) = pool(CONCURRENCY * SET_BYTES as usize, |config| {
        config.exhaustion = Exhaustion::Wait(LONG);
    });
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let mut set = pool.check_out(&layouts(&SET)).unwrap();
                    set.bytes_mut(0)[0] = 1;
                }
            });
        }
    });
    let stats = pool.stats();
    assert!(stats.maps <= (3 * CONCURRENCY * SET.len()) as u64, "{stats:?}");
    assert!(stats.hits * 10 >= (stats.hits + stats.misses) * 8, "{stats:?}");
    assert_eq!((stats.check_outs, ledger.unmaps.load(SeqCst), budget.stats().waiting), (80, 0, 0));
}

fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// 22: locked memory goes back to the system, by trimming and by age; the cap holds at every sample.
#[cfg(target_os = "linux")]
#[test]
fn case_22_locked_memory_goes_back_while_the_process_lives() {
    const CAP: u64 = 4 << 20;
    let baseline = locked_kib();
    for by_age in [false, true] {
        let (pool, budget, _ledger) = pool_over(Mlock::new(), 64 * MIB, |config| {
            config.max_bytes = Some(CAP);
            config.exhaustion = Exhaustion::Wait(LONG);
            config.idle_timeout = by_age.then_some(Duration::from_millis(20));
        });
        match pool.check_out(&layouts(&[3 * MIB])) {
            Ok(set) => drop(set),
            Err(error) => {
                // A limit of less than 8 MiB, without the privilege to pass it: the refusal says so.
                assert!(error.to_string().contains("ulimit -l"), "{error}");
                return;
            }
        }
        let done = AtomicBool::new(false);
        let peak = thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut peak = 0;
                while !done.load(SeqCst) {
                    peak = peak.max(locked_kib());
                    thread::sleep(Duration::from_micros(50));
                }
                peak
            });
            let workers: Vec<_> = (0..3)
                .map(|worker| {
                    let pool = &pool;
                    scope.spawn(move || {
                        for job in 0..20 {
                            let size = (1 + (worker + job) % 4) * MIB / 2;
                            let mut set = pool.check_out(&layouts(&[size, size])).unwrap();
                            let _ = set.grow(0, size + MIB / 4);
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            done.store(true, SeqCst);
            sampler.join().unwrap()
        });
        assert!(peak > baseline && peak - baseline <= CAP >> 10, "{peak} kB locked");
        if by_age {
            until("trimming by age", || locked_kib() == baseline && budget.used() == 0);
        } else {
            pool.trim_all();
            assert_eq!(locked_kib(), baseline);
        }
        assert_eq!((budget.used(), pool.stats().mapped_bytes), (0, 0));
    }
}

/// 23: from its k-th call on the system refuses: sets fail as a whole, with one warning that has the bytes.
#[test]
fn case_23_refusals_fail_whole_sets_and_warn_once() {
    for k in 1..=6 {
        let (pool, budget, ledger) = pool(64 * MIB, |config| config.exhaustion = Exhaustion::Heap);
        let warnings = Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            ledger.fail_from(k);
            let sets: Vec<_> = (0..3).map(|_| pool.check_out(&layouts(&SET))).collect();
            let served = sets.iter().filter(|set| set.is_ok()).count();
            assert_eq!(served, (k as usize - 1) / SET.len());
            for error in sets.iter().filter_map(|set| set.as_ref().err()) {
                assert!(matches!(error, AllocError::Refused { .. }), "{error}");
            }
            assert_eq!(ledger.live_bytes.load(SeqCst), served as u64 * SET_BYTES);
            assert_eq!(budget.used(), served as u64 * SET_BYTES);
            assert_eq!(pool.stats().fallbacks, 3 - served as u64);
        });
        let warnings = warnings.lines();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(&format!("requested_bytes={SET_BYTES}")), "{warnings:?}");
        pool.trim_all();
        assert_eq!(budget.used(), 0);
    }
}

/// 24: a request of 1 TiB fails with a text that names host memory, the bytes and the knob, and spoils
/// nothing.
#[test]
fn case_24_an_absurd_request_says_so_and_the_next_one_works() {
    let (pool, budget, _ledger) = pool_over(Pages::new(), 16 * MIB, |_| {});
    let error = pool.check_out(&layouts(&[1 << 40])).unwrap_err().to_string();
    for part in ["host memory (system RAM)", "1099511627776", "16777216", "--memory-budget"] {
        assert!(error.contains(part), "{error}");
    }
    drop(pool.check_out(&layouts(&SET)).unwrap());
    // A budget that allows it, a system that does not.
    let (pool, _, _) = pool_over(Pages::new(), 1 << 60, |_| {});
    let error = pool.check_out(&layouts(&[1 << 55])).unwrap_err().to_string();
    assert!(error.contains("host memory (system RAM)") && error.contains("mmap"), "{error}");
    drop(pool.check_out(&layouts(&SET)).unwrap());
    assert!(pool.trim_all() == SET_BYTES && budget.used() == SET_BYTES);
}

/// 25: too large for the system is a refusal with advice; 70 thousand tiny blocks are few mappings.
#[test]
fn case_25_neither_one_huge_nor_many_tiny_mappings() {
    let (pool, budget, ledger) = pool_over(Pages::new(), 256 * MIB, |_| {});
    ledger.refuse_above(64 << 20);
    let error = pool.check_out(&layouts(&[MIB, 65 * MIB])).unwrap_err();
    assert!(error.to_string().contains("ask for less"), "{error}");
    assert_eq!(budget.used(), 0);
    drop(pool.check_out(&layouts(&[64 * MIB])).unwrap());
    pool.trim_all();

    let before = ledger.maps.load(SeqCst);
    let mut sets: Vec<_> = (0..70_000usize)
        .map(|i| {
            let mut set = pool.check_out(&layouts(&[1 + i % 1000])).unwrap();
            set.bytes_mut(0)[i % 1000] = i as u8;
            set
        })
        .collect();
    for (i, set) in sets.iter().enumerate() {
        assert_eq!(set.bytes(0)[i % 1000], i as u8);
    }
    let maps = ledger.maps.load(SeqCst) - before;
    assert!(maps < 50, "{maps} mappings");
    assert_eq!(pool.stats().blocks_out, 70_000);
    sets.truncate(10);
    pool.trim_all();
    assert!(pool.stats().mapped_bytes <= 10 << 20);
    drop(sets);
    pool.trim_all();
    assert_eq!((budget.used(), ledger.live_bytes.load(SeqCst)), (0, 0));
}

/// 26: empty and overflowing sizes through the registry never reach the backend.
#[test]
fn case_26_empty_and_overflowing_sizes() {
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let _registration = pool.register(&registry).unwrap();
    let of = |size, align| Layout::from_size_align(size, align).unwrap();
    assert_eq!(registry.allocate([of(0, 1)]).unwrap_err(), AllocError::ZeroSize);
    assert_eq!(registry.allocate([of(100, 1), of(0, 8)]).unwrap_err(), AllocError::ZeroSize);
    assert!(matches!(registry.allocate([of(usize::MAX / 2, 1)]), Err(AllocError::CapacityOverflow { .. })));
    let half = of(usize::MAX / 2 - 4096, 1);
    assert!(matches!(
        registry.allocate([half; 3]),
        Err(AllocError::CapacityOverflow { .. } | AllocError::TooLarge { .. })
    ));
    assert_eq!(ledger.calls(), 0);
    let [mut block] = registry.allocate([of(1, 4096)]).unwrap();
    assert!(block.as_ptr().addr().is_multiple_of(4096));
    assert!(block.grow(usize::MAX).is_err() && block.grow(usize::MAX / 2).is_err());
    drop(block);
    pool.trim_all();
    assert_eq!(budget.used(), 0);
}

/// 29: trimming in a loop under running jobs neither deadlocks nor stops them.
#[test]
fn case_29_trimming_in_a_loop_stalls_nobody() {
    let (pool, budget, ledger) =
        pool_over(Heap::new(), 64 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let jobs = |pool: &Pool| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        let mut set = pool.check_out(&layouts(&SET)).unwrap();
                        (0..4).for_each(|i| set.bytes_mut(i).fill(1));
                        let fence = TestFence::new();
                        fence.signal(Signal::Passed);
                        drop(set.in_flight(fence));
                    }
                });
            }
        });
    };
    let done = AtomicBool::new(false);
    let trimmed = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                trimmed.fetch_add(pool.trim_all() + budget.evict(1 << 20), SeqCst);
                thread::yield_now();
            }
        });
        let started = Instant::now();
        // Until the two have really met a number of times.
        while trimmed.load(SeqCst) < 20 * SET_BYTES && started.elapsed() < LONG {
            jobs(&pool);
        }
        done.store(true, SeqCst);
        assert!(started.elapsed() < LONG);
    });
    pool.trim_all();
    assert_eq!((budget.used(), ledger.live_bytes.load(SeqCst), budget.stats().waiting), (0, 0, 0));
}
