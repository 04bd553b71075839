//! Keys made by `prover_core::setup` are those of the published generator, byte for byte.

use bellperson::groth16::{prepare_verifying_key, verify_proof, Parameters};
use bellperson::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use blstrs::{Bls12, G1Projective, G2Projective, Scalar};
use ff::{Field, PrimeField};
use group::Group;
use pinprover::circom::{CircomCircuit, R1cs};
use pinprover::circuits::{BuiltIn, Family, Size};
use pinprover_tests::circuits::{value, RandomR1cs, Squarings};
use pinprover_tests::oracle::{blinding, our_proof};
use prover_core::setup::{
    generate, CpuFixedBase, FixedBase, FixedBaseError, KeySize, SetupError, Stage, ToxicWaste,
};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// The values of toxic waste, to hand to both generators.
#[derive(Clone, Copy)]
struct Values {
    g1: G1Projective,
    g2: G2Projective,
    /// alpha, beta, gamma, delta, tau.
    scalars: [Scalar; 5],
}

impl Values {
    fn random(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Self {
            g1: G1Projective::random(&mut rng),
            g2: G2Projective::random(&mut rng),
            scalars: std::array::from_fn(|_| Scalar::random(&mut rng)),
        }
    }

    fn with(mut self, index: usize, scalar: Scalar) -> Self {
        self.scalars[index] = scalar;
        self
    }

    fn waste(&self) -> ToxicWaste {
        let [alpha, beta, gamma, delta, tau] = self.scalars;
        ToxicWaste::new(self.g1, self.g2, alpha, beta, gamma, delta, tau)
    }
}

const TAU: usize = 4;

fn bytes(params: &Parameters<Bls12>) -> Vec<u8> {
    let mut bytes = Vec::new();
    params.write(&mut bytes).unwrap();
    bytes
}

fn upstreams<C: Circuit<Scalar>>(circuit: C, values: &Values) -> Result<Vec<u8>, SynthesisError> {
    let [alpha, beta, gamma, delta, tau] = values.scalars;
    upstream::groth16::generate_parameters::<Bls12, _>(
        circuit, values.g1, values.g2, alpha, beta, gamma, delta, tau,
    )
    .map(|params| bytes(&params))
}

fn ours<C: Circuit<Scalar> + Clone>(circuit: &C, values: &Values) -> Result<Parameters<Bls12>, SetupError> {
    generate(|| circuit.clone(), None, values.waste(), &CpuFixedBase::new(), &|_, _, _| {})
}

fn failure(result: Result<Parameters<Bls12>, SetupError>) -> SetupError {
    result.err().expect("no key was to come of it")
}

/// Both give the same bytes, or the same error.
fn assert_same<C: Circuit<Scalar> + Clone>(what: &str, circuit: &C, values: &Values) {
    match (upstreams(circuit.clone(), values), ours(circuit, values)) {
        (Ok(theirs), Ok(ours)) => assert!(theirs == bytes(&ours), "{what}: the keys differ"),
        (Err(theirs), Err(SetupError::Synthesis(ours))) => {
            assert_eq!(theirs.to_string(), ours.to_string(), "{what}");
        }
        (theirs, ours) => {
            panic!("{what}: upstream {:?}, ours {:?}", theirs.map(|_| ()), ours.map(|_| ()))
        }
    }
}

/// Free variables and products like [`RandomR1cs`], but a variable need not stand in A, or in B, and constraints are
/// sums of many terms with any coefficients. Without a witness.
#[derive(Clone)]
struct Sparse {
    inputs: usize,
    aux: usize,
    /// Terms of a variable's number, the constant one 0, and a coefficient.
    rows: Vec<[Vec<(usize, Scalar)>; 3]>,
}

