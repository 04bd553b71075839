//! After `prover_core::init`, code that knows only upstream's functions proves in the pool, with upstream's bytes.
//!
//! One process has one registry, so these tests take turns.

use std::time::Duration;

use bellperson::groth16::{
    create_proof, create_proof_batch, create_random_proof, prepare_verifying_key, verify_proof, Shape,
};
use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::{Bls12, Scalar};
use ff::Field;
use pinprover_tests::allocator::nobody_registered;
use pinprover_tests::circuits::{RandomR1cs, Squarings};
use pinprover_tests::oracle::{blinding, bytes, parameters, upstream_proof};
use prover_core::memory::pool::Exhaustion;
use prover_core::prover::HintOutcome;
use prover_core::{init, Config, Hints, InitError, MemoryBackend};
use rand_core::OsRng;
use rayon::prelude::*;

const BACKENDS: [MemoryBackend; 5] = [
    MemoryBackend::Auto,
    MemoryBackend::Pages,
    MemoryBackend::Mlock,
    MemoryBackend::Heap,
    MemoryBackend::None,
];

fn config(backend: MemoryBackend) -> Config {
    let mut config = Config::default();
    config.backend = backend;
    config.memory_budget = Some(1 << 30);
    config
}

#[test]
fn every_backend_gives_upstreams_proofs() {
    let _turn = nobody_registered();
    let circuits = [
        RandomR1cs::new(1, 2, 10, 300, true),
        RandomR1cs::new(2, 0, 30, 40, false),
        RandomR1cs::new(3, 0, 1, 0, true).with_children(3),
    ];
    for (i, circuit) in circuits.into_iter().enumerate() {
        let params = parameters(circuit.clone(), i as u64);
        let (r, s) = blinding(i as u64);
        let expected = upstream_proof(circuit.clone(), &params, (r, s));
        for backend in BACKENDS {
            let prover = init(config(backend)).unwrap();
            for proof in 1..=3 {
                let ours = create_proof::<Bls12, _, _>(circuit.clone(), &params, r, s).unwrap();
                assert_eq!(bytes(&ours), expected, "{backend:?}, proof {proof}");
            }
            let proven = prover.prove(circuit.clone(), &params, r, s).unwrap();
            assert_eq!(bytes(&proven.proof), expected);

            let reports = prover.reports();
            assert_eq!(reports.iter().map(|r| r.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
            assert_eq!(reports[0].hint, HintOutcome::Absent);
            assert!(reports[1..].iter().all(|report| report.hint == HintOutcome::Exact));
            assert!(reports.iter().all(|report| report.checked && !report.memory.abc.pinned));
            let growths = |i: usize| reports[i].memory.grown_in_place + reports[i].memory.moved;
            assert_eq!((growths(1), growths(2), growths(3)), (0, 0, 0), "exact hints do not grow");
            let memory = &reports[0].memory;
            match prover.pool_stats() {
                // Locking may be refused by the system's limit; then the vectors are on the heap, and the report says why.
                Some(_) if memory.refusal.is_some() => {
                    assert_eq!(backend, MemoryBackend::Mlock);
                    assert_eq!(memory.abc.backend, "heap");
                }
                Some(stats) => {
                    assert_eq!(memory.abc.backend, stats.backend);
                    assert_eq!((stats.out_bytes, stats.in_flight_bytes), (0, 0), "all came back");
                    assert!(stats.hits > 0, "later proofs reuse the blocks of the first");
                }
                None => assert_eq!(memory.abc.backend, "heap"),
            }
            let budget = prover.budget().clone();
            prover.shut_down(Duration::from_secs(5)).unwrap();
            assert_eq!(budget.used(), 0, "the budget is back where it began");
        }
    }
}

#[test]
fn a_wrong_shape_is_harmless_on_every_backend() {
    let _turn = nobody_registered();
    let circuit = RandomR1cs::new(7, 2, 10, 500, true);
    let params = parameters(circuit.clone(), 7);
    let (r, s) = blinding(7);
    let expected = upstream_proof(circuit.clone(), &params, (r, s));
    for backend in BACKENDS {
        let prover = init(config(backend)).unwrap();
        let exact = prover.prove(circuit.clone(), &params, r, s).unwrap().report;
        let (constraints, inputs, aux) = (exact.constraints, exact.inputs, exact.aux);
        for (constraints, aux, outcome) in [
            (constraints, aux, HintOutcome::Exact),
            (constraints - 1, aux - 1, HintOutcome::TooSmall),
            (1, 1, HintOutcome::TooSmall),
            (0, 0, HintOutcome::TooSmall),
            (constraints * 3, aux, HintOutcome::TooLarge),
            (usize::MAX, usize::MAX, HintOutcome::TooLarge),
        ] {
            let shape = Shape { constraints, inputs, aux };
            let proven = prover.prove_expecting(circuit.clone(), &params, r, s, shape).unwrap();
            assert_eq!(bytes(&proven.proof), expected, "{backend:?}, {shape:?}");
            assert_eq!(proven.report.hint, outcome);
        }
        let budget = prover.budget().clone();
        drop(prover);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn hints_live_in_a_file() {
    let _turn = nobody_registered();
    let folder = tempfile::tempdir().unwrap();
    let circuit = Squarings { length: 5000, start: Scalar::from(3) };
    let params = parameters(circuit, 1);
    let mut config = config(MemoryBackend::Pages);
    config.hints = Hints::File(folder.path().join("hints.json"));
    for expected in [HintOutcome::Absent, HintOutcome::Exact] {
        let prover = init(config.clone()).unwrap();
        let proven = prover.prove(circuit, &params, Scalar::ONE, Scalar::ONE).unwrap();
        assert_eq!(proven.report.hint, expected);
    }
    // A circuit of the same type with another key is another circuit.
    let longer = Squarings { length: 6000, ..circuit };
    let prover = init(config).unwrap();
    let proven = prover.prove(longer, &parameters(longer, 1), Scalar::ONE, Scalar::ONE).unwrap();
    assert_eq!(proven.report.hint, HintOutcome::Absent);
}

#[test]
fn random_proofs_differ_and_verify() {
    let _turn = nobody_registered();
    let prover = init(config(MemoryBackend::Auto)).unwrap();
    let circuit = Squarings { length: 60, start: Scalar::from(9) };
    let params = parameters(circuit, 2);
    let end = (0..60).fold(Scalar::from(9), |value, _| value.square());
    let pvk = prepare_verifying_key(&params.vk);
    let proofs = [0; 2].map(|_| create_random_proof::<Bls12, _, _, _>(circuit, &params, &mut OsRng).unwrap());
    assert_ne!(bytes(&proofs[0]), bytes(&proofs[1]));
    for proof in &proofs {
        assert!(verify_proof(&pvk, proof, &[end]).unwrap());
    }
    drop(prover);
}

#[test]
fn proofs_from_several_threads_share_the_pool() {
    let _turn = nobody_registered();
    let prover = init(config(MemoryBackend::Pages)).unwrap();
    let circuit = Squarings { length: 700, start: Scalar::from(5) };
    let params = parameters(circuit, 3);
    let (r, s) = blinding(3);
    let expected = upstream_proof(circuit, &params, (r, s));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let proof = create_proof::<Bls12, _, _>(circuit, &params, r, s).unwrap();
                    assert_eq!(bytes(&proof), expected);
                }
            });
        }
    });
    assert_eq!(prover.reports().len(), 12);
    let stats = prover.pool_stats().unwrap();
    assert_eq!((stats.out_bytes, stats.quarantined_bytes), (0, 0));
    assert_eq!(stats.mapped_bytes, stats.idle_bytes);
}

