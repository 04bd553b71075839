//! Synthesis into registered memory, over a small field so that Miri can run it: whatever the allocator does, and however
//! wrong the expected shape, the assignment is the one that the heap would have, and every block comes back once.

use bellperson::groth16::{
    synthesize, synthesize_with, MemoryPolicy, ProvingAssignment, Shape, SynthesisOptions,
};
use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use ff::Field;
use pinned_alloc::Residency;
use pinprover_tests::allocator::{nobody_registered, Behaviour, Registered};

// The derive macro writes items without documentation.
#[allow(missing_docs)]
mod field {
    use ff::PrimeField;

    /// The integers modulo 65537.
    #[derive(PrimeField)]
    #[PrimeFieldModulus = "65537"]
    #[PrimeFieldGenerator = "3"]
    #[PrimeFieldReprEndianness = "little"]
    pub struct Fp([u64; 1]);
}
use field::Fp;

/// Squarings of a secret; every tenth result is public. By children that extend the root if `children`.
#[derive(Clone, Copy)]
struct Chain {
    length: usize,
    children: bool,
}

impl Circuit<Fp> for Chain {
    fn synthesize<CS: ConstraintSystem<Fp>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        if self.children {
            for i in 0..3 {
                let mut child = CS::new();
                child.alloc_input(|| "one", || Ok(Fp::ONE))?;
                Chain { length: self.length / 3 + i, children: false }.synthesize(&mut child)?;
                cs.extend(&child);
            }
            return Ok(());
        }
        let mut value = Fp::from(5);
        let mut variable = cs.alloc(|| "start", || Ok(value))?;
        for i in 0..self.length {
            value = value.square();
            let next = match i % 10 {
                9 => cs.alloc_input(|| "", || Ok(value))?,
                _ => cs.alloc(|| "", || Ok(value))?,
            };
            cs.enforce(|| "", |lc| lc + variable, |lc| lc + variable, |lc| lc + next);
            variable = next;
        }
        Ok(())
    }
}

/// Miri takes a thousand times as long: it gets short chains.
const LENGTH: usize = if cfg!(miri) { 10 } else { 100 };
/// A shape that is too small.
const SMALL: usize = LENGTH / 5;

const CHAINS: [Chain; 2] =
    [Chain { length: LENGTH, children: false }, Chain { length: LENGTH * 9 / 10, children: true }];

/// On the heap, with no allocator.
fn expected(chain: Chain) -> ProvingAssignment<Fp> {
    synthesize_with(chain, SynthesisOptions::default().memory(MemoryPolicy::Heap)).unwrap()
}

/// Shapes that a circuit could be expected to have: right, absent, too small by one, far too small, too large, absurd.
fn expectations(exact: Shape) -> Vec<Option<Shape>> {
    let less = |by: usize| Shape {
        constraints: exact.constraints.saturating_sub(by),
        inputs: exact.inputs,
        aux: exact.aux.saturating_sub(by),
    };
    vec![
        Some(exact),
        None,
        Some(less(1)),
        Some(less(usize::MAX)),
        Some(Shape { constraints: 1000, inputs: 0, aux: 1000 }),
        Some(Shape { constraints: usize::MAX, inputs: usize::MAX, aux: usize::MAX }),
    ]
}

#[test]
fn without_an_allocator_the_heap_serves() {
    let _nobody = nobody_registered();
    for chain in CHAINS {
        let expected = expected(chain);
        for shape in expectations(expected.shape()) {
            let assignment = synthesize(chain, shape).unwrap();
            assert!(assignment == expected);
            assert!(assignment.backings().iter().all(Option::is_none));
            assert_eq!(assignment.placement().growths, Default::default());
            assert!(assignment.refusal().is_none());
        }
    }
}

