//! This process's memory, as Linux counts it. Elsewhere, or where it is hidden, there is no figure and no noise.

use std::fs;

/// The most memory this process has had resident, in bytes, since it started or since [`reset_peak`].
pub fn peak_resident() -> Option<u64> {
    status("VmHWM:")
}

/// The memory this process has resident, in bytes.
pub fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// Forgets the peak: from now on it is counted anew. `false` if the system does not let us.
pub fn reset_peak() -> bool {
    // See proc(5), clear_refs: 5 resets the peak resident set size to the current one.
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Gives freed memory that the C library still holds back to the system, so that a later peak is not blurred.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions; it takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn status(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_large_allocation_shows_in_the_peak() {
        let before = resident().unwrap();
        let bytes = std::hint::black_box(vec![1u8; 64 << 20]);
        drop(bytes);
        let peak = peak_resident().unwrap();
        // Other tests run beside this one, so only a lower bound can be had.
        assert!(peak >= before + (60 << 20), "{before} {peak}");
    }
}
