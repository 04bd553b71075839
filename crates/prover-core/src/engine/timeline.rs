//! What ran when: a trace for people, and the shares that tell whether a device waited.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::intervals::Intervals;
use crate::prover::DeviceReport;

/// What a span was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Synthesis,
    /// A proof on the CPU.
    Cpu,
    /// Part of a proof on a device.
    Device {
        ordinal: u32,
        name: &'static str,
        copy: bool,
    },
    Check,
}

/// Something that took time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) stage: Stage,
    pub(super) job: u64,
    pub(super) circuit: usize,
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

/// How a device spent its time, from its first copy to its last kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeviceTimes {
    /// Its number.
    pub ordinal: u32,
    /// Proofs.
    pub proofs: u64,
    /// Seconds from the first copy to the last kernel.
    pub span: f64,
    /// Seconds in which it computed.
    pub computing: f64,
    /// Seconds in which it copied.
    pub copying: f64,
    /// Seconds in which it copied and computed.
    pub hidden: f64,
    /// Seconds that proofs spent on it, all together.
    pub proving: f64,
}

impl DeviceTimes {
    /// The share of the time in which it computed.
    pub fn busy_share(&self) -> f64 {
        share(self.computing, self.span)
    }

    /// The share of the copies that ran behind a computation.
    pub fn hidden_share(&self) -> f64 {
        share(self.hidden, self.copying)
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        0.0
    }
}

#[derive(Default)]
struct DeviceLog {
    proofs: u64,
    first: Option<Duration>,
    last: Duration,
    proving: Duration,
    intervals: Intervals,
}

#[derive(Default)]
struct Log {
    spans: Vec<Span>,
    devices: BTreeMap<u32, DeviceLog>,
}

/// Spans since it was made.
pub(super) struct Timeline {
    zero: Instant,
    keep: usize,
    dropped: AtomicU64,
    log: Mutex<Log>,
}

