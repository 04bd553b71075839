//! Set-up, proof, verification and every file on the way, on the fixtures.

use bellperson::groth16::{create_random_proof, prepare_verifying_key, verify_proof};
use bellperson::util_cs::test_cs::TestConstraintSystem;
use bellperson::Circuit;
use blstrs::Scalar;
use ff::Field;
use pinprover::circom::{json, CircomCircuit, CircuitError, MatrixName, R1cs, Witness};
use pinprover::keys;

use super::build::R1csParts;
use super::{circuit, fixture, fixture_bytes, multiplier, proved, rng, setup, witness, PROVABLE};

#[test]
fn counts_of_the_fixtures() {
    // Constraints, wires, public outputs, public inputs, private inputs, unused wires.
    for (name, expected) in [
        ("multiplier", [1, 4, 1, 0, 2, 0]),
        ("unused", [1, 5, 1, 2, 3, 0]),
        ("unused_O0", [1, 7, 1, 2, 3, 2]),
        ("silent", [1, 3, 0, 0, 2, 0]),
    ] {
        let r1cs = R1cs::read(fixture(&format!("{name}.r1cs"))).unwrap();
        let found = [
            r1cs.num_constraints(),
            r1cs.num_wires(),
            r1cs.num_public_outputs(),
            r1cs.num_public_inputs(),
            r1cs.num_private_inputs(),
            r1cs.num_unused_wires(),
        ];
        assert_eq!(found, expected, "{name}");
    }
    let bits = R1cs::read(fixture("bits.r1cs")).unwrap();
    // A hundred bits, their sum, and the output, which as a public wire keeps its constraint.
    assert_eq!(bits.num_constraints(), 102);
    // One, minus one, and the powers of two below 2^100, both signs at most.
    assert!(bits.coefficients().len() < 2 * 100 + 3, "{}", bits.coefficients().len());
    assert_eq!(bits.coefficients()[..2], [Scalar::ONE, -Scalar::ONE]);
}

#[test]
fn public_values_are_outputs_then_inputs() {
    let values = |name| proved(name).public_inputs().unwrap().to_vec();
    assert_eq!(values("multiplier"), [Scalar::from(33)]);
    let y = 1_000_000_u64 * 1_000_000 + 15;
    for name in ["unused", "unused_O0"] {
        assert_eq!(values(name), [y, 5, 123_456_789].map(Scalar::from));
    }
    assert_eq!(values("silent"), []);
    let rounds = values("rounds");
    assert_eq!((rounds.len(), rounds[2]), (3, Scalar::from(987_654_321_987_654_321)));
    assert_eq!(circuit("rounds").public_inputs(), None);
}

#[test]
fn every_fixture_is_proved_and_survives_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let create = |name: &str| std::fs::File::create(path(name)).unwrap();
    for name in PROVABLE {
        let circuit = proved(name);
        assert_eq!(circuit.first_unsatisfied(), None, "{name}");
        let params = setup(&circuit);
        circuit.shape().check_params(&params).unwrap();

        keys::write_params(&params, create("params")).unwrap();
        keys::write_vk(&params.vk, create("vk")).unwrap();
        for checked in [true, false] {
            let read = keys::read_params(path("params"), checked).unwrap();
            assert!(read == params, "{name}");
        }
        let vk = keys::read_vk(path("vk")).unwrap();
        assert!(vk == params.vk, "{name}");

        let proof = create_random_proof(circuit.clone(), &params, &mut rng()).unwrap();
        keys::write_proof(&proof, create("proof")).unwrap();
        assert_eq!(std::fs::metadata(path("proof")).unwrap().len(), keys::PROOF_BYTES as u64);
        let read = keys::read_proof(path("proof")).unwrap();
        assert!(read == proof, "{name}");

        let public = circuit.public_inputs().unwrap();
        let pvk = prepare_verifying_key(&vk);
        assert!(verify_proof(&pvk, &read, public).unwrap(), "{name}");
        for i in 0..public.len() {
            let mut wrong = public.to_vec();
            wrong[i] += Scalar::ONE;
            assert!(!verify_proof(&pvk, &read, &wrong).unwrap(), "{name}: public value {i} is not bound");
        }

        json::write_proof(&proof, create("proof.json")).unwrap();
        json::write_verification_key(&vk, create("vk.json")).unwrap();
        json::write_public(public, create("public.json")).unwrap();
        assert!(json::read_proof(path("proof.json")).unwrap() == proof);
        assert_eq!(json::read_public(path("public.json"), public.len()).unwrap(), public);
        let json_vk = json::read_verification_key(path("vk.json")).unwrap();
        assert_eq!(json_vk, json::VerificationKey::from(&vk));
        assert!(verify_proof(&json_vk.prepare(), &proof, public).unwrap(), "{name}");
    }
}