impl Sparse {
    fn random(seed: u64, inputs: usize, aux: usize, rows: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rows = (0..rows)
            .map(|_| {
                // C names the later half only, so that the first stand in A or B alone, if at all.
                [0, 0, (1 + inputs + aux) / 2].map(|from| {
                    let terms = rng.gen_range(0..5);
                    let mut term = || (rng.gen_range(from..=inputs + aux), value(&mut rng, true));
                    (0..terms).map(|_| term()).collect()
                })
            })
            .collect();
        Self { inputs, aux, rows }
    }
}

impl Circuit<Scalar> for Sparse {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let blank = || Err(SynthesisError::AssignmentMissing);
        let mut variables = vec![CS::one()];
        // Inputs and auxiliary variables take turns, as they may.
        for i in 0..self.inputs.max(self.aux) {
            if i < self.inputs {
                variables.push(cs.alloc_input(|| "input", blank)?);
            }
            if i < self.aux {
                variables.push(cs.alloc(|| "aux", blank)?);
            }
        }
        for row in &self.rows {
            let [a, b, c] = row.each_ref().map(|terms| {
                let term = |lc: LinearCombination<Scalar>, (v, k): &(usize, Scalar)| lc + (*k, variables[*v]);
                terms.iter().fold(LinearCombination::zero(), term)
            });
            cs.enforce(|| "row", |lc| lc + &a, |lc| lc + &b, |lc| lc + &c);
        }
        Ok(())
    }
}

#[test]
fn built_in_circuits() {
    for family in Family::ALL {
        let least = family.least();
        let mut sizes = vec![least, least + 1, least + 2];
        if family != Family::Sha256 {
            sizes.extend([31, 32, 33, 127, 128, 129, 511, 512, 513]);
        }
        for size in sizes {
            let built = BuiltIn::new(family, Size::Constraints(size)).unwrap();
            assert_same(&built.to_string(), &built.circuit::<Scalar>(), &Values::random(size as u64));
        }
    }
}

#[test]
fn circom_circuits() {
    for name in ["multiplier", "unused", "unused_O0", "rounds", "bits", "silent"] {
        let file = format!("{}/circom/{name}.r1cs", env!("CARGO_MANIFEST_DIR"));
        let circuit = CircomCircuit::new(R1cs::read(&file).unwrap()).unwrap();
        assert_same(name, &circuit, &Values::random(11));
    }
}

#[test]
fn sizes_around_powers_of_two() {
    // Rows of the two inputs come on top: 2^k - 3 squarings have 2^k - 1 rows.
    let lengths = [1, 2, 3, 29, 30, 31, 32, 33, 509, 510, 511, 512, 513, 2045, 2046, 2047, 4094, 4095];
    for length in lengths {
        let circuit = Squarings { length, start: Scalar::ONE };
        assert_same(&format!("{length} squarings"), &circuit, &Values::random(length as u64));
    }
}

#[test]
fn random_systems() {
    for seed in 0..40 {
        let (inputs, free, products) = (seed as usize % 4, seed as usize % 7 + 1, seed as usize * 3 % 50);
        let circuit = RandomR1cs::new(seed, inputs, free, products, seed % 2 == 0);
        assert_same(&format!("random system {seed}"), &circuit, &Values::random(seed));
        assert_same(&format!("{seed} with children"), &circuit.with_children(3), &Values::random(seed));
    }
}

#[test]
fn variables_that_stand_in_a_or_b_alone_or_nowhere() {
    let (mut keys, mut errors) = (0, 0);
    for seed in 0..120u64 {
        let (inputs, aux) = (seed as usize % 3, 1 + seed as usize % 9);
        let circuit = Sparse::random(seed, inputs, aux, aux + seed as usize % 11);
        let values = Values::random(seed);
        match ours(&circuit, &values) {
            Ok(params) => {
                keys += 1;
                assert!(params.a.len() <= 1 + inputs + aux && params.b_g1.len() == params.b_g2.len());
            }
            Err(SetupError::Synthesis(SynthesisError::UnconstrainedVariable)) => errors += 1,
            Err(e) => panic!("{e}"),
        }
        assert_same(&format!("sparse {seed}"), &circuit, &values);
    }
    assert!(keys > 20 && errors > 5, "{keys} keys, {errors} errors: too few of one to tell");
}

