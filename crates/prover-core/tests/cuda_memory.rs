//! Page-locked memory and copies on a real device. Without one each test says `skipped: no CUDA device`, which is not
//! the same as having passed.
//!
//! The pool's own suite runs over registered memory too: `PROVER_CORE_TEST_BACKEND=cuda-register` with the binaries of
//! `memory_pool`, `memory_field` and `memory_pool_model`.
#![cfg(all(unix, not(loom)))]

mod memory_support;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_support::log::Warnings;
use memory_support::process::{in_own_process, is_child, rerun, shown};
use memory_support::suite::{behaves, bytes, bytes_mut};
use memory_support::*;
use pinned_alloc::Residency;
use prover_core::cuda::{devices, Context, CudaError, CudaFence, DeviceMemory, Driver, Event, Stream};
use prover_core::memory::backend::{Backend, CudaHostAlloc, CudaRegister};
use prover_core::memory::pool::Exhaustion;

/// Whether there is a device; says so if there is none, whether or not the output of tests is shown.
fn has_device() -> bool {
    match devices() {
        Ok(_) => true,
        Err(error) if error.is_absence() => {
            let _ = writeln!(std::io::stdout(), "skipped: no CUDA device");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn device() -> Option<Arc<Context>> {
    has_device().then(|| Context::retain(0).unwrap())
}

fn backends(context: &Arc<Context>) -> [Box<dyn Backend>; 2] {
    [Box::new(CudaRegister::new(context.clone())), Box::new(CudaHostAlloc::new(context.clone()))]
}

/// Bytes that differ from place to place and from seed to seed.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

#[test]
fn the_behaviour_suite() {
    let Some(context) = device() else { return };
    for backend in backends(&context) {
        assert_eq!(backend.residency(), Residency::Pinned);
        behaves(&*backend);
    }
}

#[test]
fn devices_are_described() {
    let Some(context) = device() else { return };
    let device = context.device();
    assert!(!device.name.is_empty() && device.memory > 1 << 30, "{device:?}");
    assert!(device.compute_capability.0 >= 3 && device.pci_bus_id.contains(':'), "{device:?}");
    let (free, total) = context.memory_info().unwrap();
    assert!(free <= total && total <= device.memory + (1 << 30), "{free} {total}");
    assert!(Driver::get().unwrap().version().unwrap() >= (12, 0));
    let error = Context::retain(1000).unwrap_err().to_string();
    assert!(error.contains("no CUDA device 1000") && error.contains("numbered from 0"), "{error}");
}

#[test]
fn one_copy_reads_a_region_that_has_grown_and_was_sealed() {
    let Some(context) = device() else { return };
    let (stream, backend) = (Stream::new(&context).unwrap(), CudaRegister::new(context.clone()));
    let mut region = backend.map(4 * MIB, 32, 1 << 30).unwrap();
    for mib in [6, 50, 200] {
        region.grow(mib * MIB).unwrap();
    }
    assert_eq!(region.seal(), Ok(Residency::Pinned));
    fill(bytes_mut(&mut *region), 1);
    let size = region.committed();
    let memory = DeviceMemory::new(&context, size).unwrap();
    // SAFETY: the region outlives the download, which waits, and is not written meanwhile.
    unsafe { stream.upload(region.as_ptr(), size, &memory, 0) }.unwrap();
    let mut back = vec![0; size];
    stream.download(&memory, 0, &mut back).unwrap();
    assert!(back == bytes(&*region));
    // Unpinned it is ordinary memory, which the driver copies all the same.
    region.unpin().unwrap();
    fill(bytes_mut(&mut *region), 2);
    // SAFETY: as above.
    unsafe { stream.upload(region.as_ptr(), size, &memory, 0) }.unwrap();
    stream.download(&memory, 0, &mut back).unwrap();
    assert!(back == bytes(&*region));
}

#[test]
fn copies_that_leave_the_memory_are_refused() {
    let Some(context) = device() else { return };
    let (stream, memory) = (Stream::new(&context).unwrap(), DeviceMemory::new(&context, MIB).unwrap());
    for (offset, bytes) in [(MIB, 1), (1, MIB), (usize::MAX, 2)] {
        let mut back = vec![0; bytes];
        let error = stream.download(&memory, offset, &mut back).unwrap_err();
        assert_eq!(error, CudaError::OutOfBounds { offset, bytes, size: MIB });
    }
    let mut last = [0];
    stream.download(&memory, MIB - 1, &mut last).unwrap();
}

#[test]
fn events_tell_the_time_of_copies() {
    let Some(context) = device() else { return };
    let stream = Stream::new(&context).unwrap();
    let (start, end) = (Event::timed(&context).unwrap(), Event::timed(&context).unwrap());
    let region = CudaRegister::new(context.clone()).map(256 * MIB, 1, 0).unwrap();
    let memory = DeviceMemory::new(&context, 256 * MIB).unwrap();
    start.record(&stream).unwrap();
    // SAFETY: the wait below is over before the region goes, and nobody writes to it.
    unsafe { stream.upload(region.as_ptr(), 256 * MIB, &memory, 0) }.unwrap();
    end.record(&stream).unwrap();
    end.wait().unwrap();
    assert!(end.is_passed().unwrap());
    let time = end.since(&start).unwrap();
    // Faster than any bus of today, slower than a broken one.
    assert!(time > Duration::from_micros(500) && time < Duration::from_secs(2), "{time:?}");
}

/// Field case 7 with a device: a set goes back while its copies run, and the next holder fills it at once.
#[test]
fn case_7_a_set_in_flight_is_not_reused_before_its_copies_end() {
    const ROUNDS: u64 = 100;
    let Some(context) = device() else { return };
    for backend in backends(&context) {
        let (pool, budget, _ledger) =
            pool_over_boxed(backend, 256 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
        let stream = Stream::new(&context).unwrap();
        let memory = DeviceMemory::new(&context, 32 * MIB).unwrap();
        let mut back = vec![0; 32 * MIB];
        let mut expected = vec![0; 32 * MIB];
        for round in 0..ROUNDS {
            let mut set = pool.check_out(&layouts(&[32 * MIB])).unwrap();
            fill(set.bytes_mut(0), round);
            // Several times over, so that the last copy begins late.
            for _ in 0..4 {
                // SAFETY: the set is in flight until the fence has passed.
                unsafe { stream.upload(set.as_ptr(0), 32 * MIB, &memory, 0) }.unwrap();
            }
            let flying = set.in_flight(CudaFence::record(&stream).unwrap());
            if round % 2 == 0 {
                drop(flying);
            } else {
                drop(flying.wait().unwrap());
            }
            let mut next = pool.check_out(&layouts(&[32 * MIB])).unwrap();
            next.bytes_mut(0).fill(0xFF);
            stream.download(&memory, 0, &mut back).unwrap();
            fill(&mut expected, round);
            assert!(back == expected, "{}: round {round}", pool.backend_name());
            if round % 10 == 0 {
                pool.trim_all();
            }
        }
        stream.synchronize().unwrap();
        drop(pool);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn fences_of_raw_streams_and_events() {
    let Some(context) = device() else { return };
    let (pool, _budget, _ledger) = pool_over(CudaRegister::new(context.clone()), 64 * MIB, |_| {});
    let stream = Stream::new(&context).unwrap();
    let set = pool.check_out(&layouts(&[MIB])).unwrap();
    // SAFETY: the stream is of this context and alive.
    let fence = unsafe { CudaFence::record_raw(&context, stream.raw()) }.unwrap();
    drop(set.in_flight(fence).wait().unwrap());
    let set = pool.check_out(&layouts(&[MIB])).unwrap();
    let event = Event::untimed(&context).unwrap();
    event.record(&stream).unwrap();
    let handle = event.raw();
    std::mem::forget(event);
    // SAFETY: recorded above, and forgotten by its first owner.
    let fence = unsafe { CudaFence::from_raw(&context, handle) };
    drop(set.in_flight(fence).wait().unwrap());
    assert_eq!(pool.stats().in_flight_bytes, 0);
}

#[test]
fn a_warm_set_takes_less_than_50_microseconds_and_a_cold_one_is_cheap() {
    let Some(context) = device() else { return };
    const GIB: usize = 1 << 30;
    let (pool, _budget, _ledger) = pool_over(CudaRegister::new(context), 8 * GIB, |_| {});
    let set = layouts(&[GIB / 2; 4]);
    // The best of three: other tests are at work on this machine.
    let cold = (0..3).map(|_| {
        pool.trim_all();
        let started = Instant::now();
        drop(pool.check_out(&set).unwrap());
        started.elapsed()
    });
    let cold = cold.min().unwrap();
    let mut warm: Vec<Duration> = (0..101)
        .map(|_| {
            let started = Instant::now();
            drop(pool.check_out(&set).unwrap());
            started.elapsed()
        })
        .collect();
    warm.sort_unstable();
    println!("cold: {:.3} s a GiB; warm: {:?} a set", cold.as_secs_f64() / 2.0, warm[50]);
    assert!(warm[50] < Duration::from_micros(50), "{:?}", warm[50]);
    // Five times the 0.08 s a GiB of a quiet machine, which `pinprover bench h2d` measures.
    assert!(cold < Duration::from_millis(800), "{cold:?}");
}

/// Field case 24 with a driver: a refused request spoils nothing.
#[test]
fn case_24_a_refused_request_does_not_stick() {
    let Some(context) = device() else { return };
    for backend in backends(&context) {
        let error = backend.map(1 << 40, 1, 0).unwrap_err().to_string();
        for part in ["host memory (system RAM)", "1099511627776", "--memory-backend"] {
            assert!(error.contains(part), "{error}");
        }
        let region = backend.map(8 * MIB, 1, 0).unwrap();
        let (stream, memory) =
            (Stream::new(&context).unwrap(), DeviceMemory::new(&context, 8 * MIB).unwrap());
        // SAFETY: the region outlives the wait, and nobody writes to it.
        unsafe { stream.upload(region.as_ptr(), 8 * MIB, &memory, 0) }.unwrap();
        stream.synchronize().unwrap();
    }
    // Memory that the driver knows already.
    let mut region = CudaRegister::new(context.clone()).map(MIB, 1, 0).unwrap();
    region.seal().unwrap();
    assert!(DeviceMemory::new(&context, usize::MAX / 2).unwrap_err().code().is_some());
    DeviceMemory::new(&context, MIB).unwrap();
}

/// Field case 22: page-locked memory goes back to the system while the process lives.
#[cfg(target_os = "linux")]
#[test]
fn case_22_trimmed_memory_is_the_systems_again() {
    if !has_device() {
        return;
    }
    in_own_process("case_22_trimmed_memory_is_the_systems_again", || {
        let context = Context::retain(0).unwrap();
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
        };
        let (pool, budget, _ledger) = pool_over(CudaRegister::new(context), 2048 * MIB, |_| {});
        let baseline = resident();
        drop(pool.check_out(&layouts(&[512 * MIB; 2])).unwrap());
        assert!(resident() > baseline + 1000 * MIB);
        assert_eq!(pool.trim_all(), 1024 << 20);
        assert!(resident() < baseline + 100 * MIB, "{} {}", resident(), baseline);
        assert_eq!(budget.used(), 0);
    });
}

/// Field case 28: a process that ends with warm sets and copies in flight ends quietly.
#[test]
fn case_28_a_process_ends_quietly_with_everything_alive() {
    const NAME: &str = "case_28_a_process_ends_quietly_with_everything_alive";
    if !is_child() {
        if !has_device() {
            return;
        }
        let output = rerun(NAME, &[]);
        let shown = shown(&output);
        assert!(output.status.success() && shown.contains("all is out"), "{:?}: {shown}", output.status);
        for word in ["panicked", "shutting", "CUDA", "ERROR", "error"] {
            assert!(!shown.contains(word), "{shown}");
        }
        return;
    }
    static POOL: std::sync::Mutex<Option<prover_core::memory::pool::Pool>> = std::sync::Mutex::new(None);
    static LOG: std::sync::OnceLock<Warnings> = std::sync::OnceLock::new();
    extern "C" fn at_exit() {
        // Registered before the driver's own functions, so it runs after them.
        drop(POOL.lock().unwrap().take());
        for line in LOG.get().map(Warnings::lines).unwrap_or_default() {
            let _ = writeln!(std::io::stderr(), "ERROR: {line}");
        }
    }
    tracing::subscriber::set_global_default(LOG.get_or_init(Warnings::default).clone()).unwrap();
    // SAFETY: a function that may be called at exit.
    assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
    let context = Context::retain(0).unwrap();
    let (pool, _budget, _ledger) = pool_over(CudaRegister::new(context.clone()), 512 * MIB, |_| {});
    drop(pool.check_out(&layouts(&[64 * MIB])).unwrap());
    let stream = Stream::new(&context).unwrap();
    let memory = DeviceMemory::new(&context, 128 * MIB).unwrap();
    let set = pool.check_out(&layouts(&[128 * MIB])).unwrap();
    for _ in 0..8 {
        // SAFETY: the set is in flight until the fence has passed or the process ends.
        unsafe { stream.upload(set.as_ptr(0), 128 * MIB, &memory, 0) }.unwrap();
    }
    let _flying = set.in_flight(CudaFence::record(&stream).unwrap());
    *POOL.lock().unwrap() = Some(pool);
    println!("all is out");
    std::process::exit(0);
}

/// Field case 31: neither asking nor describing makes a context; a forked child is told at once.
#[test]
fn case_31_asking_makes_no_context_and_fork_is_told() {
    if !has_device() {
        return;
    }
    in_own_process("case_31_asking_makes_no_context_and_fork_is_told", || {
        let driver = Driver::get().unwrap();
        assert_eq!(driver.has_context(0), Ok(false));
        let context = Context::retain(0).unwrap();
        assert_eq!(driver.has_context(0), Ok(true));
        let region = CudaRegister::new(context.clone()).map(MIB, 1, 0).unwrap();
        // SAFETY: this thread alone goes on in the child, allocates at most, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let told = |error: CudaError| error.to_string().starts_with("CUDA used after fork");
            let both = Driver::get().is_err_and(told) && Stream::new(&context).is_err_and(told);
            drop(region);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if both { 42 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the child is ours, and the status may be written.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "{status:#x}");
        // The parent goes on.
        let (stream, memory) = (Stream::new(&context).unwrap(), DeviceMemory::new(&context, MIB).unwrap());
        // SAFETY: the region outlives the wait, and nobody writes to it.
        unsafe { stream.upload(region.as_ptr(), MIB, &memory, 0) }.unwrap();
        stream.synchronize().unwrap();
    });
}

/// Field case 44: `CUDA_VISIBLE_DEVICES` is the driver's to read, and hidden devices are a plain answer.
#[test]
fn case_44_hidden_and_chosen_devices() {
    const NAME: &str = "case_44_hidden_and_chosen_devices";
    if is_child() {
        let shown = match devices() {
            Ok(devices) => {
                let ids: Vec<_> = devices.into_iter().map(|device| device.uuid).collect();
                format!("shown=[{}]", ids.join(","))
            }
            Err(error) => format!("{} absent={}", error, error.is_absence()),
        };
        return println!("{shown}");
    }
    if !has_device() {
        return;
    }
    let all: Vec<String> = devices().unwrap().into_iter().map(|device| device.uuid).collect();
    let with = |value: &str| shown(&rerun(NAME, &[("CUDA_VISIBLE_DEVICES", value)]));
    for value in ["", "-1", "99", "GPU-00000000-0000-0000-0000-000000000000"] {
        let shown = with(value);
        let expected = format!("no CUDA device: the driver shows none (CUDA_VISIBLE_DEVICES={value:?}");
        assert!(shown.contains(&expected) && shown.contains("absent=true"), "{value:?}: {shown}");
    }
    if std::env::var_os("CUDA_VISIBLE_DEVICES").is_none() {
        assert!(with("0").contains(&format!("shown=[{}]", all[0])));
        assert!(with(&all[0]).contains(&format!("shown=[{}]", all[0])), "{}", with(&all[0]));
        if all.len() > 1 {
            assert!(with("1,0").contains(&format!("shown=[{},{}]", all[1], all[0])));
        }
    }
}
