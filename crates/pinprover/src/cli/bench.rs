//! `bench`: our prover against upstream's.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use prover_core::size::format_size;
use serde::Serialize;

use super::circuit::SizeOptions;
use super::options::positive;
use super::report::{describe, VectorsObject};
use super::{Context, Outcome};
use crate::bench::keycache;
use crate::bench::peak::{self, Peak, Prover};
use crate::bench::race::{Finish, Medians, Race};
use crate::circuits::{parse_count, BuiltIn, Family};
use crate::error::Error;
use crate::proving::Session;
use crate::ui::table;

/// The default size.
const DEFAULT_CONSTRAINTS: usize = 1 << 18;

/// Measure the prover
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    Cpu(Cpu),
    #[command(name = "h2d")]
    H2d(super::bench_h2d::H2d),
    Prove(super::bench_prove::BenchProve),
    Pipeline(super::bench_pipeline::Pipeline),
    #[command(hide = true)]
    Peak(PeakOf),
}

/// Our prover against bellperson 0.26.0 as published, on the CPU, in turns: medians, ratios, peak memory. Fails if
/// the two proofs of a round differ in one byte
#[derive(Debug, Args)]
pub(super) struct Cpu {
    /// One or more of squarings (dense witness), mimc, sha256 (mostly bits), mixed (30 % dense, the rest bits)
    #[arg(long, value_name = "CIRCUIT", value_delimiter = ',', default_value = "squarings,sha256")]
    circuit: Vec<Family>,

    #[command(flatten)]
    size: SizeOptions,

    /// Rounds that count; each is a proof by us and one by upstream
    #[arg(long, value_name = "N", value_parser = positive, default_value = "3")]
    rounds: usize,

    /// Rounds before those, which do not count
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1")]
    warm_up: usize,

    /// The folder in which keys are kept between runs [default: one in the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    key_cache: Option<PathBuf>,
}

/// Measures the peak memory of one proof in this process. For `bench cpu`
#[derive(Debug, Args)]
pub(super) struct PeakOf {
    #[arg(long)]
    prover: Prover,
    #[arg(long)]
    circuit: Family,
    #[command(flatten)]
    size: SizeOptions,
    #[arg(long)]
    key_cache: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct CpuResult {
    command: &'static str,
    ok: bool,
    rounds: usize,
    warm_up: usize,
    threads: usize,
    circuits: Vec<CircuitResult>,
}

#[derive(Serialize)]
struct CircuitResult {
    circuit: String,
    constraints: usize,
    /// Seconds.
    ours: Medians,
    /// Seconds.
    upstream: Medians,
    /// Ours divided by upstream's.
    ratio: Ratios,
    vectors: VectorsObject,
    proofs_equal: bool,
}

#[derive(Serialize)]
struct Ratios {
    synthesis: Option<f64>,
    fft: Option<f64>,
    msm: Option<f64>,
    total: f64,
    peak_memory: Option<f64>,
    ours_peak_bytes: Option<u64>,
    upstream_peak_bytes: Option<u64>,
}

impl Bench {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        match self {
            Self::Cpu(command) => command.run(context),
            Self::H2d(command) => command.run(context),
            Self::Prove(command) => command.run(context),
            Self::Pipeline(command) => command.run(context),
            Self::Peak(command) => command.run(context),
        }
    }
}

impl PeakOf {
    fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let circuit = self.size.of(self.circuit, DEFAULT_CONSTRAINTS)?;
        let session = Session::open_for_one(&context.options.memory_of_cpu())?;
        let peak = peak::measure_here(self.prover, &circuit, &self.key_cache, &session)?;
        context.ui.result(&peak, || bytes(peak.bytes))?;
        Ok(Outcome::Done)
    }
}