#[test]
fn an_exact_shape_never_grows() {
    for chain in CHAINS {
        let expected = expected(chain);
        let registered = Registered::new(Behaviour::default());
        let options = SynthesisOptions::default().expecting(expected.shape());
        let assignment = synthesize_with(chain, options).unwrap();
        assert!(assignment == expected);
        assert_eq!(registered.allocated(), 4, "a, b, c and the witness, and nothing for the children");
        assert_eq!(assignment.placement().growths, Default::default());
        assert_eq!(assignment.placement().abc_residency, Residency::Pinned);
        assert_eq!(assignment.placement().aux_residency, Residency::Pinned);
        assert_eq!(assignment.placement().abc_allocator, Some("test"));
        drop(assignment);
        assert_eq!(registered.out(), 0);
    }
}

#[test]
fn any_shape_and_any_growth_give_the_same_assignment() {
    for chain in CHAINS {
        let expected = expected(chain);
        for growth in [0, 2, 100] {
            for shape in expectations(expected.shape()) {
                let registered = Registered::new(Behaviour { growth, ..Behaviour::default() });
                let options = SynthesisOptions::default().expecting(shape);
                // The absurd shape overflows before the allocator is asked.
                let absurd = shape.is_some_and(|shape| shape.constraints == usize::MAX);
                let assignment = synthesize_with(chain, options).unwrap();
                assert!(assignment == expected, "growth {growth}, expected shape {shape:?}");
                assert_eq!(assignment.backings().iter().all(Option::is_some), !absurd);
                drop(assignment);
                assert_eq!(registered.out(), 0);
            }
        }
    }
}

#[test]
fn blocks_grow_in_place_before_they_move() {
    let chain = CHAINS[0];
    let shape = Shape { constraints: SMALL / 2, inputs: 0, aux: SMALL / 2 };
    // The step of growth is 2^16 elements; without room for that, exactly as much as needed is taken.
    let registered = Registered::new(Behaviour { growth: 100, ..Behaviour::default() });
    let assignment = synthesize(chain, Some(shape)).unwrap();
    let growths = assignment.placement().growths;
    assert!(growths.in_place > 0 && growths.moved == 0 && growths.to_heap == 0, "{growths:?}");
    assert_eq!(registered.allocated(), 4);
    assert_eq!(registered.grown(), growths.in_place as usize);
    drop(assignment);
    drop(registered);

    let registered = Registered::new(Behaviour::default());
    let assignment = synthesize(chain, Some(shape)).unwrap();
    let growths = assignment.placement().growths;
    assert_eq!((growths.in_place, growths.moved, growths.to_heap), (0, 4, 0));
    assert_eq!(registered.allocated(), 8);
    assert_eq!(registered.out(), 4, "the blocks that were too small went back at once");
}

#[test]
fn an_allocator_that_fails_at_any_call_loses_nothing() {
    for chain in CHAINS {
        let expected = expected(chain);
        let small = Some(Shape { constraints: SMALL, inputs: 0, aux: SMALL });
        // Miri takes one of each, which is every kind of growth in turn.
        let (growths, shapes) = match cfg!(miri) {
            true => (vec![3], vec![small]),
            false => (vec![0, 3], vec![small, Some(expected.shape()), None]),
        };
        for &growth in &growths {
            for &shape in &shapes {
                let mut call = 0;
                loop {
                    let mut reached = false;
                    for behaviour in [
                        Behaviour { growth, refuse_once: Some(call), ..Behaviour::default() },
                        Behaviour { growth, refuse_from: Some(call), ..Behaviour::default() },
                    ] {
                        let registered = Registered::new(behaviour);
                        let assignment = synthesize(chain, shape).unwrap();
                        assert!(assignment == expected, "refused at call {call}, growth {growth}");
                        reached |= registered.calls() > call;
                        let placement = assignment.placement();
                        if placement.growths.to_heap > 0 {
                            assert!(assignment.refusal().is_some(), "the reason is kept");
                        }
                        drop(assignment);
                        assert_eq!(registered.out(), 0);
                    }
                    if !reached {
                        break;
                    }
                    call += 1;
                }
                assert!(call >= 5, "one group, and a seal of each block at least: {call}");
            }
        }
    }
}

