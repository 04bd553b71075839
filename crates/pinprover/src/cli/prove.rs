//! `prove`: a proof for a circom circuit and its witness.

use std::path::{Path, PathBuf};

use bellperson::groth16::{prepare_verifying_key, verify_proof};
use clap::Args;
use serde::Serialize;

use super::prove_batch::Batch;
use super::report::{self, PhaseTimes, VectorsObject};
use super::{Context, Outcome};
use crate::circom::{json, CircomCircuit, R1cs, Witness};
use crate::circuits::Shape;
use crate::error::Error;
use crate::keys::{read_params, write_proof, PROOF_BYTES};
use crate::proving::{Blinding, Session};

/// Prove that a witness satisfies a circom circuit, and check the proof before it is written; or a whole file of them
#[derive(Debug, Args)]
#[command(
    override_usage = "pinprover prove --r1cs <FILE> --wtns <FILE> --params <FILE> --proof <FILE> --public <FILE> [OPTIONS]\n       \
                      pinprover prove --batch <FILE.jsonl> [--resume] [OPTIONS]"
)]
pub(super) struct Prove {
    /// The circuit, compiled with `circom --r1cs --prime bls12381`
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    r1cs: Option<PathBuf>,

    /// The witness, as circom's witness generator writes it
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    wtns: Option<PathBuf>,

    /// The proving key, from `pinprover setup`
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    params: Option<PathBuf>,

    /// Write the proof here (192 bytes)
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    proof: Option<PathBuf>,

    /// Write the public inputs here (JSON: outputs, then public inputs, as decimal strings)
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    public: Option<PathBuf>,

    /// Prove every line of this file instead, many at a time: {"r1cs": .., "wtns": .., "params": .., "proof": .., "public": ..},
    /// paths relative to the file's folder. A line that fails leaves the others alone
    #[arg(long, value_name = "FILE.jsonl")]
    #[arg(conflicts_with_all = ["r1cs", "wtns", "params", "proof", "public", "seed"])]
    batch: Option<PathBuf>,

    /// With --batch: keep the proofs that are there and verify with the public inputs beside them
    #[arg(long, requires = "batch")]
    resume: bool,

    /// Do not check that the points of the proving key are in their subgroups. For keys from a place you trust
    #[arg(long)]
    trust_params: bool,

    /// Take the proof's randomness from this number: the same proof each time. NOT zero-knowledge, for tests only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What it means that a proof of a witness that satisfies the circuit does not verify.
pub(super) const SELF_CHECK: &str =
    "the witness satisfies the circuit, so the proving key is another circuit's of the same size, or damaged";

/// The files of one proof.
struct Files<'a> {
    r1cs: &'a Path,
    wtns: &'a Path,
    params: &'a Path,
    proof: &'a Path,
    public: &'a Path,
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
        if let Some(file) = &self.batch {
            let (resume, trust_params) = (self.resume, self.trust_params);
            return Batch { file, resume, trust_params }.run(context);
        }
        let given = |file: &'_ Option<PathBuf>| file.clone().expect("required without --batch");
        let [r1cs, wtns, params, proof, public] =
            [&self.r1cs, &self.wtns, &self.params, &self.proof, &self.public].map(given);
        let files = Files { r1cs: &r1cs, wtns: &wtns, params: &params, proof: &proof, public: &public };
        self.prove(&files, context)
    }

    fn prove(&self, files: &Files<'_>, context: &Context<'_>) -> Result<Outcome, Error> {
        let inputs = [("--r1cs", files.r1cs), ("--wtns", files.wtns), ("--params", files.params)];
        let mut outputs = context.plan(&inputs, &[("--proof", files.proof), ("--public", files.public)])?;
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
                CircomCircuit::new(R1cs::read(files.r1cs)?).map_err(|e| Error::circuit(files.r1cs, e))?;
            let witness = Witness::read(files.wtns)?;
            let circuit = blank.with_witness(witness).map_err(|e| Error::circuit(files.wtns, e))?;
            circuit.check_satisfied().map_err(|e| Error::circuit(files.wtns, e))?;
            Ok(circuit)
        };
        let circuit = progress.step("read the circuit and check the witness", read).0?;
        let public = circuit.public_inputs().expect("the circuit has a witness").to_vec();
        let params =
            progress.step("read the proving key", || read_params(files.params, !self.trust_params)).0?;
        circuit.shape().check_params(&params).map_err(|e| Error::circuit(files.params, e))?;

        let shape = Shape::from(circuit.shape());
        let session = Session::open_for_one(&context.options.memory())?;
        let prove = || session.prove(&shape, circuit, &params, blinding);
        let proved = progress.step(&format!("prove {} constraints", shape.rows()), prove).0?;
        let check = || verify_proof(&prepare_verifying_key(&params.vk), &proved.proof, &public);
        let (valid, verify) = progress.step("check the proof", check);
        if !valid.map_err(Error::synthesis("check the proof"))? {
            return Err(Error::SelfCheck(SELF_CHECK));
        }
        outputs.write("--proof", |w| write_proof(&proved.proof, w))?;
        outputs.write("--public", |w| json::write_public(&public, w))?;
        outputs.commit()?;
        drop(progress);

        let peak = crate::meter::peak_resident();
        let result = ProveResult {
            command: "prove",
            ok: true,
            proof: files.proof.to_owned(),
            public: files.public.to_owned(),
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
            text += &format!("proof:            {} ({PROOF_BYTES} bytes, valid)\n", files.proof.display());
            text + &format!("public inputs:    {} ({})", files.public.display(), public.len())
        })?;
        Ok(Outcome::Done)
    }
}
