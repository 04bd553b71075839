//! A device that fails: at each of its calls in turn, for once and for good, and with a wrong answer. Always an error and never
//! an abort, nothing is lost, and the next proof is right. The CUDA calls of the kernels' library fail on purpose
//! ([`prover_core::prover::fault`]); those of the memory's driver do in `cuda_hostile.rs`.

use std::sync::OnceLock;

use bellperson::groth16::Parameters;
use blstrs::{Bls12, Scalar};
use pinprover::circuits::{BuiltIn, Family, Size};
use pinprover_tests::oracle::{blinding, bytes, upstream_proof};
use prover_core::prover::fault::{calls, flip_bit_of_next_sum, Fault};
use prover_core::{ProveError, Proven, ProverChoice};
use rand_core::OsRng;

use super::support::{device, device_with, key, on_device, Device};

/// CUDA's numbers: no memory, and two after which a context is of no more use.
const OUT_OF_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;

fn circuit() -> BuiltIn {
    BuiltIn::new(Family::Mixed, Size::Constraints(1 << 11)).expect("a size it has")
}

struct Case {
    params: Parameters<Bls12>,
    expected: Vec<u8>,
}

/// The key, and upstream's proof.
fn case() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| {
        let params = key(&circuit().circuit::<Scalar>(), 77);
        let instance = circuit().instance::<Scalar>(&mut rng());
        let expected = upstream_proof(instance.circuit, &params, blinding(77)).to_vec();
        Case { params, expected }
    })
}

fn rng() -> rand_chacha::ChaCha8Rng {
    <rand_chacha::ChaCha8Rng as rand_core::SeedableRng>::seed_from_u64(77)
}

impl Device {
    fn try_prove(&self) -> Result<Proven, ProveError> {
        let instance = circuit().instance::<Scalar>(&mut rng());
        let (r, s) = blinding(77);
        self.guard.prove(instance.circuit, &case().params, r, s)
    }

    fn proves(&self, what: &str) -> Proven {
        let proven = self.try_prove().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(bytes(&proven.proof).to_vec(), case().expected, "{what}");
        proven
    }

    /// All memory is back, but for what may be kept from a device that failed.
    fn at_rest(&self, what: &str) {
        let stats = self.guard.pool_stats().expect("a pool");
        assert_eq!((stats.out_bytes, stats.in_flight_bytes), (0, 0), "{what}: {stats:?}");
        assert_eq!(self.guard.budget().used(), stats.mapped_bytes, "{what}");
        assert!(self.guard.devices().iter().all(|device| device.busy == 0), "{what}");
    }
}

/// Field case 1.
#[test]
fn a_flipped_bit_in_a_sum_gives_an_error_and_no_proof() {
    let Some(device) = device() else { return };
    // In X, Y and Z, low and high.
    for bit in [0, 1, 379, 384, 500, 768, 1100] {
        flip_bit_of_next_sum(bit);
        let error = device.try_prove().expect_err("one bit is wrong");
        assert!(error.is_self_check(), "bit {bit}: {error}");
        assert!(error.to_string().contains("self-check failed"), "{error}");
        on_device(&device.proves("the next one").report);
    }
    // The other half of the case: 50 proofs of one statement, all of which verify.
    for _ in 0..50 {
        let instance = circuit().instance::<Scalar>(&mut rng());
        let (r, s) = (ff::Field::random(OsRng), ff::Field::random(OsRng));
        on_device(
            &device.guard.prove(instance.circuit, &case().params, r, s).expect("a checked proof").report,
        );
    }
    device.at_rest("in the end");
}

/// Field case 41.
#[test]
fn each_call_can_fail_and_nothing_is_lost() {
    let Some(device) = device() else { return };
    device.proves("at first");
    let before = calls();
    device.proves("once more");
    let all = u32::try_from(calls() - before).expect("a proof makes fewer calls");
    assert!(all > 50, "the calls are counted: {all}");
    let mut failed = 0;
    for nth in 1..=all {
        let fault = Fault::inject(nth, OUT_OF_MEMORY, false);
        let result = device.try_prove();
        drop(fault);
        if let Err(error) = result {
            failed += 1;
            assert!(error.is_device_failure(), "call {nth}: {error}");
        }
        device.at_rest(&format!("call {nth}"));
        if nth % 8 == 0 {
            on_device(&device.proves(&format!("after call {nth} failed")).report);
        }
    }
    println!("{all} calls a proof, {failed} of which fail it");
    // Some are looked over, for instance those that only ask whether memory is free.
    assert!(failed * 10 >= all * 8, "{failed} of {all}");
    assert!(device.guard.devices()[0].lost.is_none(), "a lack of memory is no loss");
    on_device(&device.proves("in the end").report);
}

/// Field case 40.
#[test]
fn a_sticky_error_takes_the_device_out() {
    let all = {
        let Some(device) = device() else { return };
        device.proves("at first");
        let before = calls();
        device.proves("once more");
        u32::try_from(calls() - before).expect("a proof makes fewer calls")
    };
    // From begin to end, some calls each time; a new prover for each, since the device is lost to the old one.
    for (round, nth) in (1..=all).step_by(usize::try_from(all / 6).expect("small").max(1)).enumerate() {
        let for_good = round % 2 == 0;
        let code = if for_good { ILLEGAL_ADDRESS } else { LAUNCH_FAILED };
        let Some(device) = device() else { return };
        device.proves("before");
        let fault = Fault::inject(nth, code, for_good);
        let error = device.try_prove().expect_err("the device fails");
        assert!(error.is_device_failure() && !error.is_self_check(), "call {nth}: {error}");
        let status = device.guard.devices();
        assert!(
            status[0].lost.is_some() && error.to_string().contains(&status[0].name),
            "call {nth}: {error}"
        );
        let again = device.try_prove().expect_err("it gets no more work");
        assert!(again.to_string().contains("failed earlier"), "call {nth}: {again}");
        drop(fault);
        let again = device.try_prove().expect_err("not even when it would work");
        assert!(again.is_device_failure(), "{again}");
        device.at_rest(&format!("call {nth}"));
    }
    // With the CPU to stand in, the job that was on the device may be lost, later ones are not.
    let change = |config: &mut prover_core::Config| {
        config.prover = ProverChoice::Auto;
        config.cpu_fallback = true;
    };
    let Some(device) = device_with(change) else { return };
    assert_eq!(device.proves("before").report.prover, "gpu");
    let fault = Fault::inject(all / 2, ILLEGAL_ADDRESS, true);
    let _ = device.try_prove();
    for _ in 0..3 {
        assert_eq!(device.proves("the CPU stands in").report.prover, "cpu");
    }
    drop(fault);
    assert!(device.guard.devices()[0].lost.is_some());
}

#[test]
fn a_fault_while_the_key_is_loaded() {
    // The first proof of a prover makes the slot, its workspace, and the copy of the key.
    let first = |nth: u32| -> Option<u32> {
        let device = device()?;
        let before = calls();
        let fault = Fault::inject(nth, OUT_OF_MEMORY, false);
        let result = device.try_prove();
        drop(fault);
        let made = u32::try_from(calls() - before).expect("few");
        if let Err(error) = result {
            assert!(error.is_device_failure(), "call {nth}: {error}");
        }
        device.at_rest(&format!("call {nth}"));
        on_device(&device.proves(&format!("after call {nth}")).report);
        Some(made)
    };
    let Some(all) = first(u32::MAX) else { return };
    for nth in (1..=all).step_by(usize::try_from(all / 12).expect("small").max(1)) {
        first(nth);
    }
}
