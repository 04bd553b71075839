//! Cases from the field on a device: what goes wrong after hours, without memory, with hidden devices, and when proofs are given
//! up. About 45 s on an H200, of which the soak takes 15 s. Faults of the device itself are in `faults.rs`.
//!
//! Without a device a test says `skipped: no CUDA device`, which is not the same as having passed.

use std::alloc::Layout;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellperson::groth16::{
    prepare_verifying_key, synthesize_with, verify_proof, MemoryPolicy, Parameters, ProvingAssignment,
    SynthesisOptions,
};
use blstrs::{Bls12, Scalar};
use ff::Field;
use pinprover::circuits::{BuiltIn, Family, Instance, Size};
use pinprover_tests::oracle::blinding;
use pinprover_tests::process::{is_child, rerun, shown};
use pinprover_tests::trapdoor::{assert_proof, Trapdoor};
use prover_core::cuda::{devices, DeviceSelector};
use prover_core::prover::GpuFixedBase;
use prover_core::setup::{CpuFixedBase, FixedBase};
use prover_core::size::format_size;
use prover_core::{init, Config, Guard, InitError, ProofReport, ProveError, Proven, ProverChoice};
use prover_cuda::device::{Buffer, Device};
use prover_cuda::error::Kind;
use prover_cuda::key::{Key, Query};
use prover_cuda::slot::{workspace_bytes, Assignment, Shape, Slot, Views};
use rand_chacha::ChaCha8Rng;
use rand_core::{OsRng, SeedableRng};

use super::support::{alone, config, device, device_with, on_device};

const MIB: u64 = 1 << 20;

/// A circuit with its witness, its key, and what its proofs must be.
struct Statement {
    trapdoor: Trapdoor,
    params: Parameters<Bls12>,
    instance: Instance<Scalar>,
}

impl Statement {
    /// A mixed circuit with so many rows.
    fn new(rows: usize, points: &dyn FixedBase) -> Self {
        let built = BuiltIn::new(Family::Mixed, Size::Constraints(rows)).expect("a size that exists");
        let trapdoor = Trapdoor::new(rows as u64);
        let params = trapdoor.key(|| built.circuit::<Scalar>(), None, points);
        Self { trapdoor, params, instance: built.instance(&mut ChaCha8Rng::seed_from_u64(rows as u64)) }
    }

    fn assignment(&self, memory: MemoryPolicy) -> ProvingAssignment<Scalar> {
        let options = SynthesisOptions::default().memory(memory);
        synthesize_with(self.instance.circuit.clone(), options).expect("a witness")
    }

    /// What the proof must be.
    fn expected(&self, blinding: (Scalar, Scalar)) -> Vec<u8> {
        self.trapdoor.proof(&self.assignment(MemoryPolicy::Heap), &self.params.vk, blinding)
    }

    fn try_prove(&self, guard: &Guard, (r, s): (Scalar, Scalar)) -> Result<Proven, ProveError> {
        guard.prove(self.instance.circuit.clone(), &self.params, r, s)
    }

    /// Makes a proof, which is right.
    fn prove(&self, guard: &Guard, what: &str) -> ProofReport {
        let blinding = blinding(what.len() as u64);
        let proven = self.try_prove(guard, blinding).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_proof(&proven.proof, &self.expected(blinding), what);
        proven.report
    }
}

/// All memory is back, and no device is busy.
fn at_rest(guard: &Guard, what: &str) {
    let stats = guard.pool_stats().expect("a pool");
    let out = (stats.out_bytes, stats.in_flight_bytes, stats.quarantined_bytes, stats.requested_bytes);
    assert_eq!(out, (0, 0, 0, 0), "{what}: {stats:?}");
    assert_eq!(guard.budget().used(), stats.mapped_bytes, "{what}: {stats:?}");
    assert!(guard.devices().iter().all(|device| device.busy == 0), "{what}: {:?}", guard.devices());
}

/// The first device, for what only the kernels' library can do.
fn opened() -> Device {
    Device::open(&[0]).expect("a device")[0]
}

fn free(device: Device) -> u64 {
    device.memory().expect("the device's memory").0
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2,
        _ => sorted[middle],
    }
}

