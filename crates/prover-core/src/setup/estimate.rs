//! How much memory a key and its making take, before it is taken.

use std::fs;

use bellperson::groth16::Shape;

use super::fixed_base::TABLE_BYTES;
use super::SetupError;
use crate::memory::limits::{Limit, Limits};

/// What is known of a circuit before its key is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySize {
    /// The counts; the constraints with one for each input.
    pub shape: Shape,
    /// At most so many points of the A query.
    pub a: usize,
    /// At most so many points of each of the B queries.
    pub b: usize,
}

impl KeySize {
    /// For a circuit of which only the counts are known: any variable may stand in A and B.
    pub fn at_most(shape: Shape) -> Self {
        let variables = shape.inputs.saturating_add(shape.aux);
        Self { shape, a: variables, b: variables }
    }
}

/// Memory in bytes. Saturates at `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// The finished key.
    pub key: u64,
    /// The most at any time while it is made, the key or its parts included, the circuit itself excluded.
    pub peak: u64,
}

const SCALAR: u64 = 32;
const G1: u64 = 96;
const G2: u64 = 192;

/// The memory for the key of a circuit of this size.
pub fn estimate(size: &KeySize) -> Estimate {
    let Shape { constraints, inputs, aux } = size.shape;
    let times = |count: usize, bytes: u64| (count as u64).saturating_mul(bytes);
    let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    let sums = sum(&[times(inputs, SCALAR), times(aux, SCALAR)]);
    let h = times(size.shape.domain_size().saturating_sub(1), G1);
    let l = sum(&[times(aux, G1), times(inputs, G1)]);
    let (a, b1, b2) = (times(size.a, G1), times(size.b, G1), times(size.b, G2));
    // While the circuit is evaluated, then with each query: what is finished and what is not yet dropped.
    let phases = [
        sum(&[times(constraints, SCALAR), sums, sums, sums]),
        sum(&[sums, sums, sums, h, l]),
        sum(&[sums, sums, h, l, a]),
        sum(&[sums, h, l, a, b1, b2]),
    ];
    let peak = phases.into_iter().max().unwrap_or(0);
    Estimate { key: sum(&[h, l, a, b1, b2]), peak: peak.saturating_add(TABLE_BYTES) }
}

/// Checks that the key of a circuit of this size can be made in the memory that this process may use.
///
/// # Errors
/// [`SetupError::MemoryLimit`] with the numbers and what to raise.
pub fn check(size: &KeySize) -> Result<(), SetupError> {
    check_against(size, &Limits::detect(), resident())
}

fn check_against(size: &KeySize, limits: &Limits, used: u64) -> Result<(), SetupError> {
    let (needed, total) = (estimate(size).peak, limits.total());
    if needed.saturating_add(used) <= total {
        return Ok(());
    }
    let (source_of_limit, knob) = match limits.smallest() {
        None => ("no limit is known, so a careful one is assumed".to_owned(), "mount /proc"),
        Some(Limit { source, .. }) => (format!("{source}, less a margin"), knob(source)),
    };
    let constraints = size.shape.constraints;
    Err(SetupError::MemoryLimit { needed, used, total, source_of_limit, knob, constraints })
}

fn knob(source: &str) -> &'static str {
    match source {
        "RLIMIT_AS" => "ulimit -v",
        "/proc/meminfo" => "the machine's own memory",
        _ => "the memory limit of the container or cgroup",
    }
}

/// The bytes that this process has in memory; 0 if the system does not tell.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(0, |kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(rows: usize) -> KeySize {
        KeySize::at_most(Shape { constraints: rows, inputs: 2, aux: rows - 2 })
    }

    #[test]
    fn a_key_of_2_to_the_20() {
        let Estimate { key, peak } = estimate(&square(1 << 20));
        // Four points of 96 bytes and one of 192 a row.
        assert!(key.abs_diff((4 * 96 + 192) << 20) < 1 << 10, "{key}");
        assert_eq!(peak - TABLE_BYTES - key, 32 << 20);
        // The circuit of the field: 2^26, a quarter of the variables in B, fits in 64 GiB with ease.
        let mixed = KeySize { b: 1 << 24, ..square(1 << 26) };
        assert!(estimate(&mixed).peak < 32 << 30);
    }

    #[test]
    fn nothing_overflows() {
        let huge = usize::MAX;
        let size = KeySize::at_most(Shape { constraints: huge, inputs: huge, aux: huge });
        assert_eq!(estimate(&size), Estimate { key: u64::MAX, peak: u64::MAX });
    }

    #[test]
    fn the_error_names_the_numbers_and_the_knob() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/meminfo"), "MemTotal: 4194304 kB\n").unwrap();
        let limits = Limits::read(dir.path());
        assert!(check_against(&square(1 << 20), &limits, 1 << 20).is_ok());
        assert!(check_against(&square(1 << 20), &limits, 4 << 30).is_err());
        let text = check_against(&square(1 << 24), &limits, 1 << 20).unwrap_err().to_string();
        for part in
            ["the key needs 9.", "16777216 constraints", "1 MiB are in use", "3.75 GiB (/proc/meminfo"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("raise that limit (the machine's own memory)"), "{text}");
        let unlimited = Limits::read(&dir.path().join("nothing"));
        let text = check_against(&square(1 << 24), &unlimited, 0).unwrap_err().to_string();
        assert!(text.contains("no limit is known"), "{text}");
    }

    #[test]
    fn this_process_is_in_memory() {
        if cfg!(target_os = "linux") {
            assert!(resident() > 1 << 16);
        }
    }
}
