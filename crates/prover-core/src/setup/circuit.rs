//! The two passes over a circuit: one that counts, one that evaluates its polynomials at a point.
//!
//! The second adds each coefficient, times its row's Lagrange coefficient, to the variable's sum as it comes, so
//! that nothing is kept of the matrices: three scalars a variable.

use bellperson::groth16::Shape;
use bellperson::{Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar;
use ff::Field;

use super::waste::Secrets;
use super::SetupError;

/// Counts a circuit. Its linear combinations are not even asked for.
pub(super) fn count<C: Circuit<Scalar>>(circuit: C) -> Result<Shape, SynthesisError> {
    let mut counter = Counter { found: Shape { constraints: 0, inputs: 1, aux: 0 } };
    circuit.synthesize(&mut counter)?;
    // `input * 0 = 0` for each input, so that all of them stand in A.
    counter.found.constraints += counter.found.inputs;
    Ok(counter.found)
}

/// The polynomials of a circuit's variables at a point: inputs first, the constant one at 0, then auxiliary
/// variables.
pub(super) struct Evaluations {
    pub(super) a: Secrets,
    pub(super) b: Secrets,
    pub(super) c: Secrets,
}

/// Evaluates a circuit's polynomials at the point at which the rows' Lagrange polynomials are `lagrange`.
///
/// # Errors
/// What the synthesis returns; [`SetupError::ShapeChanged`] if the circuit does not have the given shape.
pub(super) fn evaluate<C: Circuit<Scalar>>(
    circuit: C,
    shape: Shape,
    lagrange: Secrets,
) -> Result<Evaluations, SetupError> {
    let mut evaluator = Evaluator::new(shape, lagrange)?;
    evaluator.alloc_input(|| "one", || Ok(Scalar::ONE))?;
    circuit.synthesize(&mut evaluator)?;
    for i in 0..evaluator.found.inputs {
        let input = Variable::new_unchecked(Index::Input(i));
        evaluator.enforce(|| "", |lc| lc + input, |lc| lc, |lc| lc);
    }
    evaluator.finish()
}

struct Counter {
    found: Shape,
}

/// What both constraint systems have in common: variables are counted in `found`, no witness is asked for, names do not
/// matter, and, as in bellperson's generator, circuits may not extend it.
macro_rules! plain {
    () => {
        type Root = Self;

        fn push_namespace<NR: Into<String>, N: FnOnce() -> NR>(&mut self, _: N) {}

        fn pop_namespace(&mut self) {}

        fn get_root(&mut self) -> &mut Self::Root {
            self
        }

        fn alloc<F, A, AR>(&mut self, _: A, _: F) -> Result<Variable, SynthesisError>
        where
            F: FnOnce() -> Result<Scalar, SynthesisError>,
            A: FnOnce() -> AR,
            AR: Into<String>,
        {
            self.found.aux += 1;
            Ok(Variable::new_unchecked(Index::Aux(self.found.aux - 1)))
        }

        fn alloc_input<F, A, AR>(&mut self, _: A, _: F) -> Result<Variable, SynthesisError>
        where
            F: FnOnce() -> Result<Scalar, SynthesisError>,
            A: FnOnce() -> AR,
            AR: Into<String>,
        {
            self.found.inputs += 1;
            Ok(Variable::new_unchecked(Index::Input(self.found.inputs - 1)))
        }
    };
}

impl ConstraintSystem<Scalar> for Counter {
    plain!();

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, _: LA, _: LB, _: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        self.found.constraints += 1;
    }
}

struct Evaluator {
    /// What is expected, and what there is room for.
    expected: Shape,
    found: Shape,
    lagrange: Secrets,
    sums: Evaluations,
    minus_one: Scalar,
    /// The first variable that is used but not there.
    unknown: Option<Index>,
}

impl Evaluator {
    fn new(expected: Shape, lagrange: Secrets) -> Result<Self, SetupError> {
        let variables = expected.inputs.saturating_add(expected.aux);
        let zeroed = || Secrets::zeroed(variables, "the sums of the circuit's variables");
        Ok(Self {
            expected,
            found: Shape { constraints: 0, inputs: 0, aux: 0 },
            lagrange,
            sums: Evaluations { a: zeroed()?, b: zeroed()?, c: zeroed()? },
            minus_one: -Scalar::ONE,
            unknown: None,
        })
    }

