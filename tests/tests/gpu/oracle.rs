//! Proofs of a device are upstream's, byte for byte. Runs where there is a device; elsewhere every test says that it is skipped.
//!
//! `GPU_MAX_LOG` raises the largest domain from 2^14.

use bellperson::groth16::{create_random_proof, prepare_verifying_key, verify_proof};
use blstrs::Scalar;
use ff::Field;
use pinprover::circuits::{BuiltIn, Family, Size};
use pinprover_tests::circuits::{RandomR1cs, Squarings};
use pinprover_tests::oracle::{assert_same, blinding, bytes, upstream_proof};
use rand_core::OsRng;

use super::support::{device, device_with, key, max_log, on_device, Device};

impl Device {
    /// All proofs so far were made on the device, in page-locked memory.
    fn check_reports(&self, least: usize) {
        let reports = self.guard.reports();
        assert!(reports.len() >= least, "{} reports", reports.len());
        for report in &reports {
            on_device(report);
            assert!(report.checked);
        }
    }
}

#[test]
fn edge_sizes() {
    let Some(device) = device() else { return };
    let mut lengths = vec![1, 2, 3, 6, 7, 29, 30, 31, 32, 33, 61, 62, 63, 509, 510, 511, 512, 513];
    for log in 10..=max_log() {
        lengths.extend([(1 << log) - 3, (1 << log) - 2, (1 << log) - 1, 1 << log]);
    }
    for length in &lengths {
        let circuit = Squarings { length: *length, start: Scalar::random(OsRng) };
        assert_same(circuit, &key(&circuit, 3), blinding(*length as u64));
    }
    device.check_reports(lengths.len());
}

#[test]
fn random_r1cs() {
    let Some(device) = device() else { return };
    for seed in 0..60 {
        let (inputs, free, products) =
            (seed as usize % 6, 1 + seed as usize * 7 % 40, seed as usize * 13 % 300);
        let circuit = RandomR1cs::new(seed, inputs, free, products, seed % 2 == 0);
        assert_same(circuit.clone(), &key(&circuit, seed), blinding(seed));
    }
    device.check_reports(60);
}

#[test]
fn witnesses_of_zeros_and_ones() {
    let Some(device) = device() else { return };
    for start in [Scalar::ZERO, Scalar::ONE, -Scalar::ONE] {
        for length in [5, 100, 5000] {
            let circuit = Squarings { length, start };
            assert_same(circuit, &key(&circuit, 5), blinding(5));
        }
    }
    device.check_reports(9);
}

#[test]
fn built_in_circuits() {
    let Some(device) = device() else { return };
    for (family, size) in [
        (Family::Squarings, Size::Constraints(300)),
        (Family::Mimc, Size::Constraints(5000)),
        (Family::Sha256, Size::Bytes(100)),
        (Family::Mixed, Size::Constraints(1 << max_log())),
    ] {
        let built = BuiltIn::new(family, size).expect("a size that exists");
        let instance = built.instance::<Scalar>(&mut OsRng);
        assert_same(instance.circuit, &key(&built.circuit::<Scalar>(), 8), blinding(8));
    }
    device.check_reports(4);
}

#[test]
fn children_and_zero_blinding() {
    let Some(device) = device() else { return };
    let circuit = RandomR1cs::new(6, 0, 1, 0, true).with_children(5);
    assert_same(circuit.clone(), &key(&circuit, 6), blinding(6));
    let circuit = Squarings { length: 40, start: Scalar::from(3) };
    assert_same(circuit, &key(&circuit, 7), (Scalar::ZERO, Scalar::ZERO));
    drop(device);
}

