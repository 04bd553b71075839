//! More proofs of a device beside upstream's: what `oracle.rs` leaves out. Exact counts of constraints, sparse and dense
//! queries, identity and repeated points, batches, wrong keys, circom's fixtures, and (ignored by default) 2^20 constraints.
//!
//! Each comparison goes through bellperson's `create_proof` and through [`Guard::prove`]. `GPU_MAX_LOG` raises the largest
//! domain from 2^14. Without a device a test says `skipped: no CUDA device`, which is not the same as having passed.

use std::sync::Arc;

use bellperson::groth16::{create_proof_batch, Parameters};
use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use ff::Field;
use group::prime::PrimeCurveAffine;
use pinprover::circom::{CircomCircuit, R1cs, Witness};
use pinprover::circuits::{BuiltIn, Family, Size};
use pinprover_tests::circuits::{value, RandomR1cs};
use pinprover_tests::oracle::{blinding, bytes, our_proof, upstream_proof};
use prover_core::cuda::DeviceSelector;
use prover_core::prover::GpuFixedBase;
use prover_core::{init, Config, InitError, ProverChoice};
use rand_chacha::ChaCha8Rng;
use rand_core::{OsRng, SeedableRng};

use super::support::{alone, config, device, device_with, key, key_by, max_log, on_device, Device};

impl Device {
    /// Both ways to prove give upstream's bytes, on the device and from page-locked memory.
    fn same<C>(&self, circuit: C, params: &Parameters<Bls12>, blinding: (Scalar, Scalar), what: &str)
    where
        C: Circuit<Scalar> + Send + Clone,
    {
        let expected = upstream_proof(circuit.clone(), params, blinding);
        assert_eq!(our_proof(circuit.clone(), params, blinding), expected, "create_proof, {what}");
        on_device(self.guard.reports().last().expect("the report of that proof"));
        let proven = self.guard.prove(circuit, params, blinding.0, blinding.1);
        let proven = proven.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(bytes(&proven.proof), expected, "Guard::prove, {what}");
        on_device(&proven.report);
    }
}

/// Products `k x y = z` of private variables: x stands in A only, y in B only, z in C only. With n of them there are n
/// constraints, n + 1 rows and 3 n variables, a third of which are in each of the A and B queries.
///
/// With twins, `k (x + x') (y + y') = z`: two variables have the same polynomials, so their points in the key are equal.
#[derive(Clone)]
struct Products {
    values: Arc<Vec<[Scalar; 2]>>,
    k: Scalar,
    twins: bool,
}

impl Products {
    fn new(values: Vec<[Scalar; 2]>) -> Self {
        Self { values: Arc::new(values), k: Scalar::ONE, twins: false }
    }

    fn random(seed: u64, count: usize, bits: bool) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Self::new((0..count).map(|_| [value(&mut rng, bits), value(&mut rng, bits)]).collect())
    }
}

impl Circuit<Scalar> for Products {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        for (i, [x, y]) in self.values.iter().enumerate() {
            let cs = &mut cs.namespace(|| format!("product {i}"));
            let mut z = self.k * x * y;
            let vx = cs.alloc(|| "x", || Ok(*x))?;
            let vy = cs.alloc(|| "y", || Ok(*y))?;
            let mut twins = None;
            if self.twins {
                z = z.double().double();
                twins = Some((cs.alloc(|| "x twin", || Ok(*x))?, cs.alloc(|| "y twin", || Ok(*y))?));
            }
            let vz = cs.alloc(|| "z", || Ok(z))?;
            let k = self.k;
            cs.enforce(
                || "product",
                |lc| twins.iter().fold(lc + (k, vx), |lc, twin| lc + (k, twin.0)),
                |lc| twins.iter().fold(lc + vy, |lc, twin| lc + twin.1),
                |lc| lc + vz,
            );
        }
        Ok(())
    }
}

#[test]
fn exact_counts_of_constraints_and_of_rows() {
    let Some(device) = device() else { return };
    let mut counts = vec![1, 2, 3, 31, 32, 33, 511, 512, 513];
    counts.extend((2..=max_log()).flat_map(|log| [(1 << log) - 1, 1 << log, (1 << log) + 1]));
    // A row more than constraints: the constant one has its own.
    counts.extend(counts.clone().iter().map(|count| count - 1).filter(|count| *count > 0));
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let circuit = Products::random(count as u64, count, true);
        device.same(
            circuit.clone(),
            &key(&circuit, 21),
            blinding(count as u64),
            &format!("{count} constraints"),
        );
    }
}