#[test]
fn a_b_and_c_are_in_one_kind_of_memory() {
    let chain = CHAINS[0];
    let shape = Shape { constraints: SMALL, inputs: 0, aux: SMALL };
    for call in 0..20 {
        let _registered = Registered::new(Behaviour { refuse_from: Some(call), ..Behaviour::default() });
        let assignment = synthesize(chain, Some(shape)).unwrap();
        let [a, b, c, _] = assignment.backings().map(|backing| backing.is_some());
        assert!(a == b && b == c, "refused from call {call}");
    }
}

#[test]
fn required_memory_is_an_error_when_refused() {
    let chain = CHAINS[0];
    let require = SynthesisOptions::default().memory(MemoryPolicy::RequireRegistered);
    let text = |options| -> String {
        let error = synthesize_with::<Fp, _>(chain, options).unwrap_err();
        assert!(matches!(&error, SynthesisError::IoError(e) if e.kind() == std::io::ErrorKind::OutOfMemory));
        error.to_string()
    };
    {
        let _nobody = nobody_registered();
        assert!(text(require).contains("no pinned-memory allocator is registered"));
    }
    // Refused at the start, and refused when a block was full.
    for refuse_from in [0, 1] {
        let _registered =
            Registered::new(Behaviour { refuse_from: Some(refuse_from), ..Behaviour::default() });
        let shape = Shape { constraints: SMALL, inputs: 0, aux: SMALL };
        let text = text(require.expecting(shape));
        assert!(text.contains("registered memory is required") && text.contains("ask again"), "{text}");
    }
    let _registered = Registered::new(Behaviour::default());
    assert!(synthesize_with(chain, require).unwrap() == expected(chain));
}

#[test]
fn a_failing_circuit_gives_its_memory_back() {
    struct Failing(Chain);
    impl Circuit<Fp> for Failing {
        fn synthesize<CS: ConstraintSystem<Fp>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            self.0.synthesize(cs)?;
            Err(SynthesisError::Unsatisfiable)
        }
    }
    struct Panicking(Chain);
    impl Circuit<Fp> for Panicking {
        fn synthesize<CS: ConstraintSystem<Fp>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            self.0.synthesize(cs)?;
            panic!("a circuit's own mistake")
        }
    }
    let registered = Registered::new(Behaviour::default());
    assert!(matches!(synthesize(Failing(CHAINS[0]), None), Err(SynthesisError::Unsatisfiable)));
    assert_eq!(registered.out(), 0);
    assert!(std::panic::catch_unwind(|| synthesize(Panicking(CHAINS[0]), None)).is_err());
    assert_eq!(registered.out(), 0);
}

#[test]
fn releasing_a_b_and_c_keeps_the_witness() {
    let registered = Registered::new(Behaviour::default());
    let mut assignment = synthesize(CHAINS[0], None).unwrap();
    let shape = assignment.shape();
    assert_eq!(registered.out(), 4);
    assignment.release_abc();
    assert_eq!(registered.out(), 1);
    assert!(assignment.a().is_empty() && assignment.b().is_empty() && assignment.c().is_empty());
    assert_eq!(assignment.shape(), shape, "the shape is what was synthesised");
    assert_eq!(assignment.aux_assignment(), expected(CHAINS[0]).aux_assignment());
    assignment.release_abc();
    assert_eq!(registered.out(), 1);
    drop(assignment);
    assert_eq!(registered.out(), 0);
}

#[test]
fn an_assignment_outlives_the_registration() {
    let registered = Registered::new(Behaviour::default());
    let assignment = synthesize(CHAINS[0], None).unwrap();
    // Dropped on another thread, while the allocator is still registered; `Registered` then checks the ledger.
    std::thread::spawn(move || drop(assignment)).join().unwrap();
    assert_eq!(registered.out(), 0);
}

#[test]
fn nothing_secret_is_printed() {
    let _nobody = nobody_registered();
    let text = format!("{:?}", expected(CHAINS[0]));
    let constraints = format!("constraints: {}", LENGTH + LENGTH / 10 + 1);
    assert!(text.contains(&constraints) && !text.contains("Fp("), "{text}");
}