#[test]
fn key_bytes_are_upstreams() {
    let (params, proof, _) = multiplier();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    keys::write_params(params, &mut ours).unwrap();
    params.write(&mut theirs).unwrap();
    assert_eq!(ours, theirs);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    keys::write_proof(proof, &mut ours).unwrap();
    proof.write(&mut theirs).unwrap();
    assert_eq!(ours, theirs);
}

#[test]
fn json_is_laid_out_as_snarkjs_does() {
    let mut text = Vec::new();
    json::write_public(&[Scalar::from(33), -Scalar::ONE], &mut text).unwrap();
    let minus_one = "52435875175126190479447740508185965837690552500527637822603658699938581184512";
    assert_eq!(String::from_utf8(text).unwrap(), format!("[\n \"33\",\n \"{minus_one}\"\n]"));
    let mut text = Vec::new();
    json::write_public(&[], &mut text).unwrap();
    assert_eq!(text, b"[]");
}

/// The generators' pairing, as snarkjs 0.7.6 prints it (`curve.Gt.toObject(curve.pairing(G1.g, G2.g))`), its first
/// and last numbers.
#[test]
fn alphabeta_is_the_pairing_snarkjs_computes() {
    use group::prime::PrimeCurveAffine;
    let (params, ..) = multiplier();
    let mut vk = params.vk.clone();
    vk.alpha_g1 = blstrs::G1Affine::generator();
    vk.beta_g2 = blstrs::G2Affine::generator();
    let mut text = Vec::new();
    json::write_verification_key(&vk, &mut text).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let first = "2819105605953691245277803056322684086884703000473961065716485506033588504203831029066448642358042597501\
                 014294104502";
    let last = "23483300982885564209186725029236649526201524831285934843017593945833203583541864827236299993702416749738\
                32318248497";
    assert_eq!(value["vk_alphabeta_12"][0][0][0], first);
    assert_eq!(value["vk_alphabeta_12"][1][2][1], last);
    assert_eq!(value["curve"], "bls12381");
    assert_eq!(value["protocol"], "groth16");
    assert_eq!(value["nPublic"], 1);
}

#[test]
fn the_circuit_is_what_the_test_constraint_system_says() {
    for name in PROVABLE {
        let circuit = proved(name);
        let mut cs = TestConstraintSystem::<Scalar>::new();
        circuit.clone().synthesize(&mut cs).unwrap();
        assert!(cs.is_satisfied(), "{name}");
        assert_eq!(cs.num_constraints(), circuit.r1cs().num_constraints());
        assert!(cs.verify(circuit.public_inputs().unwrap()));
        assert_eq!(cs.scalar_aux().len(), circuit.shape().aux, "{name}");
    }
}

#[test]
fn the_first_constraint_that_fails_is_named() {
    for name in ["rounds", "bits"] {
        let circuit = circuit(name);
        let good = witness(name);
        for wire in [1, circuit.r1cs().num_wires() / 2, circuit.r1cs().num_wires() - 1] {
            let mut values = good.values().to_vec();
            values[wire] += Scalar::from(3);
            let bad = circuit.with_witness(Witness::from_values(values)).unwrap();
            let mut cs = TestConstraintSystem::<Scalar>::new();
            bad.clone().synthesize(&mut cs).unwrap();
            let expected = cs.which_is_unsatisfied().unwrap();
            let first = bad.first_unsatisfied().unwrap();
            assert!(expected.ends_with(&format!("c{first}")), "{name}, wire {wire}: {expected}, {first}");
            let error = bad.check_satisfied().unwrap_err();
            assert!(error.to_string().contains(&format!("constraint {first} ")), "{error}");
        }
    }
}

