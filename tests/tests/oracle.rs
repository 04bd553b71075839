//! Proofs are upstream's, byte for byte, with no allocator and no backend registered.

use bellperson::groth16::{prepare_verifying_key, verify_proof, Parameters, Proof};
use blstrs::{Bls12, Scalar};
use ff::Field;
use pinprover::circuits::{BuiltIn, Family, Size};
use pinprover_tests::circuits::{RandomR1cs, Squarings};
use pinprover_tests::oracle::{assert_same, blinding, bytes, our_proof, parameters, upstream_proof};
use proptest::prelude::*;
use rand_core::OsRng;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn random_r1cs(
        seed in any::<u64>(), inputs in 0usize..6, free in 1usize..40, products in 0usize..120, bits in any::<bool>()
    ) {
        let circuit = RandomR1cs::new(seed, inputs, free, products, bits);
        let params = parameters(circuit.clone(), seed);
        assert_same(circuit.clone(), &params, blinding(seed));

        let proof = our_proof(circuit.clone(), &params, blinding(seed));
        let proof = Proof::read(&proof[..]).unwrap();
        let pvk = prepare_verifying_key(&params.vk);
        prop_assert!(verify_proof(&pvk, &proof, &circuit.inputs).unwrap());
    }
}

#[test]
fn edge_sizes() {
    // One input row is added for the constant and one for the end of the chain, so these pass every power of two by one.
    for length in [1, 2, 3, 6, 7, 29, 30, 31, 32, 33, 61, 62, 63, 509, 510, 511, 512, 513, 1022] {
        let circuit = Squarings { length, start: Scalar::random(OsRng) };
        assert_same(circuit, &parameters(circuit, 3), blinding(length as u64));
    }
}

#[test]
fn large_enough_for_several_tiles() {
    let circuit = Squarings { length: (1 << 14) - 2, start: Scalar::random(OsRng) };
    assert_same(circuit, &parameters(circuit, 4), blinding(4));
}

#[test]
fn witnesses_of_zeros_and_ones() {
    for start in [Scalar::ZERO, Scalar::ONE, -Scalar::ONE] {
        let circuit = Squarings { length: 100, start };
        assert_same(circuit, &parameters(circuit, 5), blinding(5));
    }
}

#[test]
fn children_that_extend_the_root() {
    for children in [1, 2, 5] {
        let circuit = RandomR1cs::new(6, 0, 1, 0, true).with_children(children);
        assert_same(circuit.clone(), &parameters(circuit, 6), blinding(6));
    }
}

#[test]
fn zero_blinding() {
    let circuit = Squarings { length: 40, start: Scalar::from(3) };
    assert_same(circuit, &parameters(circuit, 7), (Scalar::ZERO, Scalar::ZERO));
}

#[test]
fn the_built_in_circuits() {
    for (family, size) in [
        (Family::Squarings, Size::Constraints(300)),
        (Family::Mimc, Size::Constraints(500)),
        (Family::Sha256, Size::Bytes(10)),
    ] {
        let built = BuiltIn::new(family, size).unwrap();
        let instance = built.instance::<Scalar>(&mut OsRng);
        assert_same(instance.circuit, &parameters(built.circuit::<Scalar>(), 8), blinding(8));
    }
}

#[test]
fn mapped_parameters_and_batches() {
    let circuits: Vec<_> = (0..5).map(|i| Squarings { length: 70, start: Scalar::from(i + 3) }).collect();
    let params = parameters(circuits[0], 9);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    params.write(&mut file).unwrap();
    let mapped = Parameters::<Bls12>::build_mapped_parameters(file.path().to_owned(), true).unwrap();
    let (r, s): (Vec<_>, Vec<_>) = (0..5).map(blinding).unzip();
    let proofs = bellperson::groth16::create_proof_batch(circuits.clone(), &mapped, r.clone(), s.clone());
    for ((proof, circuit), blinding) in proofs.unwrap().iter().zip(circuits).zip(r.into_iter().zip(s)) {
        assert_eq!(bytes(proof), upstream_proof(circuit, &params, blinding));
    }
}

#[test]
fn what_upstream_panics_at_is_an_error() {
    use bellperson::groth16::create_proof_batch;
    let circuit = Squarings { length: 20, start: Scalar::from(3) };
    let params = parameters(circuit, 10);
    let one = || vec![Scalar::ONE];
    let none: Vec<Squarings> = Vec::new();
    assert!(create_proof_batch::<Bls12, _, _>(none, &params, vec![], vec![]).unwrap().is_empty());

    let text = |result: Result<Vec<_>, bellperson::SynthesisError>| result.unwrap_err().to_string();
    let circuits = vec![circuit; 2];
    let error = text(create_proof_batch::<Bls12, _, _>(circuits, &params, one(), one()));
    assert!(error.contains("2 circuits need as many blinding factors, there are 1 r and 1 s"), "{error}");
    let longer = Squarings { length: 21, ..circuit };
    let two = || vec![Scalar::ONE; 2];
    let error = text(create_proof_batch::<Bls12, _, _>(vec![circuit, longer], &params, two(), two()));
    assert!(error.contains("only identical circuits"), "{error}");
    let error = text(create_proof_batch::<Bls12, _, _>(vec![longer], &params, one(), one()));
    assert!(error.contains("the L query has 20 bases, the circuit needs 21"), "{error}");
}
