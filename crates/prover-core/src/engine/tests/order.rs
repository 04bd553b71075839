//! Priorities, memory, what passes what.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::support::{are_of, eventually, job, key, shape, Act, Gate, Plan, Simulated, Squarings};
use crate::engine::{JobRequest, SubmitError};
use crate::memory::pool::Exhaustion;
use crate::memory::Priority;

#[test]
fn proofs_come_in_the_order_of_the_circuits_whichever_ends_first() {
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0))]);
    let sleeps = |x: u64| Act::Sleeps(Duration::from_millis(40 - 10 * (x % 5).min(4)));
    let circuits: Vec<Squarings> = (1..=10).map(|x| Squarings::new(x, 20).that(sleeps(x))).collect();
    let handle = rig.submit(JobRequest::new(key(20), circuits).label("same"));
    let other = rig.submit(job(20, 100..105).label("same"));
    are_of(&other.wait().expect("proofs"), 20, 100..105);
    assert_eq!(handle.progress().circuits, 10);
    are_of(&handle.wait().expect("proofs"), 20, 1..=10);
    rig.stop();
}

#[test]
fn the_cpu_proves_with_the_same_engine() {
    let rig = Plan::default().over(&[]);
    let handles: Vec<_> = (0..4).map(|i| rig.submit(job(20 + i, [1, 2, 3]))).collect();
    for (i, handle) in handles.into_iter().enumerate() {
        let proofs = handle.wait().expect("proofs");
        assert!(proofs.iter().all(|proven| proven.report.prover == "cpu"));
        are_of(&proofs, 20 + i, [1, 2, 3]);
    }
    rig.stop();
}

#[test]
fn an_empty_job_is_done_at_once() {
    let rig = Plan::default().over(&[]);
    assert!(rig.submit(job(5, [])).wait().expect("no proofs").is_empty());
    rig.stop();
}

#[test]
fn higher_priority_goes_first_then_age() {
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 1;
    let rig = plan.over(&[]);
    let gate = Arc::new(Gate::default());
    let first = rig.submit(JobRequest::new(key(4), [Squarings::new(2, 4).that(Act::Waits(gate.clone()))]));
    gate.wait_for(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let submit = |name: &'static str, priority| {
        let handle = rig.submit(job(4, [3, 4]).priority(priority));
        let order = order.clone();
        std::thread::spawn(move || {
            handle.wait().expect("proofs");
            order.lock().unwrap().push(name);
        })
    };
    let waiting = [
        submit("low", Priority::LOW),
        submit("normal 1", Priority::NORMAL),
        submit("normal 2", Priority::NORMAL),
        submit("high", Priority::HIGH),
    ];
    gate.open();
    first.wait().expect("a proof");
    for thread in waiting {
        thread.join().expect("no panic");
    }
    assert_eq!(*order.lock().unwrap(), ["high", "normal 1", "normal 2", "low"]);
    rig.stop();
}

/// Field case 34.
#[test]
fn finished_syntheses_do_not_pile_up_before_a_slow_device() {
    // A set of 200 squarings: three vectors of 202 and one of 200 elements, 2 pages each.
    let set = 4 * 2 * 4096;
    let mut plan = Plan { budget: 3 * set, ..Plan::default() };
    plan.engine.synthesis_workers = 8;
    plan.engine.ready_max = Some(50);
    let device = Arc::new(Simulated::new(0).slow(Duration::from_millis(5)).slots(1));
    let rig = plan.over(&[device]);
    // So that the size is known.
    rig.submit(job(200, [2]).expecting(shape(200))).wait().expect("a proof");
    let handles: Vec<_> = (0..50).map(|x| rig.submit(job(200, [x]))).collect();
    for (x, handle) in handles.into_iter().enumerate() {
        are_of(&handle.wait().expect("a proof"), 200, [x as u64]);
    }
    let summary = rig.engine().summary();
    assert!(summary.live_peak <= 3, "{summary:?}");
    assert!(summary.pool.as_ref().is_some_and(|pool| pool.peak_bytes <= 3 * set && pool.fallbacks == 0));
    assert!(summary.waited_memory > 0.0);
    rig.stop();
}

/// Field case 20.
#[test]
fn a_burst_maps_no_more_than_is_used_at_a_time() {
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 3;
    plan.engine.ready_max = Some(1);
    let rig = plan.over(&[Arc::new(Simulated::new(0))]);
    let handles: Vec<_> = (0..16).map(|x| rig.submit(job(150, [x, x + 100]))).collect();
    for handle in handles {
        handle.wait().expect("proofs");
    }
    let pool = rig.pool.stats();
    // Four blocks a set, four sets at a time; the first did not know its size and may have been mapped anew.
    assert!(pool.maps <= 4 * (4 + 1), "{pool:?}");
    assert!(pool.hits * 10 >= (pool.hits + pool.misses) * 8, "{pool:?}");
    assert!(rig.engine().summary().live_peak <= 4);
    rig.stop();
}