/// Field case 5: big, small and bigger by turns, for long. About 15 s.
#[test]
fn case_5_two_hundred_proofs_neither_slow_down_nor_grow() {
    const WARM_UP: usize = 12;
    const PROOFS: usize = 200;
    let Some(device) = device() else { return };
    let guard = &device.guard;
    let points = GpuFixedBase::new(&DeviceSelector::Ordinal(0)).expect("the device can be used");
    let sizes = [1 << 16, 1 << 12, 1 << 18];
    let statements = sizes.map(|rows| Statement::new(rows, &points));
    let verifiers = [0, 1, 2].map(|i: usize| prepare_verifying_key(&statements[i].params.vk));
    for round in 0..WARM_UP {
        on_device(&statements[round % 3].prove(guard, "a warm-up"));
    }

    let gpu = opened();
    let level = || {
        let stats = guard.pool_stats().expect("a pool");
        (stats.mapped_bytes, stats.peak_bytes, stats.maps, stats.growths, guard.budget().used())
    };
    let (level_before, free_before) = (level(), free(gpu));
    let (mut least_free, mut most_free) = (free_before, free_before);
    let mut proving: [Vec<Duration>; 3] = Default::default();
    let mut whole: [Vec<Duration>; 3] = Default::default();
    for round in 0..PROOFS {
        let which = round % 3;
        let statement = &statements[which];
        let begun = Instant::now();
        let proven = statement.try_prove(guard, (Scalar::random(OsRng), Scalar::random(OsRng)));
        let took = begun.elapsed();
        let proven = proven.unwrap_or_else(|error| panic!("proof {round}: {error}"));
        on_device(&proven.report);
        assert!(
            !proven.report.device.as_ref().is_some_and(|device| device.key_loaded),
            "proof {round}: the key was there"
        );
        let verdict = verify_proof(&verifiers[which], &proven.proof, &statement.instance.public);
        assert!(verdict.is_ok_and(|valid| valid), "proof {round} does not verify");
        proving[which].push(proven.report.phases.prove);
        whole[which].push(took);
        let free = free(gpu);
        (least_free, most_free) = (least_free.min(free), most_free.max(free));
    }
    at_rest(guard, "in the end");
    println!(
        "device memory free: {free_before} at first, {least_free} to {most_free} meanwhile; the pool: {:?}",
        level()
    );
    let mut slower = Vec::new();
    for (which, rows) in sizes.into_iter().enumerate() {
        // The synthesis is the CPU's, which may be busy with other things: it has more room.
        for (what, times, percent, floor) in
            [("proof on the device", &proving[which], 110, 1), ("synthesis to check", &whole[which], 130, 5)]
        {
            let third = times.len() / 3;
            let (first, last) = (median(&times[..third]), median(&times[times.len() - third..]));
            println!("{rows} rows, {what}: median of the first third {first:?}, of the last {last:?}");
            if last > first * percent / 100 + Duration::from_millis(floor) {
                slower.push(format!("{rows} rows, {what}: {first:?} became {last:?}"));
            }
        }
    }
    assert!(slower.is_empty(), "slower with age: {slower:?}");
    assert_eq!(level(), level_before, "mapped, peak, maps, growths and budget stay after the warm-up");
    // The driver works in pieces of 2 MiB.
    let drift = (free_before - least_free).max(most_free - free_before);
    assert!(
        drift <= 4 * MIB,
        "device memory: {free_before} bytes free at first, {least_free} to {most_free} later"
    );
}

/// Field case 7, with proofs: as soon as a proof's vectors are back in the pool somebody else fills them, while the device
/// computes. About 4 s.
#[test]
fn case_7_a_neighbour_overwrites_the_pool_while_proofs_are_made() {
    let Some(device) = device() else { return };
    let guard = &device.guard;
    let statement = Statement::new(1 << 14, &CpuFixedBase::new());
    let blinding = blinding(7);
    let expected = statement.expected(blinding);
    let pool = guard.pool().expect("a pool");
    let layouts = [Layout::from_size_align(32 << 14, 32).expect("a layout"); 4];
    let (over, filled) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = OnDrop(|| over.store(true, Ordering::Relaxed));
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Ok(mut set) = pool.check_out(&layouts) {
                    (0..set.len()).for_each(|i| set.bytes_mut(i).fill(0xff));
                    filled.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for round in 0..100 {
            let proven = statement.try_prove(guard, blinding);
            let proven = proven.unwrap_or_else(|error| panic!("proof {round}: {error}"));
            assert_proof(&proven.proof, &expected, &format!("proof {round}"));
            on_device(&proven.report);
        }
    });
    let filled = filled.into_inner();
    println!("100 proofs while sets were filled {filled} times");
    assert!(filled >= 100, "the neighbour was there: {filled}");
    at_rest(guard, "in the end");
}

