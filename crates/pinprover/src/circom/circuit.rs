//! A circom circuit as a bellperson circuit.
//!
//! Wire 0 is the constant one. The public wires (outputs first, then public inputs) are the circuit's inputs in
//! circom's order. The other wires that a constraint uses are its auxiliary variables, in ascending order; wires
//! that no constraint uses are left out, see [`R1cs::num_unused_wires`]. Constraints keep their order.

use std::fmt;
use std::sync::Arc;

use bellperson::groth16::{Parameters, VerifyingKey};
use bellperson::{Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use blstrs::{Bls12, Scalar};
use ff::Field;
use rayon::prelude::*;

use super::matrix::{Matrix, MINUS_ONE, ONE};
use super::r1cs::{R1cs, NO_AUX};
use super::wtns::Witness;

/// Why a circuit, a witness or a key cannot be used, or not together.
///
/// No variant holds a value of the witness.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CircuitError {
    /// The circuit has no constraints, so a proof of it would say nothing.
    NoConstraints,
    /// The witness is of another circuit.
    WitnessLength {
        /// Wires of the circuit.
        expected: usize,
        /// Values of the witness.
        found: usize,
    },
    /// The witness does not begin with the constant one.
    WitnessOne,
    /// The witness does not satisfy the circuit.
    Unsatisfied {
        /// The first constraint that does not hold, from 0.
        constraint: usize,
        /// Constraints of the circuit.
        constraints: usize,
    },
    /// The key is of another circuit.
    KeyMismatch {
        /// What was counted.
        what: &'static str,
        /// What the circuit needs.
        expected: usize,
        /// What the key has.
        found: usize,
    },
    /// Too few or too many public values for the key.
    PublicInputs {
        /// What the key or the circuit needs.
        expected: usize,
        /// What was given.
        found: usize,
    },
}

impl fmt::Display for CircuitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConstraints => f.write_str(
                "the circuit has no constraints (0), there is nothing to prove; circom's optimiser may have removed \
                 them: give it at least one product of signals, or compile with --O0",
            ),
            Self::WitnessLength { expected, found } => write!(
                f,
                "the witness has {found} values and the circuit {expected} wires: it is of another circuit, or of \
                 another compilation of it"
            ),
            Self::WitnessOne => {
                f.write_str("the witness does not begin with the constant 1: it is damaged or of another format")
            }
            Self::Unsatisfied { constraint, constraints } => write!(
                f,
                "the witness does not satisfy the circuit: constraint {constraint} (of {constraints}, counted from \
                 0) is the first that does not hold"
            ),
            Self::KeyMismatch { what, expected, found } => write!(
                f,
                "the key is of another circuit: this circuit needs {expected} {what}, the key has {found}; run \
                 `pinprover setup` for this circuit"
            ),
            Self::PublicInputs { expected, found } => {
                write!(f, "expected {expected} public inputs, found {found}")
            }
        }
    }
}

impl std::error::Error for CircuitError {}

/// The counts that bellperson's generator makes of a circuit, and that a key for it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitShape {
    /// Constraints of the circuit, without the one that Groth16 adds for each input.
    pub constraints: usize,
    /// Inputs, the constant one among them.
    pub inputs: usize,
    /// Auxiliary variables.
    pub aux: usize,
    /// Auxiliary variables with a coefficient in A. (Every input has one.)
    pub a_aux: usize,
    /// Inputs with a coefficient in B.
    pub b_inputs: usize,
    /// Auxiliary variables with a coefficient in B.
    pub b_aux: usize,
}

impl CircuitShape {
    /// The size of the evaluation domain: constraints and inputs, up to the next power of two.
    pub fn domain(&self) -> usize {
        (self.constraints + self.inputs).next_power_of_two()
    }

    /// Checks the counts of proving parameters. Another circuit of the same counts passes: only the check of a
    /// finished proof tells that.
    ///
    /// # Errors
    /// [`CircuitError::KeyMismatch`] with the first count that differs.
    pub fn check_params(&self, params: &Parameters<Bls12>) -> Result<(), CircuitError> {
        self.check_vk(&params.vk)?;
        same("elements of the H query (domain size - 1)", self.domain() - 1, params.h.len())?;
        same("elements of the L query (auxiliary variables)", self.aux, params.l.len())?;
        same("elements of the A query", self.inputs + self.a_aux, params.a.len())?;
        same("elements of the B-G1 query", self.b_inputs + self.b_aux, params.b_g1.len())?;
        same("elements of the B-G2 query", self.b_inputs + self.b_aux, params.b_g2.len())
    }

    /// Checks the number of public inputs of a verifying key.
    ///
    /// # Errors
    /// [`CircuitError::KeyMismatch`].
    pub fn check_vk(&self, vk: &VerifyingKey<Bls12>) -> Result<(), CircuitError> {
        same("elements of IC (public inputs + 1)", self.inputs, vk.ic.len())
    }
}

fn same(what: &'static str, expected: usize, found: usize) -> Result<(), CircuitError> {
    if expected == found {
        Ok(())
    } else {
        Err(CircuitError::KeyMismatch { what, expected, found })
    }
}

/// A circom circuit, with a witness (to prove) or without (to set up). Clones share both.
#[derive(Clone, Debug)]
pub struct CircomCircuit {
    r1cs: Arc<R1cs>,
    witness: Option<Arc<Witness>>,
}

