//! An engine's numbers for Prometheus. Names begin with `pinprover_`; those that end in `_total` only grow, seconds and bytes
//! are said in the name.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{exponential_buckets, Histogram};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::summary::EngineSummary;
use crate::prover::ProofReport;

type Phases = Family<[(&'static str, &'static str); 1], Histogram>;

/// What is counted proof by proof; the rest is in the summary.
pub(super) struct Metrics {
    phases: Phases,
}

impl Metrics {
    pub(super) fn new() -> Self {
        // From 0.1 ms to half an hour.
        Self { phases: Phases::new_with_constructor(|| Histogram::new(exponential_buckets(1e-4, 2.0, 25))) }
    }

    pub(super) fn record(&self, report: &ProofReport) {
        let observe = |phase, seconds: f64| {
            self.phases.get_or_create(&[("phase", phase)]).observe(seconds);
        };
        let phases = &report.phases;
        observe("synthesis", phases.synthesis.as_secs_f64());
        observe("prove", phases.prove.as_secs_f64());
        observe("verify", phases.verify.as_secs_f64());
        observe("ntt", phases.fft.as_secs_f64());
        observe("msm_h", phases.msm_h.as_secs_f64());
        observe("msm_l", phases.msm_l.as_secs_f64());
        observe("msm_a", phases.msm_a.as_secs_f64());
        observe("msm_b_g1", phases.msm_b_g1.as_secs_f64());
        observe("msm_b_g2", phases.msm_b_g2.as_secs_f64());
        observe("assembly", phases.assembly.as_secs_f64());
        if let Some(device) = &report.device {
            observe("upload", (device.upload_witness + device.upload_abc).as_secs_f64());
            observe("device", device.busy.as_secs_f64());
        }
    }

    /// All of them, in the text format of Prometheus (OpenMetrics).
    pub(super) fn text(&self, summary: EngineSummary) -> String {
        let mut registry = Registry::with_prefix("pinprover");
        registry.register("phase_seconds", "Time that a phase of a proof took", self.phases.clone());
        registry.register_collector(Box::new(Snapshot(summary)));
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string does not fail");
        text
    }
}

#[derive(Debug)]
struct Snapshot(EngineSummary);

/// Writes one metric after the other.
struct Writer<'w>(DescriptorEncoder<'w>);

impl Writer<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn gauges(&mut self, name: &str, help: &str, label: &str, values: &[(String, u64)]) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (value_of, value) in values {
            ConstGauge::new(*value).encode(encoder.encode_family(&[(label, value_of.as_str())])?)?;
        }
        Ok(())
    }

    fn counters<N: Copy>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &[(String, N)],
    ) -> fmt::Result
    where
        ConstCounter<N>: EncodeMetric,
    {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (value_of, value) in values {
            ConstCounter::new(*value).encode(encoder.encode_family(&[(label, value_of.as_str())])?)?;
        }
        Ok(())
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let summary = &self.0;
        let mut to = Writer(encoder);
        to.counter("jobs_submitted", "Jobs taken", summary.jobs_submitted)?;
        let ends = [("done".to_owned(), summary.jobs_done), ("failed".to_owned(), summary.jobs_failed)];
        to.counters("jobs", "Jobs that are over", "end", &ends)?;
        to.counter("circuits_proved", "Circuits proved and checked", summary.circuits_proved)?;
        to.gauge("circuits_pending", "Circuits whose synthesis has not begun", summary.pending as u64)?;
        to.gauge("sets_live", "Sets in synthesis, ready, or being read by a device", summary.live as u64)?;
        to.gauge("sets_live_bytes", "Bytes of those sets", summary.live_bytes)?;
        to.counter("overtakes", "Circuits that passed one that waited for memory", summary.overtakes)?;
        to.seconds("waited_memory_seconds", "Time that jobs waited for memory", summary.waited_memory)?;
        to.seconds("waited_device_seconds", "Time that circuits waited for a device", summary.waited_device)?;
        to.gauge("budget_used_bytes", "Memory that the budget has given out", summary.budget_used)?;
        to.gauge("budget_total_bytes", "The memory budget", summary.budget_total)?;
        if let Some(pool) = &summary.pool {
            let states = [
                ("idle", pool.idle_bytes),
                ("out", pool.out_bytes),
                ("in_flight", pool.in_flight_bytes),
                ("quarantined", pool.quarantined_bytes),
            ];
            let states = states.map(|(state, bytes)| (state.to_owned(), bytes));
            to.gauges("pool_bytes", "Bytes that the pool has mapped", "state", &states)?;
            to.gauge("pool_requested_bytes", "Bytes asked for by who holds them", pool.requested_bytes)?;
            to.counter("pool_maps", "Regions mapped and pinned", pool.maps)?;
            to.counter("pool_hits", "Blocks served from what lay idle", pool.hits)?;
            to.counter("pool_misses", "Blocks that had to be mapped", pool.misses)?;
            to.counter("pool_growths", "Growths of blocks in place", pool.growths)?;
            to.counter("pool_waits", "Check-outs that had to wait", pool.waits)?;
            to.counter("pool_fallbacks", "Sets that went to the heap instead", pool.fallbacks)?;
            to.counter("pool_trimmed_bytes", "Bytes given back to the system", pool.trimmed_bytes)?;
        }
        let devices = &summary.devices;
        let label = |ordinal: u32| ordinal.to_string();
        let healthy: Vec<_> =
            devices.iter().map(|device| (label(device.ordinal), u64::from(device.lost.is_none()))).collect();
        let busy: Vec<_> = devices.iter().map(|device| (label(device.ordinal), device.busy as u64)).collect();
        let keys: Vec<_> = devices.iter().map(|device| (label(device.ordinal), device.key_bytes)).collect();
        let proofs: Vec<_> = devices.iter().map(|device| (label(device.ordinal), device.proofs)).collect();
        to.gauges(
            "device_healthy",
            "1, or 0 if the device failed and gets no more work",
            "device",
            &healthy,
        )?;
        to.gauges("device_busy_slots", "Proofs on the device now", "device", &busy)?;
        to.gauges("device_key_bytes", "Bytes of keys on the device", "device", &keys)?;
        to.counters("device_proofs", "Proofs that the device has made", "device", &proofs)?;
        let times = &summary.device_times;
        let computing: Vec<_> =
            times.iter().map(|device| (label(device.ordinal), device.computing)).collect();
        let copying: Vec<_> = times.iter().map(|device| (label(device.ordinal), device.copying)).collect();
        to.counters("device_computing_seconds", "Time in which the device computed", "device", &computing)?;
        to.counters("device_copying_seconds", "Time in which the device copied", "device", &copying)
    }
}