impl Timeline {
    pub(super) fn new(keep: usize) -> Self {
        Self { zero: Instant::now(), keep, dropped: AtomicU64::new(0), log: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Log) -> T) -> T {
        work(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, log: &mut Log, span: Span) {
        if log.spans.len() < self.keep {
            log.spans.push(span);
        } else if self.keep > 0 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn record(&self, span: Span) {
        if self.keep > 0 {
            self.with(|log| self.keep(log, span));
        }
    }

    pub(super) fn record_device(&self, job: u64, circuit: usize, report: &DeviceReport) {
        let begun = report.begun.saturating_duration_since(self.zero);
        self.with(|log| {
            let device = log.devices.entry(report.ordinal).or_default();
            device.proofs += 1;
            device.proving += report.busy;
            for part in &report.spans {
                let (begin, end) = (begun + part.begin, begun + part.end);
                device.first = Some(device.first.map_or(begin, |first| first.min(begin)));
                device.last = device.last.max(end);
                device.intervals.add(part.copy, begin, end);
            }
            for part in &report.spans {
                let stage = Stage::Device { ordinal: report.ordinal, name: part.name, copy: part.copy };
                let (begin, end) = (report.begun + part.begin, report.begun + part.end);
                self.keep(log, Span { stage, job, circuit, begin, end });
            }
        });
    }

    pub(super) fn devices(&self) -> Vec<DeviceTimes> {
        self.with(|log| {
            let times = |(ordinal, device): (&u32, &mut DeviceLog)| {
                let totals = device.intervals.totals();
                DeviceTimes {
                    ordinal: *ordinal,
                    proofs: device.proofs,
                    span: device.last.saturating_sub(device.first.unwrap_or(device.last)).as_secs_f64(),
                    computing: totals.computing.as_secs_f64(),
                    copying: totals.copying.as_secs_f64(),
                    hidden: totals.both.as_secs_f64(),
                    proving: device.proving.as_secs_f64(),
                }
            };
            log.devices.iter_mut().map(times).collect()
        })
    }

    /// The spans in Chrome's trace format, which Perfetto reads too: one process for the host and one for each device, one row
    /// for each circuit's place in the pipeline.
    pub(super) fn chrome(&self) -> String {
        let (mut spans, dropped) = self.with(|log| (log.spans.clone(), self.dropped.load(Ordering::Relaxed)));
        spans.sort_by_key(|span| span.begin);
        let mut rows = Rows::default();
        let mut events = Vec::with_capacity(spans.len());
        for span in &spans {
            let (process, lane, name) = match span.stage {
                Stage::Synthesis => (0, "synthesis", "synthesis"),
                Stage::Cpu => (0, "proof", "proof (CPU)"),
                Stage::Check => (0, "check", "check"),
                Stage::Device { ordinal, name, copy } => {
                    (ordinal + 1, if copy { "copies" } else { "kernels" }, name)
                }
            };
            let row = rows.place(process, lane, span);
            let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
            events.push(Event {
                name,
                cat: lane,
                ph: "X",
                ts: micros(span.begin.saturating_duration_since(self.zero)),
                dur: micros(span.end.saturating_duration_since(span.begin)),
                pid: process,
                tid: row,
                args: Args { job: span.job, circuit: span.circuit },
            });
        }
        let trace = Trace { events, names: rows.names(), dropped };
        trace.to_json()
    }
}

#[derive(Serialize)]
struct Event {
    name: &'static str,
    cat: &'static str,
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    dur: f64,
    pid: u32,
    tid: u64,
    args: Args,
}

#[derive(Serialize)]
struct Args {
    job: u64,
    circuit: usize,
}

struct Trace {
    events: Vec<Event>,
    names: Vec<serde_json::Value>,
    dropped: u64,
}

impl Trace {
    fn to_json(&self) -> String {
        let event = |event: &Event| serde_json::to_value(event).expect("names and numbers are JSON");
        let events: Vec<serde_json::Value> =
            self.names.iter().cloned().chain(self.events.iter().map(event)).collect();
        serde_json::json!({
            "displayTimeUnit": "ms",
            "traceEvents": events,
            "otherData": { "spans_not_kept": self.dropped },
        })
        .to_string()
    }
}

/// Rows of a process: spans of a lane that overlap lie in rows of their own.
#[derive(Default)]
struct Rows {
    lanes: BTreeMap<(u32, &'static str), Vec<Instant>>,
}

impl Rows {
    /// The most rows of a lane.
    const MOST: u64 = 1000;

    fn place(&mut self, process: u32, lane: &'static str, span: &Span) -> u64 {
        let base = Self::base(lane);
        let rows = self.lanes.entry((process, lane)).or_default();
        let free = rows.iter().position(|until| *until <= span.begin).unwrap_or(rows.len());
        if free == rows.len() {
            rows.push(span.end);
        } else {
            rows[free] = span.end;
        }
        base + (free as u64).min(Self::MOST - 1)
    }

    fn base(lane: &str) -> u64 {
        let lanes = ["synthesis", "copies", "kernels", "proof", "check"];
        lanes.iter().position(|known| *known == lane).map_or(0, |at| at as u64) * Self::MOST + 1
    }

    fn names(&self) -> Vec<serde_json::Value> {
        let name = |what: &str, pid: u32, tid: u64, name: String| serde_json::json!({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}});
        let mut names = Vec::new();
        for ((process, lane), rows) in &self.lanes {
            let device = process.checked_sub(1).map(|ordinal| format!("device {ordinal}"));
            names.push(name("process_name", *process, 0, device.unwrap_or_else(|| "host".to_owned())));
            for row in 0..(rows.len() as u64).min(Self::MOST) {
                names.push(name("thread_name", *process, Self::base(lane) + row, format!("{lane} {row}")));
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prover::DeviceReport;

    #[test]
    fn shares_come_from_what_overlaps() {
        let timeline = Timeline::new(100);
        let ms = Duration::from_millis;
        let report = |begin: u64, copy: (u64, u64), kernel: (u64, u64)| {
            let mut report = DeviceReport::empty("simulated", 3);
            report.begun = timeline.zero + ms(begin);
            report.busy = ms(kernel.1);
            report.spans = vec![
                DeviceReport::span("upload a, b, c", true, ms(copy.0), ms(copy.1)),
                DeviceReport::span("NTT", false, ms(kernel.0), ms(kernel.1)),
            ];
            report
        };
        // Copies 0-10 and 10-20, kernels 10-40 and 40-60.
        timeline.record_device(1, 0, &report(0, (0, 10), (10, 40)));
        timeline.record_device(1, 1, &report(10, (0, 10), (30, 50)));
        let times = timeline.devices();
        assert_eq!(times.len(), 1);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        assert_eq!((times[0].ordinal, times[0].proofs), (3, 2));
        near(times[0].span, 0.060);
        near(times[0].computing, 0.050);
        near(times[0].copying, 0.020);
        near(times[0].hidden, 0.010);
        near(times[0].busy_share(), 50.0 / 60.0);
        near(times[0].hidden_share(), 0.5);

        let trace: serde_json::Value = serde_json::from_str(&timeline.chrome()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans.len(), 4);
        assert!(spans.iter().all(|span| span["pid"] == 4 && span["args"]["job"] == 1));
        assert!(events.iter().any(|event| event["args"]["name"] == "device 3"));
    }

    #[test]
    fn spans_beyond_the_limit_are_counted() {
        let timeline = Timeline::new(2);
        for circuit in 0..5 {
            let now = Instant::now();
            timeline.record(Span { stage: Stage::Check, job: 1, circuit, begin: now, end: now });
        }
        let trace: serde_json::Value = serde_json::from_str(&timeline.chrome()).unwrap();
        assert_eq!(trace["otherData"]["spans_not_kept"], 3);
    }
}
