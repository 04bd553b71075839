//! Where proofs are computed.

use std::time::Duration;
#[cfg(feature = "cuda")]
use std::time::Instant;

use bellperson::groth16::backend::Job;
use bellperson::groth16::native;
use bellperson::SynthesisError;

use super::report::DeviceReport;
use crate::config::{Config, ProverChoice};
use crate::init::InitError;
use crate::memory::pool::Pool;

/// Where proofs are computed.
#[derive(Debug)]
pub(crate) enum Engine {
    /// On the CPU.
    Cpu,
    /// On a device.
    #[cfg(feature = "cuda")]
    Gpu(Box<Gpu>),
}

/// A device, and when it is left out.
#[cfg(feature = "cuda")]
pub(crate) struct Gpu {
    prover: super::gpu::GpuProver,
    /// Domains below this size are the CPU's.
    least_domain: usize,
    /// What the device cannot prove, the CPU does.
    fallback: bool,
}

#[cfg(feature = "cuda")]
impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.prover.key_bytes();
        f.debug_struct("Gpu")
            .field("device", &self.prover.name())
            .field("key_bytes", &keys)
            .finish_non_exhaustive()
    }
}

/// A proof, and what computed it.
pub(super) struct Computed {
    pub(super) proved: native::Proved,
    pub(super) prover: &'static str,
    pub(super) device: Option<DeviceReport>,
    pub(super) took: Duration,
}

/// The environment variable that chooses where the configuration leaves it open: `auto`, `gpu` or `cpu`.
pub(crate) const ENV_PROVER: &str = "PINPROVER_BACKEND";

/// What the configuration, and where that says `Auto` the environment, choose.
pub(crate) fn choice(config: &Config) -> Result<ProverChoice, InitError> {
    if config.prover != ProverChoice::Auto {
        return Ok(config.prover);
    }
    match std::env::var(ENV_PROVER).ok().as_deref().map(str::trim) {
        None | Some("") | Some("auto") => {}
        Some("gpu") => return Ok(ProverChoice::Gpu),
        Some("cpu") => return Ok(ProverChoice::Cpu),
        Some(other) => return Err(InitError::Environment { variable: ENV_PROVER, value: other.to_owned() }),
    }
    // Upstream's variable: it counts when it is set, but for values that say no.
    let no_gpu = std::env::var("BELLMAN_NO_GPU").ok();
    match no_gpu.as_deref().map(str::trim) {
        None | Some("" | "0" | "false" | "no") => Ok(ProverChoice::Auto),
        Some(_) => Ok(ProverChoice::Cpu),
    }
}

impl Engine {
    /// Opens what was chosen.
    ///
    /// # Errors
    /// [`InitError::Gpu`] if the device was asked for, or the CPU forbidden, and it cannot be used.
    pub(crate) fn open(
        choice: ProverChoice,
        config: &Config,
        pool: Option<&Pool>,
    ) -> Result<Self, InitError> {
        if choice == ProverChoice::Cpu {
            return Ok(Self::Cpu);
        }
        match Self::open_gpu(choice, config, pool) {
            Ok(engine) => Ok(engine),
            Err(why) if choice == ProverChoice::Gpu || !config.cpu_fallback => Err(InitError::Gpu { why }),
            Err(why) => {
                tracing::info!(%why, "proofs are made on the CPU");
                Ok(Self::Cpu)
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn open_gpu(choice: ProverChoice, config: &Config, pool: Option<&Pool>) -> Result<Self, String> {
        /// Below, a proof takes the CPU no longer than the device its launches.
        const LEAST: usize = 1 << 11;
        let progress = config.on_key_load.clone();
        let prover =
            super::gpu::GpuProver::open(config.device, config.device_memory_max, pool.cloned(), progress)
                .map_err(|e| e.to_string())?;
        let least_domain = if choice == ProverChoice::Auto && config.cpu_fallback { LEAST } else { 0 };
        let fallback = config.cpu_fallback && choice == ProverChoice::Auto;
        Ok(Self::Gpu(Box::new(Gpu { prover, least_domain, fallback })))
    }

    #[cfg(not(feature = "cuda"))]
    fn open_gpu(_: ProverChoice, _: &Config, _: Option<&Pool>) -> Result<Self, String> {
        Err("this build has no CUDA kernels; build it with feature `cuda`".to_owned())
    }

    pub(crate) fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// A short name for logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cpu => "prover-core cpu",
            #[cfg(feature = "cuda")]
            Self::Gpu(_) => "prover-core gpu",
        }
    }

    /// Where it is, for the first log line.
    pub(crate) fn place(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            #[cfg(feature = "cuda")]
            Self::Gpu(gpu) => gpu.prover.name(),
        }
    }

    pub(super) fn prove(&self, job: Job<'_>) -> Result<Vec<Computed>, SynthesisError> {
        match self {
            Self::Cpu => on_cpu(job),
            #[cfg(feature = "cuda")]
            Self::Gpu(gpu) => gpu.prove(job),
        }
    }
}

fn on_cpu(job: Job<'_>) -> Result<Vec<Computed>, SynthesisError> {
    let proved = native::prove(job)?;
    let computed = |proved: native::Proved| Computed {
        took: proved.phases.total(),
        proved,
        prover: "cpu",
        device: None,
    };
    Ok(proved.into_iter().map(computed).collect())
}

#[cfg(feature = "cuda")]
impl Gpu {
    fn prove(&self, job: Job<'_>) -> Result<Vec<Computed>, SynthesisError> {
        use super::gpu::Declined;

        job.check_blinding()?;
        let Job { circuit, assignments, key, r, s, .. } = job;
        let one_on_cpu = |assignment, r, s| {
            let mut proved = on_cpu(Job::new(circuit, vec![assignment], key, vec![r], vec![s]))?;
            proved.pop().ok_or_else(|| SynthesisError::MalformedProofs("no proof was made".to_owned()))
        };
        let mut all = Vec::with_capacity(assignments.len());
        for ((assignment, r), s) in assignments.into_iter().zip(r).zip(s) {
            if assignment.shape().domain_size() < self.least_domain {
                all.push(one_on_cpu(assignment, r, s)?);
                continue;
            }
            let start = Instant::now();
            match self.prover.prove(assignment, key, r, s) {
                Ok((proved, device)) => {
                    all.push(Computed { proved, prover: "gpu", device: Some(device), took: start.elapsed() });
                }
                Err(Declined::Failed(error)) => return Err(error),
                Err(Declined::Unable(assignment, why)) if self.fallback => {
                    tracing::warn!(%why, device = self.prover.name(), "a proof falls back to the CPU");
                    all.push(one_on_cpu(*assignment, r, s)?);
                }
                Err(Declined::Unable(_, why)) => {
                    let text = format!("the device cannot prove, and the CPU is not allowed to: {why}");
                    return Err(SynthesisError::IoError(std::io::Error::other(text)));
                }
            }
        }
        Ok(all)
    }
}
