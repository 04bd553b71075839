//! The oracle for large circuits against the published prover, at sizes that both can do.

use bellperson::groth16::{synthesize, Parameters, Proof};
use bellperson::Circuit;
use blstrs::{Bls12, Scalar};
use ff::Field;
use pinprover::circuits::{BuiltIn, Family, Size};
use pinprover_tests::circuits::{RandomR1cs, Squarings};
use pinprover_tests::oracle::{blinding, our_proof, upstream_proof};
use pinprover_tests::trapdoor::{assert_proof, Trapdoor};
use prover_core::setup::CpuFixedBase;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

fn key<C: Circuit<Scalar> + Clone>(circuit: &C, trapdoor: &Trapdoor) -> Parameters<Bls12> {
    trapdoor.key(|| circuit.clone(), None, &CpuFixedBase::new())
}

fn expected<C: Circuit<Scalar>>(
    trapdoor: &Trapdoor,
    circuit: C,
    params: &Parameters<Bls12>,
    blinding: (Scalar, Scalar),
) -> Vec<u8> {
    let assignment = synthesize(circuit, None).expect("the circuit has a witness");
    trapdoor.proof(&assignment, &params.vk, blinding)
}

/// The oracle gives the bytes of upstream's prover. The key is made of `blank`, which has no witness.
fn assert_upstreams<B, C>(seed: u64, blank: &B, circuit: C, blinding: (Scalar, Scalar), what: &str)
where
    B: Circuit<Scalar> + Clone,
    C: Circuit<Scalar> + Clone + Send,
{
    let trapdoor = Trapdoor::new(seed);
    let params = key(blank, &trapdoor);
    let found = expected(&trapdoor, circuit.clone(), &params, blinding);
    assert_eq!(found, upstream_proof(circuit, &params, blinding), "{what}");
}

#[test]
fn edge_sizes() {
    let around = (6..=9).flat_map(|log| (1 << log) - 4..=(1 << log) + 1);
    for length in (1..=34_usize).chain(around) {
        let circuit = Squarings { length, start: Scalar::from(7 + length as u64) };
        assert_upstreams(
            length as u64,
            &circuit,
            circuit,
            blinding(length as u64),
            &format!("{length} squarings"),
        );
    }
}

#[test]
fn random_systems() {
    for seed in 0..40_u64 {
        let (inputs, free, products) =
            (seed as usize % 7, 1 + seed as usize * 7 % 40, seed as usize * 29 % 500);
        let circuit = RandomR1cs::new(seed, inputs, free, products, seed % 2 == 0);
        assert_upstreams(seed, &circuit, circuit.clone(), blinding(seed), &format!("seed {seed}"));
    }
    // Parts that are synthesised apart.
    let circuit = RandomR1cs::new(6, 0, 1, 0, true).with_children(5);
    assert_upstreams(6, &circuit, circuit.clone(), blinding(6), "children");
}

#[test]
fn built_in_circuits() {
    for (family, size) in [
        (Family::Squarings, Size::Constraints(300)),
        (Family::Mimc, Size::Constraints(1000)),
        (Family::Sha256, Size::Bytes(3)),
        (Family::Mixed, Size::Constraints((1 << 12) - 1)),
        (Family::Mixed, Size::Constraints(1 << 12)),
        (Family::Mixed, Size::Constraints((1 << 12) + 1)),
    ] {
        let built = BuiltIn::new(family, size).expect("a size that exists");
        let instance = built.instance::<Scalar>(&mut ChaCha8Rng::seed_from_u64(9));
        assert_upstreams(9, &built.circuit::<Scalar>(), instance.circuit, blinding(9), &built.to_string());
    }
}

#[test]
fn zeros_ones_and_no_blinding() {
    for start in [Scalar::ZERO, Scalar::ONE, -Scalar::ONE] {
        let circuit = Squarings { length: 100, start };
        for blinding in
            [(Scalar::ZERO, Scalar::ZERO), (Scalar::ONE, Scalar::ZERO), (Scalar::ZERO, -Scalar::ONE)]
        {
            assert_upstreams(4, &circuit, circuit, blinding, &format!("{start:?} squared, {blinding:?}"));
        }
    }
}

/// Segments of the mixed circuit, which are synthesised in parallel, and many blocks of the oracle's.
#[test]
fn our_cpu_prover_at_2_to_the_16_and_beyond_a_segment() {
    for rows in [1 << 16, 100_001] {
        let built = BuiltIn::new(Family::Mixed, Size::Constraints(rows)).expect("a size that exists");
        let instance = built.instance::<Scalar>(&mut ChaCha8Rng::seed_from_u64(16));
        let trapdoor = Trapdoor::new(16);
        let params = key(&built.circuit::<Scalar>(), &trapdoor);
        let found = expected(&trapdoor, instance.circuit.clone(), &params, blinding(16));
        assert_eq!(found, our_proof(instance.circuit, &params, blinding(16)), "{built}");
    }
}

/// Whatever goes into a proof decides its bytes.
#[test]
fn another_secret_witness_or_blinding_gives_other_bytes() {
    let circuit = Squarings { length: 50, start: Scalar::from(3) };
    let trapdoor = Trapdoor::new(1);
    let params = key(&circuit, &trapdoor);
    let (r, s) = blinding(1);
    let proof = |trapdoor: &Trapdoor, start: u64, blinding| {
        expected(trapdoor, Squarings { length: 50, start: Scalar::from(start) }, &params, blinding)
    };
    let proofs = [
        proof(&trapdoor, 3, (r, s)),
        proof(&trapdoor, 4, (r, s)),
        proof(&trapdoor, 3, (s, r)),
        proof(&trapdoor, 3, (r, s + Scalar::ONE)),
        proof(&Trapdoor::new(2), 3, (r, s)),
    ];
    for (i, proof) in proofs.iter().enumerate() {
        assert!(!proofs[..i].contains(proof), "proof {i} is one of those before it");
    }
}

#[test]
#[should_panic(expected = "here: of the proof's points A and C are wrong")]
fn the_points_that_are_wrong_are_named() {
    let circuit = Squarings { length: 5, start: Scalar::from(3) };
    let trapdoor = Trapdoor::new(1);
    let params = key(&circuit, &trapdoor);
    let (r, s) = blinding(1);
    let proof = Proof::read(&our_proof(circuit, &params, (r, s))[..]).expect("a proof");
    // A depends on r, B does not, C on everything.
    assert_proof(&proof, &expected(&trapdoor, circuit, &params, (r + Scalar::ONE, s)), "here");
}

#[test]
#[should_panic(expected = "a row is not satisfied")]
fn an_unsatisfied_circuit_is_refused() {
    use bellperson::{ConstraintSystem, SynthesisError};

    struct Wrong;

    impl Circuit<Scalar> for Wrong {
        fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            let x = cs.alloc(|| "x", || Ok(Scalar::from(2)))?;
            cs.enforce(|| "square", |lc| lc + x, |lc| lc + x, |lc| lc + x);
            Ok(())
        }
    }

    let circuit = Squarings { length: 1, start: Scalar::from(3) };
    let trapdoor = Trapdoor::new(1);
    expected(&trapdoor, Wrong, &key(&circuit, &trapdoor), blinding(1));
}
