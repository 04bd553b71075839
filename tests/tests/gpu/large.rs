//! Proofs of large circuits on a device have the bytes that the secrets behind their keys say they must have ([`Trapdoor`]):
//! upstream's prover, which decides for small ones, would take hours.
//!
//! The circuit is `mixed`, three tenths dense. Keys are made on the device. Budgets for one H200 with 16 cores and a build for
//! release, for key, synthesis, oracle and proof together: 5 s at 2^20, 10 s at 2^21, 20 s for each of those about 2^22, 60 s at
//! 2^24; of those ignored by default 240 s and 35 GiB of the host's memory at 2^26, 500 s and 65 GiB at 2^27. Each test prints
//! what it took.
//!
//! Without a device a test says `skipped: no CUDA device`, without the host memory `not run: needs N`. Neither has passed.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use bellperson::groth16::{self, prove_assignments, synthesize_with, MemoryPolicy, SynthesisOptions};
use blstrs::{Bls12, Scalar};
use pinprover::circuits::{BuiltIn, Family, Shape, Size};
use pinprover_tests::oracle::blinding;
use pinprover_tests::trapdoor::{assert_proof, Trapdoor};
use prover_core::cuda::DeviceSelector;
use prover_core::memory::limits::Limits;
use prover_core::prover::GpuFixedBase;
use prover_core::setup::{estimate, KeySize};
use prover_core::size::format_size;
use prover_cuda::error::Kind;
use prover_cuda::slot::{planned_bytes, Shape as DeviceShape};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::support::{device, device_with, on_device};

/// The largest domain of the kernels (`MAX_LOG_DOMAIN` in `quotient.hpp`).
const MAX_LOG_DOMAIN: u32 = 28;

/// Host memory beside keys and vectors: the process, the driver, the tables of multiples.
const SLACK: u64 = 4 << 30;

/// Steps and how long they took.
struct Steps {
    start: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl Steps {
    fn begin() -> Self {
        Self { start: Instant::now(), steps: Vec::new() }
    }

    fn done(&mut self, what: &'static str) {
        self.steps.push((what, self.start.elapsed()));
        self.start = Instant::now();
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|(what, took)| write!(f, "{what} {:.2} s, ", took.as_secs_f64()))
    }
}

/// Bytes of host memory that this process may still take.
fn host_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let available = kib.and_then(|kib| kib.parse::<u64>().ok()).map_or(u64::MAX, |kib| kib << 10);
    available.min(Limits::detect().total())
}

/// The proof of the circuit with so many rows is right.
fn right(rows: usize) {
    // That the bytes are right says more than that they verify; and which point is wrong, if one is.
    let Some(device) = device_with(|config| config.self_check = false) else { return };
    let mut steps = Steps::begin();
    let built = BuiltIn::new(Family::Mixed, Size::Constraints(rows)).expect("a size that exists");
    let counts = Shape::of(built.circuit::<Scalar>()).expect("it can be counted");
    assert_eq!(counts.rows(), rows);
    let shape = groth16::Shape { constraints: rows, inputs: counts.inputs, aux: counts.aux };
    let size = KeySize { shape, a: counts.inputs + counts.a_aux, b: counts.b_inputs + counts.b_aux };
    steps.done("counting");

    let (key, vectors) = (estimate(&size), 32 * (3 * rows + counts.aux) as u64);
    let (needed, there) = (key.peak.max(key.key + vectors) + SLACK, host_memory());
    if needed > there {
        let (needed, there) = (format_size(needed), format_size(there));
        let line = format!("not run: needs {needed} of host memory, {there} can be had");
        writeln!(std::io::stdout(), "{line}").expect("standard output");
        return;
    }

    let trapdoor = Trapdoor::new(rows as u64);
    let points = GpuFixedBase::new(&DeviceSelector::Ordinal(0)).expect("the device can be used");
    let params = trapdoor.key(|| built.circuit::<Scalar>(), Some(size), &points);
    steps.done("key");
    let instance = built.instance::<Scalar>(&mut ChaCha8Rng::seed_from_u64(rows as u64));
    let options = SynthesisOptions::default().expecting(shape).memory(MemoryPolicy::RequireRegistered);
    let assignment = synthesize_with(instance.circuit, options).expect("a witness, in page-locked memory");
    assert_eq!(assignment.shape(), shape);
    steps.done("synthesis");
    let (r, s) = blinding(rows as u64);
    let expected = trapdoor.proof(&assignment, &params.vk, (r, s));
    steps.done("oracle");
    let proofs = prove_assignments::<Bls12, _>(vec![assignment], &params, vec![r], vec![s]);
    let proofs = proofs.unwrap_or_else(|error| panic!("{built} ({steps}): {error}"));
    steps.done("proof with the loading of the key");

    let report = device.guard.reports().pop().expect("the report of that proof");
    let streamed = report.device.as_ref().map_or(0, |device| device.key_streamed_bytes);
    let what = format!(
        "{built}: {rows} rows, domain 2^{}, {} inputs, {} aux, {} of a key of {} streamed; {steps}",
        counts.domain().ilog2(),
        counts.inputs,
        counts.aux,
        format_size(streamed),
        format_size(key.key),
    );
    println!("{what}");
    assert_eq!(proofs.len(), 1);
    assert_proof(&proofs[0], &expected, &what);
    on_device(&report);
    assert_eq!((report.constraints, report.aux), (rows, counts.aux));
}

