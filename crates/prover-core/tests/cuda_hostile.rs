//! The backends of a device over a driver that keeps books and fails when told to. Needs no device.
#![cfg(all(unix, not(loom)))]

mod memory_support;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;

use memory_support::driver::{HostileDriver, DEINITIALIZED, ILLEGAL_ADDRESS, OUT_OF_MEMORY};
use memory_support::log::Warnings;
use memory_support::suite::{behaves, bytes, bytes_mut};
use memory_support::*;
use pinned_alloc::{AllocError, Residency};
use prover_core::memory::backend::{Backend, CudaHostAlloc, CudaRegister, Region, HUGE_PAGE, PAGE};
use prover_core::memory::pool::Exhaustion;

const SET: [usize; 4] = [MIB, MIB, MIB, MIB / 2];
const SET_BYTES: u64 = (3 * MIB + MIB / 2) as u64;

fn register() -> (CudaRegister, Arc<HostileDriver>) {
    let driver = HostileDriver::new();
    (CudaRegister::with_registrar(driver.clone()), driver)
}

fn clean(driver: &HostileDriver) {
    assert_eq!((driver.held(), driver.wrong.load(SeqCst)), (0, 0));
}

#[test]
fn the_behaviour_suite() {
    let driver = HostileDriver::new();
    for backend in driver.backends() {
        assert_eq!(backend.residency(), Residency::Pinned);
        behaves(&*backend);
        clean(&driver);
    }
}

#[test]
fn growth_registers_the_new_piece_and_sealing_makes_it_one() {
    let (backend, driver) = register();
    let mut region = backend.map(HUGE_PAGE, 32, 1 << 30).unwrap();
    for (pieces, size) in [(1, 2 * MIB), (2, 4 * MIB), (3, 6 * MIB)] {
        region.grow(size).unwrap();
        assert_eq!((driver.registrations(), driver.held()), (pieces, size));
        assert_eq!(region.residency(), Residency::Pinned);
    }
    for _ in 0..2 {
        assert_eq!(region.seal(), Ok(Residency::Pinned));
        assert_eq!((driver.registrations(), driver.held()), (1, 6 * MIB));
    }
    let calls = driver.calls();
    region.seal().unwrap();
    assert_eq!(driver.calls(), calls, "what is one already costs no call");
    drop(region);
    clean(&driver);
}

#[test]
fn the_drivers_own_memory_does_not_grow_in_place() {
    let driver = HostileDriver::new();
    let backend = CudaHostAlloc::with_registrar(driver.clone());
    let mut region = backend.map(MIB, 32, 1 << 30).unwrap();
    assert_eq!(region.reserved(), MIB);
    let error = region.grow(MIB + 1).unwrap_err();
    assert_eq!(error, AllocError::CannotGrow { size: MIB, requested: MIB + 1 });
    drop(region);
    clean(&driver);
}

/// map, grow, grow, seal, unpin, drop, with bytes in it.
fn life(backend: &dyn Backend) -> Result<(), AllocError> {
    let mut region = backend.map(MIB, 32, 64 * MIB)?;
    bytes_mut(&mut *region).fill(5);
    let outcome = live_on(&mut *region);
    assert!(bytes(&*region)[..MIB].iter().all(|byte| *byte == 5), "a failure costs no byte");
    outcome
}

fn live_on(region: &mut dyn Region) -> Result<(), AllocError> {
    for size in [2 * MIB, 4 * MIB] {
        let before = region.committed();
        if let Err(error) = region.grow(size) {
            assert_eq!(region.committed(), before, "a refused growth changes nothing");
            if !matches!(error, AllocError::CannotGrow { .. }) {
                return Err(error);
            }
        }
    }
    if let Err(error) = region.seal() {
        assert_eq!(region.residency(), Residency::Pageable, "what is not one registration is not pinned");
        // It is tried again before the next hand-over, and heals.
        assert_eq!(region.seal(), Ok(Residency::Pinned));
        return Err(error);
    }
    region.unpin()
}

