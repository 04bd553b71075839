//! `bench prove`: proofs of one circuit shape over a list of sizes, phase by phase, by one prover or several.
//!
//! For each size there is one key, one witness and one pair of r and s, so that every prover must give the same bytes. The
//! provers come one after the other, each in a session of its own: its warm-up loads the key and faults the memory in.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bellperson::groth16::{self, Parameters};
use blstrs::{Bls12, Scalar};
use clap::Args;
use prover_core::{ProofReport, Proven};
use rand_chacha::ChaCha20Rng;
use rand_core::{OsRng, SeedableRng};

use super::bench_prove_table::{BenchResult, Row};
use super::options::positive;
use super::{Context, Outcome};
use crate::circuits::{parse_count, BuiltIn, Family, Instance, Shape, Size};
use crate::error::Error;
use crate::keys::{self, write_proof};
use crate::output::Named;
use crate::proving::{Blinding, ProverBackend, Session};
use crate::ui::Progress;

/// Proofs of one shape over a list of sizes: medians of the phases, from the circuit to the checked proof
///
/// Each size gets a real key, made on the device if there is one; every proof is checked, and all provers must give the same
/// one.
#[derive(Debug, Args)]
pub(super) struct BenchProve {
    /// squarings (dense witness), mimc, sha256 (mostly bits) or mixed (30 % dense, the rest bits)
    #[arg(long, value_name = "CIRCUIT", default_value = "mixed")]
    circuit: Family,

    /// Sizes in constraints, for instance 2^16,2^20
    #[arg(long, value_name = "N", value_parser = parse_count, value_delimiter = ',', default_value = "2^16,2^18,2^20")]
    sizes: Vec<usize>,

    /// The provers to measure one after the other, for instance gpu,cpu: ratios are to the first [default: --backend's]
    #[arg(long, value_name = "BACKEND", value_enum, value_delimiter = ',')]
    provers: Vec<ProverBackend>,

    /// With --provers: leave cpu out above so many constraints; the table says so
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "2^20")]
    cpu_max: usize,

    /// Proofs that count, of each size and prover
    #[arg(long, value_name = "N", value_parser = positive, default_value = "5")]
    rounds: usize,

    /// Proofs before those, which do not count: the first loads the key
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "2")]
    warm_up: usize,

    /// Write the result as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
}

/// What all provers of a size prove.
struct Work {
    circuit: BuiltIn,
    shape: Shape,
    params: Parameters<Bls12>,
    /// How long the key took to make.
    setup: Duration,
    instance: Instance<Scalar>,
    /// The same in each proof: it is always the same one, so this tells nothing.
    blinding: Blinding,
    /// The first proof, and whose it is.
    first: Option<(String, Vec<u8>)>,
}

impl BenchProve {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let provers = self.provers(context)?;
        let circuits = self
            .sizes
            .iter()
            .map(|&size| BuiltIn::new(self.circuit, Size::Constraints(size)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|cause| Error::Size { option: "--sizes", cause })?;
        let file: Vec<Named<'_>> =
            self.json_file.as_deref().map(|path| ("--json-file", path)).into_iter().collect();
        let mut outputs = context.plan(&[], &file)?;
        // A missing device shows now, and not when the first key is made.
        for &prover in &provers {
            drop(open(prover, context)?);
        }
        let steps: usize = circuits
            .iter()
            .map(|circuit| {
                let measured = provers.iter().filter(|prover| !self.is_left_out(**prover, circuit)).count();
                1 + measured * (self.warm_up + self.rounds)
            })
            .sum();
        let progress = context.ui.progress(steps as u64);
        let mut rows = Vec::new();
        for circuit in circuits {
            rows.extend(self.measure(circuit, &provers, context, &progress)?);
        }
        drop(progress);
        let result = BenchResult::new(self.circuit.name(), self.rounds, rows);
        if self.json_file.is_some() {
            let json = serde_json::to_string_pretty(&result).expect("numbers and names are JSON") + "\n";
            outputs.write("--json-file", |file| file.write_all(json.as_bytes()))?;
        }
        outputs.commit()?;
        context.ui.result(&result, || result.text())?;
        Ok(Outcome::Done)
    }

    fn provers(&self, context: &Context<'_>) -> Result<Vec<ProverBackend>, Error> {
        if self.provers.is_empty() {
            return Ok(vec![context.options.prover().backend]);
        }
        let twice = self.provers.iter().enumerate().find(|(i, prover)| self.provers[..*i].contains(prover));
        match twice {
            Some((_, prover)) => Err(Error::Usage(format!("--provers: {} is there twice", prover.name()))),
            None => Ok(self.provers.clone()),
        }
    }

