//! The budget: order, eviction, deadlines, conservation.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinned_alloc::AllocError;
use prover_core::memory::{Deadline, MemoryBudget, Priority, Reservation};

const LONG: Duration = Duration::from_secs(20);

/// Timers that never fire in a test, so that a lost notification shows as a time-out.
fn without_timer(total: u64) -> MemoryBudget {
    MemoryBudget::with(total, "--budget-of-the-test", Duration::from_secs(3600))
}

fn now(budget: &MemoryBudget, bytes: u64) -> Reservation {
    budget.try_reserve(bytes, Priority::NORMAL).unwrap()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Queues a thread and returns when it stands in the queue. It sends its label when it is served.
fn queue_up(
    budget: &MemoryBudget,
    bytes: u64,
    priority: Priority,
    label: &'static str,
    served: &mpsc::Sender<(&'static str, Reservation)>,
) -> thread::JoinHandle<()> {
    let before = budget.stats().waiting;
    let (budget_, served) = (budget.clone(), served.clone());
    let handle = thread::spawn(move || {
        let reservation = budget_.reserve(bytes, priority, Deadline::after(LONG)).unwrap();
        served.send((label, reservation)).unwrap();
    });
    until("queueing", || budget.stats().waiting == before + 1);
    handle
}

#[test]
fn bytes_come_back_in_every_way() {
    let budget = MemoryBudget::new(100);
    let mut a = now(&budget, 60);
    assert_eq!((budget.used(), budget.available(), budget.total()), (60, 40, 100));
    a.try_grow(40).unwrap();
    assert_eq!(budget.used(), 100);
    assert_eq!(a.shrink(30), 30);
    let b = a.split(50).unwrap();
    assert!(a.split(21).is_none());
    assert_eq!((a.bytes(), b.bytes(), budget.used()), (20, 50, 70));
    a.merge(b).unwrap();
    assert_eq!((a.bytes(), budget.used()), (70, 70));
    assert_eq!(a.shrink(u64::MAX), 70);
    assert_eq!(budget.used(), 0);
    drop(a);
    assert_eq!((budget.used(), budget.stats().peak), (0, 100));

    let other = MemoryBudget::new(100);
    let mut a = now(&budget, 1);
    let b = a.merge(now(&other, 2)).unwrap_err();
    assert_eq!((a.bytes(), b.bytes()), (1, 2));
    let nothing = budget.try_reserve(0, Priority::LOW).unwrap();
    assert_eq!(nothing.bytes(), 0);
}

#[test]
fn errors_carry_the_numbers_and_the_knob() {
    let budget = without_timer(100);
    let held = now(&budget, 90);
    let too_large = budget.reserve(101, Priority::HIGH, Deadline::Never).unwrap_err();
    assert_eq!(too_large, AllocError::TooLarge { requested: 101, limit: 100, knob: "--budget-of-the-test" });
    let exhausted = budget.try_reserve(11, Priority::HIGH).unwrap_err();
    assert_eq!(
        exhausted,
        AllocError::Exhausted { requested: 11, available: 10, total: 100, knob: "--budget-of-the-test" }
    );
    let started = Instant::now();
    let deadline = Deadline::after(Duration::from_millis(30));
    let Err(AllocError::TimedOut { requested: 11, waited_ms, knob: "--budget-of-the-test" }) =
        budget.reserve(11, Priority::HIGH, deadline)
    else {
        panic!("it must time out")
    };
    assert!(started.elapsed() >= Duration::from_millis(30) && waited_ms >= 29, "{waited_ms}");
    let mut held = held;
    assert!(matches!(held.try_grow(11), Err(AllocError::TooLarge { requested: 101, .. })));
    let second = now(&budget, 5);
    assert!(matches!(held.try_grow(10), Err(AllocError::Exhausted { requested: 10, available: 5, .. })));
    drop((held, second));
    let stats = budget.stats();
    assert_eq!((stats.used, stats.waiting, stats.timed_out, stats.refused), (0, 0, 1, 4));
    assert!(matches!(
        budget.reserve(u64::MAX, Priority::LOW, Deadline::Never),
        Err(AllocError::TooLarge { .. })
    ));
}

#[test]
fn a_passed_deadline_is_one_try() {
    let budget = without_timer(10);
    let passed = Deadline::At(Instant::now());
    let all = budget.reserve(10, Priority::NORMAL, passed).unwrap();
    assert!(matches!(budget.reserve(1, Priority::NORMAL, passed), Err(AllocError::TimedOut { .. })));
    drop(all);
}

#[test]
fn first_come_first_served_and_the_small_do_not_overtake() {
    let budget = without_timer(100);
    let held = now(&budget, 50);
    let (served, order) = mpsc::channel();
    let threads = [
        queue_up(&budget, 80, Priority::NORMAL, "large", &served),
        queue_up(&budget, 10, Priority::NORMAL, "small", &served),
    ];
    // There are 50 bytes, but both "small" and a newcomer would overtake "large".
    assert!(matches!(budget.try_reserve(10, Priority::NORMAL), Err(AllocError::Exhausted { .. })));
    assert!(order.recv_timeout(Duration::from_millis(30)).is_err());
    drop(held);
    let first = order.recv_timeout(LONG).unwrap();
    let second = order.recv_timeout(LONG).unwrap();
    let mut labels = [first.0, second.0];
    labels.sort_unstable();
    assert_eq!(labels, ["large", "small"]);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop((first, second));
    assert_eq!(budget.used(), 0);
}

#[test]
fn each_release_serves_exactly_the_next_ones_by_priority_then_age() {
    let budget = without_timer(100);
    let mut held = now(&budget, 100);
    let (served, order) = mpsc::channel();
    let threads = [
        queue_up(&budget, 40, Priority::NORMAL, "n1", &served),
        queue_up(&budget, 40, Priority::NORMAL, "n2", &served),
        queue_up(&budget, 40, Priority::LOW, "l", &served),
        queue_up(&budget, 40, Priority::HIGH, "h1", &served),
        queue_up(&budget, 40, Priority::HIGH, "h2", &served),
    ];
    let mut kept = Vec::new();
    for expected in ["h1", "h2"] {
        assert!(order.try_recv().is_err());
        held.shrink(40);
        let (label, reservation) = order.recv_timeout(LONG).unwrap();
        assert_eq!(label, expected);
        kept.push(reservation);
    }
    // 20 bytes left in `held`; the rest comes from those served.
    for expected in ["n1", "n2", "l"] {
        assert!(order.try_recv().is_err());
        drop(kept.remove(0));
        let (label, reservation) = order.recv_timeout(LONG).unwrap();
        assert_eq!(label, expected);
        kept.push(reservation);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop((held, kept));
    assert_eq!((budget.used(), budget.stats().peak), (0, 100));
}

#[test]
fn a_head_that_gives_up_lets_the_next_through() {
    let budget = without_timer(100);
    let held = now(&budget, 50);
    let (served, order) = mpsc::channel();
    let impatient = thread::spawn({
        let budget = budget.clone();
        move || budget.reserve(80, Priority::NORMAL, Deadline::after(Duration::from_millis(150))).unwrap_err()
    });
    until("queueing", || budget.stats().waiting == 1);
    let patient = queue_up(&budget, 50, Priority::NORMAL, "patient", &served);
    // Nothing is released: the only event is that the head leaves.
    let (_, reservation) = order.recv_timeout(LONG).unwrap();
    assert!(matches!(impatient.join().unwrap(), AllocError::TimedOut { requested: 80, .. }));
    patient.join().unwrap();
    drop((held, reservation));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_holder_may_grow_past_the_queue() {
    let budget = without_timer(100);
    let mut held = now(&budget, 50);
    let (served, order) = mpsc::channel();
    let thread = queue_up(&budget, 80, Priority::HIGH, "waiter", &served);
    held.try_grow(50).unwrap();
    drop(held);
    assert_eq!(order.recv_timeout(LONG).unwrap().0, "waiter");
    thread.join().unwrap();
}

/// A cache of reservations of 10 bytes that gives up as many as it is asked for.
fn cache(budget: &MemoryBudget, entries: usize) -> Arc<Mutex<Vec<Reservation>>> {
    Arc::new(Mutex::new((0..entries).map(|_| now(budget, 10)).collect()))
}

fn evict_from(cache: &Mutex<Vec<Reservation>>, bytes: u64) -> u64 {
    let mut cache = cache.lock().unwrap();
    let keep = cache.len().saturating_sub(bytes.div_ceil(10) as usize);
    let victims = cache.split_off(keep);
    drop(cache);
    victims.iter().map(Reservation::bytes).sum()
}

#[test]
fn caches_give_what_is_lacking_and_no_more() {
    let budget = without_timer(100);
    let cached = cache(&budget, 8);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let handle = budget.on_pressure({
        let (cached, asked, budget) = (cached.clone(), asked.clone(), budget.clone());
        move |bytes| {
            asked.lock().unwrap().push(bytes);
            // No lock of the budget is held here, else this would hang.
            assert!(budget.used() <= 100);
            evict_from(&cached, bytes)
        }
    });
    let a = now(&budget, 20);
    assert!(asked.lock().unwrap().is_empty(), "there was room");
    let b = now(&budget, 25);
    assert_eq!(*asked.lock().unwrap(), [25]);
    assert_eq!(cached.lock().unwrap().len(), 5);
    let mut c = budget.reserve(10, Priority::NORMAL, Deadline::after(LONG)).unwrap();
    c.try_grow(6).unwrap();
    assert_eq!(*asked.lock().unwrap(), [25, 5, 1]);
    assert_eq!(budget.stats().evicted_bytes, 50);
    drop(handle);
    assert!(budget.try_reserve(10, Priority::NORMAL).is_err(), "the handle is gone, so is the evictor");
    drop((a, b, c));
    cached.lock().unwrap().clear();
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_nudge_makes_the_waiter_ask_again() {
    let budget = without_timer(100);
    let held = Arc::new(Mutex::new(Some(now(&budget, 100))));
    let willing = Arc::new(AtomicBool::new(false));
    let _handle = budget.on_pressure({
        let (held, willing) = (held.clone(), willing.clone());
        move |_| match willing.load(Ordering::SeqCst) {
            true => held.lock().unwrap().take().map_or(0, |r| r.bytes()),
            false => 0,
        }
    });
    let (served, order) = mpsc::channel();
    let thread = queue_up(&budget, 30, Priority::NORMAL, "waiter", &served);
    until("a first question", || budget.stats().evictions >= 1);
    assert!(order.recv_timeout(Duration::from_millis(20)).is_err());
    willing.store(true, Ordering::SeqCst);
    budget.nudge();
    assert_eq!(order.recv_timeout(LONG).unwrap().0, "waiter");
    thread.join().unwrap();
}

#[test]
fn the_timer_asks_again_without_any_nudge() {
    let budget = MemoryBudget::with(100, "knob", Duration::from_millis(2));
    let held = Arc::new(Mutex::new(Some(now(&budget, 100))));
    let calls = Arc::new(AtomicU64::new(0));
    let _handle = budget.on_pressure({
        let (held, calls) = (held.clone(), calls.clone());
        move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0..5 => 0,
            _ => held.lock().unwrap().take().map_or(0, |r| r.bytes()),
        }
    });
    drop(budget.reserve(100, Priority::NORMAL, Deadline::after(LONG)).unwrap());
    assert!(calls.load(Ordering::SeqCst) >= 6);
}

#[test]
fn panicking_evictors_and_poisoned_threads_change_nothing() {
    let budget = MemoryBudget::with(100, "knob", Duration::from_millis(2));
    let cached = cache(&budget, 10);
    let _panics = budget.on_pressure(|_| panic!("an evictor that panics"));
    let _works = budget.on_pressure({
        let cached = cached.clone();
        move |bytes| evict_from(&cached, bytes)
    });
    let panicked = thread::spawn({
        let budget = budget.clone();
        move || {
            let _held = now(&budget, 50);
            panic!("a holder that panics");
        }
    });
    assert!(panicked.join().is_err());
    assert_eq!(budget.used(), 50);
    drop(budget.reserve(100, Priority::NORMAL, Deadline::after(LONG)).unwrap());
    assert_eq!(budget.used(), 0);
}

#[test]
fn many_threads_never_pass_the_total_and_end_at_the_baseline() {
    const TOTAL: u64 = 1000;
    let budget = MemoryBudget::with(TOTAL, "knob", Duration::from_millis(1));
    let cached = cache(&budget, 50);
    let _handle = budget.on_pressure({
        let cached = cached.clone();
        move |bytes| evict_from(&cached, bytes)
    });
    let held = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..8u64 {
            let (budget, held, cached) = (&budget, &held, &cached);
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut next = move |below: u64| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random % below
                };
                for _ in 0..400 {
                    let bytes = 1 + next(TOTAL / 2);
                    let priority = Priority(next(3) as u8);
                    let wait = Deadline::after(Duration::from_millis(next(20)));
                    match budget.reserve(bytes, priority, wait) {
                        Ok(mut reservation) => {
                            let now_held = held.fetch_add(bytes, Ordering::SeqCst) + bytes;
                            assert!(now_held <= TOTAL, "{now_held} bytes are out");
                            let grown = next(50);
                            let grew = reservation.try_grow(grown).is_ok();
                            reservation.shrink(if grew { grown } else { 0 });
                            if next(4) == 0 {
                                held.fetch_sub(bytes, Ordering::SeqCst);
                                reservation.shrink(bytes.saturating_sub(10));
                                cached.lock().unwrap().push(reservation);
                                budget.nudge();
                            } else {
                                held.fetch_sub(bytes, Ordering::SeqCst);
                            }
                        }
                        Err(error) => assert!(matches!(error, AllocError::TimedOut { .. }), "{error}"),
                    }
                }
            });
        }
    });
    cached.lock().unwrap().clear();
    let stats = budget.stats();
    assert_eq!((stats.used, stats.waiting), (0, 0));
    assert!(stats.peak <= TOTAL && stats.granted > 400, "{stats:?}");
}
