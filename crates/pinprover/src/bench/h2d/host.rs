//! The host's side: random bytes, and threads that copy memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;

/// What each thread copies to and fro: more than caches hold.
const COPIED: usize = 256 << 20;

/// Fills the bytes with random ones. Zeros, or pages that are all the same, could be copied faster than a witness.
pub(super) fn fill_random(bytes: &mut [u8], seed: u64) {
    const PART: usize = 1 << 20;
    bytes.par_chunks_mut(PART).enumerate().for_each(|(index, part)| {
        let mut state = (seed ^ (index as u64 + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for word in part.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
    });
}

/// Runs `work` while `threads` threads copy memory, and says how many bytes a second they copied meanwhile.
pub(super) fn while_copying<T>(threads: usize, work: impl FnOnce() -> T) -> (T, f64) {
    if threads == 0 {
        return (work(), 0.0);
    }
    let (stop, ready, copied) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    // Ends the threads on a panic too: the scope waits for them.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for thread in 0..threads {
            let (stop, ready, copied) = (&stop, &ready, &copied);
            scope.spawn(move || {
                let (mut from, mut to) = (vec![thread as u8 | 1; COPIED], vec![2u8; COPIED]);
                ready.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    // In parts, so that the end is soon and the count is fine.
                    for (from, to) in from.chunks(8 << 20).zip(to.chunks_mut(8 << 20)) {
                        to.copy_from_slice(std::hint::black_box(from));
                        copied.fetch_add(from.len() as u64, Ordering::Relaxed);
                    }
                    std::mem::swap(&mut from, &mut to);
                }
            });
        }
        while ready.load(Ordering::Relaxed) < threads as u64 {
            thread::sleep(Duration::from_millis(5));
        }
        let (before, started) = (copied.load(Ordering::Relaxed), Instant::now());
        let done = work();
        let rate = (copied.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
        (done, rate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_random_all_over() {
        let mut bytes = vec![0u8; (2 << 20) + 13];
        fill_random(&mut bytes, 7);
        let mut counts = [0usize; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let expected = bytes.len() / 256;
        assert!(counts.iter().all(|count| count.abs_diff(expected) < expected / 5), "{counts:?}");
        assert_ne!(bytes[..64], bytes[1 << 20..(1 << 20) + 64], "each part has its own");
        assert!(
            bytes.ends_with(&bytes[bytes.len() - 13..]) && bytes[bytes.len() - 13..].iter().any(|b| *b != 0)
        );
    }

    #[test]
    fn copying_threads_copy_and_stop() {
        let ((), rate) = while_copying(2, || thread::sleep(Duration::from_millis(100)));
        assert!(rate > 1e8, "{rate}");
        assert_eq!(while_copying(0, || 5), (5, 0.0));
    }
}
