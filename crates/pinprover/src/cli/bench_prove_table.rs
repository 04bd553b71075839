//! What `bench prove` found: one object for programs, a table and ratios for people.

use std::time::Duration;

use prover_core::prover::DeviceReport;
use prover_core::size::format_size;
use prover_core::ProofReport;
use serde::Serialize;

use super::bench_prove_peer::Peer;
use crate::bench::median::median;
use crate::bench::peer::wire::Memory;
use crate::ui::table;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct BenchResult {
    command: &'static str,
    ok: bool,
    circuit: &'static str,
    rounds: usize,
    sizes: Vec<Row>,
    ratios: Vec<Ratio>,
}

/// One prover at one size: medians in seconds, null where there is no such time.
#[derive(Serialize)]
pub(super) struct Row {
    constraints: usize,
    prover: String,
    /// Why there are no times.
    left_out: Option<String>,
    setup: f64,
    key_load: Option<f64>,
    synthesis: Option<f64>,
    /// From finished synthesis to the checked proof.
    prove_and_check: Option<f64>,
    /// From finished synthesis to the proof.
    prove: Option<f64>,
    verify: Option<f64>,
    fft: Option<f64>,
    msm_h: Option<f64>,
    msm_l: Option<f64>,
    msm_a: Option<f64>,
    msm_b_g1: Option<f64>,
    msm_b_g2: Option<f64>,
    upload_witness: Option<f64>,
    upload_abc: Option<f64>,
    /// From the first copy to the last kernel.
    device: Option<f64>,
    /// Of `prove`.
    device_share: Option<f64>,
    keys_loaded_after_warm_up: usize,
    /// What backed a, b and c.
    memory: Option<String>,
    pinned: bool,
    /// Of a peer: bytes of the files it was started with.
    peer_file_bytes: Option<u64>,
    /// Of a peer: what it took to read them and to make a first proof.
    peer_ready: Option<f64>,
}

/// A prover's time from finished synthesis to the proof, over that of the first one of the same size.
#[derive(Serialize)]
struct Ratio {
    constraints: usize,
    provers: String,
    prove: f64,
}

impl Row {
    /// From the reports of the proofs that count, of which there is at least one.
    pub(super) fn ours(
        constraints: usize,
        setup: Duration,
        key_load: Option<Duration>,
        proofs: &[ProofReport],
    ) -> Self {
        let time = |value: &dyn Fn(&ProofReport) -> Duration| {
            Some(median(proofs.iter().map(|report| value(report).as_secs_f64()).collect()))
        };
        let on_device = proofs.iter().all(|report| report.device.is_some());
        let device = |value: &dyn Fn(&DeviceReport) -> Duration| {
            let of = |report: &ProofReport| report.device.as_ref().map_or(Duration::ZERO, value);
            on_device.then(|| time(&of)).flatten()
        };
        let prove = time(&|report| report.phases.prove);
        let busy = device(&|device| device.busy);
        let loaded = |report: &&ProofReport| report.device.as_ref().is_some_and(|device| device.key_loaded);
        let last = &proofs[proofs.len() - 1];
        Self {
            key_load: key_load.map(|time| time.as_secs_f64()),
            synthesis: time(&|report| report.phases.synthesis),
            prove_and_check: time(&|report| report.phases.prove + report.phases.verify),
            prove,
            verify: time(&|report| report.phases.verify),
            fft: time(&|report| report.phases.fft),
            msm_h: time(&|report| report.phases.msm_h),
            msm_l: time(&|report| report.phases.msm_l),
            msm_a: time(&|report| report.phases.msm_a),
            msm_b_g1: time(&|report| report.phases.msm_b_g1),
            msm_b_g2: time(&|report| report.phases.msm_b_g2),
            upload_witness: device(&|device| device.upload_witness),
            upload_abc: device(&|device| device.upload_abc),
            device: busy,
            device_share: busy.zip(prove).map(|(busy, prove)| busy / prove),
            keys_loaded_after_warm_up: proofs.iter().filter(loaded).count(),
            memory: Some(last.memory.abc.backend.to_owned()),
            pinned: last.memory.abc.pinned,
            ..Self::empty(constraints, last.prover, setup)
        }
    }

    /// A peer, from the seconds of the proofs that count, of which there is at least one.
    pub(super) fn peer(
        constraints: usize,
        setup: Duration,
        memory: Memory,
        peer: &Peer,
        proofs: Vec<f64>,
    ) -> Self {
        Self {
            prove: Some(median(proofs)),
            peer_file_bytes: Some(peer.file_bytes),
            peer_ready: Some(peer.ready),
            ..Self::empty(constraints, &Peer::name(memory), setup)
        }
    }

    /// A prover that was not measured, and why.
    pub(super) fn left_out(constraints: usize, prover: &str, setup: Duration, why: String) -> Self {
        Self { left_out: Some(why), ..Self::empty(constraints, prover, setup) }
    }

    fn empty(constraints: usize, prover: &str, setup: Duration) -> Self {
        Self {
            constraints,
            prover: prover.to_owned(),
            left_out: None,
            setup: setup.as_secs_f64(),
            key_load: None,
            synthesis: None,
            prove_and_check: None,
            prove: None,
            verify: None,
            fft: None,
            msm_h: None,
            msm_l: None,
            msm_a: None,
            msm_b_g1: None,
            msm_b_g2: None,
            upload_witness: None,
            upload_abc: None,
            device: None,
            device_share: None,
            keys_loaded_after_warm_up: 0,
            memory: None,
            pinned: false,
            peer_file_bytes: None,
            peer_ready: None,
        }
    }

