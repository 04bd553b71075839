//! Many threads allocate, grow, pass on and drop blocks while the registration changes under them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{mpsc, Arc, Barrier};

use pinned_alloc::{AllocError, Block, Registry};

use crate::kit::{check, fill, four, Lab};

const WORKERS: usize = 3;

fn rounds(native: usize, miri: usize) -> usize {
    if cfg!(miri) {
        miri
    } else {
        native
    }
}

/// A worker that panics ends the test instead of leaving the others waiting for it.
struct DoneOnPanic<'a>(&'a AtomicBool);

impl Drop for DoneOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

#[test]
fn blocks_outlive_the_registration_on_other_threads() {
    let registry = Registry::new();
    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let labs: Vec<Arc<Lab>> = (0..rounds(60, 4)).map(|i| Lab::new(["even", "odd"][i % 2])).collect();

    std::thread::scope(|scope| {
        // A ring: what one worker allocates, the next one grows, checks and drops.
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..WORKERS).map(|_| mpsc::channel::<([Block; 4], u8)>()).unzip();
        let mut senders: std::collections::VecDeque<_> = senders.into();
        senders.rotate_left(1);
        for (worker, (to_next, from_last)) in senders.into_iter().zip(receivers).enumerate() {
            let (registry, done, served) = (&registry, &done, &served);
            scope.spawn(move || {
                let _guard = DoneOnPanic(done);
                let finish = |(mut blocks, seed): ([Block; 4], u8)| {
                    for (block, layout) in blocks.iter_mut().zip(four()) {
                        check(block, layout.size(), seed);
                        block.grow(layout.size() * 2).expect("within the reserve");
                        block.seal().expect("an honest answer");
                        check(block, layout.size(), seed);
                    }
                };
                let mut seed = worker as u8;
                while !done.load(Relaxed) {
                    match registry.allocate(four()) {
                        Ok(blocks) => {
                            served.fetch_add(1, Relaxed);
                            seed = seed.wrapping_add(7);
                            blocks.iter().for_each(|block| fill(block, seed));
                            to_next.send((blocks, seed)).expect("the next one listens until we hang up");
                        }
                        Err(AllocError::NotRegistered) => std::thread::yield_now(),
                        Err(e) => panic!("{e}"),
                    }
                    from_last.try_iter().for_each(finish);
                }
                drop(to_next);
                from_last.iter().for_each(finish);
            });
        }
        for lab in &labs {
            let registration = lab.register(&registry).expect("one at a time");
            let before = served.load(Relaxed);
            while served.load(Relaxed) == before && !done.load(Relaxed) {
                std::thread::yield_now();
            }
            drop(registration);
        }
        done.store(true, Relaxed);
    });
    assert!(served.load(Relaxed) >= labs.len());
    labs.into_iter().for_each(|lab| lab.finish(0));
}

#[test]
fn of_many_who_register_at_once_one_wins() {
    for _ in 0..rounds(200, 3) {
        let registry = Registry::new();
        let start = Barrier::new(WORKERS);
        let labs: [Arc<Lab>; WORKERS] = std::array::from_fn(|_| Lab::new("one of many"));
        let won: Vec<_> = std::thread::scope(|scope| {
            let racers = labs.each_ref().map(|lab| {
                scope.spawn(|| {
                    start.wait();
                    lab.register(&registry)
                })
            });
            racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
        });
        assert_eq!(won.iter().filter(|answer| answer.is_ok()).count(), 1);
        let winner = won.iter().position(|answer| answer.is_ok()).expect("one won");
        drop(won);
        for (i, lab) in labs.into_iter().enumerate() {
            if i == winner {
                lab.finish(0);
            } else {
                assert_eq!(lab.calls(), []);
                assert_eq!(Arc::strong_count(&lab), 1);
            }
        }
    }
}

#[test]
fn the_last_of_many_blocks_sets_the_release_off_wherever_it_is_dropped() {
    for _ in 0..rounds(200, 3) {
        let registry = Registry::new();
        let lab = Lab::new("scattered");
        let registration = lab.register(&registry).expect("an empty registry");
        let blocks = registry.allocate(four()).expect("an honest answer");
        let start = Barrier::new(5);
        std::thread::scope(|scope| {
            for block in blocks {
                scope.spawn(|| {
                    start.wait();
                    drop(block);
                });
            }
            start.wait();
            drop(registration);
        });
        lab.finish(0);
    }
}
