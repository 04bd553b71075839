//! What came out of a pipeline: figures for programs, and a table with a column for each variant.

use std::time::Duration;

use prover_core::engine::{DeviceTimes, EngineSummary, JobError};
use prover_core::memory::pool::PoolStats;
use prover_core::size::format_size;
use prover_core::Proven;
use serde::Serialize;

use super::pipeline::{reports, Before};
use super::pipeline_sample::Samples;
use crate::ui::table;

/// What one circuit takes when nothing else runs: the mean of some.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Of the circuit.
    pub constraints: usize,
    /// In which the device computed; of a proof on the CPU, all of it.
    pub seconds: f64,
}

/// The timed part of a run.
pub(super) struct Ended {
    pub(super) results: Vec<Result<Vec<Proven>, JobError>>,
    /// From the first submission to the last proof.
    pub(super) wall: Duration,
    pub(super) summary: EngineSummary,
    pub(super) samples: Samples,
    pub(super) pool_before: Option<PoolStats>,
    pub(super) resident_warm: Option<u64>,
    pub(super) resident_peak: Option<u64>,
    pub(super) budget_warm: u64,
}

/// Everything about one variant. Seconds and bytes; null where there is no such figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    variant: &'static str,
    /// What computed the proofs: `"gpu"`, `"cpu"`, or `"mixed"`.
    prover: &'static str,
    /// What backed a, b and c.
    memory: String,
    pinned: bool,
    warm_up_seconds: f64,
    key_load_seconds: Option<f64>,
    alone: Vec<Alone>,
    /// Circuits proved and checked.
    circuits: u64,
    failed_jobs: u64,
    /// The first of them.
    failure: Option<String>,
    /// From the first submission to the last proof.
    wall_seconds: f64,
    circuits_per_second: f64,
    /// The time of all circuits alone, over the wall time: 1 is a device that never waits.
    throughput_times_alone: f64,
    /// Means, by wall clock.
    synthesis_seconds_per_circuit: f64,
    prove_seconds_per_circuit: f64,
    device: Option<DeviceFigures>,
    pool: Option<PoolFigures>,
    /// Vectors that outgrew their memory.
    growths: u64,
    waited_memory_seconds: f64,
    waited_device_seconds: f64,
    overtakes: u64,
    live_sets_peak: usize,
    live_bytes_peak: u64,
    resident: ResidentFigures,
}

/// What devices did, all together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Computing, over the time from a device's first copy to its last kernel.
    pub busy_share: f64,
    /// Computing, over the wall time: the circuits a second times the device's seconds for each.
    pub busy_share_of_wall: f64,
    /// Of the copies, what ran behind a computation.
    pub hidden_share: f64,
    /// In which a device computed.
    pub seconds_per_circuit: f64,
    /// a, b, c and the witness, over the time in which a device copied.
    pub upload_bytes_per_second: Option<f64>,
    /// Keys that had to be loaded meanwhile.
    pub keys_loaded: usize,
    /// Each of them.
    pub devices: Vec<DeviceTimes>,
}

/// What the pool did meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolFigures {
    /// Blocks that lay ready, of all.
    pub hit_rate: Option<f64>,
    /// Blocks that lay ready.
    pub hits: u64,
    /// Blocks that did not.
    pub misses: u64,
    /// Regions mapped: none, if the warm-up mapped what is needed.
    pub maps: u64,
    /// Regions given back to the system.
    pub trims: u64,
    /// Blocks that grew in place.
    pub growths: u64,
    /// Check-outs that waited.
    pub waits: u64,
    /// How long.
    pub waited_seconds: f64,
    /// Sets that went to the heap.
    pub fallbacks: u64,
    /// Check-outs that failed otherwise.
    pub refusals: u64,
    /// The most bytes mapped.
    pub mapped_peak: u64,
    /// Of blocks in use, bytes that nobody asked for.
    pub waste_share: Option<f64>,
    /// Of all mapped bytes, those that nobody asked for: idle ones are among them.
    pub unasked_share: Option<f64>,
}

/// Resident memory, against what the budget says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResidentFigures {
    /// With keys and ready-made witnesses, before the prover was started.
    pub before: Option<u64>,
    /// After the warm-up.
    pub warm: Option<u64>,
    /// The most meanwhile.
    pub peak: Option<u64>,
    /// What the budget had given out after the warm-up.
    pub budget_used_warm: u64,
    /// The most that it had given out.
    pub budget_used_peak: u64,
    /// What the peak rose above `before`, over the budget's peak. The device's driver has memory of its own, too.
    pub rise_over_budget: Option<f64>,
    /// The most that resident memory rose after the warm-up, less what the budget's figure rose, at any moment.
    pub uncounted_rise: Option<i64>,
}