    fn cells(&self) -> Vec<String> {
        let ms =
            |seconds: Option<f64>| seconds.map_or_else(|| "-".into(), |time| format!("{:.1}", time * 1e3));
        let prover = match &self.left_out {
            Some(_) => format!("{} left out", self.prover),
            None => self.prover.clone(),
        };
        let times = [
            Some(self.setup),
            self.key_load,
            self.synthesis,
            self.prove_and_check,
            self.prove,
            self.verify,
            self.upload_witness,
            self.upload_abc,
            self.fft,
            self.msm_h,
            self.msm_l,
            self.msm_a,
            self.msm_b_g1,
            self.msm_b_g2,
            self.device,
        ];
        let share = self.device_share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0));
        [self.constraints.to_string(), prover].into_iter().chain(times.map(ms)).chain([share]).collect()
    }
}

const HEADER: [&str; 18] = [
    "constraints",
    "prover",
    "setup",
    "key load",
    "synth",
    "prove+check",
    "prove",
    "verify",
    "up wit",
    "up abc",
    "ntt",
    "H",
    "L",
    "A",
    "B-G1",
    "B-G2",
    "device",
    "share",
];

impl BenchResult {
    /// `rows` by size; the first of a size is what the others are divided by.
    pub(super) fn new(circuit: &'static str, rounds: usize, rows: Vec<Row>) -> Self {
        let ratios = ratios(&rows);
        Self { command: "bench prove", ok: true, circuit, rounds, sizes: rows, ratios }
    }

    /// The table, and below it what does not fit in: ratios, who was left out, where vectors lived.
    pub(super) fn text(&self) -> String {
        let rows: Vec<_> = [HEADER.map(str::to_owned).to_vec()]
            .into_iter()
            .chain(self.sizes.iter().map(Row::cells))
            .collect();
        let mut text = format!(
            "{}, medians of {} proofs, in milliseconds\n{}\n",
            self.circuit,
            self.rounds,
            table(&rows)
        );
        for Ratio { constraints, provers, prove } in &self.ratios {
            text += &format!("{constraints}: {provers}, prove: {prove:.2}\n");
        }
        for row in &self.sizes {
            if let Some(why) = &row.left_out {
                text += &format!("{}: {} left out, {why}\n", row.constraints, row.prover);
            }
        }
        for (constraints, bytes, ready) in self.peers() {
            let bytes = format_size(bytes);
            text += &format!(
                "{constraints}: the peer had {bytes} of files and was ready in {ready:.3} s; its proofs are ours, byte for byte\n"
            );
        }
        let mut places: Vec<String> = Vec::new();
        for row in &self.sizes {
            let Some(memory) = &row.memory else { continue };
            let place =
                format!("vectors, {}: {memory}{}\n", row.prover, if row.pinned { ", pinned" } else { "" });
            if !places.contains(&place) {
                places.push(place);
            }
        }
        text + &places.concat()
    }

    /// Constraints, bytes and seconds, once for each size.
    fn peers(&self) -> Vec<(usize, u64, f64)> {
        let of = |row: &Row| Some((row.constraints, row.peer_file_bytes?, row.peer_ready?));
        let mut peers: Vec<_> = self.sizes.iter().filter_map(of).collect();
        peers.dedup_by_key(|(constraints, ..)| *constraints);
        peers
    }
}

fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    let mut first: Option<(&Row, f64)> = None;
    for row in rows {
        let Some(prove) = row.prove else { continue };
        match first {
            Some((one, base)) if one.constraints == row.constraints => ratios.push(Ratio {
                constraints: row.constraints,
                provers: format!("{}/{}", row.prover, one.prover),
                prove: prove / base,
            }),
            _ => first = Some((row, prove)),
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(constraints: usize, prover: &str, prove: f64) -> Row {
        Row { prove: Some(prove), ..Row::empty(constraints, prover, Duration::ZERO) }
    }

    #[test]
    fn ratios_are_to_the_first_prover_of_the_same_size() {
        let left_out = Row::left_out(16, "cpu", Duration::ZERO, "above --cpu-max 8".to_owned());
        let peer = Row {
            peer_file_bytes: Some(1024),
            peer_ready: Some(1.5),
            ..row(4, &Peer::name(Memory::Pageable), 1.0)
        };
        let rows = [
            row(4, "gpu", 0.5),
            peer,
            row(4, "cpu", 2.0),
            row(8, "gpu", 1.0),
            row(8, "cpu", 6.0),
            row(16, "gpu", 1.0),
        ];
        let result = BenchResult::new("mixed", 5, rows.into_iter().chain([left_out]).collect());
        let found: Vec<_> =
            result.ratios.iter().map(|ratio| (ratio.constraints, &*ratio.provers, ratio.prove)).collect();
        assert_eq!(found, [(4, "supraseal-c2 pageable/gpu", 2.0), (4, "cpu/gpu", 4.0), (8, "cpu/gpu", 6.0)]);
        let text = result.text();
        assert!(text.contains("8: cpu/gpu, prove: 6.00\n"), "{text}");
        assert!(text.contains("4: the peer had 1 KiB of files and was ready in 1.500 s"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("16 ") && line.contains("cpu left out")), "{text}");
        assert!(text.contains("16: cpu left out, above --cpu-max 8\n"), "{text}");
    }
}