impl Cpu {
    fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let circuits: Vec<BuiltIn> = self
            .circuit
            .iter()
            .map(|&family| self.size.of(family, DEFAULT_CONSTRAINTS))
            .collect::<Result<_, _>>()?;
        let folder = self.key_cache.clone().unwrap_or_else(keycache::default_folder);
        // Sizes are known beforehand, as they are to a prover that runs for long: also to the processes below.
        let mut memory = context.options.memory_of_cpu();
        let hints = memory.hints.get_or_insert_with(|| folder.join("hints.json")).clone();
        let session = Session::open(&memory)?;
        // For each circuit: the key, the rounds by both, the two memory measurements.
        let steps = circuits.len() * (1 + 2 * (self.warm_up + self.rounds) + 2);
        let progress = context.ui.progress(steps as u64);
        let mut results = Vec::new();
        let mut texts = Vec::new();
        for circuit in circuits {
            let params = keycache::load_or_make(&folder, &circuit, &progress)?;
            let race = Race { circuit, params: &params, session: &session };
            let finish = race.run(self.warm_up, self.rounds, &progress)?;
            drop(params);
            let options = context.options.for_child(&hints);
            let peak = |prover| {
                let what = format!("peak memory of {circuit}");
                progress.step(&what, || peak::measure(prover, &circuit, &folder, &options)).0
            };
            let (ours, upstream) = (peak(Prover::Ours)?, peak(Prover::Upstream)?);
            let result = CircuitResult::new(&circuit, &finish, &ours, &upstream);
            texts.push(result.text(&finish));
            results.push(result);
        }
        drop(progress);
        let result = CpuResult {
            command: "bench cpu",
            ok: true,
            rounds: self.rounds,
            warm_up: self.warm_up,
            threads: rayon::current_num_threads(),
            circuits: results,
        };
        context.ui.result(&result, || {
            let head = format!(
                "medians of {} rounds, {} threads; upstream is bellperson 0.26.0; every pair of proofs is equal",
                self.rounds, result.threads
            );
            format!("{head}\n\n{}", texts.join("\n\n"))
        })?;
        Ok(Outcome::Done)
    }
}

impl CircuitResult {
    fn new(circuit: &BuiltIn, finish: &Finish, our_peak: &Peak, upstream_peak: &Peak) -> Self {
        let (ours, upstream) = (finish.ours, finish.upstream);
        let ratio = |pick: fn(&Medians) -> Option<f64>| Some(pick(&ours)? / pick(&upstream)?);
        let peaks = our_peak.bytes.zip(upstream_peak.bytes).filter(|(_, upstream)| *upstream > 0);
        Self {
            circuit: circuit.to_string(),
            constraints: circuit.rows(),
            ours,
            upstream,
            ratio: Ratios {
                synthesis: ratio(|times| times.synthesis),
                fft: ratio(|times| times.fft),
                msm: ratio(|times| times.msm),
                total: ours.total / upstream.total,
                peak_memory: peaks.map(|(ours, upstream)| ours as f64 / upstream as f64),
                ours_peak_bytes: our_peak.bytes,
                upstream_peak_bytes: upstream_peak.bytes,
            },
            vectors: (&finish.vectors).into(),
            proofs_equal: true,
        }
    }

    fn text(&self, finish: &Finish) -> String {
        let (ours, upstream, ratio) = (&self.ours, &self.upstream, &self.ratio);
        let row = |name: &str, ours: Option<f64>, upstream: Option<f64>, ratio: Option<f64>| {
            let time = |time: Option<f64>| time.map_or_else(|| "n/a".into(), |time| format!("{time:.3} s"));
            vec![name.to_owned(), time(ours), time(upstream), number(ratio)]
        };
        let rows = [
            vec![String::new(), "ours".into(), "upstream".into(), "ratio".into()],
            row("synthesis", ours.synthesis, upstream.synthesis, ratio.synthesis),
            row("FFT", ours.fft, upstream.fft, ratio.fft),
            row("MSM", ours.msm, upstream.msm, ratio.msm),
            row("total", Some(ours.total), Some(upstream.total), Some(ratio.total)),
            vec![
                "peak memory above the key".into(),
                bytes(ratio.ours_peak_bytes),
                bytes(ratio.upstream_peak_bytes),
                number(ratio.peak_memory),
            ],
        ];
        format!(
            "{}: {} constraints; our a, b, c lived in: {}\n{}",
            self.circuit,
            self.constraints,
            describe(&finish.vectors),
            table(&rows)
        )
    }
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "n/a".into(), format_size)
}

fn number(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "n/a".into(), |ratio| format!("{ratio:.2}"))
}
