//! `bench h2d`: how fast vectors get to a device.

use std::path::PathBuf;

use clap::Args;

use super::circuit::SizeOptions;
use super::options::{positive, size};
use super::{Context, Outcome};
use crate::bench::h2d::{svg, Plan};
use crate::circuits::{parse_count, Family};
use crate::error::Error;
use crate::output::Named;

/// The default size of the circuit: vectors of 512 MiB, synthesised within seconds.
const DEFAULT_CONSTRAINTS: usize = 1 << 24;

/// The most threads that copy.
const MOST_COPYING: usize = 1024;

/// Upload to a CUDA device: pageable memory, a staging copy, cudaHostAlloc and the registered pool, with the host
/// idle and busy; what each memory costs; and vectors as bellperson synthesises them into the pool
#[derive(Debug, Args)]
pub(super) struct H2d {
    /// Sizes of a vector: by default those of a SnapDeals and a PoRep partition of 32 GiB sectors
    #[arg(long, value_name = "SIZE", value_parser = size, value_delimiter = ',', default_value = "2.4GiB,3.9GiB")]
    sizes: Vec<u64>,

    /// Vectors in a set that is checked out: a, b, c and the witness
    #[arg(long, value_name = "N", value_parser = positive, default_value = "4")]
    vectors: usize,

    /// Numbers of threads that copy memory meanwhile, as synthesis does; each takes 512 MiB
    #[arg(long, value_name = "N", value_parser = parse_count, value_delimiter = ',', default_value = "0,8,14")]
    copying: Vec<usize>,

    /// Rounds behind each median; one more before them does not count
    #[arg(long, value_name = "N", value_parser = positive, default_value = "5")]
    rounds: usize,

    /// The circuit to synthesise: squarings, mimc or sha256
    #[arg(long, value_name = "CIRCUIT", default_value_t = Family::Squarings)]
    circuit: Family,

    #[command(flatten)]
    size: SizeOptions,

    /// Write the figures as JSON to this file too
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,

    /// Draw the figures as an SVG in this file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

impl H2d {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        if self.sizes.contains(&0) {
            return Err(Error::Usage("--sizes: a vector of 0 bytes has no rate".into()));
        }
        if let Some(threads) = self.copying.iter().find(|threads| **threads > MOST_COPYING) {
            return Err(Error::Usage(format!("--copying {threads}: at most {MOST_COPYING}")));
        }
        let plan = Plan {
            device: context.options.prover().first_device()? as usize,
            sizes: self.sizes.clone(),
            vectors: self.vectors,
            copying: self.copying.clone(),
            rounds: self.rounds,
            circuit: self.size.of(self.circuit, DEFAULT_CONSTRAINTS)?,
            memory: context.options.memory().limit,
        };
        let files: Vec<Named<'_>> = [("--json-file", &self.json_file), ("--plot", &self.plot)]
            .into_iter()
            .filter_map(|(option, path)| Some((option, path.as_deref()?)))
            .collect();
        let mut outputs = context.plan(&[], &files)?;
        let progress = context.ui.progress(plan.steps());
        let report = plan.run(&progress)?;
        drop(progress);
        for (option, _) in files {
            match option {
                "--plot" => outputs.write(option, |file| file.write_all(svg(&report).as_bytes()))?,
                _ => outputs.write_json(option, &report)?,
            }
        }
        outputs.commit()?;
        context.ui.result(&report, || report.text())?;
        Ok(Outcome::Done)
    }
}