impl Figures {
    pub(super) fn new(before: &Before, ended: &Ended, failure: Option<String>) -> Self {
        let Ended { summary, samples, .. } = ended;
        let wall = ended.wall.as_secs_f64();
        let circuits = summary.circuits_proved;
        let each = |total: f64| if circuits > 0 { total / circuits as f64 } else { 0.0 };
        let proofs = || reports(&ended.results);
        let count = proofs().count().max(1) as f64;
        let mut provers: Vec<_> = proofs().map(|report| report.prover).collect();
        provers.dedup();
        let last = proofs().last();
        let processors = summary.device_times.len().max(1) as f64;
        // Circuits that failed took no time that could be told.
        let alone = before.alone_total * circuits as f64 / before.circuits.max(1) as f64;
        let growths = proofs().map(|report| {
            let memory = &report.memory;
            u64::from(memory.grown_in_place + memory.moved + memory.moved_to_heap)
        });
        Self {
            variant: before.variant.name(),
            prover: match provers.as_slice() {
                [] => "none",
                [one] => one,
                _ => "mixed",
            },
            memory: last.map_or_else(|| "none".to_owned(), |report| report.memory.abc.backend.to_owned()),
            pinned: last.is_some_and(|report| report.memory.abc.pinned),
            warm_up_seconds: before.warm_up.as_secs_f64(),
            key_load_seconds: before.key_load.map(|time| time.as_secs_f64()),
            alone: before.alone.clone(),
            circuits,
            failed_jobs: ended.results.iter().filter(|result| result.is_err()).count() as u64,
            failure,
            wall_seconds: wall,
            circuits_per_second: circuits as f64 / wall,
            throughput_times_alone: alone / (wall * processors),
            synthesis_seconds_per_circuit: proofs()
                .map(|report| report.phases.synthesis.as_secs_f64())
                .sum::<f64>()
                / count,
            prove_seconds_per_circuit: proofs().map(|report| report.phases.prove.as_secs_f64()).sum::<f64>()
                / count,
            device: DeviceFigures::new(before, ended, each),
            pool: ended
                .pool_before
                .as_ref()
                .zip(summary.pool.as_ref())
                .map(|(then, now)| PoolFigures::new(then, now, samples)),
            growths: growths.sum(),
            waited_memory_seconds: summary.waited_memory,
            waited_device_seconds: summary.waited_device,
            overtakes: summary.overtakes,
            live_sets_peak: summary.live_peak,
            live_bytes_peak: summary.live_bytes_peak,
            resident: ResidentFigures::new(before, ended),
        }
    }

    /// Jobs that failed.
    pub fn failed_jobs(&self) -> u64 {
        self.failed_jobs
    }
}

impl DeviceFigures {
    fn new(before: &Before, ended: &Ended, each: impl Fn(f64) -> f64) -> Option<Self> {
        let devices = ended.summary.device_times.clone();
        if devices.is_empty() {
            return None;
        }
        let sum = |of: fn(&DeviceTimes) -> f64| devices.iter().map(of).sum::<f64>();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (computing, copying) = (sum(|device| device.computing), sum(|device| device.copying));
        let wall = ended.wall.as_secs_f64();
        let on_device = || reports(&ended.results).filter_map(|report| report.device.as_ref());
        let whole = on_device().count() == before.circuits;
        Some(Self {
            busy_share: share(computing, sum(|device| device.span)),
            busy_share_of_wall: share(computing, wall * devices.len() as f64),
            hidden_share: share(sum(|device| device.hidden), copying),
            seconds_per_circuit: each(computing),
            // Of proofs that were lost nobody knows how much was copied.
            upload_bytes_per_second: (whole && copying > 0.0).then(|| before.upload_bytes as f64 / copying),
            keys_loaded: on_device().filter(|device| device.key_loaded).count(),
            devices,
        })
    }
}

impl PoolFigures {
    fn new(then: &PoolStats, now: &PoolStats, samples: &Samples) -> Self {
        let since = |of: fn(&PoolStats) -> u64| of(now).saturating_sub(of(then));
        let (hits, misses) = (since(|stats| stats.hits), since(|stats| stats.misses));
        Self {
            hit_rate: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
            hits,
            misses,
            maps: since(|stats| stats.maps),
            trims: since(|stats| stats.trims),
            growths: since(|stats| stats.growths),
            waits: since(|stats| stats.waits),
            waited_seconds: since(|stats| stats.waited_ms) as f64 / 1e3,
            fallbacks: since(|stats| stats.fallbacks),
            refusals: since(|stats| stats.refusals),
            mapped_peak: samples.mapped_peak,
            waste_share: samples.waste_share,
            unasked_share: samples.unasked_share,
        }
    }
}

