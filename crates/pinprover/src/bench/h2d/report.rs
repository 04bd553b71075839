//! The figures, and the table of them.

use prover_core::cuda::Device;
use prover_core::size::format_size;
use serde::Serialize;

use super::GIB;
use crate::ui::table;

pub(super) const PAGEABLE: &str = "pageable Vec";
pub(super) const STAGING: &str = "staging copy, then upload";
pub(super) const HOST_ALLOC: &str = "cudaHostAlloc";
pub(super) const REGISTERED: &str = "registered pool (shipped)";

/// All paths, in the order of the table.
pub(super) const PATHS: [&str; 4] = [PAGEABLE, STAGING, HOST_ALLOC, REGISTERED];

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `bench h2d`.
    pub command: &'static str,
    /// Always true: a failure has no report.
    pub ok: bool,
    /// The device.
    pub device: DeviceObject,
    /// Processors of the host that this process may use.
    pub processors: usize,
    /// Rounds behind each median.
    pub rounds: usize,
    /// How fast each path is.
    pub rates: Vec<Rate>,
    /// What memory costs.
    pub check_outs: Vec<CheckOut>,
    /// Vectors synthesised into the pool.
    pub shipped: Vec<Shipped>,
}

/// The device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceObject {
    /// Its name.
    pub name: String,
    /// Compute capability, as `9.0`.
    pub compute_capability: String,
    /// Device memory, in bytes.
    pub memory_bytes: u64,
    /// Its place on the bus.
    pub pci_bus_id: String,
    /// The newest CUDA version that the driver knows, as `13.0`.
    pub driver_cuda: String,
}

/// How fast one path is.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// The path.
    pub path: &'static str,
    /// Bytes of the vector.
    pub bytes: u64,
    /// Threads that copied memory meanwhile.
    pub copying_threads: usize,
    /// Median seconds of one vector, by the device's clock.
    pub seconds: f64,
    /// 10^9 bytes a second.
    pub gb_per_second: f64,
    /// Of the best page-locked rate for this size with an idle host, 0 to 1.
    pub share_of_best: f64,
    /// Times the rate of the pageable vector with as many threads copying.
    pub times_pageable: f64,
    /// What the copying threads got done meanwhile (during all paths of this size), in 10^9 bytes a second.
    pub host_copy_gb_per_second: f64,
}

impl Rate {
    pub(super) fn new(
        path: &'static str,
        bytes: u64,
        copying_threads: usize,
        seconds: f64,
        host: f64,
    ) -> Self {
        Self {
            path,
            bytes,
            copying_threads,
            seconds,
            gb_per_second: bytes as f64 / seconds / 1e9,
            share_of_best: 0.0,
            times_pageable: 0.0,
            host_copy_gb_per_second: host / 1e9,
        }
    }
}

/// What memory of one kind costs.
#[derive(Clone, Debug, Serialize)]
pub struct CheckOut {
    /// For which path.
    pub path: &'static str,
    /// Bytes of what is checked out at once.
    pub bytes: u64,
    /// Seconds for each GiB, the first time.
    pub first_seconds_per_gib: f64,
    /// Microseconds of the hundredth time. `None` if nothing is reused.
    pub hundredth_microseconds: Option<f64>,
}

impl CheckOut {
    pub(super) fn once(path: &'static str, bytes: u64, first_seconds_per_gib: f64) -> Self {
        Self { path, bytes, first_seconds_per_gib, hundredth_microseconds: None }
    }

    /// `seconds` of each check-out, in order.
    pub(super) fn pooled(path: &'static str, bytes: u64, seconds: &[f64]) -> Self {
        let (first, last) = (seconds.first().copied(), seconds.last().copied());
        Self {
            path,
            bytes,
            first_seconds_per_gib: first.unwrap_or_default() / (bytes as f64 / GIB),
            hundredth_microseconds: last.map(|seconds| seconds * 1e6),
        }
    }
}

/// The upload of a, b, c and the witness of one circuit from where bellperson wrote them.
#[derive(Clone, Debug, Serialize)]
pub struct Shipped {
    /// The circuit.
    pub circuit: String,
    /// Bytes of the four vectors.
    pub bytes: u64,
    /// Threads that copied memory meanwhile.
    pub copying_threads: usize,
    /// Whether all four lay in page-locked memory.
    pub pinned: bool,
    /// What backed a, b and c.
    pub backend: String,
    /// Seconds of the synthesis, the first check-out included.
    pub synthesis_seconds: f64,
    /// 10^9 bytes a second.
    pub gb_per_second: f64,
    /// Of the best page-locked rate of any size with an idle host, 0 to 1.
    pub share_of_best: f64,
    /// What the copying threads got done meanwhile, in 10^9 bytes a second.
    pub host_copy_gb_per_second: f64,
}

