//! Upstream's phase times.
//!
//! Upstream reports no times, but it writes log lines when a phase begins or ends, from the thread that proves:
//! `synthesis time: ..` after the synthesis, and `multiexp h` after the last FFT and before the first multi-scalar
//! multiplication. The version is fixed (=0.26.0), and so are its lines. A logger in front of the usual one notes
//! when they pass, while somebody listens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};
use tracing_log::LogTracer;

use crate::proving::Phases;

static LISTENING: AtomicBool = AtomicBool::new(false);
static MARKS: Mutex<Marks> = Mutex::new(Marks { synthesised: None, transformed: None });

#[derive(Clone, Copy, Default)]
struct Marks {
    synthesised: Option<Instant>,
    transformed: Option<Instant>,
}

/// Puts the logger in place: it hands all lines on to `tracing`. Once a process; later calls do nothing.
pub(crate) fn install() {
    if log::set_boxed_logger(Box::new(Listener { next: LogTracer::new() })).is_ok() {
        log::set_max_level(usual_level());
    }
}

/// What `tracing` would let through: lines above it cost nothing.
fn usual_level() -> LevelFilter {
    match tracing::level_filters::LevelFilter::current().into_level() {
        None => LevelFilter::Off,
        Some(tracing::Level::ERROR) => LevelFilter::Error,
        Some(tracing::Level::WARN) => LevelFilter::Warn,
        Some(tracing::Level::INFO) => LevelFilter::Info,
        Some(tracing::Level::DEBUG) => LevelFilter::Debug,
        Some(tracing::Level::TRACE) => LevelFilter::Trace,
    }
}

/// Runs `prove`, a proof by upstream, and tells its phases. Without the logger, or if a line did not come, only
/// the total is known.
///
/// One at a time in a process: lines carry no job.
pub fn phases_of<T>(prove: impl FnOnce() -> T) -> (T, Phases) {
    *MARKS.lock().unwrap_or_else(PoisonError::into_inner) = Marks::default();
    let before = log::max_level();
    log::set_max_level(before.max(LevelFilter::Debug));
    LISTENING.store(true, Ordering::SeqCst);
    let start = Instant::now();
    let done = prove();
    let end = Instant::now();
    LISTENING.store(false, Ordering::SeqCst);
    log::set_max_level(before);
    let marks = *MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    (done, marks.phases(start, end))
}

impl Marks {
    fn phases(&self, start: Instant, end: Instant) -> Phases {
        let span = |from: Option<Instant>, to: Option<Instant>| -> Option<Duration> {
            to?.checked_duration_since(from?)
        };
        Phases {
            synthesis: span(Some(start), self.synthesised),
            fft: span(self.synthesised, self.transformed),
            msm: span(self.transformed, Some(end)),
            total: end - start,
        }
    }
}

struct Listener {
    next: LogTracer,
}

impl Log for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        LISTENING.load(Ordering::Relaxed) || self.next.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if LISTENING.load(Ordering::Relaxed) && record.target().starts_with("bellperson") {
            note(record);
        }
        if self.next.enabled(record.metadata()) {
            self.next.log(record);
        }
    }

    fn flush(&self) {
        self.next.flush();
    }
}

fn note(record: &Record<'_>) {
    let now = Instant::now();
    // Formatting is cheap beside a phase, and only a handful of lines come.
    let line = record.args().to_string();
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    if line.starts_with("synthesis time: ") {
        marks.synthesised.get_or_insert(now);
    } else if line == "multiexp h" {
        marks.transformed.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use blstrs::{Bls12, Scalar};
    use ff::Field;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;
    use crate::circuits::{BuiltIn, Family, Size};

    /// The lines are upstream's: this fails if another version words them differently.
    #[test]
    fn upstream_tells_all_phases() {
        install();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let built = BuiltIn::new(Family::Squarings, Size::Constraints(1 << 9)).unwrap();
        let blank = built.circuit::<Scalar>();
        let params = upstream::groth16::generate_random_parameters::<Bls12, _, _>(blank, &mut rng).unwrap();
        let instance = built.instance::<Scalar>(&mut rng);
        let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
        let (proof, phases) =
            phases_of(|| upstream::groth16::create_proof::<Bls12, _, _>(instance.circuit, &params, r, s));
        proof.unwrap();
        let sum = phases.synthesis.unwrap() + phases.fft.unwrap() + phases.msm.unwrap();
        assert_eq!(sum, phases.total);
    }
}