#[test]
fn a_variable_in_no_constraint() {
    let nowhere = Sparse { inputs: 1, aux: 2, rows: vec![[vec![(1, Scalar::ONE)], vec![], vec![]]] };
    let error = failure(ours(&nowhere, &Values::random(1)));
    assert!(matches!(error, SetupError::Synthesis(SynthesisError::UnconstrainedVariable)), "{error}");
    assert_same("unused", &nowhere, &Values::random(1));
    // An input in no constraint has its own row.
    let unused_input = Sparse { inputs: 3, aux: 0, rows: vec![] };
    assert!(ours(&unused_input, &Values::random(1)).is_ok());
    assert_same("unused inputs", &unused_input, &Values::random(1));
    // A coefficient of zero is none.
    let zero = Sparse { inputs: 0, aux: 1, rows: vec![[vec![(1, Scalar::ZERO)], vec![], vec![]]] };
    assert_same("coefficient 0", &zero, &Values::random(1));
    // Terms that cancel are none.
    let (one, x) = (Scalar::ONE, 1);
    let cancelled =
        Sparse { inputs: 0, aux: 1, rows: vec![[vec![(x, one), (x, -one)], vec![(x, one)], vec![]]] };
    assert_same("cancelled in A", &cancelled, &Values::random(1));
    assert_eq!(ours(&cancelled, &Values::random(1)).unwrap().a.len(), 1);
}

#[test]
fn the_empty_circuit() {
    let empty = Sparse { inputs: 0, aux: 0, rows: vec![] };
    let params = ours(&empty, &Values::random(1)).unwrap();
    assert_eq!((params.vk.ic.len(), params.h.len(), params.l.len(), params.a.len()), (1, 0, 0, 1));
}

/// Toxic waste that no generator of random numbers gives, but a caller may.
#[test]
fn degenerate_waste() {
    let circuit = Squarings { length: 13, start: Scalar::ONE };
    let values = Values::random(5);
    for index in 0..5 {
        for scalar in [Scalar::ZERO, Scalar::ONE, -Scalar::ONE] {
            assert_same(&format!("{index}: {scalar:?}"), &circuit, &values.with(index, scalar));
        }
    }
    // tau in the domain of 2^4: the Lagrange polynomials are 0 and 1, and the H query is all identity.
    let omega = (4..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square());
    for k in 0..16u64 {
        assert_same("tau in the domain", &circuit, &values.with(TAU, omega.pow_vartime([k])));
    }
    for index in [2, 3] {
        let error = failure(ours(&circuit, &values.with(index, Scalar::ZERO)));
        assert!(matches!(error, SetupError::Synthesis(SynthesisError::UnexpectedIdentity)), "{error}");
    }
    let no_g1 = Values { g1: G1Projective::identity(), ..values };
    let no_g2 = Values { g2: G2Projective::identity(), ..values };
    for values in [no_g1, no_g2] {
        assert!(matches!(ours(&circuit, &values), Err(SetupError::IdentityGenerator)));
    }
}

/// The comparison can fail: another coefficient, another row order or another secret gives other bytes.
#[test]
fn what_differs_shows() {
    let circuit = Sparse::random(21, 2, 6, 30);
    let values = Values::random(1);
    let expected = upstreams(circuit.clone(), &values).unwrap();
    assert!(bytes(&ours(&circuit, &values).unwrap()) == expected);
    let mut other = circuit.clone();
    let coefficient =
        other.rows.iter_mut().flatten().flatten().find(|(_, k)| *k != Scalar::ZERO).expect("a coefficient");
    coefficient.1 += Scalar::ONE;
    assert!(bytes(&ours(&other, &values).unwrap()) != expected);
    let mut other = circuit.clone();
    other.rows.swap(3, 4);
    assert!(bytes(&ours(&other, &values).unwrap()) != expected);
    for index in 0..5 {
        let other = values.with(index, values.scalars[index] + Scalar::ONE);
        assert!(bytes(&ours(&circuit, &other).unwrap()) != expected, "{index}");
    }
}

