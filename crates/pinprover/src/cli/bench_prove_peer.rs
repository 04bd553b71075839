//! `bench prove --peer`: the same proofs by supraseal-c2, in a process beside this one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bellperson::groth16::{prepare_verifying_key, verify_proof, PreparedVerifyingKey};
use bellperson::groth16::{synthesize_with, ProvingAssignment, SynthesisOptions};
use blstrs::{Bls12, Scalar};
use clap::Args;
use prover_core::size::format_size;

use super::bench_prove::Work;
use super::options::positive;
use crate::bench::peer::sibling::Sibling;
use crate::bench::peer::wire::{request, Memory};
use crate::bench::peer::{Files, PeerError};
use crate::error::Error;
use crate::keys::parse_proof;
use crate::ui::Progress;

/// What is measured against.
const NAME: &str = "supraseal-c2";

/// From which memory it reads a, b, c and the witness.
pub(super) const MEMORIES: [Memory; 2] = [Memory::Pageable, Memory::Pinned];

/// The options of `--peer`.
#[derive(Debug, Args)]
pub(super) struct PeerOptions {
    /// Measure supraseal-c2 as well, in turns with the first prover: same key, witness, r and s, and so the same proof
    ///
    /// It runs as a process of its own, `pinprover-peer` (feature peer-supraseal), and reads the key and the synthesised
    /// circuit from files, which are removed as soon as it has.
    #[arg(long)]
    peer: bool,

    /// The folder for those files, which take as much as the key and 128 bytes a constraint [default: the temporary one]
    #[arg(long, value_name = "DIR", requires = "peer")]
    peer_dir: Option<PathBuf>,

    /// Stop a peer that does not answer for so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive, default_value = "600", requires = "peer")]
    peer_timeout: usize,

    /// The program to start [default: pinprover-peer in this program's folder]
    #[arg(long, value_name = "FILE", requires = "peer")]
    peer_program: Option<PathBuf>,
}

/// A running peer, for one size.
pub(super) struct Peer {
    sibling: Sibling,
    verifier: PreparedVerifyingKey<Bls12>,
    /// Bytes of the files that it was started with.
    pub(super) file_bytes: u64,
    /// What it took to read them and to make a first proof, in seconds.
    pub(super) ready: f64,
}

impl PeerOptions {
    /// The program to measure against, if that is asked for.
    ///
    /// # Errors
    /// [`PeerError::Missing`] if there is none.
    pub(super) fn program(&self) -> Result<Option<PathBuf>, Error> {
        if !self.peer {
            return Ok(None);
        }
        let program = match &self.peer_program {
            Some(program) => program.clone(),
            None => {
                let own = std::env::current_exe().map_err(Error::io("find", "this program"))?;
                own.with_file_name("pinprover-peer")
            }
        };
        match program.is_file() {
            true => Ok(Some(program)),
            false => Err(PeerError::Missing { program }.into()),
        }
    }

    /// Starts the peer on `work`, on the device with that number. Two steps of `progress`.
    ///
    /// # Errors
    /// [`PeerError`], [`Error::Io`]. The files are gone in any case.
    pub(super) fn start(
        &self,
        program: &Path,
        work: &Work,
        device: u32,
        progress: &Progress,
    ) -> Result<Peer, Error> {
        let folder = self.peer_dir.clone().unwrap_or_else(std::env::temp_dir);
        let circuit = &work.circuit;
        let options = SynthesisOptions::default().expecting(work.expected());
        let assignment: ProvingAssignment<Scalar> = synthesize_with(work.instance.circuit.clone(), options)
            .map_err(Error::synthesis("synthesise"))?;
        let file_bytes = Files::needed(&work.params, &assignment);
        let what = format!(
            "{circuit}: write {} for {NAME} to {} (removed when it has read them)",
            format_size(file_bytes),
            folder.display()
        );
        let write = || Files::write(&folder, &work.params, &assignment, work.blinding);
        let files = progress.step(&what, write).0?;
        drop(assignment);

        let mut command = Command::new(program);
        command.arg(files.folder());
        if let Some(uuid) = uuid(device) {
            command.env("CUDA_VISIBLE_DEVICES", uuid);
        }
        let limit = Duration::from_secs(self.peer_timeout as u64);
        let mut sibling = Sibling::start(command, limit)?;
        let ready = progress.step(&format!("{circuit}: {NAME} reads the key"), || sibling.ready()).0?;
        drop(files);
        Ok(Peer { sibling, verifier: prepare_verifying_key(&work.params.vk), file_bytes, ready })
    }
}

/// The name by which another process finds the device with that number here.
fn uuid(device: u32) -> Option<String> {
    let devices = prover_core::cuda::devices().ok()?;
    Some(devices.into_iter().find(|found| found.ordinal == device as usize)?.uuid)
}

impl Peer {
    /// As it stands in the table.
    pub(super) fn name(memory: Memory) -> String {
        format!("{NAME} {memory}")
    }

    /// A proof of `work`, checked and compared with those before it. Returns the seconds that it took.
    ///
    /// # Errors
    /// [`PeerError`]; [`Error::ProofsDiffer`].
    pub(super) fn prove(&mut self, work: &mut Work, memory: Memory) -> Result<f64, Error> {
        let (seconds, bytes) = self.sibling.prove(memory)?;
        let bad = |why: String| PeerError::BadProof { doing: request(memory), why };
        let proof = parse_proof(&bytes).map_err(|e| bad(format!("is none: {e}")))?;
        let valid = verify_proof(&self.verifier, &proof, &work.instance.public)
            .map_err(Error::synthesis("check the peer's proof"))?;
        if !valid {
            return Err(bad("does not verify".to_owned()).into());
        }
        work.compare(&Self::name(memory), bytes.to_vec())?;
        Ok(seconds)
    }
}