/// Calls it at the end of a block, also after a panic.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// An assignment that the device may be reading.
struct Held(ProvingAssignment<Scalar>);

/// # Safety
/// `A` is `B`, or a transparent wrapper of it, or both are integers of one size.
unsafe fn cast<A, B>(values: &[A]) -> &[B] {
    const { assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>()) };
    // SAFETY: the caller's promise; size and alignment are equal, and so is the length.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

// SAFETY: the vectors lie in blocks of the pool, where a move of the assignment leaves them, and nothing changes them through
// this wrapper.
unsafe impl Assignment for Held {
    fn views(&self) -> Views<'_> {
        let Self(of) = self;
        // SAFETY: `Scalar` is a transparent wrapper of `blst_fr`; words of 64 bits are words of 64 bits.
        unsafe {
            Views {
                a: cast(of.a()),
                b: cast(of.b()),
                c: cast(of.c()),
                aux: cast(of.aux_assignment()),
                inputs: cast(of.input_assignment()),
                a_aux_density: cast(of.a_aux_density().bv.as_raw_slice()),
                b_input_density: cast(of.b_input_density().bv.as_raw_slice()),
                b_aux_density: cast(of.b_aux_density().bv.as_raw_slice()),
            }
        }
    }
}

fn device_shape(assignment: &ProvingAssignment<Scalar>) -> Shape {
    let shape = assignment.shape();
    Shape {
        rows: shape.constraints,
        log_domain: shape.domain_size().ilog2(),
        inputs: shape.inputs,
        aux: shape.aux,
        a_aux: assignment.a_aux_density().get_total_density(),
        b_inputs: assignment.b_input_density().get_total_density(),
        b_aux: assignment.b_aux_density().get_total_density(),
    }
}

fn key_on(device: Device, params: &Parameters<Bls12>) -> Key {
    // SAFETY: the points of blstrs are transparent wrappers of blst's.
    unsafe {
        let g1 = |points: &[_]| Query::upload(device, &[cast(points)], |_| true).expect("room for the key");
        let b_g2 = Query::upload(device, &[cast(&params.b_g2)], |_| true).expect("room for the key");
        Key { h: g1(&params.h), l: g1(&params.l), a: g1(&params.a), b_g1: g1(&params.b_g1), b_g2 }
    }
}

/// Field case 8: proofs that are dropped at each stage. About 3 s.
#[test]
fn case_8_an_abandoned_proof_gives_everything_back() {
    const ROUNDS: usize = 30;
    let Some(device) = device() else { return };
    let guard = &device.guard;
    let statement = Statement::new(1 << 14, &CpuFixedBase::new());
    on_device(&statement.prove(guard, "before"));
    at_rest(guard, "before");
    let gpu = opened();
    let key = Arc::new(key_on(gpu, &statement.params));
    let mut settled = 0;
    let mut workspace = 0;
    for round in 0..ROUNDS {
        let what = format!("round {round}");
        let assignment = statement.assignment(MemoryPolicy::RequireRegistered);
        let shape = device_shape(&assignment);
        let mut slot = Slot::new(gpu).expect("a slot");
        slot.reserve(workspace_bytes(gpu, shape, &key).expect("a plan")).expect("room for a proof");
        workspace = slot.workspace();
        let begun = slot.begin(shape, key.clone(), Held(assignment));
        let mut uploading = begun.map_err(|failed| failed.error).expect("the upload begins");
        match round % 3 {
            // The copies are enqueued: whoever drops it waits for them.
            0 => drop(uploading),
            1 => {
                uploading.run().expect("the kernels are enqueued");
                drop(uploading);
            }
            _ => {
                uploading.run().expect("the kernels are enqueued");
                let uploaded = uploading.uploaded().map_err(|failed| failed.error);
                let (computing, Held(assignment)) = uploaded.expect("the upload ends");
                drop(assignment);
                at_rest(guard, &what);
                drop(computing);
            }
        }
        at_rest(guard, &what);
        // Whoever has the memory next may write to it at once.
        let layout = Layout::from_size_align(32 * shape.rows, 32).expect("a layout");
        let mut set = guard.pool().expect("a pool").check_out(&[layout; 4]).expect("the same blocks");
        (0..set.len()).for_each(|i| set.bytes_mut(i).fill(0xff));
        drop(set);
        if round == 2 {
            settled = free(gpu);
        }
    }
    assert_eq!(Arc::strong_count(&key), 1, "nothing holds the key");
    let left = free(gpu);
    println!("{ROUNDS} proofs given up, a workspace of {workspace} bytes each; device memory free: {settled}, then {left}");
    assert!(left + 4 * MIB >= settled, "{settled} bytes of device memory were free, now {left}");
    drop(key);
    on_device(&statement.prove(guard, "after all of that"));
    at_rest(guard, "after");
}