#[test]
fn the_same_randomness_gives_the_same_key() {
    let circuit = Squarings { length: 20, start: Scalar::ONE };
    let theirs = upstream::groth16::generate_random_parameters::<Bls12, _, _>(
        circuit,
        &mut ChaCha8Rng::seed_from_u64(9),
    )
    .unwrap();
    let waste = ToxicWaste::random(&mut ChaCha8Rng::seed_from_u64(9));
    let ours = generate(|| circuit, None, waste, &CpuFixedBase::new(), &|_, _, _| {}).unwrap();
    assert!(ours == theirs);
}

#[test]
fn proofs_with_the_keys_verify() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for family in Family::ALL {
        let built = BuiltIn::new(family, Size::Constraints(family.least().max(100))).unwrap();
        let params = ours(&built.circuit::<Scalar>(), &Values::random(4)).unwrap();
        let instance = built.instance::<Scalar>(&mut rng);
        let proof = our_proof(instance.circuit, &params, blinding(1));
        let proof = bellperson::groth16::Proof::<Bls12>::read(&proof[..]).unwrap();
        let vk = prepare_verifying_key(&params.vk);
        assert!(verify_proof(&vk, &proof, &instance.public).unwrap(), "{built}");
        let mut wrong = instance.public.clone();
        wrong[0] += Scalar::ONE;
        assert!(!verify_proof(&vk, &proof, &wrong).unwrap(), "{built}");
    }
}

#[test]
fn a_size_that_is_known_is_one_pass_and_must_be_right() {
    let circuit = Squarings { length: 20, start: Scalar::ONE };
    let size = |constraints: usize, aux: usize| {
        KeySize::at_most(bellperson::groth16::Shape { constraints, inputs: 2, aux })
    };
    let passes = std::cell::Cell::new(0);
    let run = |size: Option<KeySize>| {
        passes.set(0);
        let circuit = || {
            passes.set(passes.get() + 1);
            circuit
        };
        generate(circuit, size, Values::random(1).waste(), &CpuFixedBase::new(), &|_, _, _| {})
    };
    let unknown = run(None).unwrap();
    assert_eq!(passes.get(), 2);
    let known = run(Some(size(22, 20))).unwrap();
    assert_eq!(passes.get(), 1);
    assert!(known == unknown);
    for wrong in [size(21, 20), size(23, 20), size(22, 19), size(22, 21)] {
        let error = failure(run(Some(wrong)));
        assert!(matches!(error, SetupError::ShapeChanged { .. }), "{wrong:?}: {error}");
    }
    let error = failure(run(Some(size(1 << 40, 1 << 40))));
    assert!(
        matches!(error, SetupError::Synthesis(SynthesisError::PolynomialDegreeTooLarge)),
        "beyond 2^31: {error}"
    );
    let error = failure(run(Some(size(1 << 31, 1 << 31))));
    assert!(matches!(error, SetupError::MemoryLimit { .. }) && error.is_memory(), "{error}");
}

/// A circuit that is not the same twice.
#[test]
fn a_circuit_that_changes_is_an_error() {
    let passes = std::cell::Cell::new(0);
    let circuit = || {
        passes.set(passes.get() + 1);
        Squarings { length: 20 + passes.get(), start: Scalar::ONE }
    };
    let result = generate(circuit, None, Values::random(1).waste(), &CpuFixedBase::new(), &|_, _, _| {});
    assert!(matches!(result, Err(SetupError::ShapeChanged { .. })));
}

/// What multiplies may be anything, in chunks of any size, and may fail.
struct Chunks {
    chunk: usize,
    calls_left: std::sync::atomic::AtomicUsize,
    cpu: CpuFixedBase,
}