#[test]
fn witnesses_that_do_not_fit() {
    let circuit = circuit("multiplier");
    let error = circuit.with_witness(witness("rounds")).unwrap_err();
    assert_eq!(error, CircuitError::WitnessLength { expected: 4, found: witness("rounds").values().len() });
    let mut values = witness("multiplier").values().to_vec();
    values[0] = Scalar::from(2);
    let error = circuit.with_witness(Witness::from_values(values)).unwrap_err();
    assert_eq!(error, CircuitError::WitnessOne);
    let error = circuit.with_witness(Witness::from_values(Vec::new())).unwrap_err();
    assert_eq!(error, CircuitError::WitnessLength { expected: 4, found: 0 });
}

#[test]
fn no_witness_value_in_debug_output() {
    let circuit = proved("multiplier");
    let text = format!("{:?} {:?}", circuit, witness("multiplier"));
    assert!(text.contains("Witness(4 values)"), "{text}");
    assert!(!text.contains(&format!("{:?}", Scalar::from(33))), "{text}");
}

#[test]
fn a_circuit_without_constraints_is_refused() {
    let r1cs = R1cs::read(fixture("empty.r1cs")).unwrap();
    assert_eq!(r1cs.num_constraints(), 0);
    let error = CircomCircuit::new(r1cs).unwrap_err();
    assert_eq!(error, CircuitError::NoConstraints);
    assert!(error.to_string().contains("0"), "{error}");
}

#[test]
fn keys_of_another_circuit_are_refused() {
    let (params, _, multiplier) = multiplier();
    for name in ["unused", "rounds", "bits", "silent"] {
        let other = circuit(name);
        let error = other.shape().check_params(params).unwrap_err();
        assert!(
            matches!(error, CircuitError::KeyMismatch { expected, found, .. } if expected != found),
            "{error}"
        );
        let error = multiplier.shape().check_params(&setup(&other)).unwrap_err();
        assert!(error.to_string().contains("another circuit"), "{error}");
    }
    let mut dense = R1csParts::product();
    dense.rows[0][0].push((3, Scalar::ONE.to_bytes_le()));
    let dense = CircomCircuit::new(R1cs::from_bytes(&dense.bytes()).unwrap()).unwrap();
    // The same numbers of constraints, inputs and variables, and one more variable in A.
    let error = dense.shape().check_params(params).unwrap_err();
    assert!(error.to_string().contains("A query"), "{error}");
}

#[test]
fn sections_in_any_order_and_unknown_ones_skipped() {
    let bytes = fixture_bytes("rounds.r1cs");
    let reference = R1cs::from_bytes(&bytes).unwrap();
    let mut parts = R1csParts::product();
    parts.push(&[(1, 2), (2, -3)], &[(0, 5)], &[]);
    let [header, constraints, labels]: [_; 3] = parts.sections().try_into().unwrap();
    let junk = |kind| (kind, vec![0xee; 17]);
    let orders = [
        vec![labels.clone(), constraints.clone(), header.clone()],
        vec![junk(9), constraints.clone(), junk(77), junk(77), labels.clone(), header.clone(), junk(0)],
        // Custom gate sections that list none.
        vec![(4, vec![0; 4]), header, (5, vec![0; 4]), labels, constraints],
    ];
    let plain = R1cs::from_bytes(&parts.bytes()).unwrap();
    for sections in orders {
        let read = R1cs::from_bytes(&super::build::file(b"r1cs", 1, &sections)).unwrap();
        for name in [MatrixName::A, MatrixName::B, MatrixName::C] {
            assert_eq!(read.matrix(name), plain.matrix(name));
        }
        assert_eq!(read.coefficients(), plain.coefficients());
    }
    assert_eq!(reference.shape(), R1cs::from_bytes(&bytes).unwrap().shape());
}
