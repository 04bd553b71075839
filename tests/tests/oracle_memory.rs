//! Proofs from registered memory are upstream's, byte for byte: whatever shape was expected, and whatever the allocator
//! refuses.

use bellperson::groth16::{prove_assignments, synthesize, synthesize_with, Shape, SynthesisOptions};
use blstrs::{Bls12, Scalar};
use pinprover_tests::allocator::{Behaviour, Registered};
use pinprover_tests::circuits::{RandomR1cs, Squarings};
use pinprover_tests::oracle::{assert_same, blinding, bytes, our_proof, parameters, upstream_proof};
use proptest::prelude::*;

#[test]
fn every_expected_shape() {
    let circuit = RandomR1cs::new(1, 3, 20, 200, true);
    let params = parameters(circuit.clone(), 1);
    let (r, s) = blinding(1);
    let expected = upstream_proof(circuit.clone(), &params, (r, s));
    let exact = synthesize(circuit.clone(), None).unwrap().shape();
    let less = |by: usize| Shape { constraints: exact.constraints - by, aux: exact.aux - by, ..exact };
    for growth in [0, 2, 64] {
        for shape in [Some(exact), None, Some(less(1)), Some(less(200)), Some(Shape::default())] {
            for pad in [false, true] {
                let registered = Registered::new(Behaviour { growth, ..Behaviour::default() });
                let options = SynthesisOptions::default().expecting(shape).pad_to_domain(pad);
                let assignment = synthesize_with(circuit.clone(), options).unwrap();
                let proofs =
                    prove_assignments::<Bls12, _>(vec![assignment], &params, vec![r], vec![s]).unwrap();
                assert_eq!(bytes(&proofs[0]), expected, "growth {growth}, {shape:?}, padded: {pad}");
                assert_eq!(registered.out(), 0);
            }
        }
    }
}

#[test]
fn an_allocator_that_fails_at_any_call() {
    let circuit = Squarings { length: 300, start: Scalar::from(7) };
    let params = parameters(circuit, 2);
    let expected = upstream_proof(circuit, &params, blinding(2));
    let mut call = 0;
    loop {
        let registered = Registered::new(Behaviour { refuse_once: Some(call), ..Behaviour::default() });
        assert_eq!(our_proof(circuit, &params, blinding(2)), expected, "refused at call {call}");
        assert_eq!(registered.out(), 0);
        if registered.calls() <= call {
            break;
        }
        call += 1;
    }
    assert!(call >= 5, "one group and four seals at least: {call}");
}

#[test]
fn batches_take_a_set_a_circuit() {
    let circuits: Vec<_> = (0..5).map(|i| Squarings { length: 50, start: Scalar::from(i + 2) }).collect();
    let params = parameters(circuits[0], 3);
    let (r, s): (Vec<_>, Vec<_>) = (0..5).map(blinding).unzip();
    let expected =
        upstream::groth16::create_proof_batch::<Bls12, _, _>(circuits.clone(), &params, r.clone(), s.clone())
            .unwrap();
    let registered = Registered::new(Behaviour::default());
    let ours = bellperson::groth16::create_proof_batch::<Bls12, _, _>(circuits, &params, r, s).unwrap();
    assert_eq!(ours.iter().map(bytes).collect::<Vec<_>>(), expected.iter().map(bytes).collect::<Vec<_>>());
    assert_eq!((registered.allocated() % 4, registered.out()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn random_r1cs(seed in any::<u64>(), products in 1usize..200, growth in 0usize..4, call in 0usize..12) {
        let circuit = RandomR1cs::new(seed, 2, 10, products, true);
        let params = parameters(circuit.clone(), seed);
        let _registered =
            Registered::new(Behaviour { growth, refuse_once: Some(call), ..Behaviour::default() });
        assert_same(circuit, &params, blinding(seed));
    }
}

#[test]
fn extended_roots_over_registered_memory() {
    let circuit = RandomR1cs::new(4, 0, 1, 0, true).with_children(4);
    let params = parameters(circuit.clone(), 4);
    let registered = Registered::new(Behaviour::default());
    assert_same(circuit, &params, blinding(4));
    assert_eq!(registered.allocated() % 4, 0, "children stay on the heap");
}

#[test]
fn a_proof_without_a_b_and_c_is_an_error() {
    let circuit = Squarings { length: 30, start: Scalar::from(3) };
    let params = parameters(circuit, 5);
    let mut assignment = synthesize(circuit, None).unwrap();
    assignment.release_abc();
    let one = || vec![Scalar::from(1)];
    let error = prove_assignments::<Bls12, _>(vec![assignment], &params, one(), one()).unwrap_err();
    assert!(error.to_string().contains("0 elements for 32 constraints"), "{error}");
}

#[test]
#[should_panic(expected = "were given back")]
fn a_released_child_cannot_extend_a_root() {
    use bellperson::ConstraintSystem;
    let mut root = synthesize(Squarings { length: 3, start: Scalar::from(3) }, None).unwrap();
    let mut child = synthesize(Squarings { length: 3, start: Scalar::from(3) }, None).unwrap();
    child.release_abc();
    root.extend(&child);
}