impl Chunks {
    fn new(chunk: usize, calls: usize) -> Self {
        Self { chunk, calls_left: calls.into(), cpu: CpuFixedBase::new() }
    }

    fn call(&self, scalars: usize) -> Result<(), FixedBaseError> {
        use std::sync::atomic::Ordering::SeqCst;
        assert!(scalars <= self.chunk.max(1));
        let left = self.calls_left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| FixedBaseError::Device {
            device: "a device".into(),
            message: "it has had enough".into(),
        })
    }
}

impl FixedBase for Chunks {
    fn name(&self) -> &str {
        "chunks"
    }

    fn chunk(&self) -> usize {
        self.chunk
    }

    fn g1(
        &self,
        base: &blstrs::G1Affine,
        scalars: &[Scalar],
        out: &mut [blstrs::G1Affine],
    ) -> Result<(), FixedBaseError> {
        self.call(scalars.len())?;
        self.cpu.g1(base, scalars, out)
    }

    fn g2(
        &self,
        base: &blstrs::G2Affine,
        scalars: &[Scalar],
        out: &mut [blstrs::G2Affine],
    ) -> Result<(), FixedBaseError> {
        self.call(scalars.len())?;
        self.cpu.g2(base, scalars, out)
    }
}

#[test]
fn chunks_and_failures_of_a_device() {
    let circuit = Squarings { length: 40, start: Scalar::ONE };
    let values = Values::random(2);
    let run = |device: &Chunks| generate(|| circuit, None, values.waste(), device, &|_, _, _| {});
    let expected = upstreams(circuit, &values).unwrap();
    for chunk in [0, 1, 7, 40, 63, 64, 1000] {
        assert!(bytes(&run(&Chunks::new(chunk, usize::MAX)).unwrap()) == expected, "{chunk}");
    }
    // 63 powers, 2 + 40 of ext, 41 of A, 40 of B in each group, 7 at a time.
    let calls = [63usize, 2, 40, 41, 40, 40].map(|points| points.div_ceil(7)).iter().sum();
    for fails_after in 0..calls {
        let error = failure(run(&Chunks::new(7, fails_after)));
        assert!(matches!(error, SetupError::FixedBase(FixedBaseError::Device { .. })), "{error}");
        assert!(!error.is_memory());
    }
    assert!(bytes(&run(&Chunks::new(7, calls)).unwrap()) == expected);
}

#[test]
fn progress_is_in_order_and_complete() {
    let seen = std::sync::Mutex::new(Vec::new());
    let circuit = Squarings { length: 40, start: Scalar::ONE };
    let progress = |stage: Stage, done: usize, total: usize| seen.lock().unwrap().push((stage, done, total));
    generate(|| circuit, None, Values::random(1).waste(), &Chunks::new(16, usize::MAX), &progress).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted_by_key(|(stage, _, _)| *stage), "{seen:?}");
    assert!(seen.iter().all(|(_, done, total)| done <= total));
    let h: Vec<_> =
        seen.iter().filter(|(stage, _, _)| *stage == Stage::H).map(|(_, d, t)| (*d, *t)).collect();
    assert_eq!(h, [(0, 63), (16, 63), (32, 63), (48, 63), (63, 63)]);
    assert_eq!(seen.last(), Some(&(Stage::BG2, 40, 40)));
}

/// A variable made up by number shows as an error, whatever it would have met in memory.
#[test]
fn a_variable_of_another_system() {
    #[derive(Clone)]
    struct Stranger;
    impl Circuit<Scalar> for Stranger {
        fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            let stranger = Variable::new_unchecked(bellperson::Index::Aux(usize::MAX));
            cs.enforce(|| "", |lc| lc + stranger, |lc| lc, |lc| lc);
            Ok(())
        }
    }
    let error = failure(ours(&Stranger, &Values::random(1)));
    assert!(matches!(error, SetupError::UnknownVariable { .. }), "{error}");
}
