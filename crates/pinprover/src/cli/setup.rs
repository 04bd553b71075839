//! `setup`: the keys of a circom circuit.

use std::path::PathBuf;

use clap::Args;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde::Serialize;

use super::report::counts;
use super::{Context, Outcome};
use crate::circom::{CircomCircuit, R1cs};
use crate::circuits::Shape;
use crate::error::Error;
use crate::keys::{self, write_params, write_vk};
use crate::ui::seconds;

/// Make the proving and the verifying key of a circom circuit.
///
/// The keys come from this machine's randomness: whoever made them could forge proofs. Fit for development and
/// for provers that trust whoever ran this; a ceremony is another tool's work.
#[derive(Debug, Args)]
pub(super) struct Setup {
    /// The circuit, compiled with `circom --r1cs --prime bls12381`
    #[arg(long, value_name = "FILE")]
    r1cs: PathBuf,

    /// Write the proving key here (bellperson's format)
    #[arg(long, value_name = "FILE")]
    params: PathBuf,

    /// Write the verifying key here (bellperson's format)
    #[arg(long, value_name = "FILE")]
    vk: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct SetupResult {
    command: &'static str,
    ok: bool,
    #[serde(serialize_with = "crate::ui::path")]
    params: PathBuf,
    #[serde(serialize_with = "crate::ui::path")]
    vk: PathBuf,
    constraints: usize,
    public_inputs: usize,
    private_variables: usize,
    unused_wires: usize,
    domain: usize,
    /// Seconds.
    setup: f64,
}

impl Setup {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let mut outputs =
            context.plan(&[("--r1cs", &self.r1cs)], &[("--params", &self.params), ("--vk", &self.vk)])?;
        let progress = context.ui.progress(3);
        let r1cs = progress.step("read the circuit", || R1cs::read(&self.r1cs)).0?;
        let unused_wires = r1cs.num_unused_wires();
        let circuit = CircomCircuit::new(r1cs).map_err(|e| Error::circuit(&self.r1cs, e))?;
        let shape = Shape::from(circuit.shape());
        // The system's randomness, stretched: the generator draws the secrets it forgets from it.
        let mut rng = ChaCha20Rng::from_entropy();
        let make = || keys::generate("set up", || circuit.clone(), &shape, &mut rng);
        let (params, time) = progress.step(&format!("set up {} constraints", shape.rows()), make);
        let params = params?;
        let write = || -> Result<(), Error> {
            outputs.write("--params", |w| write_params(&params, w))?;
            outputs.write("--vk", |w| write_vk(&params.vk, w))?;
            outputs.commit()
        };
        progress.step("write the keys", write).0?;
        drop(progress);
        let result = SetupResult {
            command: "setup",
            ok: true,
            params: self.params.clone(),
            vk: self.vk.clone(),
            constraints: shape.rows(),
            public_inputs: shape.inputs - 1,
            private_variables: shape.aux,
            unused_wires,
            domain: shape.domain(),
            setup: time.as_secs_f64(),
        };
        context.ui.result(&result, || {
            format!(
                "{}: set up in {}\nproving key:   {}\nverifying key: {}",
                counts(&shape),
                seconds(time),
                self.params.display(),
                self.vk.display(),
            )
        })?;
        Ok(Outcome::Done)
    }
}