#[test]
fn every_call_of_the_driver_may_fail() {
    let driver = HostileDriver::new();
    for backend in driver.backends() {
        let mut failures = 0;
        for n in 1.. {
            driver.fail(n, n, OUT_OF_MEMORY);
            let outcome = life(&*backend);
            let calls = driver.calls();
            driver.behave();
            if let Err(error) = &outcome {
                let AllocError::Refused { requested, cause } = error else { panic!("call {n}: {error}") };
                assert!(*requested >= MIB && cause.call.starts_with("cuMem"), "{error}");
            }
            failures += usize::from(outcome.is_err());
            assert_eq!(driver.wrong.load(SeqCst), 0, "{}: call {n}", backend.name());
            if calls < n {
                outcome.unwrap();
                break;
            }
            // A region that the driver did not let go of in its drop stays, and is what is still held.
            if driver.held() > 0 {
                assert!(driver.held() <= 4 * MIB);
                driver.forget();
            }
        }
        // map, two growths, three unregistrations and one registration of the seal, one unregistration of the unpin.
        assert!(failures == if backend.name() == "cuda-register" { 8 } else { 1 }, "{failures}");
        life(&*backend).unwrap();
        clean(&driver);
    }
}

#[test]
fn pages_that_the_driver_holds_are_never_unmapped() {
    let (backend, driver) = register();
    let mut region = backend.map(MIB, 32, 0).unwrap();
    bytes_mut(&mut *region).fill(7);
    let first = region.as_ptr();
    driver.fail(1, 1, ILLEGAL_ADDRESS);
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || drop(region));
    assert_eq!(warnings.lines().len(), 1, "{:?}", warnings.lines());
    assert_eq!(driver.held(), MIB);
    // SAFETY: the driver did not let go of the page, so it was not unmapped; nobody else knows it.
    assert_eq!(unsafe { first.read() }, 7);
}

/// 23: the driver refuses from call k on: a set is had whole or not at all, and ordinary memory is used.
#[test]
fn case_23_refused_locks_leave_no_half_sets() {
    for k in 1..=6 {
        for index in 0..2 {
            let driver = HostileDriver::new();
            let [register, alloc] = driver.backends();
            let backend = if index == 0 { register } else { alloc };
            let (pool, budget, _ledger) =
                pool_over_boxed(backend, 64 * MIB, |config| config.exhaustion = Exhaustion::Heap);
            driver.fail(k, u64::MAX, OUT_OF_MEMORY);
            let first = pool.check_out(&layouts(&SET));
            match &first {
                Ok(set) => assert!(k > 4 && (0..4).all(|i| set.residency(i) == Residency::Pinned)),
                Err(error) => {
                    let shown = error.to_string();
                    for part in
                        ["host memory (system RAM)", "CUDA_ERROR_OUT_OF_MEMORY", "--memory-backend pages"]
                    {
                        assert!(shown.contains(part), "{shown}");
                    }
                    assert!(k <= 4, "{error}");
                }
            }
            driver.behave();
            drop(first);
            let again = pool.check_out(&layouts(&SET)).unwrap();
            assert_eq!(budget.used(), pool.stats().mapped_bytes);
            drop(again);
            pool.trim_all();
            // What could not be unregistered while the driver refused everything is all that may be held.
            assert_eq!((budget.used(), driver.wrong.load(SeqCst)), (0, 0));
        }
    }
}

/// 24: the text of a huge refused request is about host memory, with bytes, number and knob, and nothing sticks.
#[test]
fn case_24_the_error_is_about_host_memory_and_does_not_stick() {
    let (backend, driver) = register();
    driver.refuse_above(64 * MIB);
    let error = backend.map(65 * MIB, 32, 0).unwrap_err();
    let AllocError::Refused { requested, cause } = &error else { panic!("{error}") };
    assert_eq!((*requested, cause.call, cause.code), (66 * MIB, "cuMemHostRegister", OUT_OF_MEMORY));
    let shown = error.to_string();
    for part in ["host memory (system RAM)", "69206016", "error 2", "--pinned-max", "ulimit -l"] {
        assert!(shown.contains(part), "{shown}");
    }
    drop(backend.map(64 * MIB, 32, 0).unwrap());
    clean(&driver);
}

/// 25: no registration of 512 GiB is tried (or faulted in); tiny blocks are few registrations.
#[test]
fn case_25_neither_one_huge_nor_many_tiny_registrations() {
    let driver = HostileDriver::new();
    for backend in driver.backends() {
        let error = backend.map(512 << 30, 32, 0).unwrap_err().to_string();
        assert!(error.contains("less than 512 GiB") && error.contains("--memory-backend pages"), "{error}");
    }
    assert_eq!(driver.calls(), 0);
    let (backend, driver) = register();
    assert!(backend.map(MIB, 32, 1 << 40).unwrap().reserved() < 512 << 30, "growth cannot get there either");
    let (pool, _budget, _ledger) = pool_over(backend, 256 * MIB, |_| {});
    let before = driver.calls();
    let sets: Vec<_> = (0..70_000usize).map(|i| pool.check_out(&layouts(&[1 + i % 1000])).unwrap()).collect();
    assert!(driver.calls() - before < 50, "{}", driver.calls());
    drop(sets);
    drop(pool);
    clean(&driver);
}

