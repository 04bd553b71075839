//! `export-snarkjs`: key, proof and public inputs as snarkjs reads them.

use std::path::PathBuf;

use bellperson::groth16::{prepare_verifying_key, verify_proof};
use clap::Args;
use serde::Serialize;

use super::{Context, Outcome};
use crate::circom::json;
use crate::error::Error;
use crate::keys::{read_proof, read_vk};

/// Write verification_key.json, proof.json and public.json for `snarkjs groth16 verify`
#[derive(Debug, Args)]
pub(super) struct ExportSnarkjs {
    /// The verifying key, from `pinprover setup`
    #[arg(long, value_name = "FILE")]
    vk: PathBuf,

    /// The proof
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,

    /// The public inputs
    #[arg(long, value_name = "FILE")]
    public: PathBuf,

    /// The folder for the three files; made if it is not there
    #[arg(long, value_name = "DIR")]
    out_dir: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct ExportResult {
    command: &'static str,
    ok: bool,
    #[serde(serialize_with = "crate::ui::path")]
    verification_key: PathBuf,
    #[serde(serialize_with = "crate::ui::path")]
    proof: PathBuf,
    #[serde(serialize_with = "crate::ui::path")]
    public: PathBuf,
}

impl ExportSnarkjs {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let vk = read_vk(&self.vk)?;
        let proof = read_proof(&self.proof)?;
        let public = json::read_public(&self.public, vk.ic.len() - 1)?;
        // Three files that do not belong together are a puzzle for whoever gets them.
        if !verify_proof(&prepare_verifying_key(&vk), &proof, &public).map_err(Error::synthesis("verify"))? {
            return Err(Error::Invalid { proof: self.proof.clone() });
        }
        std::fs::create_dir_all(&self.out_dir).map_err(Error::io("make the folder", &self.out_dir))?;
        let result = ExportResult {
            command: "export-snarkjs",
            ok: true,
            verification_key: self.out_dir.join("verification_key.json"),
            proof: self.out_dir.join("proof.json"),
            public: self.out_dir.join("public.json"),
        };
        let inputs = [("--vk", &*self.vk), ("--proof", &*self.proof), ("--public", &*self.public)];
        let mut outputs = context.plan(
            &inputs,
            &[
                ("--out-dir: verification_key.json", &result.verification_key),
                ("--out-dir: proof.json", &result.proof),
                ("--out-dir: public.json", &result.public),
            ],
        )?;
        outputs.write("--out-dir: verification_key.json", |w| json::write_verification_key(&vk, w))?;
        outputs.write("--out-dir: proof.json", |w| json::write_proof(&proof, w))?;
        outputs.write("--out-dir: public.json", |w| json::write_public(&public, w))?;
        outputs.commit()?;
        context.ui.result(&result, || {
            let paths = [&result.verification_key, &result.proof, &result.public];
            paths.map(|path| path.display().to_string()).join("\n")
        })?;
        Ok(Outcome::Done)
    }
}
