//! A chain of squarings: `y = x^(2^n)` for a secret `x` and a public `y`.
//!
//! The plainest circuit there is: each constraint is one product, and every value of the witness fills the field,
//! which makes it the worst case for the multi-scalar multiplications.

use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use ff::PrimeField;
use rand_core::RngCore;

/// Rows beyond the squarings: the constant one and `y`.
const INPUT_ROWS: usize = 2;

/// The least number of rows.
pub const LEAST: usize = 1 + INPUT_ROWS;

/// A chain of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Squarings {
    /// How often `x` is squared; at least 1.
    pub squarings: usize,
}

impl Squarings {
    /// The chain with exactly `rows` rows, or `None` below [`LEAST`].
    pub fn with_rows(rows: usize) -> Option<Self> {
        (rows >= LEAST).then(|| Self { squarings: rows - INPUT_ROWS })
    }

    /// The constraints as the prover counts them.
    pub fn rows(&self) -> usize {
        self.squarings + INPUT_ROWS
    }

    /// The circuit without a witness.
    pub fn circuit<F: PrimeField>(&self) -> SquaringsCircuit<F> {
        SquaringsCircuit { squarings: self.squarings, x: None }
    }

    /// The circuit with a fresh witness, and `y`.
    pub fn instance<F: PrimeField>(&self, rng: &mut impl RngCore) -> (SquaringsCircuit<F>, Vec<F>) {
        let x = F::random(rng);
        let y = (0..self.squarings).fold(x, |x, _| x.square());
        (SquaringsCircuit { squarings: self.squarings, x: Some(x) }, vec![y])
    }
}

/// The circuit, with or without a witness.
#[derive(Clone)]
pub struct SquaringsCircuit<F> {
    squarings: usize,
    x: Option<F>,
}

impl<F: PrimeField> Circuit<F> for SquaringsCircuit<F> {
    fn synthesize<CS: ConstraintSystem<F>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut value = self.x;
        let mut variable = cs.alloc(|| "x", || value.ok_or(SynthesisError::AssignmentMissing))?;
        for i in 0..self.squarings {
            value = value.map(|x| x.square());
            let get = || value.ok_or(SynthesisError::AssignmentMissing);
            let square = if i + 1 == self.squarings {
                cs.alloc_input(|| "y", get)?
            } else {
                cs.alloc(|| format!("square {i}"), get)?
            };
            cs.enforce(|| format!("squaring {i}"), |lc| lc + variable, |lc| lc + variable, |lc| lc + square);
            variable = square;
        }
        Ok(())
    }
}