impl Report {
    pub(super) fn new(device: &Device, (major, minor): (u32, u32), rounds: usize) -> Self {
        let (capability, revision) = device.compute_capability;
        Self {
            command: "bench h2d",
            ok: true,
            device: DeviceObject {
                name: device.name.clone(),
                compute_capability: format!("{capability}.{revision}"),
                memory_bytes: device.memory,
                pci_bus_id: device.pci_bus_id.clone(),
                driver_cuda: format!("{major}.{minor}"),
            },
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            rounds,
            rates: Vec::new(),
            check_outs: Vec::new(),
            shipped: Vec::new(),
        }
    }

    /// Sizes in the order they were measured.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = Vec::new();
        for rate in &self.rates {
            if !sizes.contains(&rate.bytes) {
                sizes.push(rate.bytes);
            }
        }
        sizes
    }

    /// Numbers of copying threads in the order they were measured.
    pub(super) fn loads(&self) -> Vec<usize> {
        let mut loads: Vec<usize> = Vec::new();
        for rate in &self.rates {
            if !loads.contains(&rate.copying_threads) {
                loads.push(rate.copying_threads);
            }
        }
        loads
    }

    pub(super) fn rate(&self, path: &str, bytes: u64, copying_threads: usize) -> Option<&Rate> {
        self.rates
            .iter()
            .find(|rate| (rate.path, rate.bytes, rate.copying_threads) == (path, bytes, copying_threads))
    }

    /// The best page-locked rate of those with an idle host (or, if none was measured, of all).
    fn best(&self, of: impl Fn(&Rate) -> bool) -> f64 {
        let pinned =
            || self.rates.iter().filter(|rate| [HOST_ALLOC, REGISTERED].contains(&rate.path) && of(rate));
        let best = |idle: bool| {
            pinned()
                .filter(|rate| !idle || rate.copying_threads == 0)
                .map(|rate| rate.gb_per_second)
                .fold(0.0, f64::max)
        };
        match best(true) {
            0.0 => best(false),
            best => best,
        }
    }

    /// Fills in what compares the figures with each other.
    pub(super) fn finish(&mut self) {
        let compared: Vec<(f64, f64)> = self
            .rates
            .iter()
            .map(|rate| {
                let pageable = self.rate(PAGEABLE, rate.bytes, rate.copying_threads);
                let pageable = pageable.map_or(f64::NAN, |pageable| pageable.gb_per_second);
                (
                    rate.gb_per_second / self.best(|other| other.bytes == rate.bytes),
                    rate.gb_per_second / pageable,
                )
            })
            .collect();
        for (rate, (share, times)) in self.rates.iter_mut().zip(compared) {
            (rate.share_of_best, rate.times_pageable) = (share, times);
        }
        let best = self.best(|_| true);
        for shipped in &mut self.shipped {
            shipped.share_of_best = shipped.gb_per_second / best;
        }
    }

    /// The tables.
    pub fn text(&self) -> String {
        let device = &self.device;
        let mut text = format!(
            "{} (compute capability {}, {}, {}), driver for CUDA {}; {} processors; medians of {} rounds by CUDA \
             events\n",
            device.name,
            device.compute_capability,
            format_size(device.memory_bytes),
            device.pci_bus_id,
            device.driver_cuda,
            self.processors,
            self.rounds
        );
        for bytes in self.sizes() {
            text += &format!("\n{} a vector\n{}\n", format_size(bytes), table(&self.rows(bytes)));
        }
        text += &format!("\n{}\n", table(&self.check_out_rows()));
        if let Some(first) = self.shipped.first() {
            text += &format!(
                "\n{}: a, b, c and the witness ({}), synthesised into {} memory of {} in {:.1} s, uploaded from there\n{}\n",
                first.circuit,
                format_size(first.bytes),
                if first.pinned { "page-locked" } else { "PAGEABLE" },
                first.backend,
                first.synthesis_seconds,
                table(&self.shipped_rows())
            );
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn rows(&self, bytes: u64) -> Vec<Vec<String>> {
        let loads = self.loads();
        let mut head = vec![String::new()];
        for load in &loads {
            head.extend([under(*load), "of best".into(), "x pageable".into()]);
        }
        let mut rows = vec![head];
        for path in PATHS {
            let mut row = vec![path.to_owned()];
            for rate in loads.iter().map(|load| self.rate(path, bytes, *load)) {
                match rate {
                    Some(rate) => row.extend([
                        format!("{:.1} GB/s", rate.gb_per_second),
                        percent(rate.share_of_best),
                        format!("{:.1}", rate.times_pageable),
                    ]),
                    None => row.extend(["n/a".into(), String::new(), String::new()]),
                }
            }
            rows.push(row);
        }
        let mut row = vec!["(copying threads meanwhile)".to_owned()];
        for load in loads {
            let rate = self.rate(PAGEABLE, bytes, load).map_or(0.0, |rate| rate.host_copy_gb_per_second);
            row.extend([format!("{rate:.1} GB/s"), String::new(), String::new()]);
        }
        rows.push(row);
        rows
    }

    fn check_out_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["memory", "checked out at once", "the first time", "the hundredth"]
            .map(String::from)
            .to_vec()];
        rows.extend(self.check_outs.iter().map(|cost| {
            vec![
                cost.path.to_owned(),
                format_size(cost.bytes),
                format!("{:.3} s/GiB", cost.first_seconds_per_gib),
                cost.hundredth_microseconds.map_or("n/a".into(), |time| format!("{time:.1} µs")),
            ]
        }));
        rows
    }

    fn shipped_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["host", "rate", "of best"].map(String::from).to_vec()];
        rows.extend(self.shipped.iter().map(|shipped| {
            vec![
                under(shipped.copying_threads),
                format!("{:.1} GB/s", shipped.gb_per_second),
                percent(shipped.share_of_best),
            ]
        }));
        rows
    }
}

