//! Where proofs are computed.

use std::time::{Duration, Instant};

use bellperson::groth16::backend::Job;
use bellperson::groth16::native;
use bellperson::SynthesisError;

use super::device::{Declined, KeyDigest, Task};
use super::fleet::{DeviceStatus, Fleet};
use super::report::DeviceReport;
use super::service::DeviceFailure;
use crate::config::{Config, ProverChoice};
use crate::init::InitError;
use crate::memory::pool::Pool;

/// Where proofs are computed.
pub(crate) enum Place {
    /// On the CPU.
    Cpu,
    /// On devices.
    Devices(Devices),
}

/// Devices, and when they are left out.
pub(crate) struct Devices {
    fleet: Fleet,
    /// Domains below this size are the CPU's.
    least_domain: usize,
    /// What the devices cannot prove, the CPU does.
    fallback: bool,
}

/// A proof, and what computed it.
pub(crate) struct Computed {
    pub(crate) proved: native::Proved,
    pub(crate) prover: &'static str,
    pub(crate) device: Option<DeviceReport>,
    pub(crate) took: Duration,
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

impl Place {
    /// Finds what was chosen.
    ///
    /// # Errors
    /// [`InitError::Gpu`] if devices were asked for, or the CPU forbidden, and they cannot be used.
    pub(crate) fn open(
        choice: ProverChoice,
        config: &Config,
        pool: Option<&Pool>,
    ) -> Result<Self, InitError> {
        if choice == ProverChoice::Cpu {
            return Ok(Self::Cpu);
        }
        match Self::devices(choice, config, pool) {
            Ok(devices) => Ok(Self::Devices(devices)),
            Err(why) if choice == ProverChoice::Gpu || !config.cpu_fallback => Err(InitError::Gpu { why }),
            Err(why) => {
                tracing::info!(%why, "proofs are made on the CPU");
                Ok(Self::Cpu)
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn devices(choice: ProverChoice, config: &Config, pool: Option<&Pool>) -> Result<Devices, String> {
        use std::sync::Arc;

        use super::device::ProofDevice;
        use super::gpu::GpuProver;

        /// Below, a proof takes the CPU no longer than the device its launches.
        const LEAST: usize = 1 << 11;
        let known = crate::cuda::devices().map_err(|error| error.to_string())?;
        let chosen = crate::cuda::select(&config.devices, &known).map_err(|error| error.to_string())?;
        let prover = |about| {
            Arc::new(GpuProver::new(
                about,
                config.device_memory_max,
                pool.cloned(),
                config.on_key_load.clone(),
            ))
        };
        let provers: Vec<Arc<GpuProver>> = chosen.into_iter().map(prover).collect();
        let forced = choice == ProverChoice::Gpu || !config.cpu_fallback;
        if forced {
            // Whoever insists on devices hears now that one cannot be used. Else they are opened when they are needed:
            // that takes longer than many a small circuit on the CPU.
            if provers.is_empty() {
                return Err("there is no CUDA device".to_owned());
            }
            std::thread::scope(|scope| {
                let opening: Vec<_> =
                    provers.iter().map(|prover| scope.spawn(|| prover.open().map(drop))).collect();
                // All of them, before the first error is told.
                let opened: Vec<_> = opening.into_iter().map(|thread| thread.join()).collect();
                opened.into_iter().try_for_each(|joined| match joined {
                    Ok(opened) => opened.map_err(|error| error.to_string()),
                    Err(_) => Err("opening it panicked".to_owned()),
                })
            })?;
        }
        let fleet = Fleet::new(provers.into_iter().map(|prover| prover as Arc<dyn ProofDevice>).collect());
        let least_domain = if forced { 0 } else { LEAST };
        Ok(Devices { fleet, least_domain, fallback: !forced })
    }

    #[cfg(not(feature = "cuda"))]
    fn devices(_: ProverChoice, _: &Config, _: Option<&Pool>) -> Result<Devices, String> {
        Err("this build has no CUDA kernels; build it with feature `cuda`".to_owned())
    }

    /// Devices of a test.
    #[cfg(test)]
    pub(crate) fn simulated(fleet: Fleet, least_domain: usize, fallback: bool) -> Self {
        Self::Devices(Devices { fleet, least_domain, fallback })
    }

    pub(crate) fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// How many proofs are made at a time, at most.
    pub(crate) fn slots(&self) -> usize {
        match self {
            Self::Cpu => 1,
            Self::Devices(devices) => devices.fleet.slots().max(1),
        }
    }

    /// How the devices are; none for the CPU.
    pub(crate) fn status(&self) -> Vec<DeviceStatus> {
        match self {
            Self::Cpu => Vec::new(),
            Self::Devices(devices) => devices.fleet.status(),
        }
    }

    /// A short name for logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cpu => "prover-core cpu",
            Self::Devices(_) => "prover-core gpu",
        }
    }

    /// Where it is, for the first log line.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Cpu => "cpu".to_owned(),
            Self::Devices(devices) => devices.fleet.names(),
        }
    }

    /// Proves the circuits of a job, one after the other. `digest` is the verifying key's.
    pub(super) fn prove(&self, job: Job<'_>, digest: KeyDigest) -> Result<Vec<Computed>, SynthesisError> {
        match self {
            Self::Cpu => on_cpu(job),
            Self::Devices(devices) => {
                job.check_blinding()?;
                let Job { assignments, key, r, s, .. } = job;
                let circuits = assignments.into_iter().zip(r).zip(s);
                let task = |((assignment, r), s)| Task { assignment, key, digest, r, s, given_back: &|| {} };
                circuits.map(task).map(|task| devices.prove(task)).collect()
            }
        }
    }

    /// Proves one circuit.
    pub(crate) fn prove_one(&self, task: Task<'_>) -> Result<Computed, SynthesisError> {
        match self {
            Self::Cpu => one_on_cpu(task),
            Self::Devices(devices) => devices.prove(task),
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

fn one_on_cpu(task: Task<'_>) -> Result<Computed, SynthesisError> {
    let Task { assignment, key, r, s, given_back, .. } = task;
    let circuit = bellperson::groth16::backend::CircuitId::new("", None);
    let proved = on_cpu(Job::new(circuit, vec![assignment], key, vec![r], vec![s]));
    given_back();
    proved?.pop().ok_or_else(|| SynthesisError::MalformedProofs("no proof was made".to_owned()))
}

impl Devices {
    fn prove(&self, task: Task<'_>) -> Result<Computed, SynthesisError> {
        if task.assignment.shape().domain_size() < self.least_domain {
            return one_on_cpu(task);
        }
        let Task { key, digest, r, s, given_back, .. } = task;
        let start = Instant::now();
        match self.fleet.prove(task) {
            Ok((proved, device)) => {
                Ok(Computed { proved, prover: "gpu", device: Some(device), took: start.elapsed() })
            }
            Err(Declined::Failed(error)) => Err(error),
            Err(Declined::Lost { why, .. }) => {
                Err(DeviceFailure::error(format!("{why}; later proofs of this process do not run on it")))
            }
            Err(Declined::Unable { assignment, why }) if self.fallback => {
                tracing::warn!(%why, "a proof falls back to the CPU");
                one_on_cpu(Task { assignment: *assignment, key, digest, r, s, given_back })
            }
            Err(Declined::Unable { why, .. }) => Err(DeviceFailure::error(format!(
                "no device can prove, and the CPU is not allowed to: {why}"
            ))),
        }
    }
}