/// 28: at the end of the process the driver is shut down before the last block goes: silence.
#[test]
fn case_28_a_driver_that_is_shut_down_is_nothing_to_talk_about() {
    let driver = HostileDriver::new();
    for backend in driver.backends() {
        let (pool, budget, _ledger) = pool_over_boxed(backend, 64 * MIB, |_| {});
        drop(pool.check_out(&layouts(&SET)).unwrap());
        driver.fail(1, u64::MAX, DEINITIALIZED);
        let log = Warnings::default();
        tracing::subscriber::with_default(log.clone(), || drop(pool));
        assert_eq!(log.lines(), Vec::<String>::new());
        assert_eq!(budget.used(), 0);
        driver.behave();
        driver.forget();
    }
}

/// 29: trimming, growing and sealing at the same time by several threads: the driver's books agree.
#[test]
fn case_29_several_threads_and_a_trimmer() {
    let (backend, driver) = register();
    let (pool, budget, _ledger) =
        pool_over(backend, 64 * MIB, |config| config.exhaustion = Exhaustion::Wait(LONG));
    std::thread::scope(|scope| {
        for worker in 0..4usize {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..25usize {
                    let mut set = pool.check_out(&layouts(&SET)).unwrap();
                    // Room for all four workers' growth.
                    set.grow(3, MIB + (worker + round) % 2 * PAGE).unwrap();
                    set.seal().unwrap();
                    let fence = TestFence::new();
                    fence.signal(Signal::Passed);
                    drop(set.in_flight(fence));
                    pool.trim_all();
                }
            });
        }
    });
    assert_eq!(budget.used(), pool.stats().mapped_bytes);
    drop(pool);
    assert_eq!(budget.used(), 0);
    clean(&driver);
}

/// A failed fence takes the set away from the device; a driver that does not even let go costs the memory only.
#[test]
fn quarantine_unregisters_or_keeps_for_good() {
    for lets_go in [true, false] {
        let (backend, driver) = register();
        let (pool, budget, _ledger) = pool_over(backend, 64 * MIB, |_| {});
        let set = pool.check_out(&layouts(&SET)).unwrap();
        let fence = TestFence::new();
        let flying = set.in_flight(fence.clone());
        fence.signal(Signal::Failed);
        if !lets_go {
            driver.fail(1, u64::MAX, ILLEGAL_ADDRESS);
        }
        let quarantined = flying.wait().unwrap_err();
        driver.behave();
        assert_eq!(quarantined.bytes, SET_BYTES);
        assert_eq!(driver.held(), if lets_go { 0 } else { SET_BYTES as usize });
        assert_eq!((budget.used(), pool.stats().quarantined_bytes), (SET_BYTES, SET_BYTES));
        let next = pool.check_out(&layouts(&SET)).unwrap();
        assert!((0..4).all(|i| next.residency(i) == Residency::Pinned), "the pool goes on");
    }
}

/// 31: a forked child neither proves in its parent's pool nor frees its parent's blocks.
#[test]
fn case_31_a_forked_child_answers_at_once_and_frees_nothing() {
    let (backend, driver) = register();
    let region = backend.map(MIB, 32, 0).unwrap();
    let (pool, _budget, _ledger) = pool_over(backend, 64 * MIB, |_| {});
    let mut set = pool.check_out(&layouts(&SET)).unwrap();
    set.bytes_mut(0)[0] = 9;
    drop(pool.check_out(&layouts(&SET)).unwrap());
    let calls = driver.calls();
    // SAFETY: this thread alone goes on in the child. What it does there allocates, which glibc allows after fork, and
    // takes locks that no other thread of this test holds; then it ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(
            pool.check_out(&layouts(&SET)),
            Err(error) if error.to_string().contains("CUDA used after fork")
        );
        let here = region.is_here();
        // Neither wipes, unregisters nor unmaps: any of them would end the child by a signal, or show in the books.
        drop(region);
        drop(set);
        let untouched = driver.calls() == calls;
        let code = match (refused, here, untouched) {
            (true, false, true) => 42,
            (false, ..) => 1,
            (_, true, _) => 2,
            _ => 3,
        };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and the status may be written.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "{status:#x}");
    assert_eq!((bytes(&*region)[0], set.bytes(0)[0]), (0, 9), "the parent has everything");
    drop((region, set, pool));
    clean(&driver);
}
