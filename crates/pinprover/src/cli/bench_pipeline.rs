//! `bench pipeline`: many circuits at a time over the engine, with the memory that is ours and others to compare.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bellperson::groth16;
use blstrs::Scalar;
use clap::Args;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde::Serialize;

use super::bench_prove::make_key;
use super::circuit::of_sizes;
use super::options::positive;
use super::{Context, Outcome};
use crate::bench::pipeline::{self, measure, Figures, Measured, Plan, Variant, Work};
use crate::circuits::{parse_count, BuiltIn, Family, Shape};
use crate::error::Error;
use crate::output::Named;
use crate::proving::ProverBackend;
use crate::ui::Progress;

/// Many circuits at a time: synthesis and proofs overlapped, under one memory budget. Throughput, how busy the device was,
/// what the memory did
///
/// The clock runs from the first submission to the last checked proof. Before it, a job of each size loads the keys, the pool
/// maps all sets that may be in use at a time, and three circuits of each size are proved one after the other.
#[derive(Debug, Args)]
pub(super) struct Pipeline {
    /// squarings (dense witness), mimc, sha256 (mostly bits) or mixed (30 % dense, the rest bits)
    #[arg(long, value_name = "CIRCUIT", default_value = "mixed")]
    circuit: Family,

    /// Sizes in constraints, for instance 2^20,2^18: jobs take them in turn
    #[arg(long, value_name = "N", value_parser = parse_count, value_delimiter = ',', default_value = "2^20")]
    sizes: Vec<usize>,

    /// Jobs
    #[arg(long, value_name = "N", value_parser = positive, default_value = "2")]
    jobs: usize,

    /// Circuits of each job
    #[arg(long, value_name = "M", value_parser = positive, default_value = "10")]
    circuits: usize,

    /// Threads that synthesise, a circuit each [default: one a core]
    #[arg(long, value_name = "W", value_parser = positive)]
    workers: Option<usize>,

    /// Finished syntheses that may wait for a device [default: one a device slot]
    #[arg(long, value_name = "R", value_parser = positive)]
    ready: Option<usize>,

    /// Synthesise once for each size, in ordinary memory; each circuit is then a copy of that, so that synthesis is not the
    /// limit
    #[arg(long)]
    ready_made: bool,

    /// With --ready-made: what a synthesis takes at least, for instance 2.5
    #[arg(long, value_name = "S", value_parser = duration, requires = "ready_made")]
    synthesis_seconds: Option<Duration>,

    /// The same work with other memory, in the same run: pageable (a circuit is synthesised, or copied with --ready-made, into
    /// ordinary vectors, which the device reads) and staging (the same, then one more copy into the pool; both are timed)
    #[arg(long)]
    baselines: bool,

    /// Write what ran when to this file, for chrome://tracing or ui.perfetto.dev; with --baselines: of our memory
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Write the result as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
}

/// Reads seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds, for instance 2.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= Duration::from_secs(86_400) => Ok(duration),
        _ => Err("expected seconds from 0 to 86400".to_owned()),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct PipelineResult {
    command: &'static str,
    ok: bool,
    circuit: &'static str,
    /// In constraints.
    sizes: Vec<usize>,
    jobs: usize,
    circuits_per_job: usize,
    workers: usize,
    ready: Option<usize>,
    ready_made: bool,
    synthesis_seconds: Option<f64>,
    variants: Vec<Figures>,
}

impl Pipeline {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let memory = context.options.memory();
        if self.baselines && memory.no_pool {
            return Err(Error::Usage(
                "--baselines measures without the pool by itself: leave --no-pool out".into(),
            ));
        }
        let circuits = of_sizes(self.circuit, &self.sizes)?;
        let files = [("--trace", &self.trace), ("--json-file", &self.json_file)];
        let files: Vec<Named<'_>> =
            files.iter().filter_map(|(option, file)| Some((*option, file.as_deref()?))).collect();
        let mut outputs = context.plan(&[], &files)?;
        // A missing device shows now, and not when the first key is made.
        drop(crate::proving::Session::open_checked(&memory)?);

