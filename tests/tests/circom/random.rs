//! Random constraint systems with all that circom, or another compiler, may leave in: wires in no constraint,
//! public ones too, coefficients of zero, terms that cancel, rows out of order, empty rows.

use bellperson::groth16::{create_random_proof, prepare_verifying_key, verify_proof};
use blstrs::Scalar;
use ff::Field;
use pinprover::circom::{CircomCircuit, CircuitError, R1cs, Witness};
use proptest::prelude::*;

use super::build::{scalar, R1csParts};
use super::{rng, setup};

#[derive(Clone, Debug)]
struct System {
    parts: R1csParts,
    values: Vec<Scalar>,
}

fn dot(row: &[(u32, i64)], values: &[Scalar]) -> Scalar {
    row.iter().map(|&(w, c)| values[w as usize] * scalar(c)).sum()
}

prop_compose! {
    /// Any system that its witness satisfies: the last term of each C makes up for the rest.
    fn system()(public in 0_u32..4, private in 1_u32..8, count in 1_usize..12)
        (values in prop::collection::vec(any::<i64>(), (public + private) as usize),
         rows in prop::collection::vec(
             prop::collection::vec(prop::collection::vec((0..=public + private, -3_i64..=3), 0..5), 3), count),
         public in Just(public), private in Just(private)) -> System {
        let mut values: Vec<Scalar> = std::iter::once(Scalar::ONE).chain(values.into_iter().map(scalar)).collect();
        let mut parts = R1csParts::new(1 + public + private, public, 0);
        values[0] = Scalar::ONE;
        for row in rows {
            let product = dot(&row[0], &values) * dot(&row[1], &values);
            let rest = product - dot(&row[2], &values);
            parts.push(&row[0], &row[1], &row[2]);
            let last = parts.rows.last_mut().unwrap();
            last[2].push((0, rest.to_bytes_le()));
        }
        System { parts, values }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_systems_are_set_up_proved_and_verified(system in system()) {
        let r1cs = R1cs::from_bytes(&system.parts.bytes()).unwrap();
        let circuit = CircomCircuit::new(r1cs).unwrap();
        let circuit = circuit.with_witness(Witness::from_values(system.values.clone())).unwrap();
        prop_assert_eq!(circuit.check_satisfied(), Ok(()));
        let params = setup(&circuit);
        circuit.shape().check_params(&params).unwrap();
        let proof = create_random_proof(circuit.clone(), &params, &mut rng()).unwrap();
        let pvk = prepare_verifying_key(&params.vk);
        let public = circuit.public_inputs().unwrap();
        prop_assert!(verify_proof(&pvk, &proof, public).unwrap());
    }
}

#[test]
fn no_auxiliary_variable_at_all() {
    // 1 * public = public, and three private wires in no constraint.
    let mut parts = R1csParts::new(5, 1, 0);
    parts.push(&[(0, 1)], &[(1, 1)], &[(1, 1)]);
    let r1cs = R1cs::from_bytes(&parts.bytes()).unwrap();
    assert_eq!((r1cs.shape().aux, r1cs.num_unused_wires()), (0, 3));
    let circuit = CircomCircuit::new(r1cs).unwrap();
    let values = [1, 42, 7, 8, 9].map(Scalar::from).to_vec();
    let circuit = circuit.with_witness(Witness::from_values(values)).unwrap();
    let params = setup(&circuit);
    circuit.shape().check_params(&params).unwrap();
    let proof = create_random_proof(circuit.clone(), &params, &mut rng()).unwrap();
    let pvk = prepare_verifying_key(&params.vk);
    assert!(verify_proof(&pvk, &proof, circuit.public_inputs().unwrap()).unwrap());
}

#[test]
fn wires_with_nothing_but_zero_or_cancelling_coefficients_are_unused() {
    // Wire 2: zero. Wire 3: 5 - 5. Wire 4: used.
    let mut parts = R1csParts::new(5, 1, 0);
    parts.push(&[(3, 5), (2, 0), (3, -5), (0, 1)], &[(4, 1)], &[(1, 1)]);
    let r1cs = R1cs::from_bytes(&parts.bytes()).unwrap();
    assert_eq!((r1cs.shape().aux, r1cs.num_unused_wires()), (1, 2));
    let circuit = CircomCircuit::new(r1cs).unwrap();
    setup(&circuit);
    let circuit =
        circuit.with_witness(Witness::from_values([1, 6, 7, 8, 6].map(Scalar::from).to_vec())).unwrap();
    assert_eq!(circuit.check_satisfied(), Ok(()));
    let wrong =
        circuit.with_witness(Witness::from_values([1, 6, 7, 8, 5].map(Scalar::from).to_vec())).unwrap();
    assert_eq!(wrong.check_satisfied(), Err(CircuitError::Unsatisfied { constraint: 0, constraints: 1 }));
}
