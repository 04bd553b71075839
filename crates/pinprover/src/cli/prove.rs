//! `prove`: a proof for a circom circuit and its witness.

use std::path::PathBuf;

use bellperson::groth16::{prepare_verifying_key, verify_proof};
use clap::Args;
use serde::Serialize;

use super::report::{self, PhaseTimes, VectorsObject};
use super::{Context, Outcome};
use crate::circom::{json, CircomCircuit, R1cs, Witness};
use crate::circuits::Shape;
use crate::error::Error;
use crate::keys::{read_params, write_proof, PROOF_BYTES};
use crate::proving::{Blinding, Session};

/// Prove that a witness satisfies a circom circuit, and check the proof before it is written
#[derive(Debug, Args)]
pub(super) struct Prove {
    /// The circuit, compiled with `circom --r1cs --prime bls12381`
    #[arg(long, value_name = "FILE")]
    r1cs: PathBuf,

    /// The witness, as circom's witness generator writes it
    #[arg(long, value_name = "FILE")]
    wtns: PathBuf,

    /// The proving key, from `pinprover setup`
    #[arg(long, value_name = "FILE")]
    params: PathBuf,

    /// Write the proof here (192 bytes)
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,

    /// Write the public inputs here (JSON: outputs, then public inputs, as decimal strings)
    #[arg(long, value_name = "FILE")]
    public: PathBuf,

    /// Do not check that the points of the proving key are in their subgroups. For keys from a place you trust
    #[arg(long)]
    trust_params: bool,

    /// Take the proof's randomness from this number: the same proof each time. NOT zero-knowledge, for tests only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct ProveResult {
    command: &'static str,
    ok: bool,
    #[serde(serialize_with = "crate::ui::path")]
    proof: PathBuf,
    #[serde(serialize_with = "crate::ui::path")]
    public: PathBuf,
    proof_bytes: usize,
    constraints: usize,
    public_inputs: usize,
    domain: usize,
    seeded: bool,
    phases: PhaseTimes,
    vectors: VectorsObject,
    peak_memory_bytes: Option<u64>,
    valid: bool,
}

impl Prove {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let inputs = [("--r1cs", &*self.r1cs), ("--wtns", &*self.wtns), ("--params", &*self.params)];
        let mut outputs = context.plan(&inputs, &[("--proof", &self.proof), ("--public", &self.public)])?;
        let blinding = match self.seed {
            Some(seed) => {
                context.ui.warn(&format!("--seed {seed}: this proof is NOT zero-knowledge; for tests only"));
                Blinding::from_seed(seed)
            }
            None => Blinding::fresh(),
        };

        let progress = context.ui.progress(4);
        let read = || -> Result<CircomCircuit, Error> {
            let blank =
                CircomCircuit::new(R1cs::read(&self.r1cs)?).map_err(|e| Error::circuit(&self.r1cs, e))?;
            let witness = Witness::read(&self.wtns)?;
            let circuit = blank.with_witness(witness).map_err(|e| Error::circuit(&self.wtns, e))?;
            circuit.check_satisfied().map_err(|e| Error::circuit(&self.wtns, e))?;
            Ok(circuit)
        };
        let circuit = progress.step("read the circuit and check the witness", read).0?;
        let public = circuit.public_inputs().expect("the circuit has a witness").to_vec();
        let params =
            progress.step("read the proving key", || read_params(&self.params, !self.trust_params)).0?;
        circuit.shape().check_params(&params).map_err(|e| Error::circuit(&self.params, e))?;

        let shape = Shape::from(circuit.shape());
        let session = Session::open_for_one(&context.options.memory())?;
        let prove = || session.prove(&shape, circuit, &params, blinding);
        let proved = progress.step(&format!("prove {} constraints", shape.rows()), prove).0?;
        let check = || verify_proof(&prepare_verifying_key(&params.vk), &proved.proof, &public);
        let (valid, verify) = progress.step("check the proof", check);
        if !valid.map_err(Error::synthesis("check the proof"))? {
            return Err(Error::SelfCheck(
                "the witness satisfies the circuit, so the proving key is another circuit's of the same size, or \
                 damaged",
            ));
        }
        outputs.write("--proof", |w| write_proof(&proved.proof, w))?;
        outputs.write("--public", |w| json::write_public(&public, w))?;
        outputs.commit()?;
        drop(progress);

        let peak = crate::meter::peak_resident();
        let result = ProveResult {
            command: "prove",
            ok: true,
            proof: self.proof.clone(),
            public: self.public.clone(),
            proof_bytes: PROOF_BYTES,
            constraints: shape.rows(),
            public_inputs: public.len(),
            domain: shape.domain(),
            seeded: self.seed.is_some(),
            phases: PhaseTimes::new(None, &proved.report.phases, verify),
            vectors: (&proved.report.vectors).into(),
            peak_memory_bytes: peak,
            valid: true,
        };
        context.ui.result(&result, || {
            let mut text = report::text(&shape, None, &proved.report, verify, peak);
            text += &format!("proof:            {} ({PROOF_BYTES} bytes, valid)\n", self.proof.display());
            text + &format!("public inputs:    {} ({})", self.public.display(), public.len())
        })?;
        Ok(Outcome::Done)
    }
}
