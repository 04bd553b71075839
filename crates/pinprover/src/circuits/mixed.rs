//! A witness as production circuits have it, cheap to make: three tenths of its values fill the field, the rest are
//! bits.
//!
//! Filecoin's circuits, for one, are hash functions: most variables are bits, nearly all stand in A, a quarter stand
//! in B. Real ones take minutes to synthesise; this has the same proportions at a few dozen nanoseconds a constraint,
//! so that what is measured is the prover. Rows come in periods of 20:
//!
//! | rows | constraint | new variable | in B |
//! |---|---|---|---|
//! | 4 | `b * (1 - b) = 0` | `b`, a random bit | yes |
//! | 10 | `2 t * b = t + b - t'` | `t'`, the exclusive or of the last such bit and the last `b` | no |
//! | 6 | `d * m = d'` | `d'`, the product of the last one and the period's first | the first |
//!
//! The last row makes the last `d` public. The random bits come from a generator whose seed is part of the witness,
//! with the first `d`.

use bellperson::{Circuit, ConstraintSystem, SynthesisError, Variable};
use ff::PrimeField;
use rand_core::RngCore;

/// Rows beyond the constraints: the constant one and the public output.
const INPUT_ROWS: usize = 2;

/// The least number of rows: the output, and the rows of the inputs.
pub const LEAST: usize = 1 + INPUT_ROWS;

/// What a row does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// A random bit.
    Bit,
    /// An exclusive or.
    Xor,
    /// A product that fills the field.
    Product,
}

/// The rows of a period, mixed so that a part of one has about the same proportions.
const PERIOD: [Row; 20] = {
    use Row::{Bit as B, Product as P, Xor as X};
    [P, B, X, X, P, X, B, X, P, X, X, B, P, X, X, P, X, B, X, P]
};

/// A circuit of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mixed {
    /// The circuit's own constraints, the output's included; at least 1.
    pub constraints: usize,
}

impl Mixed {
    /// The circuit with exactly `rows` rows, or `None` below [`LEAST`].
    pub fn with_rows(rows: usize) -> Option<Self> {
        (rows >= LEAST).then(|| Self { constraints: rows - INPUT_ROWS })
    }

    /// The constraints as the prover counts them.
    pub fn rows(&self) -> usize {
        self.constraints + INPUT_ROWS
    }

    /// The circuit without a witness.
    pub fn circuit<F: PrimeField>(&self) -> MixedCircuit<F> {
        MixedCircuit { constraints: self.constraints, witness: None }
    }

    /// The circuit with a fresh witness, and its output.
    pub fn instance<F: PrimeField>(&self, rng: &mut impl RngCore) -> (MixedCircuit<F>, Vec<F>) {
        // The chain of products never leaves zero, so it does not begin there.
        let start = std::iter::repeat_with(|| F::random(&mut *rng)).find(|start| !start.is_zero_vartime());
        let witness = Witness { start: start.expect("the repetition has no end"), seed: rng.next_u64() };
        let mut values = Values::new(witness);
        for row in self.rows_in_order() {
            if row == (0, Row::Product) {
                values.first_product();
            } else if row.1 == Row::Product {
                values.product();
            }
        }
        (MixedCircuit { constraints: self.constraints, witness: Some(witness) }, vec![values.last])
    }

    /// All rows but the output's, each with its place in the period.
    fn rows_in_order(&self) -> impl Iterator<Item = (usize, Row)> {
        PERIOD.into_iter().enumerate().cycle().take(self.constraints - 1)
    }
}

/// All that is secret. The rest follows from it.
#[derive(Clone, Copy)]
struct Witness<F> {
    /// The first factor.
    start: F,
    /// Of the bits.
    seed: u64,
}

/// The circuit, with or without a witness.
#[derive(Clone)]
pub struct MixedCircuit<F> {
    constraints: usize,
    witness: Option<Witness<F>>,
}

/// The values that the next row starts from.
struct Values<F> {
    /// The state of the bits' generator.
    state: u64,
    /// Bits that were made and not used, the next one lowest.
    bits: u64,
    left: u32,
    bit: bool,
    toggle: bool,
    last: F,
    factor: F,
}

impl<F: PrimeField> Values<F> {
    fn new(Witness { start, seed }: Witness<F>) -> Self {
        Self { state: seed, bits: 0, left: 0, bit: false, toggle: false, last: start, factor: start }
    }

    /// The next random bit: SplitMix64, 64 bits at a time. The first one is the first exclusive or, too.
    fn random_bit(&mut self, first: bool) -> bool {
        if self.left == 0 {
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (self.bits, self.left) = (mixed ^ (mixed >> 31), u64::BITS);
        }
        self.bit = self.bits & 1 == 1;
        self.bits >>= 1;
        self.left -= 1;
        if first {
            self.toggle = self.bit;
        }
        self.bit
    }