/// Field case 24: host memory is refused as host memory, and nothing sticks. About 1 s.
#[test]
fn case_24_a_terabyte_of_pinned_memory_is_refused_and_the_next_proof_is_made() {
    const TEBIBYTE: usize = 1 << 40;
    // Refused by the budget, or where the budget has it by the backend.
    for (budget, knob) in [(None, "--memory-budget"), (Some(4 << 40), "--memory-backend")] {
        let Some(device) = device_with(|config| config.memory_budget = budget) else { return };
        let guard = &device.guard;
        let statement = Statement::new(1 << 12, &CpuFixedBase::new());
        let pool = guard.pool().expect("a pool");
        // Pages that nobody locks would be faulted in until the system ends the process.
        assert_eq!(pool.backend_name(), "cuda-register", "this backend knows what no driver takes");
        let layout = Layout::from_size_align(TEBIBYTE, 32).expect("a layout");
        let error = pool.check_out(&[layout]).map(|_| ()).expect_err("a tebibyte").to_string();
        println!("budget {budget:?}: {error}");
        for part in ["host memory (system RAM)", "1099511627776", knob] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
        at_rest(guard, "after the refusal");
        on_device(&statement.prove(guard, "the next one"));
        at_rest(guard, "after the proof");
    }
}

/// Field case 29, with proofs: the pool is trimmed in a loop while four threads prove. About 5 s.
#[test]
fn case_29_trimming_in_a_loop_does_not_stall_four_proofs() {
    let Some(device) = device() else { return };
    let guard = &device.guard;
    let statement = Statement::new(1 << 14, &CpuFixedBase::new());
    let blinding = blinding(29);
    let expected = statement.expected(blinding);
    let pool = guard.pool().expect("a pool");
    let measure = |trim: bool| -> (Vec<Duration>, u64) {
        let (over, trims) = (AtomicBool::new(false), AtomicU64::new(0));
        let times = std::thread::scope(|scope| {
            let _end = OnDrop(|| over.store(true, Ordering::Relaxed));
            if trim {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        trims.fetch_add(u64::from(pool.trim_all() > 0), Ordering::Relaxed);
                        std::thread::yield_now();
                    }
                });
            }
            let proofs = || {
                let once = || {
                    let begun = Instant::now();
                    let proven = statement.try_prove(guard, blinding).expect("a proof");
                    let took = begun.elapsed();
                    assert_proof(&proven.proof, &expected, "while the pool is trimmed");
                    took
                };
                (0..25).map(|_| once()).collect::<Vec<Duration>>()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(proofs)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("all proofs are right")).collect()
        });
        (times, trims.into_inner())
    };
    measure(false);
    let (calm, _) = measure(false);
    let (trimmed, trims) = measure(true);
    let worst = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    let (calm_median, trimmed_median) = (median(&calm), median(&trimmed));
    println!(
        "a proof: median {calm_median:?}, worst {:?}; while {trims} trims took memory away: median {trimmed_median:?}, worst {:?}",
        worst(&calm),
        worst(&trimmed)
    );
    assert!(trims > 0, "there was something to trim");
    // 20 ms: memory that is registered anew for each proof.
    assert!(
        trimmed_median <= calm_median * 2 + Duration::from_millis(20),
        "{calm_median:?} became {trimmed_median:?}"
    );
    assert!(
        worst(&trimmed) <= worst(&calm) * 2 + Duration::from_millis(500),
        "a proof waited {:?}",
        worst(&trimmed)
    );
    at_rest(guard, "in the end");
}