/// Claims that 2 * 2 = 5.
#[derive(Clone, Copy)]
struct Wrong;

impl Circuit<Scalar> for Wrong {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let two = cs.alloc(|| "two", || Ok(Scalar::from(2)))?;
        let five = cs.alloc_input(|| "five", || Ok(Scalar::from(5)))?;
        cs.enforce(|| "", |lc| lc + two, |lc| lc + two, |lc| lc + five);
        Ok(())
    }
}

#[test]
fn an_unsatisfied_circuit_is_caught_by_the_self_check() {
    let _turn = nobody_registered();
    let params = parameters(Wrong, 4);
    let prover = init(config(MemoryBackend::Auto)).unwrap();
    let error = prover.prove(Wrong, &params, Scalar::ONE, Scalar::ONE).unwrap_err();
    assert!(error.is_self_check(), "{error}");
    assert!(create_proof::<Bls12, _, _>(Wrong, &params, Scalar::ONE, Scalar::ONE).is_err());
    drop(prover);

    let mut unchecked = config(MemoryBackend::Auto);
    unchecked.self_check = false;
    let prover = init(unchecked).unwrap();
    let proven = prover.prove(Wrong, &params, Scalar::ONE, Scalar::ONE).unwrap();
    assert!(!proven.report.checked);
    assert_eq!(bytes(&proven.proof), upstream_proof(Wrong, &params, (Scalar::ONE, Scalar::ONE)));
}

