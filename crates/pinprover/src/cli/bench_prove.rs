//! `bench prove`: proofs of one circuit shape over a list of sizes, phase by phase, by one prover or several.
//!
//! For each size there is one key, one witness and one pair of r and s, so that every prover must give the same bytes. The
//! provers come one after the other, each in a session of its own: its warm-up loads the key and faults the memory in. A peer
//! takes turns with the first.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bellperson::groth16::{self, Parameters};
use blstrs::{Bls12, Scalar};
use clap::Args;
use prover_core::{ProofReport, Proven};
use rand_chacha::ChaCha20Rng;
use rand_core::{OsRng, SeedableRng};

use super::bench_prove_peer::{Peer, PeerOptions, MEMORIES};
use super::bench_prove_table::{BenchResult, Row};
use super::circuit::of_sizes;
use super::options::positive;
use super::{Context, Outcome};
use crate::circuits::{parse_count, BuiltIn, Family, Instance, Shape};
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

    #[command(flatten)]
    peer: PeerOptions,

    /// Write the result as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
}

/// What all provers of a size prove.
pub(super) struct Work {
    pub(super) circuit: BuiltIn,
    shape: Shape,
    pub(super) params: Parameters<Bls12>,
    /// How long the key took to make.
    setup: Duration,
    pub(super) instance: Instance<Scalar>,
    /// The same in each proof: it is always the same one, so this tells nothing.
    pub(super) blinding: Blinding,
    /// The first proof, and whose it is.
    first: Option<(String, Vec<u8>)>,
}

impl BenchProve {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let provers = self.provers(context)?;
        let circuits = of_sizes(self.circuit, &self.sizes)?;
        let file: Vec<Named<'_>> =
            self.json_file.as_deref().map(|path| ("--json-file", path)).into_iter().collect();
        let mut outputs = context.plan(&[], &file)?;
        let peer = self.peer.program()?;
        // A missing device shows now, and not when the first key is made.
        for &prover in &provers {
            drop(open(prover, context)?);
        }
        let steps: usize = circuits
            .iter()
            .map(|circuit| {
                let measured = provers.iter().filter(|prover| !self.is_left_out(**prover, circuit)).count();
                let peer = peer.is_some() && measured > 0;
                let proofs = measured + if peer { MEMORIES.len() } else { 0 };
                1 + if peer { 2 } else { 0 } + proofs * (self.warm_up + self.rounds)
            })
            .sum();
        let progress = context.ui.progress(steps as u64);
        let mut rows = Vec::new();
        for circuit in circuits {
            rows.extend(self.measure(circuit, &provers, peer.as_deref(), context, &progress)?);
        }
        drop(progress);
        let result = BenchResult::new(self.circuit.name(), self.rounds, rows);
        if self.json_file.is_some() {
            outputs.write_json("--json-file", &result)?;
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

    /// All rows of one size. `peer` is the program that takes turns with the first prover that is measured.
    fn measure(
        &self,
        circuit: BuiltIn,
        provers: &[ProverBackend],
        mut peer: Option<&Path>,
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
            let peer = match peer.take() {
                Some(program) => Some(self.peer.start(
                    program,
                    &work,
                    context.options.prover().first_device()?,
                    progress,
                )?),
                None => None,
            };
            let session = open(prover, context)?;
            rows.extend(self.take_turns(&mut work, (prover, &session), peer, progress)?);
        }
        Ok(rows)
    }

    /// The proofs of one prover, and of the peer between them: who goes first alternates.
    fn take_turns(
        &self,
        work: &mut Work,
        (prover, session): (ProverBackend, &Session),
        mut peer: Option<Peer>,
        progress: &Progress,
    ) -> Result<Vec<Row>, Error> {
        let circuit = work.circuit;
        let mut ours = Vec::new();
        let mut key_load = None;
        let mut theirs = MEMORIES.map(|memory| (memory, Vec::new()));
        for round in 0..self.warm_up + self.rounds {
            let counts = round >= self.warm_up;
            let what = |who: &str| format!("{circuit}: {who}, round {}", round + 1);
            for ours_now in [round % 2 == 0, round % 2 != 0] {
                if ours_now {
                    let report = progress.step(&what(prover.name()), || work.prove(session)).0?;
                    if let Some(device) = report.device.as_ref().filter(|device| device.key_loaded) {
                        key_load = Some(device.key);
                    }
                    ours.extend(counts.then_some(report));
                } else if let Some(peer) = &mut peer {
                    for (memory, times) in &mut theirs {
                        let prove = || peer.prove(work, *memory);
                        let time = progress.step(&what(&Peer::name(*memory)), prove).0?;
                        times.extend(counts.then_some(time));
                    }
                }
            }
        }
        let mut rows = vec![Row::ours(circuit.rows(), work.setup, key_load, &ours)];
        if let Some(peer) = &peer {
            rows.extend(
                theirs.map(|(memory, times)| Row::peer(circuit.rows(), work.setup, memory, peer, times)),
            );
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

    /// The counts of the circuit, as the prover counts.
    pub(super) fn expected(&self) -> groth16::Shape {
        let Shape { inputs, aux, .. } = self.shape;
        groth16::Shape { constraints: self.shape.rows(), inputs, aux }
    }

    fn prove(&mut self, session: &Session) -> Result<ProofReport, Error> {
        let circuit = self.instance.circuit.clone();
        let Proven { proof, report, .. } =
            session.prove_reported(circuit, &self.params, self.blinding, self.expected())?;
        let mut bytes = Vec::new();
        write_proof(&proof, &mut bytes).map_err(Error::io("write", "a proof"))?;
        self.compare(report.prover, bytes)?;
        Ok(report)
    }

    /// Holds the proof of `prover` against the first one of this size.
    ///
    /// # Errors
    /// [`Error::ProofsDiffer`].
    pub(super) fn compare(&mut self, prover: &str, proof: Vec<u8>) -> Result<(), Error> {
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
pub(super) fn make_key(
    circuit: &BuiltIn,
    shape: &Shape,
    on_device: bool,
    context: &Context<'_>,
) -> Result<Parameters<Bls12>, Error> {
    let make = || circuit.circuit::<Scalar>();
    #[cfg(feature = "cuda")]
    if on_device {
        let device = prover_core::cuda::DeviceSelector::Ordinal(context.options.prover().first_device()?);
        match prover_core::prover::GpuFixedBase::new(&device) {
            Ok(device) => return keys::generate_with("make a key", make, shape, &mut OsRng, &device),
            Err(why) => tracing::info!(%why, "keys are made on the CPU"),
        }
    }
    let _ = (on_device, context);
    keys::generate("make a key", make, shape, &mut OsRng)
}