    fn finish(self) -> Result<Evaluations, SetupError> {
        let Self { expected, found, .. } = self;
        for (what, expected, found) in [
            ("inputs, the constant one included", expected.inputs, found.inputs),
            ("auxiliary variables", expected.aux, found.aux),
            ("constraints, one for each input included", expected.constraints, found.constraints),
        ] {
            if expected != found {
                return Err(SetupError::ShapeChanged { what, expected, found });
            }
        }
        match self.unknown {
            None => Ok(self.sums),
            Some(Index::Input(index)) => {
                Err(SetupError::UnknownVariable { kind: "input", index, count: found.inputs })
            }
            Some(Index::Aux(index)) => {
                Err(SetupError::UnknownVariable { kind: "auxiliary variable", index, count: found.aux })
            }
        }
    }

    /// Adds a side of the current row to the sums of its variables.
    fn add(&mut self, pick: fn(&mut Evaluations) -> &mut Secrets, side: &LinearCombination<Scalar>) {
        let Some(&row) = self.lagrange.get(self.found.constraints) else { return };
        let sums = pick(&mut self.sums);
        for (variable, coefficient) in side.iter() {
            let (there, at) = match variable.get_unchecked() {
                Index::Input(i) => (i < self.found.inputs, i),
                Index::Aux(i) => (i < self.found.aux, self.expected.inputs.saturating_add(i)),
            };
            match sums.get_mut(at) {
                Some(sum) if there => {
                    // Most coefficients are one of these two.
                    if *coefficient == Scalar::ONE {
                        *sum += row;
                    } else if *coefficient == self.minus_one {
                        *sum -= row;
                    } else {
                        *sum += row * coefficient;
                    }
                }
                // Beyond the expected shape, which the end reports.
                _ if there => {}
                _ => self.unknown = self.unknown.or(Some(variable.get_unchecked())),
            }
        }
    }
}

impl ConstraintSystem<Scalar> for Evaluator {
    plain!();

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        self.add(|sums| &mut sums.a, &a(LinearCombination::zero()));
        self.add(|sums| &mut sums.b, &b(LinearCombination::zero()));
        self.add(|sums| &mut sums.c, &c(LinearCombination::zero()));
        self.found.constraints += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Product {
        rows: usize,
        stray: bool,
    }

    impl Circuit<Scalar> for Product {
        fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
            let x = cs.alloc(|| "x", || unreachable!("no witness is asked for"))?;
            let stray = Variable::new_unchecked(Index::Aux(if self.stray { 1 } else { 0 }));
            for _ in 0..self.rows {
                cs.enforce(|| "", |lc| lc + (Scalar::from(3), x), |lc| lc - stray, |lc| lc + CS::one());
            }
            Ok(())
        }
    }

    fn lagrange(rows: usize) -> Secrets {
        let mut values = Secrets::zeroed(rows, "test").unwrap();
        values.iter_mut().zip(1u64..).for_each(|(value, i)| *value = Scalar::from(i));
        values
    }

    #[test]
    fn sums_are_coefficients_times_rows() {
        let shape = count(Product { rows: 2, stray: false }).unwrap();
        assert_eq!(shape, Shape { constraints: 3, inputs: 1, aux: 1 });
        let sums = evaluate(Product { rows: 2, stray: false }, shape, lagrange(3)).unwrap();
        // The last row is the constant one's own.
        assert_eq!(sums.a[..], [3, 9].map(Scalar::from));
        assert_eq!(sums.b[..], [Scalar::ZERO, -Scalar::from(3)]);
        assert_eq!(sums.c[..], [3, 0].map(Scalar::from));
    }

    #[test]
    fn another_shape_is_an_error() {
        let right = count(Product { rows: 2, stray: false }).unwrap();
        for wrong in [
            Shape { constraints: right.constraints + 1, ..right },
            Shape { constraints: right.constraints - 1, ..right },
            Shape { constraints: 0, ..right },
            Shape { aux: 0, ..right },
            Shape { aux: 2, ..right },
            Shape { inputs: 0, ..right },
            Shape { inputs: 2, ..right },
        ] {
            let result = evaluate(Product { rows: 2, stray: false }, wrong, lagrange(wrong.constraints));
            let error = result.map(|_| ()).unwrap_err();
            assert!(matches!(error, SetupError::ShapeChanged { .. }), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn a_variable_that_is_not_there_is_an_error() {
        let shape = count(Product { rows: 1, stray: true }).unwrap();
        let result = evaluate(Product { rows: 1, stray: true }, shape, lagrange(2));
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error, SetupError::UnknownVariable { index: 1, count: 1, .. }), "{error}");
    }
}