#[test]
fn random_systems_through_both_ways() {
    let Some(device) = device() else { return };
    for seed in 1000..1024_u64 {
        let (inputs, free, products) =
            (seed as usize % 9, 1 + seed as usize * 31 % 500, seed as usize * 97 % 3000);
        let circuit = RandomR1cs::new(seed, inputs, free, products, seed % 3 != 0);
        device.same(circuit.clone(), &key(&circuit, seed), blinding(seed), &format!("seed {seed}"));
    }
}

#[test]
fn witnesses_of_zeros_of_ones_dense_and_of_one_value() {
    let Some(device) = device() else { return };
    for count in [1, 33, 1000, 5000] {
        let mut lone = vec![[Scalar::ZERO; 2]; count];
        lone[count - 1] = [Scalar::random(OsRng), Scalar::random(OsRng)];
        for (what, values) in [
            ("zeros", vec![[Scalar::ZERO; 2]; count]),
            ("ones", vec![[Scalar::ONE; 2]; count]),
            ("the largest value", vec![[-Scalar::ONE; 2]; count]),
            ("random values", (0..count).map(|_| [Scalar::random(OsRng), Scalar::random(OsRng)]).collect()),
            ("zeros and one random value", lone),
        ] {
            let circuit = Products::new(values);
            device.same(circuit.clone(), &key(&circuit, 22), blinding(22), &format!("{count} times {what}"));
        }
    }
}

#[test]
fn twins_have_equal_points() {
    let Some(device) = device() else { return };
    for count in [1, 40, 3000] {
        let circuit = Products { twins: true, ..Products::random(23, count, false) };
        let params = key(&circuit, 23);
        assert_eq!((params.a[1], params.b_g2[0]), (params.a[2], params.b_g2[1]), "twins share their points");
        device.same(circuit, &params, blinding(23), &format!("{count} twins"));
    }
}

/// The key is changed, so nobody would accept the proofs: only the bytes count.
#[test]
fn queries_of_one_point_and_its_negative() {
    let Some(device) = device_with(|config| config.self_check = false) else { return };
    for (seed, count) in [(24, 7), (25, 600), (26, 6000)] {
        for negate in [false, true] {
            let circuit = Products::random(seed, count, seed % 2 == 0);
            // Keys on a device are told apart by their verifying keys, so each changed key has one of its own.
            let mut params = key(&circuit, seed * 2 + u64::from(negate));
            let negate = |i: usize| negate && i % 2 == 1;
            let g1 = |points: &[G1Affine]| -> Arc<Vec<_>> {
                let (point, negative) = (points[0], -points[0]);
                Arc::new((0..points.len()).map(|i| if negate(i) { negative } else { point }).collect())
            };
            let g2 = |points: &[G2Affine]| -> Arc<Vec<_>> {
                let (point, negative) = (points[0], -points[0]);
                Arc::new((0..points.len()).map(|i| if negate(i) { negative } else { point }).collect())
            };
            params.h = g1(&params.h);
            params.l = g1(&params.l);
            params.a = g1(&params.a);
            params.b_g1 = g1(&params.b_g1);
            params.b_g2 = g2(&params.b_g2);
            device.same(circuit, &params, blinding(seed), &format!("{count} equal points"));
        }
    }
}

/// Upstream takes an identity in the key where its scalar is zero, and nowhere else.
#[test]
fn identity_points_at_zeros() {
    let Some(device) = device() else { return };
    for count in [5, 100, 4000] {
        let circuit = Products::random(27 + count as u64, count, true);
        let mut params = key(&circuit, 27 + count as u64);
        let [l, a, b_g1] = [&mut params.l, &mut params.a, &mut params.b_g1].map(Arc::make_mut);
        let b_g2 = Arc::make_mut(&mut params.b_g2);
        let mut erased = 0;
        for (i, [x, y]) in circuit.values.iter().enumerate() {
            if *x == Scalar::ZERO {
                // The first point of A is the constant one's.
                (a[1 + i], l[3 * i]) = (G1Affine::identity(), G1Affine::identity());
                erased += 1;
            }
            if *y == Scalar::ZERO {
                (b_g1[i], b_g2[i], l[3 * i + 1]) =
                    (G1Affine::identity(), G2Affine::identity(), G1Affine::identity());
                erased += 1;
            }
            if *x * y == Scalar::ZERO {
                l[3 * i + 2] = G1Affine::identity();
            }
        }
        assert!(erased > 0, "the witness has zeros");
        device.same(circuit, &params, blinding(27), &format!("{erased} identities"));
    }
}