#[test]
fn a_big_circuit_that_waits_for_memory_is_passed_only_so_often() {
    // Room for one big set, or some small ones.
    let mut plan = Plan { budget: 768 << 10, ..Plan::default() };
    plan.engine.synthesis_workers = 2;
    plan.engine.overtakes_max = 3;
    let rig = plan.over(&[]);
    let (small, big) = (30, (1 << 12) - 2);
    // So that the sizes are known.
    for count in [small, big] {
        rig.submit(job(count, [2]).expecting(shape(count))).wait().expect("a proof");
    }
    rig.pool.trim_all();
    let gate = Arc::new(Gate::default());
    let holder =
        rig.submit(JobRequest::new(key(big), [Squarings::new(5, big).that(Act::Waits(gate.clone()))]));
    gate.wait_for(1);
    let waiting = rig.submit(job(big, [7]));
    let many = rig.submit(job(small, 0..10));
    // Three of the small ones pass, then all wait for the big one.
    eventually("the small ones pass", || many.progress().proved == 3);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!((many.progress().proved, waiting.progress().synthesised), (3, 0));
    assert_eq!(rig.engine().summary().overtakes, 3);
    gate.open();
    are_of(&holder.wait().expect("a proof"), big, [5]);
    are_of(&waiting.wait().expect("a proof"), big, [7]);
    are_of(&many.wait().expect("proofs"), small, 0..10);
    rig.stop();
}

/// A key says how large its circuits can be: those of unknown size do not crowd the memory.
#[test]
fn circuits_of_unknown_size_are_let_in_by_what_their_keys_allow() {
    // A set of 2^12 rows has 512 KiB. While they grow they need more, which the heap has.
    let mut plan = Plan { budget: 1200 << 10, exhaustion: Exhaustion::Heap, ..Plan::default() };
    plan.engine.synthesis_workers = 8;
    let rig = plan.over(&[]);
    let gate = Arc::new(Gate::default());
    let counts = [0, 1, 2, 3].map(|i| (1 << 12) - 2 - i);
    let jobs = counts.map(|count| {
        rig.submit(JobRequest::new(key(count), [Squarings::new(2, count).that(Act::Waits(gate.clone()))]))
    });
    gate.wait_for(2);
    std::thread::sleep(Duration::from_millis(150));
    let summary = rig.engine().summary();
    assert_eq!((summary.live, summary.pending), (2, 2), "{summary:?}");
    gate.open();
    for (job, count) in jobs.into_iter().zip(counts) {
        are_of(&job.wait().expect("a proof"), count, [2]);
    }
    rig.stop();
}

#[test]
fn whoever_submits_too_much_waits_or_is_told() {
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 1;
    plan.engine.pending_max = 4;
    let rig = plan.over(&[]);
    let gate = Arc::new(Gate::default());
    let first = rig.submit(JobRequest::new(key(4), [Squarings::new(2, 4).that(Act::Waits(gate.clone()))]));
    gate.wait_for(1);
    let second = rig.submit(job(4, 1..=3));
    let Err(SubmitError::Full { request, pending, circuits, most }) = rig.engine().try_submit(job(4, 1..=2))
    else {
        panic!("there is no room");
    };
    assert_eq!((request.len(), pending, circuits, most), (2, 3, 2, 4));
    let start = Instant::now();
    let late = rig.engine().submit_timeout(*request, Duration::from_millis(80));
    assert!(matches!(late, Err(SubmitError::Full { .. })) && start.elapsed() >= Duration::from_millis(80));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| rig.submit(job(4, 5..=6)).wait().expect("proofs").len());
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished());
        gate.open();
        assert_eq!(waits.join().expect("no panic"), 2);
    });
    first.wait().expect("a proof");
    second.wait().expect("proofs");
    rig.stop();
}

#[test]
fn a_large_job_has_its_turn_before_small_ones_that_came_later() {
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 1;
    plan.engine.pending_max = 4;
    let rig = plan.over(&[]);
    let gate = Arc::new(Gate::default());
    let holder = rig.submit(JobRequest::new(key(4), [Squarings::new(2, 4).that(Act::Waits(gate.clone()))]));
    gate.wait_for(1);
    let waits = rig.submit(job(4, [3]));
    std::thread::scope(|scope| {
        // More than may ever wait: it gets in when nothing does.
        let large = scope.spawn(|| rig.submit(job(4, 0..9)).wait().expect("proofs").len());
        eventually("it waits", || rig.engine().try_submit(job(4, [5])).is_err());
        assert!(!large.is_finished());
        gate.open();
        assert_eq!(large.join().expect("no panic"), 9);
    });
    holder.wait().expect("a proof");
    waits.wait().expect("a proof");
    are_of(&rig.engine().try_submit(job(4, [6])).expect("there is room").wait().expect("a proof"), 4, [6]);
    rig.stop();
}

/// Field case 37.
#[test]
fn jobs_of_many_parts_do_not_crawl_side_by_side() {
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0).slow(Duration::from_millis(4)).slots(1))]);
    let start = Instant::now();
    let handles: Vec<_> = (0..4).map(|i| rig.submit(job(16, 8 * i..8 * i + 8))).collect();
    let mut ends = Vec::new();
    for handle in handles {
        handle.wait().expect("proofs");
        ends.push(start.elapsed());
    }
    assert!(ends[0].as_secs_f64() < 0.4 * ends[3].as_secs_f64(), "{ends:?}");
    rig.stop();
}
