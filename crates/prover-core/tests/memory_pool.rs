//! The pool: reuse, growth, policies, trimming, fences, registration, closing.
#![cfg(not(loom))]

mod memory_support;

use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use memory_support::*;
use pinned_alloc::{AllocError, Registry};
use prover_core::memory::backend::PAGE;
use prover_core::memory::pool::{Exhaustion, Pool};
use prover_core::memory::{Deadline, MemoryBudget, Priority};

/// a, b, c and aux of a small circuit.
const SET: [usize; 4] = [MIB, MIB, MIB, MIB / 2];
const SET_BYTES: u64 = (3 * MIB + MIB / 2) as u64;

fn at_baseline(pool: &Pool, budget: &MemoryBudget, ledger: &Ledger) {
    pool.trim_all();
    let stats = pool.stats();
    assert_eq!(
        (stats.mapped_bytes, stats.changing_bytes, stats.requested_bytes, stats.blocks_out),
        (0, 0, 0, 0)
    );
    assert_eq!((budget.used(), ledger.live_bytes.load(SeqCst)), (0, 0));
    assert_eq!(budget.stats().waiting, 0);
}

#[test]
fn a_warm_set_is_the_same_memory_and_costs_no_call() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let set = pool.check_out(&layouts(&SET)).unwrap();
    let addresses: Vec<_> = (0..set.len()).map(|i| set.as_ptr(i)).collect();
    assert_eq!((set.len(), set.size(0), set.size(3)), (4, MIB, MIB / 2));
    assert_eq!(budget.used(), SET_BYTES);
    drop(set);
    assert_eq!(
        (budget.used(), pool.stats().idle_bytes),
        (SET_BYTES, SET_BYTES),
        "the reservation is permanent"
    );
    let calls = ledger.calls();
    for _ in 0..10 {
        let set = pool.check_out(&layouts(&SET)).unwrap();
        let mut again: Vec<_> = (0..set.len()).map(|i| set.as_ptr(i)).collect();
        let mut before = addresses.clone();
        again.sort_unstable();
        before.sort_unstable();
        assert_eq!(again, before);
    }
    assert_eq!(ledger.calls(), calls);
    let stats = pool.stats();
    assert_eq!((stats.hits, stats.misses, stats.maps, stats.check_outs), (40, 4, 4, 11));
    assert_eq!(ledger.maps.load(SeqCst), 4);
    at_baseline(&pool, &budget, &ledger);
    assert_eq!(pool.stats().trims, 4);
}