#[test]
fn parameters_of_another_circuit_are_named() {
    let _turn = nobody_registered();
    let prover = init(config(MemoryBackend::Auto)).unwrap();
    let circuit = Squarings { length: 100, start: Scalar::from(3) };
    let (r, s) = blinding(5);
    for (other, text) in [
        (Squarings { length: 101, ..circuit }, "auxiliary variables: expected 100, found 101"),
        (Squarings { length: 300, ..circuit }, "auxiliary variables: expected 100, found 300"),
    ] {
        let error = prover.prove(circuit, &parameters(other, 5), r, s).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        // Through upstream's function, too, it is an error and not a proof that nobody accepts.
        assert!(create_proof::<Bls12, _, _>(circuit, &parameters(other, 5), r, s).is_err());
    }
    // All counts agree, the key does not belong: only the check of the finished proof can tell.
    struct Other(Squarings);
    impl Circuit<Scalar> for Other {
        fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            let mut variable = cs.alloc(|| "", || Ok(self.0.start))?;
            for i in 0..self.0.length {
                let value = || Ok(self.0.start);
                let next = match i + 1 == self.0.length {
                    true => cs.alloc_input(|| "", value)?,
                    false => cs.alloc(|| "", value)?,
                };
                let two = Scalar::from(2);
                cs.enforce(|| "", |lc| lc + (two, variable), |lc| lc + variable, |lc| lc + next);
                variable = next;
            }
            Ok(())
        }
    }
    let error = prover.prove(circuit, &parameters(Other(circuit), 5), r, s).unwrap_err();
    assert!(error.is_self_check(), "{error}");
    drop(prover);
}

#[test]
fn memory_that_is_used_up_follows_the_policy() {
    let _turn = nobody_registered();
    let circuit = Squarings { length: 20_000, start: Scalar::from(3) };
    let params = parameters(circuit, 6);
    let (r, s) = blinding(6);
    let expected = upstream_proof(circuit, &params, (r, s));
    // a, b, c and the witness of this circuit take 3.6 MiB, with a, b and c padded to the domain.
    let mut config = config(MemoryBackend::Pages);
    config.memory_budget = Some(1 << 20);

    let prover = init(config.clone()).unwrap();
    let proven = prover.prove(circuit, &params, r, s).unwrap();
    assert_eq!(bytes(&proven.proof), expected);
    assert_eq!(proven.report.memory.abc.backend, "heap");
    assert!(proven.report.memory.refusal.is_some());
    drop(prover);

    for exhaustion in [Exhaustion::Fail, Exhaustion::Wait(Duration::from_millis(50))] {
        config.exhaustion = exhaustion;
        let prover = init(config.clone()).unwrap();
        let error = prover.prove(circuit, &params, r, s).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
        assert!(error.to_string().contains("host memory (system RAM)"), "{error}");
        // The next, small one is served.
        let small = Squarings { length: 50, ..circuit };
        prover.prove(small, &parameters(small, 6), r, s).unwrap();
        let budget = prover.budget().clone();
        drop(prover);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn one_prover_a_process() {
    let _turn = nobody_registered();
    let prover = init(config(MemoryBackend::Auto)).unwrap();
    assert!(matches!(init(config(MemoryBackend::Auto)), Err(InitError::AllocatorRegistered(_))));
    drop(prover);
    let again = init(config(MemoryBackend::Auto)).unwrap();
    drop(again);
    let mut tiny = config(MemoryBackend::Auto);
    tiny.memory_budget = Some(1000);
    assert!(matches!(init(tiny), Err(InitError::BudgetTooSmall { bytes: 1000, .. })));
    let mut wide = config(MemoryBackend::Auto);
    wide.pool_max = Some(2 << 30);
    assert!(matches!(init(wide), Err(InitError::PoolAboveBudget { .. })));
    assert_eq!(pinned_alloc::current_name(), None, "a failed start leaves nothing registered");
}

#[test]
fn who_waits_for_memory_never_waits_for_itself() {
    let _turn = nobody_registered();
    let circuit = Squarings { length: 4000, start: Scalar::from(3) };
    let params = parameters(circuit, 9);
    let (r, s) = blinding(9);
    let expected = upstream_proof(circuit, &params, (r, s));
    let mut config = config(MemoryBackend::Pages);
    // Room for one set of 4 times 128 KiB, and a little more.
    config.memory_budget = Some(1 << 20);
    config.pool_max = Some(600 << 10);
    config.exhaustion = Exhaustion::Wait(Duration::from_secs(60));
    let prover = init(config).unwrap();
    let start = std::time::Instant::now();

    // Threads of our own wait for each other.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(bytes(&prover.prove(circuit, &params, r, s).unwrap().proof), expected));
        }
    });
    // A batch does not hold finished circuits while it asks for more memory.
    let batch = create_proof_batch::<Bls12, _, _>(vec![circuit; 4], &params, vec![r; 4], vec![s; 4]).unwrap();
    assert!(batch.iter().all(|proof| bytes(proof) == expected));
    // Rayon's threads may hold a set further down their stack: they are served, or told at once.
    let results: Vec<_> = (0..12).into_par_iter().map(|_| prover.prove(circuit, &params, r, s)).collect();
    assert!(results.iter().any(Result::is_ok));
    for result in results {
        match result {
            Ok(proven) => assert_eq!(bytes(&proven.proof), expected),
            Err(error) => assert!(error.is_out_of_memory(), "{error}"),
        }
    }
    assert!(start.elapsed() < Duration::from_secs(55), "somebody waited until the deadline");
}
