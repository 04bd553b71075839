//! `demo`: set-up, proof and check of a built-in circuit, with a table of what it took.

use bellperson::groth16::{prepare_verifying_key, verify_proof};
use blstrs::Scalar;
use clap::Args;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde::Serialize;

use super::circuit::SizeOptions;
use super::report::{self, PhaseTimes, VectorsObject};
use super::{Context, Outcome};
use crate::circuits::{Family, Shape};
use crate::error::Error;
use crate::keys::{self, parse_proof, write_proof};
use crate::meter;
use crate::proving::{Blinding, Session};

/// The default size: a few seconds on two cores.
const DEFAULT_CONSTRAINTS: usize = 1 << 13;

/// Prove a built-in circuit end to end: set-up, proof, check. Needs no files and no options
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// squarings (dense witness), mimc, sha256 (mostly bits), or mixed (30 % dense, the rest bits)
    #[arg(long, value_name = "CIRCUIT", default_value_t = Family::Mimc)]
    circuit: Family,

    #[command(flatten)]
    size: SizeOptions,

    /// Take all randomness from this number: the same key, witness and proof each time. NOT secret, for tests only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct DemoResult {
    command: &'static str,
    ok: bool,
    circuit: String,
    constraints: usize,
    public_inputs: usize,
    private_variables: usize,
    domain: usize,
    seeded: bool,
    phases: PhaseTimes,
    vectors: VectorsObject,
    peak_memory_bytes: Option<u64>,
    proof_bytes: usize,
    /// Hexadecimal digits.
    proof: String,
    valid: bool,
}

impl Demo {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let built = self.size.of(self.circuit, DEFAULT_CONSTRAINTS.max(self.circuit.least()))?;
        let shape = Shape::of(built.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
        let session = Session::open_for_one(&context.options.memory())?;
        let mut rng = match self.seed {
            Some(seed) => {
                context
                    .ui
                    .warn(&format!("--seed {seed}: key, witness and proof are NOT secret; for tests only"));
                ChaCha20Rng::seed_from_u64(seed)
            }
            None => ChaCha20Rng::from_entropy(),
        };

        let progress = context.ui.progress(3);
        let make_key = || keys::generate("set up", || built.circuit::<Scalar>(), &shape, &mut rng);
        let (params, setup) = progress.step(&format!("set up {built}"), make_key);
        let params = params?;
        let instance = built.instance::<Scalar>(&mut rng);
        let blinding = Blinding::from_rng(&mut rng);
        let prove = || session.prove(&shape, instance.circuit, &params, blinding);
        let proved = progress.step(&format!("prove {built}"), prove).0?;
        // From the bytes, as a verifier elsewhere does it.
        let mut bytes = Vec::new();
        write_proof(&proved.proof, &mut bytes).map_err(Error::io("write", "the proof"))?;
        let check = || -> Result<bool, Error> {
            let proof = parse_proof(&bytes).map_err(|e| Error::Input(format!("the proof: {e}")))?;
            verify_proof(&prepare_verifying_key(&params.vk), &proof, &instance.public)
                .map_err(Error::synthesis("verify"))
        };
        let (valid, verify) = progress.step("verify", check);
        let valid = valid?;
        drop(progress);

        let peak = meter::peak_resident();
        let result = DemoResult {
            command: "demo",
            ok: valid,
            circuit: built.to_string(),
            constraints: shape.rows(),
            public_inputs: shape.inputs - 1,
            private_variables: shape.aux,
            domain: shape.domain(),
            seeded: self.seed.is_some(),
            phases: PhaseTimes::new(Some(setup), &proved.report.phases, verify),
            vectors: (&proved.report.vectors).into(),
            peak_memory_bytes: peak,
            proof_bytes: bytes.len(),
            proof: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            valid,
        };
        context.ui.result(&result, || {
            let verdict = if valid { "valid" } else { "INVALID" };
            let report = report::text(&shape, Some(setup), &proved.report, verify, peak);
            format!("{built}: {report}proof:            {} bytes, {verdict}", bytes.len())
        })?;
        Ok(if valid { Outcome::Done } else { Outcome::Invalid })
    }
}