#[test]
fn an_identity_that_is_used_never_gives_a_proof() {
    let Some(device) = device() else { return };
    let circuit = Products::random(31, 300, false);
    let mut params = key(&circuit, 31);
    Arc::make_mut(&mut params.l)[17] = G1Affine::identity();
    let (r, s) = blinding(31);
    device.guard.prove(circuit.clone(), &params, r, s).expect_err("a point is missing");
    device.same(circuit.clone(), &key(&circuit, 32), blinding(32), "the next proof");
}

#[test]
fn batches() {
    let Some(device) = device() else { return };
    for count in [1, 2, 5] {
        let circuits: Vec<_> = (0..count).map(|i| Products::random(40 + i, 700, i % 2 == 0)).collect();
        let params = key(&circuits[0], 40 + count);
        let (r, s): (Vec<_>, Vec<_>) = (0..count).map(blinding).unzip();
        let before = device.guard.reports().len();
        let proofs = create_proof_batch(circuits.clone(), &params, r.clone(), s.clone()).expect("proofs");
        assert_eq!(proofs.len(), circuits.len());
        for ((proof, circuit), blinding) in proofs.iter().zip(circuits).zip(r.into_iter().zip(s)) {
            assert_eq!(bytes(proof), upstream_proof(circuit, &params, blinding), "a batch of {count}");
        }
        let reports = &device.guard.reports()[before..];
        assert_eq!(reports.len() as u64, count);
        reports.iter().for_each(on_device);
    }
}

#[test]
fn each_key_is_loaded_once() {
    let Some(device) = device() else { return };
    let circuit = Products::random(50, 2000, true);
    let keys = [key(&circuit, 50), key(&circuit, 51)];
    let loaded: Vec<_> = [0, 0, 1, 0, 1, 1, 0]
        .map(|which: usize| {
            let (r, s) = (Scalar::random(OsRng), Scalar::random(OsRng));
            let proven = device.guard.prove(circuit.clone(), &keys[which], r, s).expect("a proof");
            proven.report.device.expect("made on the device").key_loaded
        })
        .into();
    assert_eq!(loaded, [true, false, true, false, false, false, false]);
}

/// All counts agree, so only the check of the proof can tell.
#[test]
fn a_key_of_the_same_shape_for_another_circuit_is_an_error() {
    let Some(device) = device() else { return };
    let circuit = Products::random(60, 500, false);
    let other = Products { k: Scalar::from(2), ..circuit.clone() };
    let (r, s) = blinding(60);
    let error =
        device.guard.prove(circuit.clone(), &key(&other, 60), r, s).expect_err("another circuit's key");
    assert!(error.is_self_check(), "{error}");
    device.same(circuit.clone(), &key(&circuit, 61), blinding(61), "the next proof");
}

#[test]
fn circom_fixtures() {
    let Some(device) = device() else { return };
    // In the binary, which also runs where the repository is not.
    macro_rules! fixtures {
        ($($name:literal),*) => {
            [$((
                $name,
                &include_bytes!(concat!("../../circom/", $name, ".r1cs"))[..],
                &include_bytes!(concat!("../../circom/", $name, ".wtns"))[..],
            )),*]
        };
    }
    for (name, r1cs, wtns) in fixtures!("multiplier", "unused", "unused_O0", "rounds", "bits", "silent") {
        let empty = CircomCircuit::new(R1cs::from_bytes(r1cs).expect("a system")).expect("a circuit");
        let witness = Witness::from_bytes(wtns).expect("a witness");
        let circuit = empty.with_witness(witness).expect("they belong together");
        device.same(circuit, &key(&empty, 70), blinding(70), name);
    }
}

/// Needs no device, so it is never skipped.
#[test]
fn a_device_that_is_not_there_is_an_error_and_leaves_nothing_registered() {
    let _alone = alone();
    for _ in 0..2 {
        let mut config = config();
        config.devices = vec![DeviceSelector::Ordinal(1000)];
        let error = init(config).expect_err("there are fewer devices");
        assert!(matches!(error, InitError::Gpu { .. } | InitError::Devices(_)), "{error}");
    }
    let mut config = Config::default();
    config.prover = ProverChoice::Cpu;
    drop(init(config).expect("nothing is registered"));
}

#[test]
#[ignore = "minutes: upstream proves 2^20 constraints on the CPU"]
fn built_in_circuits_of_a_million_constraints() {
    let Some(device) = device() else { return };
    let points = GpuFixedBase::new(&DeviceSelector::Ordinal(0)).expect("the device can be used");
    for family in Family::ALL {
        let built = BuiltIn::new(family, Size::Constraints(1 << 20)).expect("a size that exists");
        let instance = built.instance::<Scalar>(&mut OsRng);
        let params = key_by(&built.circuit::<Scalar>(), 80, &points);
        device.same(instance.circuit, &params, blinding(80), &built.to_string());
    }
}