/// How busy the host was, as a column's head.
pub(super) fn under(copying_threads: usize) -> String {
    match copying_threads {
        0 => "idle".into(),
        1 => "1 thread copying".into(),
        threads => format!("{threads} threads copying"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A report with made-up figures.
    pub(in super::super) fn sample() -> Report {
        let mut report = Report {
            command: "bench h2d",
            ok: true,
            device: DeviceObject {
                name: "A <device> & more".into(),
                compute_capability: "9.0".into(),
                memory_bytes: 150 << 30,
                pci_bus_id: "0000:3B:00.0".into(),
                driver_cuda: "13.0".into(),
            },
            processors: 16,
            rounds: 5,
            rates: Vec::new(),
            check_outs: vec![
                CheckOut::once(PAGEABLE, 1 << 30, 0.25),
                CheckOut::pooled(REGISTERED, 4 << 30, &[0.2, 1e-3, 5e-6]),
            ],
            shipped: vec![Shipped {
                circuit: "squarings-100".into(),
                bytes: 4 << 30,
                copying_threads: 14,
                pinned: true,
                backend: "cuda-register".into(),
                synthesis_seconds: 2.5,
                gb_per_second: 38.5,
                share_of_best: 0.0,
                host_copy_gb_per_second: 60.0,
            }],
        };
        for (path, idle, busy) in
            [(PAGEABLE, 0.2, 0.4), (STAGING, 0.15, 0.25), (HOST_ALLOC, 0.02, 0.04), (REGISTERED, 0.025, 0.05)]
        {
            report.rates.push(Rate::new(path, 1_000_000_000, 0, idle, 0.0));
            report.rates.push(Rate::new(path, 1_000_000_000, 14, busy, 6e10));
        }
        report.finish();
        report
    }

    #[test]
    fn figures_are_compared_with_the_best_idle_page_locked_rate_and_with_pageable() {
        let report = sample();
        let of = |path, load| {
            let rate = report.rate(path, 1_000_000_000, load).unwrap();
            [rate.gb_per_second, rate.share_of_best, rate.times_pageable].map(|x| (x * 1e3).round() / 1e3)
        };
        assert_eq!(of(HOST_ALLOC, 0), [50.0, 1.0, 10.0]);
        assert_eq!(of(REGISTERED, 0), [40.0, 0.8, 8.0]);
        assert_eq!(of(REGISTERED, 14), [20.0, 0.4, 8.0]);
        assert_eq!(of(PAGEABLE, 14), [2.5, 0.05, 1.0]);
        assert_eq!((report.shipped[0].share_of_best * 100.0).round(), 77.0);
        assert_eq!(report.check_outs[1].first_seconds_per_gib, 0.05);
        assert_eq!(report.check_outs[1].hundredth_microseconds, Some(5.0));
    }

    #[test]
    fn the_table_has_every_figure() {
        let text = sample().text();
        for part in [
            "driver for CUDA 13.0",
            "registered pool (shipped)",
            "40.0 GB/s     80 %         8.0",
            "14 threads copying",
            "60.0 GB/s",
            "0.050 s/GiB",
            "5.0 µs",
            "synthesised into page-locked memory of cuda-register in 2.5 s",
            "77 %",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}