#[test]
fn fifty_proofs_of_one_statement_verify_differ_and_load_the_key_once() {
    let Some(device) = device() else { return };
    let circuit = Squarings { length: 3000, start: Scalar::from(9) };
    let params = key(&circuit, 9);
    let verifier = prepare_verifying_key(&params.vk);
    let end = (0..circuit.length).fold(circuit.start, |value, _| value.square());
    let mut seen = std::collections::HashSet::new();
    for _ in 0..50 {
        let proof = create_random_proof(circuit, &params, &mut OsRng).expect("a proof");
        assert!(verify_proof(&verifier, &proof, &[end]).expect("well formed"));
        assert!(seen.insert(bytes(&proof)));
    }
    let loaded =
        |report: &prover_core::ProofReport| report.device.as_ref().is_some_and(|device| device.key_loaded);
    let loads: Vec<bool> = device.guard.reports().iter().map(loaded).collect();
    assert_eq!(loads.iter().filter(|&&loaded| loaded).count(), 1);
    assert!(loads[0]);
    device.check_reports(50);
}

#[test]
fn big_and_small_by_turns() {
    let Some(device) = device() else { return };
    let cases: Vec<_> = [9000, 10, 700]
        .map(|length| {
            let circuit = Squarings { length, start: Scalar::from(11) };
            let params = key(&circuit, 11);
            let expected = upstream_proof(circuit, &params, blinding(11));
            (circuit, params, expected)
        })
        .into();
    for round in 0..30 {
        let (circuit, params, expected) = &cases[round % 3];
        let (r, s) = blinding(11);
        let proven = device.guard.prove(*circuit, params, r, s).expect("a proof");
        assert_eq!(&bytes(&proven.proof), expected);
    }
    device.check_reports(30);
}

#[test]
fn a_key_that_does_not_fit_is_streamed() {
    let circuit = Squarings { length: (1 << 14) - 100, start: Scalar::from(13) };
    let params = key(&circuit, 13);
    let expected = upstream_proof(circuit, &params, blinding(13));
    let (r, s) = blinding(13);
    let (mut refused, mut streamed, mut resident) = (0, 0, 0);
    for limit in (0..200).map(|step| (step + 1) << 20) {
        let Some(device) = device_with(|config| config.device_memory_max = Some(limit)) else { return };
        match device.guard.prove(circuit, &params, r, s) {
            Err(error) => {
                assert!(error.to_string().contains("--device-memory-max"), "{error}");
                refused += 1;
            }
            Ok(proven) => {
                assert_eq!(bytes(&proven.proof), expected, "with {limit} bytes");
                match proven.report.device.expect("made on the device").key_streamed_bytes {
                    0 => resident += 1,
                    _ => streamed += 1,
                }
                if resident > 2 {
                    break;
                }
            }
        }
    }
    assert!(
        refused > 0 && streamed > 0 && resident > 0,
        "{refused} refused, {streamed} streamed, {resident} resident"
    );
}

#[test]
fn no_room_at_all_is_an_error_with_numbers_and_the_next_proof_succeeds() {
    let Some(device) = device_with(|config| config.device_memory_max = Some(20 << 20)) else { return };
    let large = Squarings { length: 1 << 16, start: Scalar::from(13) };
    let params = key(&large, 14);
    let (r, s) = blinding(14);
    let error = device.guard.prove(large, &params, r, s).expect_err("20 MiB are too few").to_string();
    assert!(error.contains("device memory") && error.contains("--device-memory-max"), "{error}");
    let small = Squarings { length: 3, start: Scalar::from(13) };
    assert_same(small, &key(&small, 14), blinding(14));
}

#[test]
fn the_key_of_another_circuit_is_an_error() {
    let Some(device) = device() else { return };
    let circuit = Squarings { length: 100, start: Scalar::from(3) };
    let other = Squarings { length: 101, start: Scalar::from(3) };
    let (r, s) = blinding(15);
    device.guard.prove(circuit, &key(&other, 15), r, s).expect_err("the counts differ");
    assert_same(circuit, &key(&circuit, 15), blinding(15));
}

#[test]
fn threads_prove_at_once() {
    let Some(device) = device() else { return };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let circuit = Squarings { length: 400 + thread, start: Scalar::from(17) };
                let params = key(&circuit, 17);
                for seed in 0..5 {
                    assert_same(circuit, &params, blinding(seed));
                }
            });
        }
    });
    device.check_reports(20);
}