/// Takes the device's memory until so many bytes are left.
fn occupy(device: Device, leave: u64) -> Vec<Buffer> {
    let mut held = Vec::new();
    let mut piece = u64::MAX;
    loop {
        let excess = free(device).saturating_sub(leave);
        if excess < 4 * MIB {
            return held;
        }
        piece = piece.min(excess);
        match Buffer::new(device, piece) {
            Ok(buffer) => held.push(buffer),
            Err(error) if error.kind == Kind::OutOfMemory && piece > 4 * MIB => piece /= 2,
            Err(error) => panic!("{excess} bytes too many are free: {error}"),
        }
    }
}

const LEFT: u64 = 500_000_000;

/// Field case 33: with leave to, the CPU proves, and says so. About 5 s.
#[test]
fn case_33_without_device_memory_the_cpu_proves_if_it_may() {
    let change = |config: &mut Config| {
        config.prover = ProverChoice::Auto;
        config.cpu_fallback = true;
    };
    let Some(device) = device_with(change) else { return };
    let guard = &device.guard;
    let statement = Statement::new(1 << 13, &CpuFixedBase::new());
    // The prover opens its device when it first needs it, which is now.
    let held = occupy(opened(), LEFT);
    let occupied: u64 = held.iter().map(Buffer::bytes).sum();
    println!("{} of device memory taken, {} left", format_size(occupied), format_size(free(opened())));
    for what in ["no memory", "no memory still"] {
        let report = statement.prove(guard, what);
        assert_eq!((report.prover, report.device), ("cpu", None), "{what}");
        at_rest(guard, what);
    }
    drop(held);
    let lost = guard.devices()[0].lost.clone();
    assert_eq!(lost, None, "a lack of memory is no loss");
    let report = statement.prove(guard, "memory again");
    assert_eq!(report.prover, "gpu", "the device has memory again");
    on_device(&report);
}