#[test]
fn a_warm_check_out_takes_less_than_50_microseconds() {
    let (pool, _budget, _ledger) = pool(64 * MIB, |_| {});
    drop(pool.check_out(&layouts(&SET)).unwrap());
    let mut times: Vec<Duration> = (0..501)
        .map(|_| {
            let layouts = layouts(&SET);
            let started = Instant::now();
            drop(pool.check_out(&layouts).unwrap());
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    assert!(times[250] < Duration::from_micros(50), "median {:?}", times[250]);
}

#[test]
fn the_callers_mistakes_reach_no_backend() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    assert_eq!(pool.check_out(&[]).unwrap_err(), AllocError::ZeroSize);
    assert_eq!(pool.check_out(&layouts(&[MIB, 0])).unwrap_err(), AllocError::ZeroSize);
    let huge = Layout::from_size_align(isize::MAX as usize - 31, 32).unwrap();
    assert!(matches!(pool.check_out(&[huge]), Err(AllocError::CapacityOverflow { .. })));
    let half = Layout::from_size_align(1 << 61, 32).unwrap();
    assert!(matches!(
        pool.check_out(&[half; 16]),
        Err(AllocError::CapacityOverflow { .. } | AllocError::TooLarge { .. })
    ));
    let error = pool.check_out(&layouts(&[40 * MIB, 40 * MIB])).unwrap_err();
    assert_eq!(error, AllocError::TooLarge { requested: 80 * MIB, limit: 64 * MIB, knob: "--memory-budget" });
    assert_eq!(ledger.calls(), 0);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn alignment_is_kept_for_small_and_large() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    for align in [1, 64, 4096, 64 << 10, 4 * MIB] {
        for size in [1, 100, 5000, MIB] {
            let set = pool.check_out(&[Layout::from_size_align(size, align).unwrap()]).unwrap();
            assert!(set.as_ptr(0).addr().get().is_multiple_of(align), "{size} {align}");
            assert!(set.size(0) >= size);
        }
    }
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn rounding_costs_less_than_2_mib_a_block_and_64_mib_serve_8_times_8() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let sets: Vec<_> = (0..8).map(|_| pool.check_out(&layouts(&[8 * MIB])).unwrap()).collect();
    let stats = pool.stats();
    assert_eq!((stats.requested_bytes, stats.mapped_bytes), (64 << 20, 64 << 20));
    assert!(matches!(
        pool.check_out(&layouts(&[PAGE * 20])),
        Err(AllocError::Exhausted { available: 0, .. })
    ));
    drop(sets);
    let set = pool.check_out(&layouts(&[5 * MIB])).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.requested_bytes, stats.out_bytes), (5 << 20, 6 << 20));
    drop(set);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn exact_size_first_then_the_best_fit_within_the_bound_on_waste() {
    let (pool, budget, ledger) = pool(256 * MIB, |_| {});
    let sizes = [20 * MIB, 22 * MIB, 26 * MIB];
    let sets: Vec<_> = sizes.iter().map(|size| pool.check_out(&layouts(&[*size])).unwrap()).collect();
    let at: Vec<_> = sets.iter().map(|set| set.as_ptr(0)).collect();
    drop(sets);
    let take = |size| {
        let set = pool.check_out(&layouts(&[size])).unwrap();
        (set.as_ptr(0), set.size(0), set)
    };
    assert_eq!(take(22 * MIB).0, at[1], "exact");
    assert_eq!(take(20 * MIB - 5).0, at[0], "rounds to exact");
    let held = take(20 * MIB);
    let next = take(20 * MIB);
    assert_eq!((next.0, next.1), (at[1], 22 * MIB), "10 % too large is good enough");
    // 26 MiB would be 30 % too large for 20 MiB: a new one is mapped.
    let fresh = take(20 * MIB);
    assert!(fresh.0 != at[2] && fresh.1 == 20 * MIB);
    drop((held, next, fresh));
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn idle_blocks_that_are_too_large_do_not_stand_in_the_way_of_a_set_that_just_fits() {
    for cap in [None, Some(40 * MIB as u64)] {
        let (pool, budget, ledger) = pool(40 * MIB, |config| config.max_bytes = cap);
        drop(pool.check_out(&layouts(&[22 * MIB])).unwrap());
        let set = pool.check_out(&layouts(&[20 * MIB, 20 * MIB])).unwrap();
        assert_eq!((set.size(0), set.size(1)), (20 * MIB, 20 * MIB));
        drop(set);
        at_baseline(&pool, &budget, &ledger);
    }
}

#[test]
fn growth_in_place_is_paid_for_and_keeps_the_bytes() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let mut set = pool.check_out(&layouts(&[8 * MIB])).unwrap();
    let first = set.as_ptr(0);
    set.bytes_mut(0).fill(0xAB);
    set.grow(0, 8 * MIB).unwrap();
    assert_eq!(pool.stats().growths, 0, "nothing to do");
    set.grow(0, 8 * MIB + 1).unwrap();
    assert_eq!((set.as_ptr(0), set.size(0)), (first, 10 * MIB), "by a quarter, not by a byte");
    assert_eq!(budget.used(), 10 << 20);
    assert!(set.bytes(0)[..8 * MIB].iter().all(|byte| *byte == 0xAB));
    let stats = pool.stats();
    assert_eq!((stats.growths, stats.out_bytes, stats.requested_bytes), (1, 10 << 20, (8 << 20) + 1));

    // No room for the quarter, but for what is asked.
    let rest = budget.try_reserve(52 << 20, Priority::NORMAL).unwrap();
    set.grow(0, 12 * MIB).unwrap();
    assert_eq!((set.size(0), budget.available()), (12 * MIB, 0));
    let error = set.grow(0, 14 * MIB).unwrap_err();
    assert!(matches!(error, AllocError::Exhausted { requested: r, .. } if r == 2 * MIB), "{error}");
    assert_eq!(set.size(0), 12 * MIB);
    drop(rest);
    if over_the_heap() {
        let error = set.grow(0, 129 * MIB).unwrap_err();
        assert_eq!(
            error,
            AllocError::CannotGrow { size: 12 * MIB, requested: 129 * MIB },
            "16 times is reserved"
        );
    }
    ledger.fail_at(1, Mischief::Refuse);
    set.grow(0, 14 * MIB).unwrap();
    assert_eq!(set.size(0), 14 * MIB, "the second, smaller try works");
    ledger.fail_from(1);
    assert!(matches!(set.grow(0, 16 * MIB), Err(AllocError::Refused { .. })));
    ledger.behave();
    assert_eq!((set.size(0), budget.used(), pool.stats().out_bytes), (14 * MIB, 14 << 20, 14 << 20));
    assert!(set.bytes(0)[..8 * MIB].iter().all(|byte| *byte == 0xAB));
    drop(set);
    let warm = pool.check_out(&layouts(&[14 * MIB])).unwrap();
    assert_eq!(warm.as_ptr(0), first, "a grown block is reused at its new size");
    drop(warm);

    let mut small = pool.check_out(&layouts(&[100])).unwrap();
    assert_eq!(small.grow(0, 1000).unwrap_err(), AllocError::CannotGrow { size: 128, requested: 1000 });
    drop(small);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn growth_evicts_idle_memory_and_passes_waiters() {
    let (pool, budget, ledger) = pool(32 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let mut set = pool.check_out(&layouts(&[16 * MIB])).unwrap();
    drop(pool.check_out(&layouts(&[16 * MIB])).unwrap());
    thread::scope(|scope| {
        set.grow(0, 20 * MIB).unwrap();
        let waiter = scope.spawn(|| pool.check_out(&layouts(&[32 * MIB])).unwrap().size(0));
        until("waiting", || budget.stats().waiting == 1);
        set.grow(0, 24 * MIB).unwrap();
        drop(set);
        assert_eq!(waiter.join().unwrap(), 32 * MIB);
    });
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_set_that_finds_no_room_is_refused_at_once_and_whole() {
    for policy in [Exhaustion::Heap, Exhaustion::Fail] {
        let (pool, budget, ledger) = pool(8 * MIB, |config| config.exhaustion = policy);
        assert_eq!(pool.policy(), policy);
        let first = pool.check_out(&layouts(&SET)).unwrap();
        let second = pool.check_out(&layouts(&SET)).unwrap();
        let calls = ledger.calls();
        for _ in 0..3 {
            let error = pool.check_out(&layouts(&SET)).unwrap_err();
            assert!(matches!(error, AllocError::Exhausted { .. }), "{error}");
        }
        drop(first);
        // One part lies idle, the other does not: nothing is taken.
        assert!(pool.check_out(&layouts(&[MIB, MIB, MIB, 4 * MIB])).is_err());
        assert_eq!(
            (ledger.calls(), pool.stats().out_bytes, pool.stats().idle_bytes),
            (calls, SET_BYTES, SET_BYTES)
        );
        let stats = pool.stats();
        let expected = if policy == Exhaustion::Heap { (4, 0) } else { (0, 4) };
        assert_eq!((stats.fallbacks, stats.refusals), expected);
        drop(second);
        at_baseline(&pool, &budget, &ledger);
    }
}

#[test]
fn a_request_that_cannot_be_served_leaves_the_warm_sets_alone() {
    let (pool, budget, ledger) = pool(16 * MIB, |_| {});
    drop(pool.check_out(&layouts(&[6 * MIB])).unwrap());
    let held = budget.try_reserve(8 << 20, Priority::NORMAL).unwrap();
    assert!(pool.check_out(&layouts(&[10 * MIB])).is_err());
    assert!(budget.try_reserve(10 << 20, Priority::NORMAL).is_err());
    assert_eq!(pool.stats().idle_bytes, 6 << 20);
    drop(held);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_waiter_gets_the_returned_set_without_any_mapping() {
    let (pool, budget, ledger) = pool(4 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let set = pool.check_out(&layouts(&SET)).unwrap();
    let calls = ledger.calls();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(pool.check_out(&layouts(&SET)).unwrap()));
        until("waiting", || budget.stats().waiting == 1);
        thread::sleep(Duration::from_millis(5));
        drop(set);
        waiter.join().unwrap();
    });
    assert_eq!((ledger.calls(), pool.stats().waits), (calls, 1));
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let wait = Duration::from_millis(20);
    let (pool, budget, ledger) = pool(4 * MIB, |config| config.exhaustion = Exhaustion::Wait(wait));
    let set = pool.check_out(&layouts(&SET)).unwrap();
    let started = Instant::now();
    let error = pool.check_out(&layouts(&SET)).unwrap_err();
    assert!(started.elapsed() >= wait);
    let AllocError::TimedOut { requested, waited_ms: 19.., knob: "--pinned-wait" } = error else {
        panic!("{error}")
    };
    assert_eq!(requested as u64, SET_BYTES);
    let stats = pool.stats();
    assert_eq!((stats.refusals, stats.fallbacks, stats.waits), (1, 0, 1));
    drop(set);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn waiters_are_served_in_order_and_never_hold_halves() {
    // Room for two blocks. Each waiter needs two; if each held one, both would wait for ever.
    let (pool, budget, ledger) = pool(8 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let (served, order) = mpsc::channel();
    thread::scope(|scope| {
        let one = pool.check_out(&layouts(&[4 * MIB])).unwrap();
        let two = pool.check_out(&layouts(&[4 * MIB])).unwrap();
        for label in 0..4 {
            let (served, pool) = (served.clone(), &pool);
            scope.spawn(move || {
                let set = pool.check_out(&layouts(&[4 * MIB, 4 * MIB])).unwrap();
                served.send(label).unwrap();
                drop(set);
            });
            until("queueing", || budget.stats().waiting == label + 1);
        }
        drop(one);
        thread::sleep(Duration::from_millis(10));
        assert!(order.try_recv().is_err());
        drop(two);
        for label in 0..4 {
            assert_eq!(order.recv_timeout(LONG), Ok(label));
        }
    });
    assert_eq!(ledger.maps.load(SeqCst), 2, "warm all the time");
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn another_user_of_the_budget_gets_what_lies_idle_in_order() {
    let (pool, budget, ledger) = pool(8 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let set = pool.check_out(&layouts(&[6 * MIB])).unwrap();
    let (served, order) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn({
            let (served, budget) = (served.clone(), budget.clone());
            move || {
                let reservation = budget.reserve(6 << 20, Priority::NORMAL, Deadline::after(LONG)).unwrap();
                served.send("key").unwrap();
                thread::sleep(Duration::from_millis(5));
                drop(reservation);
            }
        });
        until("queueing", || budget.stats().waiting == 1);
        let pool = &pool;
        scope.spawn(move || {
            let set = pool.check_out(&layouts(&[6 * MIB])).unwrap();
            served.send("set").unwrap();
            drop(set);
        });
        until("queueing", || budget.stats().waiting == 2);
        // The set comes back to the pool, whose warm block the second would like; but the key was first.
        drop(set);
        assert_eq!(order.recv_timeout(LONG), Ok("key"));
        assert_eq!(order.recv_timeout(LONG), Ok("set"));
    });
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_warm_check_out_does_not_overtake_who_waits_either() {
    let (pool, budget, ledger) = pool(8 * MIB, |_| {});
    let (entered, inside) = mpsc::channel();
    let (leave, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let large = pool.check_out(&layouts(&[6 * MIB])).unwrap();
    let small = pool.check_out(&layouts(&[MIB])).unwrap();
    // A cache that is slow to answer holds the waiter up, so that the pool's blocks lie idle meanwhile.
    let slow = budget.on_pressure(move |_| {
        entered.send(()).unwrap();
        let _ = gate.lock().unwrap().recv_timeout(LONG);
        0
    });
    thread::scope(|scope| {
        let waiter = scope.spawn(|| budget.reserve(6 << 20, Priority::NORMAL, Deadline::after(LONG)));
        inside.recv_timeout(LONG).unwrap();
        drop(small);
        let error = pool.check_out(&layouts(&[MIB])).unwrap_err();
        assert!(matches!(error, AllocError::Exhausted { .. }), "{error}");
        drop(large);
        drop(leave);
        drop(waiter.join().unwrap().unwrap());
    });
    drop(slow);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_check_out_looks_at_fences_before_it_maps_more() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    for _ in 0..5 {
        let fence = TestFence::new();
        drop(pool.check_out(&layouts(&SET)).unwrap().in_flight(fence.clone()));
        fence.signal(Signal::Passed);
    }
    assert_eq!(ledger.maps.load(SeqCst), 4);
    drop(pool.check_out(&layouts(&SET)).unwrap());
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_refusal_of_the_system_gives_idle_memory_back_and_asks_again() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    drop(pool.check_out(&layouts(&[4 * MIB])).unwrap());
    ledger.fail_at(1, Mischief::Refuse);
    let set = pool.check_out(&layouts(&[16 * MIB])).unwrap();
    assert_eq!((ledger.calls(), pool.stats().idle_bytes, budget.used()), (2, 0, 16 << 20));
    // With nothing idle there is nothing to try.
    ledger.fail_at(1, Mischief::Refuse);
    assert!(matches!(pool.check_out(&layouts(&[2 * MIB])), Err(AllocError::Refused { .. })));
    assert_eq!(ledger.calls(), 1);
    drop(set);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn the_cap_holds_and_does_not_block_the_rest_of_the_budget() {
    let (pool, budget, ledger) = pool(64 * MIB, |config| {
        config.max_bytes = Some(8 << 20);
        config.exhaustion = Exhaustion::Wait(LONG);
    });
    let error = pool.check_out(&layouts(&[10 * MIB])).unwrap_err();
    assert_eq!(error, AllocError::TooLarge { requested: 10 * MIB, limit: 8 * MIB, knob: "--pinned-max" });
    let set = pool.check_out(&layouts(&[6 * MIB])).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| pool.check_out(&layouts(&[4 * MIB])).unwrap().size(0));
        until("queueing", || budget.stats().waiting == 1);
        thread::sleep(Duration::from_millis(5));
        // It waits for the cap, not for the budget: others of the same priority pass.
        drop(budget.reserve(32 << 20, Priority::NORMAL, Deadline::after(LONG)).unwrap());
        drop(budget.try_reserve(32 << 20, Priority::NORMAL).unwrap());
        assert_eq!(budget.stats().waiting, 1);
        drop(set);
        // The 6 MiB block is evicted for it.
        assert_eq!(waiter.join().unwrap(), 4 * MIB);
    });
    assert!(ledger.peak_bytes.load(SeqCst) <= 8 << 20 && pool.stats().peak_bytes <= 8 << 20);
    let mut set = pool.check_out(&layouts(&[4 * MIB])).unwrap();
    set.grow(0, 8 * MIB).unwrap();
    let error = set.grow(0, 10 * MIB).unwrap_err();
    assert!(matches!(error, AllocError::Exhausted { knob: "--pinned-max", available: 0, .. }), "{error}");
    drop(set);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn trimming_takes_the_largest_first_and_need_takes_no_more_than_it_must() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let fill = || {
        drop([2, 8, 4, 16].map(|mib| pool.check_out(&layouts(&[mib * MIB])).unwrap()));
        ledger.sizes_unmapped.lock().unwrap().clear();
    };
    let unmapped =
        || ledger.sizes_unmapped.lock().unwrap().drain(..).map(|size| size / MIB).collect::<Vec<_>>();
    fill();
    assert_eq!(pool.trim(7 << 20), 24 << 20);
    assert_eq!(unmapped(), [16, 8]);
    assert_eq!(pool.trim(6 << 20), 0);
    assert_eq!(pool.trim_all(), 6 << 20);
    assert_eq!(unmapped(), [4, 2]);

    fill();
    assert_eq!(budget.evict(3 << 20), 4 << 20);
    assert_eq!(unmapped(), [4], "the smallest that is enough");
    assert_eq!(budget.evict(17 << 20), 18 << 20);
    assert_eq!(unmapped(), [16, 2], "the largest if none is, and then the smallest that is enough");
    fill();
    let need = budget.try_reserve(64 << 20, Priority::NORMAL).unwrap();
    drop(need);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn age_takes_what_was_not_used_and_leaves_a_warm_set_while_the_pool_is_in_use() {
    const TIMEOUT: Duration = Duration::from_secs(3600);
    for (low_water, kept_mib) in [(None, 4), (Some(7 << 20), 8), (Some(0), 0)] {
        let (pool, budget, ledger) = pool(64 * MIB, |config| {
            config.idle_timeout = Some(TIMEOUT);
            config.low_water = low_water;
        });
        drop([2, 2, 2, 4].map(|mib| pool.check_out(&layouts(&[mib * MIB])).unwrap()));
        let now = Instant::now();
        assert_eq!(pool.trim_aged(now), 0, "all of it is fresh");
        assert_eq!(pool.trim_aged(now + TIMEOUT - Duration::from_secs(1)), 0);
        // A check-out after `now`: at `now + TIMEOUT` the pool counts as in use, but the four are old.
        let set = pool.check_out(&layouts(&[20 * PAGE])).unwrap();
        pool.trim_aged(now + TIMEOUT);
        assert_eq!(pool.stats().idle_bytes, kept_mib << 20, "{low_water:?}");
        drop(set);
        assert_eq!(pool.trim_aged(now + TIMEOUT), 0, "and no thrashing after that");
        pool.trim_aged(Instant::now() + TIMEOUT);
        assert_eq!(pool.stats().mapped_bytes, 0, "idle for the whole period: all goes");
        at_baseline(&pool, &budget, &ledger);
    }
    let (pool, _, _) = pool(MIB, |_| {});
    drop(pool.check_out(&layouts(&[100 * PAGE])).unwrap());
    assert_eq!(pool.trim_aged(Instant::now() + 100 * TIMEOUT), 0, "without a timeout nothing ages");
}

#[test]
fn the_pools_own_thread_trims_by_age_and_stops() {
    let (pool, budget, ledger) =
        pool(64 * MIB, |config| config.idle_timeout = Some(Duration::from_millis(20)));
    drop(pool.check_out(&layouts(&SET)).unwrap());
    until("trimming by age", || ledger.live_bytes.load(SeqCst) == 0 && budget.used() == 0);
    drop(pool);
    let (pool, _, _) = memory_support::pool(MIB, |config| config.idle_timeout = Some(LONG * 100));
    let started = Instant::now();
    drop(pool);
    assert!(started.elapsed() < LONG, "the thread is woken, not waited out");
}

#[test]
fn secrets_are_wiped_before_they_leave_and_on_return_if_asked() {
    for (secret, wipe_on_return) in [(true, false), (false, true), (false, false)] {
        let (pool, budget, ledger) = pool(64 * MIB, |config| {
            config.secret = secret;
            config.wipe_on_return = wipe_on_return;
        });
        let sizes = [MIB, 100, 3 * MIB];
        let mut set = pool.check_out(&layouts(&sizes)).unwrap();
        (0..3).for_each(|i| set.bytes_mut(i).fill(0x5E));
        drop(set);
        let set = pool.check_out(&layouts(&sizes)).unwrap();
        let stale = (0..3).any(|i| set.bytes(i).iter().any(|byte| *byte != 0));
        assert_eq!(stale, !wipe_on_return);
        drop(set);
        pool.trim_all();
        assert_eq!(ledger.unmapped_dirty.load(SeqCst) > 0, !secret && !wipe_on_return);
        at_baseline(&pool, &budget, &ledger);
    }
}

#[test]
fn a_set_in_flight_is_reused_only_when_its_fence_has_passed() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let set = pool.check_out(&layouts(&SET)).unwrap();
    let first = set.as_ptr(0);
    let fence = TestFence::new();
    let flying = set.in_flight(fence.clone());
    assert_eq!((pool.stats().out_bytes, pool.stats().in_flight_bytes), (0, SET_BYTES));
    assert_eq!((flying.as_ptr(0), flying.size(0), flying.len()), (first, MIB, 4));
    let flying = flying.try_wait().unwrap().unwrap_err();
    // Dropped early, as on an error path: it is kept, not freed, and not waited for.
    drop(flying);
    assert_eq!(pool.stats().in_flight_bytes, SET_BYTES);
    let other = pool.check_out(&layouts(&SET)).unwrap();
    assert!((0..4).all(|i| other.as_ptr(i) != first));
    assert_eq!(pool.trim_all(), 0);
    fence.signal(Signal::Passed);
    assert_eq!(budget.evict(1), MIB as u64 / 2, "passed fences are looked at when memory is wanted");
    drop(other);
    assert_eq!(pool.stats().in_flight_bytes, 0);

    let set = pool.check_out(&layouts(&SET)).unwrap();
    let fence = TestFence::new();
    let flying = set.in_flight(fence.clone());
    thread::scope(|scope| {
        let waiter = scope.spawn(move || flying.wait().unwrap());
        thread::sleep(Duration::from_millis(2));
        fence.signal(Signal::Passed);
        let mut back = waiter.join().unwrap();
        back.bytes_mut(0).fill(1);
        assert_eq!(pool.stats().out_bytes, SET_BYTES);
    });
    let passed = TestFence::new();
    passed.signal(Signal::Passed);
    drop(pool.check_out(&layouts(&SET)).unwrap().in_flight(passed));
    assert_eq!((pool.stats().in_flight_bytes, pool.stats().out_bytes), (0, 0));
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_waiter_gets_a_set_whose_fence_passes_meanwhile() {
    let (pool, budget, ledger) = pool(4 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let fence = TestFence::new();
    drop(pool.check_out(&layouts(&SET)).unwrap().in_flight(fence.clone()));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(pool.check_out(&layouts(&SET)).unwrap()));
        until("waiting", || budget.stats().waiting == 1);
        fence.signal(Signal::Passed);
        waiter.join().unwrap();
    });
    assert_eq!(ledger.maps.load(SeqCst), 4);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn a_failed_fence_quarantines_for_good() {
    hush_expected_panics();
    let sizes = [MIB, 100, 2 * MIB];
    let expected = (3 * MIB + 128) as u64;
    for (round, signal) in
        [Signal::Failed, Signal::Panics, Signal::Failed, Signal::Failed].into_iter().enumerate()
    {
        let (pool, budget, ledger) = pool(64 * MIB, |_| {});
        let set = pool.check_out(&layouts(&sizes)).unwrap();
        let (first, small) = (set.as_ptr(0), set.as_ptr(1));
        let fence = TestFence::new();
        let flying = set.in_flight(fence.clone());
        match round {
            0 | 1 => {
                fence.signal(signal);
                let lost = flying.wait().unwrap_err();
                assert_eq!((lost.bytes, lost.blocks), (expected, 3));
                assert!(lost.to_string().contains("quarantined"), "{lost}");
            }
            2 => {
                fence.signal(signal);
                assert!(flying.try_wait().is_err());
            }
            _ => {
                drop(flying);
                fence.signal(signal);
                budget.evict(1);
            }
        }
        let stats = pool.stats();
        assert_eq!((stats.quarantined_bytes, stats.in_flight_bytes, stats.out_bytes), (expected, 0, 0));
        assert_eq!((stats.requested_bytes, stats.blocks_out), (0, 0));
        assert_eq!(ledger.unpins.load(SeqCst), 2);
        pool.trim_all();
        assert_eq!(budget.used(), 5 << 20, "what is mapped is paid for");
        let again = pool.check_out(&layouts(&sizes)).unwrap();
        assert!(again.as_ptr(0) != first && again.as_ptr(1) != small);
        drop(again);
        // SAFETY: there is no device.
        let released = unsafe { pool.release_quarantined() };
        assert_eq!(released, 3 * MIB as u64);
        assert_eq!(pool.stats().quarantined_bytes, 128, "a small block stays");
        pool.trim_all();
        assert_eq!(budget.used(), 2 << 20, "with its slab");
    }
}

#[test]
fn quarantined_memory_outlives_the_pool_and_stays_paid_for() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let fence = TestFence::new();
    fence.signal(Signal::Failed);
    let set = pool.check_out(&layouts(&[MIB])).unwrap();
    let first = set.as_ptr(0).as_ptr();
    drop(set.in_flight(fence));
    drop(pool);
    assert_eq!((budget.used(), ledger.live_bytes.load(SeqCst)), (MIB as u64, MIB as u64));
    // SAFETY: the block is still mapped, as the device that may write to it needs it to be.
    unsafe { first.write_volatile(1) };
}

#[test]
fn registered_blocks_find_their_way_home() {
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let (other, _, other_ledger) = memory_support::pool(64 * MIB, |_| {});
    let registration = pool.register(&registry).unwrap();
    assert_eq!(registry.current_name(), Some(pool.backend_name()));
    assert_eq!(other.register(&registry).unwrap_err().by, pool.backend_name());
    let sizes = SET.map(layout);
    let mut blocks = registry.allocate(sizes).unwrap();
    assert!(blocks.iter().all(|block| block.residency() == pool.residency()));
    assert_eq!(pool.stats().out_bytes, SET_BYTES);
    blocks[0].grow(3 * MIB).unwrap();
    assert_eq!(blocks[0].size(), 4 * MIB);
    blocks[0].seal().unwrap();
    assert_eq!(ledger.seals.load(SeqCst), 1);
    drop(registration);
    assert!(matches!(registry.allocate(sizes), Err(AllocError::NotRegistered)));

    let _registration = other.register(&registry).unwrap();
    drop(blocks);
    assert_eq!((pool.stats().out_bytes, pool.stats().idle_bytes), (0, SET_BYTES + 3 * MIB as u64));
    assert_eq!(other_ledger.calls(), 0);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn sets_wait_but_larger_blocks_for_a_set_that_is_out_do_not() {
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(16 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let _registration = pool.register(&registry).unwrap();
    let held = registry.allocate([layout(2 * MIB); 4]).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| registry.allocate([layout(4 * MIB); 4]).map(|_| ()));
        until("waiting", || budget.stats().waiting == 1);
        // It moves past the waiter, who waits for what this holder has.
        let moved = registry.allocate([layout(2 * MIB); 3]).unwrap();
        // And is refused at once, so that it goes on elsewhere and ends some day.
        let error = registry.allocate([layout(4 * MIB); 3]).unwrap_err();
        assert!(matches!(error, AllocError::Exhausted { .. }), "{error}");
        drop((held, moved));
        waiter.join().unwrap().unwrap();
    });
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn blocks_outlive_every_handle_of_the_pool() {
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let registration = pool.register(&registry).unwrap();
    drop(pool.clone());
    drop(pool);
    // The registration keeps the pool open.
    let block = registry.allocate([layout(MIB)]).unwrap();
    drop(registration);
    // SAFETY: the block is ours.
    unsafe { block[0].as_ptr().write_bytes(1, MIB) };
    assert_eq!(budget.used(), MIB as u64);
    drop(block);
    assert_eq!(
        (budget.used(), ledger.live_bytes.load(SeqCst)),
        (0, 0),
        "with no pool to go to it is unmapped"
    );
    assert_eq!(ledger.unmapped_dirty.load(SeqCst), 0);
}

#[test]
fn adopted_blocks_fly_and_land() {
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let (other, _, _) = memory_support::pool(64 * MIB, |_| {});
    let _registration = pool.register(&registry).unwrap();
    assert!(pool.adopt(Vec::new()).is_err());
    let blocks = Vec::from(registry.allocate(SET.map(layout)).unwrap());
    let blocks = other.adopt(blocks).unwrap_err();
    assert_eq!(blocks.len(), 4);
    let mut set = pool.adopt(blocks).unwrap();
    set.grow(3, MIB).unwrap();
    set.seal().unwrap();
    let fence = TestFence::new();
    let flying = set.in_flight(fence.clone());
    assert_eq!(pool.stats().in_flight_bytes, 4 * MIB as u64);
    drop(flying);
    assert_eq!(pool.stats().in_flight_bytes, 4 * MIB as u64);
    fence.signal(Signal::Passed);
    drop(pool.check_out(&layouts(&[MIB])).unwrap());
    budget.evict(1);
    assert_eq!(pool.stats().in_flight_bytes, 0);

    let blocks = Vec::from(registry.allocate([layout(MIB), layout(64)]).unwrap());
    let fence = TestFence::new();
    fence.signal(Signal::Failed);
    pool.adopt(blocks).unwrap().in_flight(fence).wait().unwrap_err();
    assert_eq!((pool.stats().quarantined_bytes, pool.stats().blocks_out), (MIB as u64 + 64, 0));
    // SAFETY: there is no device.
    unsafe { pool.release_quarantined() };
    pool.trim_all();
    assert_eq!(
        (budget.used(), ledger.live_bytes.load(SeqCst)),
        (2 << 20, 2 << 20),
        "the slab of the small block"
    );
}

#[test]
fn draining_waits_for_blocks_and_refuses_the_rest() {
    let (pool, budget, ledger) = pool(4 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    let set = pool.check_out(&layouts(&SET)).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| pool.check_out(&layouts(&SET)).map(drop));
        until("waiting", || budget.stats().waiting == 1);
        let error = pool.drain(Duration::from_millis(10)).unwrap_err();
        assert_eq!((error.out_bytes, error.in_flight_bytes), (SET_BYTES, 0));
        assert!(error.to_string().contains("still checked out"));
        assert_eq!(waiter.join().unwrap(), Err(AllocError::ShuttingDown));
    });
    assert_eq!(pool.check_out(&layouts(&SET)).unwrap_err(), AllocError::ShuttingDown);
    let fence = TestFence::new();
    let flying = set.in_flight(fence.clone());
    thread::scope(|scope| {
        let drained = scope.spawn(|| pool.drain(LONG));
        thread::sleep(Duration::from_millis(5));
        drop(flying);
        fence.signal(Signal::Passed);
        drained.join().unwrap().unwrap();
    });
    assert_eq!(ledger.live_bytes.load(SeqCst), 0);
    at_baseline(&pool, &budget, &ledger);
}

#[test]
fn closing_the_pool_waits_for_what_is_in_flight() {
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let (parked, held) = (TestFence::new(), TestFence::new());
    drop(pool.check_out(&layouts(&SET)).unwrap().in_flight(parked.clone()));
    let flying = pool.check_out(&layouts(&SET)).unwrap().in_flight(held.clone());
    thread::scope(|scope| {
        let closer = scope.spawn(move || drop(pool));
        thread::sleep(Duration::from_millis(5));
        assert_eq!(ledger.live_bytes.load(SeqCst), 2 * SET_BYTES);
        parked.signal(Signal::Passed);
        closer.join().unwrap();
        assert_eq!(ledger.live_bytes.load(SeqCst), SET_BYTES, "what has a holder is the holder's");
        // The pool is gone: this drop has to wait itself.
        let dropper = scope.spawn(move || drop(flying));
        thread::sleep(Duration::from_millis(5));
        assert_eq!(ledger.live_bytes.load(SeqCst), SET_BYTES);
        held.signal(Signal::Passed);
        dropper.join().unwrap();
    });
    assert_eq!((budget.used(), ledger.live_bytes.load(SeqCst)), (0, 0));
}

#[test]
fn copies_that_never_end_keep_their_memory_and_do_not_hang_the_close() {
    let (pool, budget, ledger) = pool(64 * MIB, |config| config.close_timeout = Duration::from_millis(10));
    drop(pool.check_out(&layouts(&SET)).unwrap().in_flight(TestFence::new()));
    drop(pool);
    assert_eq!((budget.used(), ledger.live_bytes.load(SeqCst)), (SET_BYTES, SET_BYTES));
}

#[test]
fn no_lock_is_held_while_the_backend_works() {
    let (pool, budget, ledger) = pool(32 * MIB, |config| config.max_bytes = Some(16 << 20));
    let seen = Arc::new(AtomicU64::new(0));
    ledger.peek({
        let (pool, budget, seen) = (pool.clone(), budget.clone(), seen.clone());
        move |_| {
            // Either would hang if its lock were held here.
            let _ = (pool.stats(), budget.used());
            seen.fetch_add(1, SeqCst);
        }
    });
    let mut set = pool.check_out(&layouts(&[4 * MIB, 100, 4 * MIB])).unwrap();
    set.grow(0, 5 * MIB).unwrap();
    set.seal().unwrap();
    let failed = TestFence::new();
    failed.signal(Signal::Failed);
    drop(set.in_flight(failed));
    drop(pool.check_out(&layouts(&[2 * MIB])).unwrap());
    // SAFETY: there is no device.
    unsafe { pool.release_quarantined() };
    drop(pool.check_out(&layouts(&[12 * MIB])).unwrap());
    pool.trim_all();
    assert!(seen.load(SeqCst) >= 14, "{seen:?}");
    ledger.peek(|_| {});
}

#[test]
fn a_backend_that_panics_leaks_nothing() {
    hush_expected_panics();
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(64 * MIB, |_| {});
    let _registration = pool.register(&registry).unwrap();
    for call in 1..=4 {
        ledger.fail_at(call, Mischief::Panic);
        let error = registry.allocate(SET.map(layout)).unwrap_err();
        assert!(matches!(error, AllocError::BrokenAllocator { .. }), "{error}");
        at_baseline(&pool, &budget, &ledger);
    }
    ledger.behave();
    let [mut block] = registry.allocate([layout(MIB)]).unwrap();
    // SAFETY: the block is ours.
    unsafe { block.as_ptr().write_bytes(7, MIB) };
    ledger.fail_at(1, Mischief::Panic);
    assert!(matches!(block.grow(2 * MIB), Err(AllocError::BrokenAllocator { .. })));
    ledger.behave();
    // SAFETY: a growth that failed leaves the block as it was.
    assert_eq!(unsafe { block.as_ptr().add(MIB - 1).read() }, 7);
    block.grow(2 * MIB).unwrap();
    drop(block);
    at_baseline(&pool, &budget, &ledger);
}

/// Regions that are mapped side by side are all there or none, whichever of them fails and however.
#[test]
fn a_large_set_is_mapped_by_several_threads_whole_or_not_at_all() {
    hush_expected_panics();
    const LARGE: [usize; 4] = [100 * MIB, 100 * MIB, 100 * MIB, 60 * MIB];
    let registry = Registry::new();
    let (pool, budget, ledger) = pool(400 * MIB, |_| {});
    let _registration = pool.register(&registry).unwrap();
    let threads = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let seen = threads.clone();
    ledger.peek(move |_| {
        seen.lock().unwrap().insert(thread::current().id());
    });
    drop(registry.allocate(LARGE.map(layout)).unwrap());
    assert!(threads.lock().unwrap().len() >= 4, "one thread a region");
    at_baseline(&pool, &budget, &ledger);
    for call in 1..=4 {
        ledger.fail_at(call, Mischief::Panic);
        let error = registry.allocate(LARGE.map(layout)).unwrap_err();
        assert!(matches!(error, AllocError::BrokenAllocator { .. }), "{error}");
        at_baseline(&pool, &budget, &ledger);
        // One that is refused beside others is asked for once more.
        ledger.fail_at(call, Mischief::Refuse);
        drop(registry.allocate(LARGE.map(layout)).unwrap());
        at_baseline(&pool, &budget, &ledger);
        ledger.fail_from(call);
        let error = registry.allocate(LARGE.map(layout)).unwrap_err();
        assert!(matches!(error, AllocError::Refused { .. } | AllocError::Exhausted { .. }), "{error}");
        ledger.behave();
        at_baseline(&pool, &budget, &ledger);
    }
    ledger.behave();
    let blocks = registry.allocate(LARGE.map(layout)).unwrap();
    assert_eq!(blocks.each_ref().map(|block| block.size()), LARGE);
    drop(blocks);
    at_baseline(&pool, &budget, &ledger);
}
