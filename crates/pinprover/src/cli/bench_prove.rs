//! `bench prove`: proofs of one circuit shape over a list of sizes, phase by phase.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bellperson::groth16::{self, Parameters};
use blstrs::{Bls12, Scalar};
use clap::Args;
use prover_core::{ProofReport, Proven};
use rand_chacha::ChaCha20Rng;
use rand_core::{OsRng, SeedableRng};
use serde::Serialize;

use super::options::positive;
use super::{Context, Outcome};
use crate::bench::median::median;
use crate::circuits::{parse_count, BuiltIn, Family, Instance, Shape, Size};
use crate::error::Error;
use crate::keys;
use crate::proving::{Blinding, Session};
use crate::ui::table;

/// Proofs of one shape over a list of sizes: medians of the phases, from the circuit to the checked proof
///
/// Each size gets a real key, made on the device if there is one; every proof is checked. With --backend gpu and cpu, one
/// after the other, the two can be compared.
#[derive(Debug, Args)]
pub(super) struct BenchProve {
    /// squarings (dense witness), mimc, sha256 (mostly bits) or mixed (30 % dense, the rest bits)
    #[arg(long, value_name = "CIRCUIT", default_value = "mixed")]
    circuit: Family,

    /// Sizes in constraints, for instance 2^16,2^20
    #[arg(long, value_name = "N", value_parser = parse_count, value_delimiter = ',', default_value = "2^16,2^18,2^20")]
    sizes: Vec<usize>,

    /// Proofs that count, of each size
    #[arg(long, value_name = "N", value_parser = positive, default_value = "5")]
    rounds: usize,

    /// Proofs before those, which do not count: the first loads the key
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "2")]
    warm_up: usize,

    /// Write the result as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct BenchResult {
    command: &'static str,
    ok: bool,
    circuit: &'static str,
    rounds: usize,
    sizes: Vec<Row>,
}

/// Medians in seconds.
#[derive(Serialize)]
struct Row {
    constraints: usize,
    prover: &'static str,
    setup: f64,
    key_load: f64,
    synthesis: f64,
    /// From finished synthesis to the checked proof.
    prove_and_check: f64,
    /// From finished synthesis to the proof.
    prove: f64,
    verify: f64,
    fft: f64,
    msm_h: f64,
    msm_l: f64,
    msm_a: f64,
    msm_b_g1: f64,
    msm_b_g2: f64,
    upload_witness: Option<f64>,
    upload_abc: Option<f64>,
    /// From the first copy to the last kernel.
    device: Option<f64>,
    /// Of `prove`.
    device_share: Option<f64>,
    keys_loaded_after_warm_up: usize,
    memory: String,
    pinned: bool,
}

impl BenchProve {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let mut memory = context.options.memory();
        memory.no_pool = false;
        let session = Session::open_checked(&memory)?;
        let mut rows = Vec::new();
        for &size in &self.sizes {
            let circuit = BuiltIn::new(self.circuit, Size::Constraints(size))
                .map_err(|cause| Error::Size { option: "--sizes", cause })?;
            rows.push(self.measure(&session, &circuit, context)?);
        }
        let result = BenchResult {
            command: "bench prove",
            ok: true,
            circuit: self.circuit.name(),
            rounds: self.rounds,
            sizes: rows,
        };
        let json = serde_json::to_string_pretty(&result).expect("numbers and names are JSON");
        if let Some(path) = &self.json_file {
            std::fs::write(path, &json).map_err(Error::io("write", path))?;
        }
        context.ui.result(&result, || text(&result))?;
        Ok(Outcome::Done)
    }

    fn measure(&self, session: &Session, circuit: &BuiltIn, context: &Context<'_>) -> Result<Row, Error> {
        let shape = Shape::of(circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
        let start = Instant::now();
        let params = make_key(circuit, &shape, context)?;
        let setup = start.elapsed();
        tracing::info!(%circuit, seconds = setup.as_secs_f64(), "key made");
        // The same values in each round: the witness is not what is compared.
        let instance: Instance<Scalar> = circuit.instance(&mut ChaCha20Rng::seed_from_u64(1));
        let mut proofs = Vec::new();
        let mut key_load = 0.0;
        for round in 0..self.warm_up + self.rounds {
            let proven = prove(session, &shape, &instance, &params)?;
            let loaded = proven.report.device.as_ref().filter(|device| device.key_loaded);
            if let Some(device) = loaded {
                key_load = device.key.as_secs_f64();
            }
            if round >= self.warm_up {
                proofs.push(proven.report);
            }
        }
        Ok(row(circuit, setup, key_load, &proofs))
    }
}