impl ResidentFigures {
    fn new(before: &Before, ended: &Ended) -> Self {
        let used = ended.samples.budget_used_peak;
        let rise = ended.resident_peak.zip(before.resident).map(|(peak, before)| peak.saturating_sub(before));
        Self {
            before: before.resident,
            warm: ended.resident_warm,
            peak: ended.resident_peak,
            budget_used_warm: ended.budget_warm,
            budget_used_peak: used,
            rise_over_budget: rise.filter(|_| used > 0).map(|rise| rise as f64 / used as f64),
            uncounted_rise: ended.samples.uncounted_rise,
        }
    }
}

/// A row for each figure, a column for each variant.
pub fn text(variants: &[Figures]) -> String {
    let row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        std::iter::once(name.to_owned()).chain(variants.iter().map(cell)).collect::<Vec<_>>()
    };
    let seconds = |seconds: f64| format!("{seconds:.3} s");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let some = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let size = |bytes: Option<u64>| some(bytes.map(format_size));
    let device = |of: &'static dyn Fn(&DeviceFigures) -> String| {
        move |figures: &Figures| some(figures.device.as_ref().map(of))
    };
    let pool = |of: &'static dyn Fn(&PoolFigures) -> String| {
        move |figures: &Figures| some(figures.pool.as_ref().map(of))
    };
    let rate = |rate: Option<f64>| some(rate.map(|rate| format!("{:.1} GB/s", rate / 1e9)));
    let signed =
        |bytes: i64| format!("{}{}", if bytes < 0 { "-" } else { "" }, format_size(bytes.unsigned_abs()));
    let rows = [
        row("", &|figures| figures.variant.to_owned()),
        row("proved by", &|figures| figures.prover.to_owned()),
        row("vectors in", &|figures| {
            format!("{}{}", figures.memory, if figures.pinned { ", pinned" } else { "" })
        }),
        row("circuits", &|figures| figures.circuits.to_string()),
        row("failed jobs", &|figures| figures.failed_jobs.to_string()),
        row("warm-up", &|figures| seconds(figures.warm_up_seconds)),
        row("  key load", &|figures| some(figures.key_load_seconds.map(seconds))),
        row("wall time", &|figures| seconds(figures.wall_seconds)),
        row("circuits a second", &|figures| format!("{:.3}", figures.circuits_per_second)),
        row("throughput x time alone", &|figures| format!("{:.3}", figures.throughput_times_alone)),
        row("synthesis of a circuit", &|figures| seconds(figures.synthesis_seconds_per_circuit)),
        row("proof of a circuit", &|figures| seconds(figures.prove_seconds_per_circuit)),
        row("device time of a circuit", &device(&|device| format!("{:.3} s", device.seconds_per_circuit))),
        row("device busy", &device(&|device| format!("{:.1} %", device.busy_share * 100.0))),
        row(
            "device busy, of wall time",
            &device(&|device| format!("{:.1} %", device.busy_share_of_wall * 100.0)),
        ),
        row("upload hidden", &device(&|device| format!("{:.1} %", device.hidden_share * 100.0))),
        row("upload rate", &|figures| {
            rate(figures.device.as_ref().and_then(|device| device.upload_bytes_per_second))
        }),
        row("keys loaded after warm-up", &device(&|device| device.keys_loaded.to_string())),
        row("pool hit rate", &|figures| {
            some(figures.pool.as_ref().and_then(|pool| pool.hit_rate).map(percent))
        }),
        row("pool maps after warm-up", &pool(&|pool| pool.maps.to_string())),
        row("pool trims", &pool(&|pool| pool.trims.to_string())),
        row("pool waits", &pool(&|pool| pool.waits.to_string())),
        row("sets on the heap", &pool(&|pool| pool.fallbacks.to_string())),
        row("waste in use", &|figures| {
            some(figures.pool.as_ref().and_then(|pool| pool.waste_share).map(percent))
        }),
        row("not asked for, of mapped", &|figures| {
            some(figures.pool.as_ref().and_then(|pool| pool.unasked_share).map(percent))
        }),
        row("growths", &|figures| figures.growths.to_string()),
        row("waited for memory", &|figures| seconds(figures.waited_memory_seconds)),
        row("waited for a device", &|figures| seconds(figures.waited_device_seconds)),
        row("sets in memory, peak", &|figures| figures.live_sets_peak.to_string()),
        row("  their bytes", &|figures| format_size(figures.live_bytes_peak)),
        row("budget used, peak", &|figures| format_size(figures.resident.budget_used_peak)),
        row("resident, peak", &|figures| size(figures.resident.peak)),
        row("  before the prover's start", &|figures| size(figures.resident.before)),
        row("  rise, of budget used", &|figures| some(figures.resident.rise_over_budget.map(percent))),
        row("  rise after warm-up, uncounted", &|figures| some(figures.resident.uncounted_rise.map(signed))),
    ];
    let mut text = table(&rows);
    for figures in variants {
        if let Some(failure) = &figures.failure {
            text += &format!("\n{}: failed: {failure}", figures.variant);
        }
    }
    text
}
