//! Proofs are upstream's, byte for byte, with no allocator and no backend registered.

use bellperson::groth16::{prepare_verifying_key, verify_proof, Proof};
use blstrs::Scalar;
use ff::Field;
use pinprover_tests::circuits::{RandomR1cs, Squarings};
use pinprover_tests::oracle::{assert_same, blinding, our_proof, parameters};
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
