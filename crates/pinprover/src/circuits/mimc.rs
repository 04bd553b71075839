//! MiMC: a Feistel permutation whose round function is a cube, `(l, r) -> (r + (l + c)^3, l)`.
//!
//! Two constraints and two variables a round. The left half of the result is public, both halves of the start
//! are secret. The published LongsightF uses 322 rounds; here the number of rounds is the size.

use std::sync::Arc;

use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use ff::PrimeField;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

/// Rows beyond the rounds: the constant one and the image.
const INPUT_ROWS: usize = 2;

/// The least number of rows. One round alone would leave the right half unconstrained by any product.
pub const LEAST: usize = 2 * 2 + INPUT_ROWS;

/// The permutation with a given number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mimc {
    /// The rounds; at least 2.
    pub rounds: usize,
}

impl Mimc {
    /// The permutation with `rows` rows, one fewer if that is odd, or `None` below [`LEAST`].
    pub fn with_rows(rows: usize) -> Option<Self> {
        (rows >= LEAST).then(|| Self { rounds: (rows - INPUT_ROWS) / 2 })
    }

    /// The constraints as the prover counts them.
    pub fn rows(&self) -> usize {
        2 * self.rounds + INPUT_ROWS
    }

    /// The circuit without a witness.
    pub fn circuit<F: PrimeField>(&self) -> MimcCircuit<F> {
        MimcCircuit { constants: self.constants(), preimage: None }
    }

    /// The circuit with a fresh witness, and its image.
    pub fn instance<F: PrimeField>(&self, rng: &mut impl RngCore) -> (MimcCircuit<F>, Vec<F>) {
        let preimage = (F::random(&mut *rng), F::random(rng));
        let constants = self.constants();
        let (image, _) = constants.iter().fold(preimage, |(l, r), c| {
            let t = l + c;
            (r + t.square() * t, l)
        });
        (MimcCircuit { constants, preimage: Some(preimage) }, vec![image])
    }

    /// The round constants: the same for everyone, from a fixed stream, so that nobody chose them.
    fn constants<F: PrimeField>(&self) -> Arc<[F]> {
        let mut stream = ChaCha20Rng::from_seed(*b"pinprover MiMC round constants 1");
        (0..self.rounds).map(|_| F::random(&mut stream)).collect()
    }
}

/// The circuit, with or without a witness.
#[derive(Clone)]
pub struct MimcCircuit<F> {
    constants: Arc<[F]>,
    preimage: Option<(F, F)>,
}

impl<F: PrimeField> Circuit<F> for MimcCircuit<F> {
    fn synthesize<CS: ConstraintSystem<F>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let missing = SynthesisError::AssignmentMissing;
        let (mut l_value, mut r_value) = self.preimage.unzip();
        let mut l = cs.alloc(|| "preimage left", || l_value.ok_or(missing))?;
        let mut r = cs.alloc(|| "preimage right", || r_value.ok_or(SynthesisError::AssignmentMissing))?;
        for (i, &c) in self.constants.iter().enumerate() {
            // (l + c)^2 = square; square * (l + c) = new - r.
            let t_value = l_value.map(|l| l + c);
            let square_value = t_value.map(|t| t.square());
            let square =
                cs.alloc(|| format!("square {i}"), || square_value.ok_or(SynthesisError::AssignmentMissing))?;
            cs.enforce(
                || format!("square of round {i}"),
                |lc| lc + l + (c, CS::one()),
                |lc| lc + l + (c, CS::one()),
                |lc| lc + square,
            );
            let new_value = square_value.zip(t_value).zip(r_value).map(|((square, t), r)| square * t + r);
            let get = || new_value.ok_or(SynthesisError::AssignmentMissing);
            let new = if i + 1 == self.constants.len() {
                cs.alloc_input(|| "image", get)?
            } else {
                cs.alloc(|| format!("left {i}"), get)?
            };
            cs.enforce(
                || format!("cube of round {i}"),
                |lc| lc + square,
                |lc| lc + l + (c, CS::one()),
                |lc| lc + new - r,
            );
            (l, r) = (new, l);
            (l_value, r_value) = (new_value, l_value);
        }
        Ok(())
    }
}