#[test]
fn rows_2_to_the_20() {
    right(1 << 20);
}

#[test]
fn rows_2_to_the_21() {
    right(1 << 21);
}

#[test]
fn rows_2_to_the_22_less_one() {
    right((1 << 22) - 1);
}

/// Half of the domain, which is of 2^23, is padding.
#[test]
fn rows_2_to_the_22_and_one() {
    right((1 << 22) + 1);
}

#[test]
fn rows_2_to_the_24() {
    right(1 << 24);
}

/// Field case 10: a vector has 2^31 bytes.
#[test]
#[ignore = "minutes, and 35 GiB of host memory"]
fn case_10_rows_2_to_the_26() {
    right(1 << 26);
}

/// Field case 10: a vector has 2^32 bytes, a query three times as many.
#[test]
#[ignore = "minutes, and 65 GiB of host memory"]
fn case_10_rows_2_to_the_27() {
    right(1 << 27);
}

/// Field case 10, the end of the road. Plans alone: nothing is allocated.
#[test]
fn case_10_beyond_the_largest_domain_is_an_error_with_both_numbers() {
    let Some(_device) = device() else { return };
    let opened = prover_cuda::device::Device::open(&[0]).expect("a device")[0];
    // A quarter of the variables in B.
    let plan = |log_domain: u32, rows: usize| {
        let (a_aux, b_aux) = (rows - 2, rows / 4);
        let shape = DeviceShape { rows, log_domain, inputs: 2, aux: rows - 2, a_aux, b_inputs: 0, b_aux };
        planned_bytes(opened, shape, [true; 5])
    };
    // The first plan may load a kernel.
    plan(10, 1 << 10).expect("a plan");
    let (free, _) = opened.memory().expect("its memory");
    for log in [MAX_LOG_DOMAIN + 1, 30, 31, 32, 33, 63, 64, u32::MAX] {
        // As many rows as there would be, and as few as there can be.
        for rows in [1_usize << log.min(33), 4] {
            let error = plan(log, rows).expect_err("the domain is too large");
            assert_eq!(error.kind, Kind::Usage, "{error}");
            let expected = format!("domain too large: 2^{log}, the device's limit is 2^{MAX_LOG_DOMAIN}");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
    // Sizes do not wrap on the way there: a, b and c alone take 96 bytes a row.
    let mut last = 0;
    for log in 10..=MAX_LOG_DOMAIN {
        let bytes = plan(log, 1 << log).unwrap_or_else(|error| panic!("2^{log}: {error}"));
        assert!(bytes > last && bytes >= 96 << log, "2^{log}: {bytes} bytes after {last}");
        last = bytes;
    }
    println!("a proof of 2^{MAX_LOG_DOMAIN} rows takes {} beside its key", format_size(last));
    let (after, _) = opened.memory().expect("its memory");
    assert_eq!(after, free, "plans take no device memory");
}
