//! `verify`: is this proof valid for this key and these public inputs?

use std::path::PathBuf;

use bellperson::groth16::{prepare_verifying_key, verify_proof};
use clap::Args;
use serde::Serialize;

use super::{Context, Outcome};
use crate::circom::json;
use crate::error::Error;
use crate::keys::{read_proof, read_vk};

/// Check a proof: prints valid, or prints invalid and exits with 6
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The verifying key, from `pinprover setup`
    #[arg(long, value_name = "FILE")]
    vk: PathBuf,

    /// The proof
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,

    /// The public inputs
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct VerifyResult {
    command: &'static str,
    ok: bool,
    valid: bool,
    public_inputs: usize,
}

impl Verify {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let vk = read_vk(&self.vk)?;
        let proof = read_proof(&self.proof)?;
        let public = json::read_public(&self.public, vk.ic.len() - 1)?;
        let valid =
            verify_proof(&prepare_verifying_key(&vk), &proof, &public).map_err(Error::synthesis("verify"))?;
        let result = VerifyResult { command: "verify", ok: valid, valid, public_inputs: public.len() };
        context.ui.result(&result, || if valid { "valid" } else { "invalid" }.to_owned())?;
        Ok(if valid { Outcome::Done } else { Outcome::Invalid })
    }
}
