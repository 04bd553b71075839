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
//! with the first `d`. Segments of 81,920 rows share no variable, so they are synthesised in parallel where the
//! constraint system allows it, as real circuits do.

use bellperson::{Circuit, ConstraintSystem, SynthesisError, Variable};
use ff::PrimeField;
use rand_core::RngCore;
use rayon::prelude::*;

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

/// Rows of a segment: whole periods.
const SEGMENT: usize = PERIOD.len() << 12;

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
        MixedCircuit { shape: *self, witness: None }
    }

    /// The circuit with a fresh witness, and its output.
    pub fn instance<F: PrimeField>(&self, rng: &mut impl RngCore) -> (MixedCircuit<F>, Vec<F>) {
        // The chain of products never leaves zero, so it does not begin there.
        let start = std::iter::repeat_with(|| F::random(&mut *rng)).find(|start| !start.is_zero_vartime());
        let witness = Witness { start: start.expect("the repetition has no end"), seed: rng.next_u64() };
        let last = self.segments() - 1;
        let mut values = Values::new(witness, last);
        for (place, row) in self.rows_of(last) {
            if row == Row::Product {
                values.product(place == 0);
            }
        }
        (MixedCircuit { shape: *self, witness: Some(witness) }, vec![values.last])
    }

    /// The number of segments, at least 1.
    fn segments(&self) -> usize {
        (self.constraints - 1).div_ceil(SEGMENT).max(1)
    }

    /// The rows of a segment, the output's excluded, each with its place in the period.
    fn rows_of(&self, segment: usize) -> impl Iterator<Item = (usize, Row)> {
        let rows = (self.constraints - 1 - segment * SEGMENT).min(SEGMENT);
        PERIOD.into_iter().enumerate().cycle().take(rows)
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
    shape: Mixed,
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

/// What SplitMix64 adds to its state for each 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl<F: PrimeField> Values<F> {
    /// At the beginning of a segment. Each has its own start, and its own part of the stream of bits.
    fn new(Witness { start, seed }: Witness<F>, segment: usize) -> Self {
        let start = start * F::MULTIPLICATIVE_GENERATOR.pow_vartime([segment as u64]);
        // More than a segment uses.
        let words = (segment * SEGMENT / 64) as u64;
        let state = seed.wrapping_add(STEP.wrapping_mul(words));
        Self { state, bits: 0, left: 0, bit: false, toggle: false, last: start, factor: start }
    }

    /// The next random bit: SplitMix64, 64 bits at a time. The first one is the first exclusive or, too.
    fn random_bit(&mut self, first: bool) -> bool {
        if self.left == 0 {
            self.state = self.state.wrapping_add(STEP);
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

    /// The next product, which is the factor from here on if it is the `first` of a period.
    fn product(&mut self, first: bool) -> F {
        self.last *= self.factor;
        if first {
            self.factor = self.last;
        }
        self.last
    }
}

fn bit<F: PrimeField>(bit: bool) -> F {
    if bit {
        F::ONE
    } else {
        F::ZERO
    }
}

impl<F: PrimeField> MixedCircuit<F> {
    /// Adds a segment. Returns its last product and its value.
    fn segment<CS: ConstraintSystem<F>>(
        &self,
        cs: &mut CS,
        segment: usize,
    ) -> Result<(Variable, Option<F>), SynthesisError> {
        let missing = || SynthesisError::AssignmentMissing;
        let mut values = self.witness.map(|witness| Values::new(witness, segment));
        let (one, two) = (CS::one(), F::ONE.double());
        let start = values.as_ref().map(|values| values.last);
        let mut last = cs.alloc(|| format!("start {segment}"), || start.ok_or_else(missing))?;
        let mut factor = last;
        // The last bit and the last exclusive or, which the first bit begins.
        let mut bits: Option<(Variable, Variable)> = None;
        for (i, (place, row)) in self.shape.rows_of(segment).enumerate() {
            let name = || format!("row {segment}.{i}");
            let values = values.as_mut();
            match (row, bits) {
                (Row::Product, _) => {
                    let get = || values.map(|values| values.product(place == 0)).ok_or_else(missing);
                    let product = cs.alloc(|| format!("product {segment}.{i}"), get)?;
                    cs.enforce(name, |lc| lc + last, |lc| lc + factor, |lc| lc + product);
                    last = product;
                    if place == 0 {
                        factor = product;
                    }
                }
                (Row::Xor, Some((b, toggle))) => {
                    let get = || values.map(|values| bit(values.xor())).ok_or_else(missing);
                    let next = cs.alloc(|| format!("exclusive or {segment}.{i}"), get)?;
                    cs.enforce(name, |lc| lc + (two, toggle), |lc| lc + b, |lc| lc + toggle + b - next);
                    bits = Some((b, next));
                }
                (Row::Bit, _) | (Row::Xor, None) => {
                    let first = bits.is_none();
                    let get = || values.map(|values| bit(values.random_bit(first))).ok_or_else(missing);
                    let b = cs.alloc(|| format!("bit {segment}.{i}"), get)?;
                    cs.enforce(name, |lc| lc + b, |lc| lc + one - b, |lc| lc);
                    bits = Some((b, bits.map_or(b, |(_, toggle)| toggle)));
                }
            }
        }
        Ok((last, values.map(|values| values.last)))
    }
}

impl<F: PrimeField> Circuit<F> for MixedCircuit<F> {
    /// On all of rayon's threads, if the constraint system can be extended.
    fn synthesize<CS: ConstraintSystem<F>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let last = self.shape.segments() - 1;
        if CS::is_extensible() {
            // A wave at a time, so that no more than that is in memory twice.
            let wave = 2 * rayon::current_num_threads();
            for first in (0..last).step_by(wave) {
                let make = |segment| {
                    let mut child = CS::new();
                    child.alloc_input(|| "one", || Ok(F::ONE))?;
                    self.segment(&mut child, segment)?;
                    Ok(child)
                };
                let children: Vec<Result<CS, SynthesisError>> =
                    (first..last.min(first + wave)).into_par_iter().map(make).collect();
                for child in children {
                    cs.extend(&child?);
                }
            }
        } else {
            for segment in 0..last {
                self.segment(cs, segment)?;
            }
        }
        let (product, value) = self.segment(cs, last)?;
        let output = cs.alloc_input(|| "output", || value.ok_or(SynthesisError::AssignmentMissing))?;
        cs.enforce(|| "last row", |lc| lc + product, |lc| lc + CS::one(), |lc| lc + output);
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

    #[test]
    fn segments_in_parallel_are_the_segments_in_order() {
        use bellperson::util_cs::test_cs::TestConstraintSystem;

        let mut rng = ChaCha20Rng::seed_from_u64(2);
        for constraints in [SEGMENT, SEGMENT + 1, SEGMENT + 2, 2 * SEGMENT + 30] {
            let mixed = Mixed { constraints };
            let (circuit, public) = mixed.instance::<Scalar>(&mut rng);
            let mut in_order = TestConstraintSystem::new();
            circuit.clone().synthesize(&mut in_order).unwrap();
            assert_eq!(in_order.which_is_unsatisfied(), None);
            assert!(in_order.verify(&public));
            let extended = synthesize(circuit, None).unwrap();
            assert_eq!(extended.shape().constraints, mixed.rows());
            assert_eq!(extended.input_assignment(), [Scalar::ONE, public[0]]);
            assert!(extended.aux_assignment() == in_order.scalar_aux(), "{constraints}");
            let counts = super::super::Shape::of(mixed.circuit::<Scalar>()).unwrap();
            assert_eq!(extended.shape().aux, counts.aux);
            assert_eq!(extended.a_aux_density().get_total_density(), counts.a_aux);
            assert_eq!(extended.b_aux_density().get_total_density(), counts.b_aux);
        }
    }
}