    fn xor(&mut self) -> bool {
        self.toggle ^= self.bit;
        self.toggle
    }

    fn product(&mut self) -> F {
        self.last *= self.factor;
        self.last
    }

    /// The product that is the factor from here on.
    fn first_product(&mut self) -> F {
        self.factor = self.product();
        self.factor
    }
}

fn bit<F: PrimeField>(bit: bool) -> F {
    if bit {
        F::ONE
    } else {
        F::ZERO
    }
}

impl<F: PrimeField> Circuit<F> for MixedCircuit<F> {
    fn synthesize<CS: ConstraintSystem<F>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut values = self.witness.map(Values::new);
        let (one, two) = (CS::one(), F::ONE.double());
        let start = self.witness.map(|witness| witness.start);
        let mut last = cs.alloc(|| "start", || start.ok_or(SynthesisError::AssignmentMissing))?;
        let mut factor = last;
        // The last bit and the last exclusive or; the first exclusive or is of the first bit and itself, so 0.
        let mut bits: Option<(Variable, Variable)> = None;
        let shape = Mixed { constraints: self.constraints };
        for (i, (place, row)) in shape.rows_in_order().enumerate() {
            let values = values.as_mut();
            match (row, bits) {
                (Row::Product, _) => {
                    let get = || {
                        let make = if place == 0 { Values::first_product } else { Values::product };
                        values.map(make).ok_or(SynthesisError::AssignmentMissing)
                    };
                    let product = cs.alloc(|| format!("product {i}"), get)?;
                    cs.enforce(|| format!("row {i}"), |lc| lc + last, |lc| lc + factor, |lc| lc + product);
                    last = product;
                    if place == 0 {
                        factor = product;
                    }
                }
                (Row::Xor, Some((b, toggle))) => {
                    let get = || {
                        let bit = values.map(|values| bit(values.xor()));
                        bit.ok_or(SynthesisError::AssignmentMissing)
                    };
                    let next = cs.alloc(|| format!("exclusive or {i}"), get)?;
                    cs.enforce(
                        || format!("row {i}"),
                        |lc| lc + (two, toggle),
                        |lc| lc + b,
                        |lc| lc + toggle + b - next,
                    );
                    bits = Some((b, next));
                }
                (Row::Bit, _) | (Row::Xor, None) => {
                    let get = || {
                        let bit = values.map(|values| bit(values.random_bit(bits.is_none())));
                        bit.ok_or(SynthesisError::AssignmentMissing)
                    };
                    let b = cs.alloc(|| format!("bit {i}"), get)?;
                    cs.enforce(|| format!("row {i}"), |lc| lc + b, |lc| lc + one - b, |lc| lc);
                    bits = Some((b, bits.map_or(b, |(_, toggle)| toggle)));
                }
            }
        }
        let output = values.map(|values| values.last);
        let output = cs.alloc_input(|| "output", || output.ok_or(SynthesisError::AssignmentMissing))?;
        cs.enforce(|| "last row", |lc| lc + last, |lc| lc + one, |lc| lc + output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bellperson::groth16::{synthesize, Shape};
    use blstrs::Scalar;
    use ff::Field;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn proportions_are_as_promised() {
        let mixed = Mixed::with_rows(20_000).unwrap();
        let counts = super::super::Shape::of(mixed.circuit::<Scalar>()).unwrap();
        assert_eq!(counts.rows(), 20_000);
        let share = |part: usize| part as f64 / counts.aux as f64;
        assert!(share(counts.a_aux) > 0.999, "{counts:?}");
        assert!((share(counts.b_aux) - 0.25).abs() < 0.001, "{counts:?}");

        let (circuit, _) = mixed.instance::<Scalar>(&mut ChaCha20Rng::seed_from_u64(1));
        let shape = Shape { constraints: 20_000, inputs: 2, aux: counts.aux };
        let assignment = synthesize(circuit, Some(shape)).unwrap();
        let is = |value: Scalar| assignment.aux_assignment().iter().filter(|&&v| v == value).count();
        let (zeros, ones) = (share(is(Scalar::ZERO)), share(is(Scalar::ONE)));
        assert!((zeros - 0.35).abs() < 0.02 && (ones - 0.35).abs() < 0.02, "{zeros} {ones}");
        assert!((zeros + ones - 0.7).abs() < 0.001, "{zeros} {ones}");
        // The others are different, and fill the field.
        let mut dense: Vec<_> = assignment
            .aux_assignment()
            .iter()
            .filter(|v| **v > Scalar::ONE)
            .map(Scalar::to_bytes_be)
            .collect();
        let number = dense.len();
        dense.sort_unstable();
        dense.dedup();
        assert_eq!(dense.len(), number);
        assert!(dense[number / 2][0].abs_diff(0x3a) < 4, "the median is half of the prime");
    }
}
