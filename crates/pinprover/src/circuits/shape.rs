//! The counts of a circuit: what a key made for it must hold.

use std::fmt;

use bellperson::groth16::Parameters;
use bellperson::{Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use ff::PrimeField;
use pairing::MultiMillerLoop;

use crate::circom::CircuitShape;

/// The counts of a circuit, found by synthesising it without a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Public inputs, the constant one included.
    pub inputs: usize,
    /// Private variables.
    pub aux: usize,
    /// The circuit's own constraints, without those that Groth16 adds for the public inputs.
    pub constraints: usize,
    /// Private variables that stand in some A: the points of the A query beyond the inputs.
    pub a_aux: usize,
    /// Public inputs that stand in some B.
    pub b_inputs: usize,
    /// Private variables that stand in some B.
    pub b_aux: usize,
}

impl Shape {
    /// Counts `circuit`. It needs no witness: no assignment is asked for.
    ///
    /// # Errors
    /// Whatever the circuit's own synthesis returns.
    pub fn of<F: PrimeField, C: Circuit<F>>(circuit: C) -> Result<Self, SynthesisError> {
        let mut counter = Counter::default();
        // The constant one.
        counter.alloc_input(|| "", || Ok(F::ONE))?;
        circuit.synthesize(&mut counter)?;
        let set = |bits: &[bool]| bits.iter().filter(|&&bit| bit).count();
        Ok(Self {
            inputs: counter.b_inputs.len(),
            aux: counter.b_aux.len(),
            constraints: counter.constraints,
            a_aux: set(&counter.a_aux),
            b_inputs: set(&counter.b_inputs),
            b_aux: set(&counter.b_aux),
        })
    }

    /// The constraints as the prover counts them: the circuit's own and one for each public input. This is the
    /// length of a, b and c, in elements.
    pub fn rows(&self) -> usize {
        self.constraints + self.inputs
    }

    /// The size of the evaluation domain: the next power of two, in elements.
    pub fn domain(&self) -> usize {
        self.rows().next_power_of_two()
    }

    /// The shape that `params` were made for, as far as it can be told: the constraints only by the domain.
    ///
    /// # Errors
    /// The first count that differs, as found in the key and as the circuit needs it. Keys of another circuit
    /// with equal counts pass; the check of the finished proof catches them.
    pub fn fits<E: MultiMillerLoop>(&self, params: &Parameters<E>) -> Result<(), Mismatch> {
        let counts = [
            ("public inputs", params.vk.ic.len().saturating_sub(1), self.inputs - 1),
            ("private variables", params.l.len(), self.aux),
            ("elements of the domain", params.h.len() + 1, self.domain()),
            ("points of the A query", params.a.len(), self.inputs + self.a_aux),
            ("points of the B query in G1", params.b_g1.len(), self.b_inputs + self.b_aux),
            ("points of the B query in G2", params.b_g2.len(), self.b_inputs + self.b_aux),
        ];
        match counts.into_iter().find(|(_, found, expected)| found != expected) {
            Some((what, found, expected)) => Err(Mismatch { what, expected, found }),
            None => Ok(()),
        }
    }
}

impl From<CircuitShape> for Shape {
    fn from(shape: CircuitShape) -> Self {
        let CircuitShape { constraints, inputs, aux, a_aux, b_inputs, b_aux } = shape;
        Self { inputs, aux, constraints, a_aux, b_inputs, b_aux }
    }
}

/// A count in which a key and a circuit differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What is counted.
    pub what: &'static str,
    /// What the circuit needs.
    pub expected: usize,
    /// What the key holds.
    pub found: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, expected, found } = self;
        write!(f, "the circuit has {expected} {what}, the key was made for {found}")
    }
}

impl std::error::Error for Mismatch {}

#[derive(Default)]
struct Counter {
    constraints: usize,
    a_aux: Vec<bool>,
    b_inputs: Vec<bool>,
    b_aux: Vec<bool>,
}

impl<F: PrimeField> ConstraintSystem<F> for Counter {
    type Root = Self;

    fn alloc<V, A, AR>(&mut self, _: A, _: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.a_aux.push(false);
        self.b_aux.push(false);
        Ok(Variable(Index::Aux(self.b_aux.len() - 1)))
    }

    fn alloc_input<V, A, AR>(&mut self, _: A, _: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.b_inputs.push(false);
        Ok(Variable(Index::Input(self.b_inputs.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, _: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
        LB: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
        LC: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
    {
        // A term whose coefficient cancelled to zero is none, as in the prover's own density trackers.
        for (variable, coefficient) in a(LinearCombination::zero()).iter() {
            if let (Index::Aux(i), false) = (variable.0, coefficient.is_zero_vartime()) {
                self.a_aux[i] = true;
            }
        }
        for (variable, coefficient) in b(LinearCombination::zero()).iter() {
            match (variable.0, coefficient.is_zero_vartime()) {
                (_, true) => {}
                (Index::Input(i), _) => self.b_inputs[i] = true,
                (Index::Aux(i), _) => self.b_aux[i] = true,
            }
        }
        self.constraints += 1;
    }

    fn push_namespace<NR: Into<String>, N: FnOnce() -> NR>(&mut self, _: N) {}

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self::Root {
        self
    }
}