/// Field case 33: without leave it is an error with the numbers, and no proof. About 5 s.
#[test]
fn case_33_without_device_memory_and_the_cpu_there_is_an_error_with_numbers() {
    for prover in [ProverChoice::Gpu, ProverChoice::Auto] {
        let Some(device) = device_with(|config| config.prover = prover) else { return };
        let guard = &device.guard;
        let statement = Statement::new(1 << 13, &CpuFixedBase::new());
        let held = occupy(opened(), LEFT);
        let error = statement.try_prove(guard, blinding(33)).expect_err("there is no memory for it");
        println!("{prover:?}, {} left: {error}", format_size(free(opened())));
        let text = error.to_string();
        for part in ["device memory", "more needed", "free", "--device-memory-max"] {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
        assert!(!error.is_out_of_memory(), "that is the host's memory: {text}");
        at_rest(guard, "after the error");
        assert_eq!(guard.reports().len(), 0, "no proof was made");
        drop(held);
        on_device(&statement.prove(guard, "memory again"));
    }
}

/// What a child of the next test does: says what it makes of the devices that it is shown.
fn with_what_is_shown() {
    let _alone = alone();
    let mut out = std::io::stdout();
    match init(config()) {
        Ok(guard) => writeln!(out, "insisting=ok {:?}", guard.devices().first().map(|d| &d.name)),
        Err(error) => writeln!(out, "insisting={error}"),
    }
    .expect("standard output");
    let guard = init(Config::default()).expect("the CPU is always there");
    let report = Statement::new(1 << 12, &CpuFixedBase::new()).prove(&guard, "whatever is shown");
    let ordinal = report.device.map(|device| device.ordinal);
    writeln!(out, "auto={} {ordinal:?} pinned={}", report.prover, report.memory.abc.pinned)
        .expect("standard output");
}

/// Field case 44: hidden devices are no devices, and a device by its UUID is that device. About 10 s.
#[test]
fn case_44_cuda_visible_devices() {
    const NAME: &str = "field::case_44_cuda_visible_devices";
    const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";
    if is_child() {
        return with_what_is_shown();
    }
    // Gives the device and the registry back before the children start.
    let Some(known) = device().map(|_| devices().expect("there is one")) else { return };
    let child = |value: &str| {
        let output = rerun(NAME, &[(VARIABLE, value)]);
        let shown = shown(&output);
        assert!(output.status.success(), "{VARIABLE}={value:?}: {shown}");
        shown
    };
    for hidden in ["", "-1", "99"] {
        let shown = child(hidden);
        for part in ["insisting=no proofs on a device: no CUDA device", "auto=cpu None pinned=false"] {
            assert!(shown.contains(part), "{VARIABLE}={hidden:?}: {part:?} is not in: {shown}");
        }
        assert!(shown.contains(&format!("{VARIABLE}={hidden:?}")), "the cause is named: {shown}");
    }
    // A number means another device where the variable is set already; a UUID does not.
    let mut chosen = vec![known[0].uuid.as_str()];
    if std::env::var_os(VARIABLE).is_none() {
        chosen.push("0");
    }
    for chosen in chosen {
        let shown = child(chosen);
        let insisting = format!("insisting=ok Some({:?})", known[0].name);
        for part in [insisting.as_str(), "auto=gpu Some(0) pinned=true"] {
            assert!(shown.contains(part), "{VARIABLE}={chosen}: {part:?} is not in: {shown}");
        }
    }
}

/// Field case 44: a device that is not there is answered with those that are; its UUID will do, too. About 2 s.
#[test]
fn case_44_a_wrong_number_is_answered_with_the_devices_there_are() {
    let Some(known) = device().map(|_| devices().expect("there is one")) else { return };
    let wrong = known.len() as u32 + 6;
    let unknown = "GPU-00000000-0000-0000-0000-000000000000";
    for selector in [DeviceSelector::Ordinal(wrong), DeviceSelector::Uuid(unknown.to_owned())] {
        // The guards of other tests take turns with this one.
        let _alone = alone();
        for cpu_fallback in [false, true] {
            let mut config = config();
            (config.devices, config.cpu_fallback) = (vec![selector.clone()], cpu_fallback);
            let error = init(config).map(|_| ()).expect_err("there is no such device");
            assert!(matches!(error, InitError::Devices(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("no CUDA device {selector}: there are 0 (")), "{text}");
            for device in &known {
                let entry = format!("{} ({}, {})", device.ordinal, device.name, device.uuid);
                assert!(text.contains(&entry), "{entry} is not in: {text}");
            }
        }
    }
    let by_uuid = vec![DeviceSelector::Uuid(known[0].uuid.clone())];
    let Some(device) = device_with(|config| config.devices = by_uuid) else { return };
    let report = Statement::new(1 << 12, &CpuFixedBase::new()).prove(&device.guard, "by its UUID");
    on_device(&report);
    assert_eq!(report.device.map(|device| device.ordinal), Some(0));
}

/// Field case 46: a small circuit is not slower for a device's being there. About 3 s.
#[test]
fn case_46_auto_is_not_slower_than_the_cpu_on_a_small_circuit() {
    const PROOFS: usize = 25;
    if device().is_none() {
        return;
    }
    let _alone = alone();
    let statement = Statement::new(1 << 8, &CpuFixedBase::new());
    let (mut cpu, mut auto) = (Vec::new(), Vec::new());
    let mut by = "";
    // By turns, so that what else the machine does is the same for both.
    for _ in 0..2 {
        for (choice, times) in [(ProverChoice::Cpu, &mut cpu), (ProverChoice::Auto, &mut auto)] {
            let mut config = Config::default();
            config.prover = choice;
            let guard = init(config).expect("the CPU is always there");
            statement.prove(&guard, "a warm-up");
            for _ in 0..PROOFS {
                let begun = Instant::now();
                let proven = statement.try_prove(&guard, (Scalar::random(OsRng), Scalar::random(OsRng)));
                times.push(begun.elapsed());
                by = proven.expect("a proof").report.prover;
            }
        }
    }
    let (cpu, auto) = (median(&cpu), median(&auto));
    println!("2^8 rows: {cpu:?} on the CPU, {auto:?} with a choice, which fell on the {by}");
    assert!(auto <= cpu * 2, "{auto:?} with a choice (the {by}), {cpu:?} on the CPU");
}
