//! What a proof must be, from the secrets behind its key: an oracle for sizes that upstream's prover takes hours for.
//!
//! A proof is decided by the witness, r and s: every right prover gives the same three points. Who knows the toxic waste finds
//! them without any of the key's queries, and with no FFT. With z the variables, and A(tau) the sum of z_i A_i(tau):
//!
//! ```text
//!   A = (alpha + A(tau) + r delta) G1              A(tau) = sum of a_j L_j(tau), over the rows j
//!   B = (beta + B(tau) + s delta) G2               B(tau) = sum of b_j L_j(tau)
//!   C = (A B - alpha beta - gamma ic) / delta G1   ic = sum of z_i ic_i, over the inputs
//! ```
//!
//! The last line is the verifier's equation, e(A, B) = e(alpha, beta) e(ic, gamma) e(C, delta), solved for C. With A and B put in
//! it is `((beta A + alpha B + A B)(tau) - gamma ic) / delta + s A + r B - r s delta`: the prover's sum over the L query has
//! `(beta A + alpha B + C)(tau)`, that over the H query `(A B - C)(tau)`, where C(tau) cancels because the circuit is satisfied,
//! which is checked for each row. So only a and b, an inversion for each 4096 rows, and one point for each input are needed.

use bellperson::groth16::{Parameters, Proof, ProvingAssignment, VerifyingKey};
use bellperson::Circuit;
use blstrs::{Bls12, G1Projective, G2Projective, Scalar};
use ff::{Field, PrimeField};
use group::{Curve, Group};
use prover_core::setup::{generate, FixedBase, KeySize, ToxicWaste};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use rayon::prelude::*;

use crate::oracle::bytes;

/// Rows of which the Lagrange polynomials share an inversion.
const BLOCK: usize = 1 << 12;

/// The secrets of a key that was made for a test.
#[derive(Clone, Copy)]
pub struct Trapdoor {
    g1: G1Projective,
    g2: G2Projective,
    alpha: Scalar,
    beta: Scalar,
    gamma: Scalar,
    delta: Scalar,
    tau: Scalar,
}

impl Trapdoor {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x7a9);
        Self {
            g1: G1Projective::random(&mut *rng),
            g2: G2Projective::random(&mut *rng),
            alpha: Scalar::random(&mut *rng),
            beta: Scalar::random(&mut *rng),
            gamma: Scalar::random(&mut *rng),
            delta: Scalar::random(&mut *rng),
            tau: Scalar::random(&mut *rng),
        }
    }

    /// The key of a circuit, which needs no witness. With its size there is one pass over it, else two.
    ///
    /// # Panics
    /// If there is none: the memory, the device or the circuit are at fault.
    pub fn key<C: Circuit<Scalar>>(
        &self,
        circuit: impl Fn() -> C,
        size: Option<KeySize>,
        points: &dyn FixedBase,
    ) -> Parameters<Bls12> {
        generate(circuit, size, self.waste(), points, &|_, _, _| {}).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same secrets, to make a key of.
    pub fn waste(&self) -> ToxicWaste {
        let Self { g1, g2, alpha, beta, gamma, delta, tau } = *self;
        ToxicWaste::new(g1, g2, alpha, beta, gamma, delta, tau)
    }

    /// The 192 bytes of the proof of a satisfied assignment, with a key made of [`waste`](Self::waste), of which only the points
    /// of the inputs are read.
    ///
    /// # Panics
    /// If a row is not satisfied, its number named; if a, b and c were given back; if the key has another number of inputs.
    pub fn proof(
        &self,
        assignment: &ProvingAssignment<Scalar>,
        vk: &VerifyingKey<Bls12>,
        (r, s): (Scalar, Scalar),
    ) -> Vec<u8> {
        let rows = assignment.shape().constraints;
        let (a, b, c) = (assignment.a(), assignment.b(), assignment.c());
        assert_eq!([a.len(), b.len(), c.len()], [rows; 3], "a, b and c are whole");
        let unsatisfied = (0..rows).into_par_iter().with_min_len(BLOCK).find_any(|&j| a[j] * b[j] != c[j]);
        assert_eq!(unsatisfied, None, "a row is not satisfied: its proof is not decided by a and b");
        let inputs = assignment.input_assignment();
        assert_eq!(inputs.len(), vk.ic.len(), "a point for each input");

        let [a, b] = self.at_tau(rows, [a, b]);
        let a = self.alpha + a + r * self.delta;
        let b = self.beta + b + s * self.delta;
        let ic: G1Projective = vk.ic.iter().zip(inputs).map(|(point, z)| point * z).sum();
        let inverse = self.delta.invert().expect("delta is not zero");
        let c = self.g1 * ((a * b - self.alpha * self.beta) * inverse) - ic * (self.gamma * inverse);
        bytes(&Proof { a: (self.g1 * a).to_affine(), b: (self.g2 * b).to_affine(), c: c.to_affine() })
    }

    /// The sums of the rows' values times their Lagrange polynomials at tau,
    /// `L_j(x) = (x^m - 1) / m * w^j / (x - w^j)`, on the least domain that holds the rows.
    fn at_tau<const N: usize>(&self, rows: usize, values: [&[Scalar]; N]) -> [Scalar; N] {
        let domain = rows.next_power_of_two();
        let log = domain.trailing_zeros();
        let root = (log..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square());
        let vanishing = (0..log).fold(self.tau, |power, _| power.square()) - Scalar::ONE;
        assert_ne!(vanishing, Scalar::ZERO, "tau is not in the domain");
        let scale =
            vanishing * Scalar::from(domain as u64).invert().expect("the domain is smaller than the field");
        let sums = (0..rows.div_ceil(BLOCK)).into_par_iter().map(|block| {
            let first = block * BLOCK;
            let count = BLOCK.min(rows - first);
            // w^j, and the product of the differences before j.
            let mut terms = Vec::with_capacity(count);
            let (mut power, mut product) = (root.pow_vartime([first as u64]), Scalar::ONE);
            for _ in 0..count {
                terms.push((power, product));
                product *= self.tau - power;
                power *= root;
            }
            let mut inverse = product.invert().expect("tau is not in the domain");
            let mut sums = [Scalar::ZERO; N];
            for (i, (power, before)) in terms.into_iter().enumerate().rev() {
                let lagrange = power * before * inverse;
                inverse *= self.tau - power;
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum += lagrange * values[first + i];
                }
            }
            sums
        });
        let add = |mut left: [Scalar; N], right: [Scalar; N]| {
            left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
            left
        };
        sums.reduce(|| [Scalar::ZERO; N], add).map(|sum| sum * scale)
    }
}

/// Asserts that a proof has the bytes that it must have; if not, says which of its three points are wrong.
///
/// # Panics
/// If a byte differs.
pub fn assert_proof(found: &Proof<Bls12>, expected: &[u8], what: &str) {
    let found = bytes(found);
    let wrong = [("A", 0..48), ("B", 48..144), ("C", 144..192)]
        .map(|(name, range)| (found.get(range.clone()) != expected.get(range)).then_some(name));
    let wrong: Vec<&str> = wrong.into_iter().flatten().collect();
    assert!(found == expected, "{what}: of the proof's points {} are wrong", wrong.join(" and "));
}