        let variants = self.variants(memory.no_pool);
        let progress = context
            .ui
            .progress((circuits.len() * (1 + usize::from(self.ready_made)) + 2 * variants.len()) as u64);
        let works = circuits
            .into_iter()
            .map(|circuit| self.work(circuit, context, &progress))
            .collect::<Result<Vec<_>, _>>()?;
        let mut plan = Plan {
            jobs: self.jobs,
            circuits: self.circuits,
            workers: self.workers.unwrap_or_else(rayon::current_num_threads),
            ready: self.ready,
            pace: self.synthesis_seconds.unwrap_or_default(),
            trace: self.trace.is_some(),
        };
        let told = pipeline::Context { ui: context.ui, progress: &progress };
        let (mut figures, mut failure) = (Vec::new(), None);
        for variant in variants {
            let measured = measure(variant, &plan, &works, &memory, told)?;
            let Measured { figures: measured, failure: failed, trace } = measured;
            if let Some(trace) = trace {
                outputs.write("--trace", |file| file.write_all(trace.as_bytes()))?;
            }
            figures.push(measured);
            failure = failure.or(failed);
            plan.trace = false;
        }
        drop(progress);
        let result = PipelineResult {
            command: "bench pipeline",
            ok: failure.is_none(),
            circuit: self.circuit.name(),
            sizes: works.iter().map(|work| work.shape.constraints).collect(),
            jobs: plan.jobs,
            circuits_per_job: plan.circuits,
            workers: plan.workers,
            ready: plan.ready,
            ready_made: self.ready_made,
            synthesis_seconds: self.synthesis_seconds.map(|pace| pace.as_secs_f64()),
            variants: figures,
        };
        if self.json_file.is_some() {
            outputs.write_json("--json-file", &result)?;
        }
        outputs.commit()?;
        context.ui.result(&result, || result.text())?;
        Ok(failure.map_or(Outcome::Done, |failure| Outcome::Failed(failure.exit_code())))
    }

    /// The memory to measure, ours first.
    fn variants(&self, no_pool: bool) -> Vec<Variant> {
        match (no_pool, self.baselines) {
            (true, _) => vec![Variant::Pageable],
            (false, false) => vec![Variant::ZeroCopy],
            (false, true) => vec![Variant::ZeroCopy, Variant::Pageable, Variant::Staging],
        }
    }

    fn work(&self, circuit: BuiltIn, context: &Context<'_>, progress: &Progress) -> Result<Work, Error> {
        let shape = Shape::of(circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
        let on_device = context.options.prover().backend != ProverBackend::Cpu;
        let make = || make_key(&circuit, &shape, on_device, context);
        let params = progress.step(&format!("{circuit}: make the key"), make).0?;
        let mut work = Work {
            circuit,
            shape: groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux },
            params: Arc::new(params),
            // The same values in each run: the witness is not what is compared.
            instance: circuit.instance(&mut ChaCha20Rng::seed_from_u64(1)),
            template: None,
        };
        if self.ready_made {
            progress.step(&format!("{circuit}: make the witness"), || work.make_ready()).0?;
        }
        Ok(work)
    }
}

impl PipelineResult {
    fn text(&self) -> String {
        let sizes: Vec<_> = self.sizes.iter().map(usize::to_string).collect();
        let synthesis = match (self.ready_made, self.synthesis_seconds) {
            (false, _) => "each synthesised".to_owned(),
            (true, None) => "ready-made".to_owned(),
            (true, Some(pace)) => format!("ready-made, {pace} s each"),
        };
        format!(
            "{}, {} constraints; {} jobs of {} circuits, {synthesis}; {} workers; every proof was checked\n\n{}",
            self.circuit,
            sizes.join(" and "),
            self.jobs,
            self.circuits_per_job,
            self.workers,
            pipeline::text(&self.variants)
        )
    }
}
