//! SHA-256 of a secret message, the digest public: bellperson's own gadget over the message's bits.
//!
//! Almost every value of the witness is a bit, as in most circuits in use, and the opposite of a chain of
//! squarings. The digest leaves as two public inputs, packed 254 bits to an element as bellperson's
//! `multipack` does it.

use std::sync::{Arc, OnceLock};

use bellperson::gadgets::boolean::{AllocatedBit, Boolean};
use bellperson::gadgets::{multipack, sha256::sha256};
use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use ff::PrimeField;
use rand_core::RngCore;
use sha2::{Digest, Sha256 as Hasher};

use super::Shape;

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// The circuit for messages of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sha256 {
    /// The length of the message in bytes; at least 1.
    pub bytes: usize,
}

impl Sha256 {
    /// The longest message whose circuit has at most `rows` rows, or `None` below [`least`]. A byte more costs
    /// about 420 rows, or a block of 27 000 when the padding spills over; so much may be left unused.
    pub fn with_rows(rows: usize) -> Option<Self> {
        let fits = |bytes: usize| Self { bytes }.rows() <= rows;
        if !fits(1) {
            return None;
        }
        // Whole blocks first, by division; then the last bytes by bisection.
        let (mut low, mut high) = if fits(BLOCK) {
            let first = Self { bytes: BLOCK }.rows();
            let low = BLOCK * (1 + (rows - first) / rows_per_block());
            (low, low + BLOCK)
        } else {
            (1, BLOCK)
        };
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(Self { bytes: low })
    }

    /// The constraints as the prover counts them.
    pub fn rows(&self) -> usize {
        // The first block starts from constants, so it is cheaper. From the second on all are alike.
        let later = (self.bytes / BLOCK).saturating_sub(1);
        let base = counted(self.bytes - BLOCK * later);
        if later == 0 {
            return base;
        }
        later.saturating_mul(rows_per_block()).saturating_add(base)
    }

    /// The circuit without a witness.
    pub fn circuit(&self) -> Sha256Circuit {
        Sha256Circuit { bytes: self.bytes, message: None }
    }

    /// The circuit with a fresh message, and its digest as public inputs.
    pub fn instance<F: PrimeField>(&self, rng: &mut impl RngCore) -> (Sha256Circuit, Vec<F>) {
        let mut message = vec![0; self.bytes];
        rng.fill_bytes(&mut message);
        let digest = multipack::bytes_to_bits(&Hasher::digest(&message));
        let circuit = Sha256Circuit { bytes: self.bytes, message: Some(message.into()) };
        (circuit, multipack::compute_multipacking(&digest))
    }
}

/// The rows of the smallest circuit.
pub fn least() -> usize {
    counted(1)
}

fn rows_per_block() -> usize {
    counted(2 * BLOCK) - counted(BLOCK)
}

/// Counts the rows of a short message, once each.
fn counted(bytes: usize) -> usize {
    static COUNTS: [OnceLock<usize>; 2 * BLOCK + 1] = [const { OnceLock::new() }; 2 * BLOCK + 1];
    *COUNTS[bytes].get_or_init(|| {
        Shape::of::<blstrs::Scalar, _>(Sha256 { bytes }.circuit())
            .expect("without a witness the gadget has nothing to fail on")
            .rows()
    })
}

/// The circuit, with or without a message.
#[derive(Clone)]
pub struct Sha256Circuit {
    bytes: usize,
    message: Option<Arc<[u8]>>,
}

impl<F: PrimeField> Circuit<F> for Sha256Circuit {
    fn synthesize<CS: ConstraintSystem<F>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut bits = Vec::with_capacity(8 * self.bytes);
        for i in 0..8 * self.bytes {
            // Most significant bit of each byte first, as SHA-256 reads them.
            let bit = self.message.as_ref().map(|message| (message[i / 8] >> (7 - i % 8)) & 1 == 1);
            let bit = AllocatedBit::alloc(cs.namespace(|| format!("message bit {i}")), bit)?;
            bits.push(Boolean::from(bit));
        }
        let digest = sha256(cs.namespace(|| "digest"), &bits)?;
        multipack::pack_into_inputs(cs.namespace(|| "public digest"), &digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(bytes: usize) -> usize {
        Shape::of::<blstrs::Scalar, _>(Sha256 { bytes }.circuit()).unwrap().rows()
    }

    #[test]
    fn the_formula_is_the_count() {
        for bytes in [1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 129, 183, 184, 200, 256, 320] {
            assert_eq!(Sha256 { bytes }.rows(), direct(bytes), "{bytes} bytes");
        }
    }

    #[test]
    fn more_bytes_take_more_rows() {
        let rows: Vec<_> = (1..200).map(|bytes| Sha256 { bytes }.rows()).collect();
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_longest_message_that_fits() {
        assert_eq!(Sha256::with_rows(least() - 1), None);
        assert_eq!(Sha256::with_rows(least()), Some(Sha256 { bytes: 1 }));
        for bytes in [1, 2, 54, 55, 56, 63, 64, 65, 119, 120, 127, 128, 129, 640, 1000, 1 << 20] {
            let rows = Sha256 { bytes }.rows();
            assert_eq!(Sha256::with_rows(rows), Some(Sha256 { bytes }));
            assert_eq!(Sha256::with_rows(Sha256 { bytes: bytes + 1 }.rows() - 1), Some(Sha256 { bytes }));
        }
    }
}
