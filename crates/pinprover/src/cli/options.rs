//! The options that all commands share.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use prover_core::cuda::DeviceSelector;
use prover_core::size::parse_size;

use crate::circuits::parse_count;
use crate::error::Error;
use crate::proving::{MemoryBackend, MemoryOptions, OnExhausted, ProverBackend, ProverOptions};
use crate::ui::Ui;

/// Reads a size in bytes; clap adds the option and the value to the error.
pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| e.to_string())
}

/// Reads a number of things that is not 0.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        0 => Err("expected at least 1".to_owned()),
        count => Ok(count),
    }
}

/// The options that all commands share.
#[derive(Debug, Args)]
pub(super) struct GlobalOptions {
    /// Print the result as one JSON object
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,

    /// Show no progress bar
    #[arg(long, short, global = true, help_heading = "Output")]
    quiet: bool,

    /// The most memory for proving vectors, for instance 12.5GiB [default: what the machine and its cgroups allow]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, help_heading = "Memory")]
    #[arg(visible_alias = "memory-budget")]
    memory: Option<u64>,

    /// The most of it that the pool of proving vectors keeps, in use or idle [default: all of it]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, help_heading = "Memory")]
    pinned_max: Option<u64>,

    /// What backs the proving vectors; auto: page-locked with a device, pooled pages without
    #[arg(long, global = true, value_name = "BACKEND", value_enum, default_value_t, help_heading = "Memory")]
    memory_backend: MemoryBackend,

    /// What to do when that memory is used up
    #[arg(long, global = true, value_name = "POLICY", value_enum, default_value_t, help_heading = "Memory")]
    on_exhausted: OnExhausted,

    /// With --on-exhausted wait: fail after so many seconds [default: 600]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = parse_count, help_heading = "Memory")]
    pinned_wait: Option<usize>,

    /// Leave the pool out: proving vectors are ordinary heap memory
    #[arg(long, global = true, visible_alias = "no-pinned", help_heading = "Memory")]
    #[arg(conflicts_with_all = ["memory_backend", "on_exhausted", "pinned_max", "pinned_wait"])]
    no_pool: bool,

    /// Keep the sizes of circuits in this file, for programs on prover-core that do not know them beforehand
    #[arg(long, global = true, value_name = "FILE", help_heading = "Memory")]
    hints: Option<PathBuf>,

    /// Where proofs are computed [default: auto, or what PINPROVER_BACKEND says]
    #[arg(
        long,
        global = true,
        value_name = "BACKEND",
        value_enum,
        default_value_t,
        hide_default_value = true
    )]
    #[arg(help_heading = "Work")]
    backend: ProverBackend,

    /// The CUDA devices, by the numbers or UUIDs that nvidia-smi -L shows, for instance 0,2 [default: all]
    #[arg(long, global = true, visible_alias = "device", value_name = "LIST", value_delimiter = ',')]
    #[arg(help_heading = "Work")]
    devices: Vec<DeviceSelector>,

    /// The most memory of the device to use; a key that does not fit is streamed [default: what is free]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, help_heading = "Work")]
    device_memory_max: Option<u64>,

    /// Fail if the device cannot prove, where the CPU would
    #[arg(long, global = true, help_heading = "Work")]
    no_cpu_fallback: bool,

    /// Worker threads [default: one a core]
    #[arg(long, global = true, value_name = "N", value_parser = positive, help_heading = "Work")]
    threads: Option<usize>,
}

impl GlobalOptions {
    pub(super) fn ui(&self) -> Ui {
        Ui::new(self.json, self.quiet)
    }

    pub(super) fn hints(&self) -> Option<&Path> {
        self.hints.as_deref()
    }

    pub(super) fn memory(&self) -> MemoryOptions {
        MemoryOptions {
            limit: self.memory,
            pool_limit: self.pinned_max,
            wait: self.pinned_wait.map(|seconds| Duration::from_secs(seconds as u64)),
            backend: self.memory_backend,
            on_exhausted: self.on_exhausted,
            no_pool: self.no_pool,
            hints: self.hints.clone(),
            prover: self.prover(),
        }
    }

    pub(super) fn prover(&self) -> ProverOptions {
        ProverOptions {
            backend: self.backend,
            devices: self.devices.clone(),
            device_memory: self.device_memory_max,
            no_cpu_fallback: self.no_cpu_fallback,
        }
    }

    /// The memory of a command that compares provers of the CPU.
    pub(super) fn memory_of_cpu(&self) -> MemoryOptions {
        let mut memory = self.memory();
        memory.prover.backend = ProverBackend::Cpu;
        memory
    }

    /// Sets the number of threads of both pools that the provers use.
    pub(super) fn apply_threads(&self) -> Result<(), Error> {
        const MOST: usize = 1024;
        if let Some(value) = std::env::var_os("EC_GPU_NUM_THREADS").filter(|_| self.threads.is_none()) {
            let number = value.to_str().and_then(|value| value.parse::<usize>().ok());
            if !number.is_some_and(|number| (1..=MOST).contains(&number)) {
                let value = value.to_string_lossy();
                let text =
                    format!("EC_GPU_NUM_THREADS={value}: a number of threads from 1 to {MOST} is needed");
                return Err(Error::Configuration(text));
            }
        }
        let Some(threads) = self.threads else { return Ok(()) };
        if threads > MOST {
            return Err(Error::Usage(format!("--threads {threads}: at most {MOST}")));
        }
        // ec-gpu-gen reads its number here, when its pool is first used; child processes read both.
        for variable in ["EC_GPU_NUM_THREADS", "RAYON_NUM_THREADS"] {
            std::env::set_var(variable, OsStr::new(&threads.to_string()));
        }
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .map_err(|e| Error::Configuration(format!("--threads {threads}: {e}")))
    }

    /// The options that a process started by this one needs, to prove as this one does.
    pub(super) fn for_child(&self, hints: &Path) -> Vec<OsString> {
        let mut options: Vec<OsString> = vec!["--hints".into(), hints.into()];
        let mut add = |option: &str, value: Option<String>| {
            options.extend(value.map(|value| format!("{option}={value}").into()));
        };
        add("--memory", self.memory.map(|bytes| bytes.to_string()));
        add("--threads", self.threads.map(|threads| threads.to_string()));
        if self.no_pool {
            options.push("--no-pool".into());
            return options;
        }
        add("--pinned-max", self.pinned_max.map(|bytes| bytes.to_string()));
        add("--pinned-wait", self.pinned_wait.map(|seconds| seconds.to_string()));
        add("--memory-backend", name(&self.memory_backend));
        add("--on-exhausted", name(&self.on_exhausted));
        options
    }
}

/// A choice as the command line has it.
fn name(value: &impl ValueEnum) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}