impl CircomCircuit {
    /// The circuit without a witness.
    ///
    /// # Errors
    /// [`CircuitError::NoConstraints`].
    pub fn new(r1cs: impl Into<Arc<R1cs>>) -> Result<Self, CircuitError> {
        let r1cs = r1cs.into();
        if r1cs.num_constraints() == 0 {
            return Err(CircuitError::NoConstraints);
        }
        Ok(Self { r1cs, witness: None })
    }

    /// The same circuit with a witness of the right length. Whether it satisfies the constraints is another
    /// question: [`check_satisfied`](Self::check_satisfied).
    ///
    /// # Errors
    /// [`CircuitError::WitnessLength`], [`CircuitError::WitnessOne`].
    pub fn with_witness(&self, witness: impl Into<Arc<Witness>>) -> Result<Self, CircuitError> {
        let witness = witness.into();
        let (expected, found) = (self.r1cs.num_wires(), witness.values().len());
        if expected != found {
            return Err(CircuitError::WitnessLength { expected, found });
        }
        if witness.values()[0] != Scalar::ONE {
            return Err(CircuitError::WitnessOne);
        }
        Ok(Self { r1cs: Arc::clone(&self.r1cs), witness: Some(witness) })
    }

    /// The constraint system.
    pub fn r1cs(&self) -> &Arc<R1cs> {
        &self.r1cs
    }

    /// The counts a key for this circuit must have.
    pub fn shape(&self) -> CircuitShape {
        self.r1cs.shape()
    }

    /// The public values, outputs first; `None` without a witness.
    pub fn public_inputs(&self) -> Option<&[Scalar]> {
        let witness = self.witness.as_ref()?;
        Some(&witness.values()[1..=self.r1cs.num_public()])
    }

    /// The first constraint that the witness does not satisfy; `None` if it satisfies all. Runs on all of rayon's
    /// threads.
    ///
    /// # Panics
    /// Without a witness.
    pub fn first_unsatisfied(&self) -> Option<usize> {
        let witness = self.witness.as_ref().expect("a circuit without a witness cannot be checked").values();
        let (r1cs, table) = (&*self.r1cs, self.r1cs.coefficients());
        (0..r1cs.num_constraints()).into_par_iter().with_min_len(1 << 10).find_first(|&k| {
            let [a, b, c] = [&r1cs.a, &r1cs.b, &r1cs.c].map(|m| dot(m, k, table, witness));
            a * b != c
        })
    }

    /// Errs unless the witness satisfies every constraint.
    ///
    /// # Errors
    /// [`CircuitError::Unsatisfied`] with the index of the first that does not hold.
    ///
    /// # Panics
    /// Without a witness.
    pub fn check_satisfied(&self) -> Result<(), CircuitError> {
        match self.first_unsatisfied() {
            None => Ok(()),
            Some(constraint) => {
                Err(CircuitError::Unsatisfied { constraint, constraints: self.r1cs.num_constraints() })
            }
        }
    }

    fn value(&self, wire: usize) -> Result<Scalar, SynthesisError> {
        let witness = self.witness.as_ref().ok_or(SynthesisError::AssignmentMissing)?;
        Ok(witness.values()[wire])
    }
}

/// Row `k` of `matrix` times the witness.
fn dot(matrix: &Matrix, k: usize, table: &[Scalar], witness: &[Scalar]) -> Scalar {
    let row = matrix.row(k);
    let mut sum = Scalar::ZERO;
    for (&wire, &coeff) in row.wires.iter().zip(row.coeffs) {
        let value = witness[wire as usize];
        match coeff {
            ONE => sum += value,
            MINUS_ONE => sum -= value,
            _ => sum += value * table[coeff as usize],
        }
    }
    sum
}

impl Circuit<Scalar> for CircomCircuit {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let r1cs = &*self.r1cs;
        let public = r1cs.num_public();
        // The constraint system need not be a fresh one, so variables count from the first that it gave us.
        let (mut first_input, mut first_aux) = (0, 0);
        for wire in 1..=public {
            let var = cs.alloc_input(|| format!("w{wire}"), || self.value(wire))?;
            if let (1, Index::Input(i)) = (wire, var.get_unchecked()) {
                first_input = i;
            }
        }
        for (wire, &index) in r1cs.aux_index().iter().enumerate().filter(|(_, i)| **i != NO_AUX) {
            let var = cs.alloc(|| format!("w{wire}"), || self.value(wire))?;
            if let (0, Index::Aux(i)) = (index, var.get_unchecked()) {
                first_aux = i;
            }
        }
        let variable = |wire: u32| match wire as usize {
            0 => CS::one(),
            wire if wire <= public => Variable::new_unchecked(Index::Input(first_input + wire - 1)),
            wire => Variable::new_unchecked(Index::Aux(first_aux + r1cs.aux_index()[wire] as usize)),
        };
        let table = r1cs.coefficients();
        let fill = |mut lc: LinearCombination<Scalar>, matrix: &Matrix, k: usize| {
            let row = matrix.row(k);
            for (&wire, &coeff) in row.wires.iter().zip(row.coeffs) {
                lc = lc + (table[coeff as usize], variable(wire));
            }
            lc
        };
        for k in 0..r1cs.num_constraints() {
            cs.enforce(
                || format!("c{k}"),
                |lc| fill(lc, &r1cs.a, k),
                |lc| fill(lc, &r1cs.b, k),
                |lc| fill(lc, &r1cs.c, k),
            );
        }
        Ok(())
    }
}