    fn is_left_out(&self, prover: ProverBackend, circuit: &BuiltIn) -> bool {
        !self.provers.is_empty() && prover == ProverBackend::Cpu && circuit.rows() > self.cpu_max
    }

    fn measure(
        &self,
        circuit: BuiltIn,
        provers: &[ProverBackend],
        context: &Context<'_>,
        progress: &Progress,
    ) -> Result<Vec<Row>, Error> {
        let on_device = provers.iter().any(|prover| *prover != ProverBackend::Cpu);
        let mut work = Work::new(circuit, on_device, context, progress)?;
        let mut rows = Vec::new();
        for &prover in provers {
            if self.is_left_out(prover, &circuit) {
                let why = format!("above --cpu-max {}", self.cpu_max);
                rows.push(Row::left_out(circuit.rows(), prover.name(), work.setup, why));
                continue;
            }
            let session = open(prover, context)?;
            let mut reports = Vec::new();
            let mut key_load = None;
            for round in 0..self.warm_up + self.rounds {
                let what = format!("{circuit}: {}, round {}", prover.name(), round + 1);
                let report = progress.step(&what, || work.prove(&session)).0?;
                if let Some(device) = report.device.as_ref().filter(|device| device.key_loaded) {
                    key_load = Some(device.key);
                }
                if round >= self.warm_up {
                    reports.push(report);
                }
            }
            rows.push(Row::ours(circuit.rows(), work.setup, key_load, &reports));
        }
        Ok(rows)
    }
}

/// Every proof of a session is checked.
fn open(prover: ProverBackend, context: &Context<'_>) -> Result<Session, Error> {
    let mut memory = context.options.memory();
    memory.prover.backend = prover;
    Session::open_checked(&memory)
}

impl Work {
    fn new(
        circuit: BuiltIn,
        on_device: bool,
        context: &Context<'_>,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let shape = Shape::of(circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
        let start = Instant::now();
        let make = || make_key(&circuit, &shape, on_device, context);
        let params = progress.step(&format!("{circuit}: make the key"), make).0?;
        Ok(Self {
            circuit,
            shape,
            params,
            setup: start.elapsed(),
            // The same values in each run: the witness is not what is compared.
            instance: circuit.instance(&mut ChaCha20Rng::seed_from_u64(1)),
            blinding: Blinding::fresh(),
            first: None,
        })
    }

    fn prove(&mut self, session: &Session) -> Result<ProofReport, Error> {
        let Shape { inputs, aux, .. } = self.shape;
        let expected = groth16::Shape { constraints: self.shape.rows(), inputs, aux };
        let circuit = self.instance.circuit.clone();
        let Proven { proof, report, .. } =
            session.prove_reported(circuit, &self.params, self.blinding, expected)?;
        let mut bytes = Vec::new();
        write_proof(&proof, &mut bytes).map_err(Error::io("write", "a proof"))?;
        self.compare(report.prover, bytes)?;
        Ok(report)
    }

    /// Holds the proof of `prover` against the first one of this size.
    ///
    /// # Errors
    /// [`Error::ProofsDiffer`].
    fn compare(&mut self, prover: &str, proof: Vec<u8>) -> Result<(), Error> {
        match &self.first {
            None => self.first = Some((prover.to_owned(), proof)),
            Some((one, first)) if *first != proof => {
                return Err(Error::ProofsDiffer {
                    circuit: self.circuit.to_string(),
                    one: one.clone(),
                    other: prover.to_owned(),
                });
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// On the device, if proofs are made there.
fn make_key(
    circuit: &BuiltIn,
    shape: &Shape,
    on_device: bool,
    context: &Context<'_>,
) -> Result<Parameters<Bls12>, Error> {
    let make = || circuit.circuit::<Scalar>();
    #[cfg(feature = "cuda")]
    if on_device {
        let device = prover_core::cuda::DeviceSelector::Ordinal(context.options.prover().device);
        match prover_core::prover::GpuFixedBase::new(&device) {
            Ok(device) => return keys::generate_with("make a key", make, shape, &mut OsRng, &device),
            Err(why) => tracing::info!(%why, "keys are made on the CPU"),
        }
    }
    let _ = (on_device, context);
    keys::generate("make a key", make, shape, &mut OsRng)
}