fn prove(
    session: &Session,
    shape: &Shape,
    instance: &Instance<Scalar>,
    params: &Parameters<Bls12>,
) -> Result<Proven, Error> {
    let expected = groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux };
    session.prove_reported(instance.circuit.clone(), params, Blinding::fresh(), expected)
}

/// On the device, if proofs are made there.
fn make_key(circuit: &BuiltIn, shape: &Shape, context: &Context<'_>) -> Result<Parameters<Bls12>, Error> {
    let make = || circuit.circuit::<Scalar>();
    #[cfg(feature = "cuda")]
    {
        let options = context.options.prover();
        if options.backend != crate::proving::ProverBackend::Cpu {
            match prover_core::prover::GpuFixedBase::new(&prover_core::cuda::DeviceSelector::Ordinal(
                options.device,
            )) {
                Ok(device) => return keys::generate_with("make a key", make, shape, &mut OsRng, &device),
                Err(why) => tracing::info!(%why, "keys are made on the CPU"),
            }
        }
    }
    let _ = context;
    keys::generate("make a key", make, shape, &mut OsRng)
}

fn row(circuit: &BuiltIn, setup: Duration, key_load: f64, proofs: &[ProofReport]) -> Row {
    let median = |value: &dyn Fn(&ProofReport) -> Duration| {
        median(proofs.iter().map(|report| value(report).as_secs_f64()).collect())
    };
    let on_device = proofs.iter().all(|report| report.device.is_some());
    let device = |value: &dyn Fn(&prover_core::prover::DeviceReport) -> Duration| {
        on_device.then(|| median(&|report| report.device.as_ref().map_or(Duration::ZERO, value)))
    };
    let prove = median(&|report| report.phases.prove);
    let busy = device(&|device| device.busy);
    let last = &proofs[proofs.len() - 1];
    Row {
        constraints: circuit.rows(),
        prover: last.prover,
        setup: setup.as_secs_f64(),
        key_load,
        synthesis: median(&|report| report.phases.synthesis),
        prove_and_check: median(&|report| report.phases.prove + report.phases.verify),
        prove,
        verify: median(&|report| report.phases.verify),
        fft: median(&|report| report.phases.fft),
        msm_h: median(&|report| report.phases.msm_h),
        msm_l: median(&|report| report.phases.msm_l),
        msm_a: median(&|report| report.phases.msm_a),
        msm_b_g1: median(&|report| report.phases.msm_b_g1),
        msm_b_g2: median(&|report| report.phases.msm_b_g2),
        upload_witness: device(&|device| device.upload_witness),
        upload_abc: device(&|device| device.upload_abc),
        device: busy,
        device_share: busy.map(|busy| busy / prove),
        keys_loaded_after_warm_up: proofs
            .iter()
            .filter(|report| report.device.as_ref().is_some_and(|device| device.key_loaded))
            .count(),
        memory: last.memory.abc.backend.to_owned(),
        pinned: last.memory.abc.pinned,
    }
}

fn text(result: &BenchResult) -> String {
    let header = [
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
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
    let optional = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), ms);
    for row in &result.sizes {
        rows.push(vec![
            row.constraints.to_string(),
            row.prover.to_owned(),
            ms(row.setup),
            ms(row.key_load),
            ms(row.synthesis),
            ms(row.prove_and_check),
            ms(row.prove),
            ms(row.verify),
            optional(row.upload_witness),
            optional(row.upload_abc),
            ms(row.fft),
            ms(row.msm_h),
            ms(row.msm_l),
            ms(row.msm_a),
            ms(row.msm_b_g1),
            ms(row.msm_b_g2),
            optional(row.device),
            row.device_share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        ]);
    }
    let place = result.sizes.last().map_or(String::new(), |row| {
        format!("vectors: {}{}\n", row.memory, if row.pinned { ", pinned" } else { "" })
    });
    format!(
        "{}, medians of {} proofs, in milliseconds\n{}\n{place}",
        result.circuit,
        result.rounds,
        table(&rows)
    )
}
