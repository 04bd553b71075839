//! The peak memory of one proof.
//!
//! Measured in a fresh process for each prover: in a shared one, memory that the first prover freed or pooled
//! would hide what the second takes. The process loads the key, resets the kernel's high-water mark, proves once
//! and says how far the mark rose.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use blstrs::Scalar;
use rand_core::OsRng;
use serde::{Deserialize, Serialize};

use crate::bench::{keycache, race};
use crate::circuits::{BuiltIn, Instance, Shape};
use crate::error::Error;
use crate::meter;
use crate::proving::{Blinding, Session};

/// Whose proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Prover {
    /// This workspace's.
    Ours,
    /// bellperson 0.26.0 as published.
    Upstream,
}

impl Prover {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Upstream => "upstream",
        }
    }
}

/// What the measuring process prints.
#[derive(Debug, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes above the level with the key loaded; `None` if the system does not tell.
    pub bytes: Option<u64>,
}

/// Measures in this process, which must be fresh.
///
/// # Errors
/// If the key is not in `key_cache`, and what proving returns.
pub fn measure_here(
    prover: Prover,
    circuit: &BuiltIn,
    key_cache: &Path,
    session: &Session,
) -> Result<Peak, Error> {
    let params = keycache::load(key_cache, circuit)?;
    let instance: Instance<Scalar> = circuit.instance(&mut OsRng);
    let shape = Shape::of(circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
    let blinding = Blinding::fresh();
    meter::release_free_memory();
    let base = meter::resident().filter(|_| meter::reset_peak());
    match prover {
        Prover::Ours => drop(session.prove(&shape, instance.circuit, &params, blinding)?),
        Prover::Upstream => drop(race::upstream_proof(&instance, &params, blinding)?),
    }
    let bytes = base.and_then(|base| meter::peak_resident()?.checked_sub(base));
    Ok(Peak { bytes })
}

/// Measures in a process of its own: this program with the hidden `bench peak` command. `options` are the
/// command-line options that both processes share.
///
/// # Errors
/// If the process cannot be started or fails; its messages are on standard error.
pub fn measure(
    prover: Prover,
    circuit: &BuiltIn,
    key_cache: &Path,
    options: &[OsString],
) -> Result<Peak, Error> {
    let program = std::env::current_exe().map_err(Error::io("find", "this program"))?;
    let (size, number) = match circuit {
        BuiltIn::Sha256(sha256) => ("--bytes", sha256.bytes),
        other => ("--constraints", other.rows()),
    };
    let output = Command::new(&program)
        .args(options)
        .args(["--json", "bench", "peak", "--prover", prover.name(), "--circuit", circuit.family().name()])
        .args([size, &number.to_string()])
        .arg("--key-cache")
        .arg(key_cache)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Error::io("start", &program))?;
    if !output.status.success() {
        return Err(Error::Input(format!(
            "the process that measures the memory of {circuit} failed ({})",
            output.status
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|e| Error::Input(format!("the process that measures the memory of {circuit}: {e}")))
}
