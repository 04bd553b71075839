//! The secrets behind a key, and what is computed from them.

use std::hint::black_box;
use std::ops::{Deref, DerefMut};

use blstrs::{G1Projective, G2Projective, Scalar};
use ff::Field;
use group::Group;
use rand_core::{CryptoRng, RngCore};
use zeroize::{DefaultIsZeroes, Zeroize, ZeroizeOnDrop};

use super::SetupError;

/// The secrets that a key is made of. Whoever knows them can forge proofs for that key.
///
/// It can be neither copied nor printed, and is wiped when it is dropped.
pub struct ToxicWaste {
    pub(super) g1: G1Projective,
    pub(super) g2: G2Projective,
    pub(super) alpha: Secret,
    pub(super) beta: Secret,
    pub(super) gamma: Secret,
    pub(super) delta: Secret,
    pub(super) tau: Secret,
}

impl ToxicWaste {
    /// From `rng`, drawn in the order in which `bellperson::groth16::generate_random_parameters` draws: the same
    /// generator in the same state gives the same key.
    pub fn random(rng: &mut (impl RngCore + CryptoRng)) -> Self {
        let g1 = G1Projective::random(&mut *rng);
        let g2 = G2Projective::random(&mut *rng);
        let mut scalar = || Scalar::random(&mut *rng);
        let (alpha, beta, gamma, delta, tau) = (scalar(), scalar(), scalar(), scalar(), scalar());
        Self::new(g1, g2, alpha, beta, gamma, delta, tau)
    }

    /// From given values, the generators `g1` and `g2` first. The caller's own copies are the caller's to wipe.
    pub fn new(
        g1: G1Projective,
        g2: G2Projective,
        alpha: Scalar,
        beta: Scalar,
        gamma: Scalar,
        delta: Scalar,
        tau: Scalar,
    ) -> Self {
        let [alpha, beta, gamma, delta, tau] = [alpha, beta, gamma, delta, tau].map(Secret);
        Self { g1, g2, alpha, beta, gamma, delta, tau }
    }
}

impl Drop for ToxicWaste {
    fn drop(&mut self) {
        for secret in [&mut self.alpha, &mut self.beta, &mut self.gamma, &mut self.delta, &mut self.tau] {
            secret.zeroize();
        }
    }
}

impl ZeroizeOnDrop for ToxicWaste {}

/// A scalar that [`Zeroize`] knows how to wipe.
#[derive(Clone, Copy)]
pub(super) struct Secret(pub(super) Scalar);

impl Default for Secret {
    fn default() -> Self {
        Self(Scalar::ZERO)
    }
}

impl DefaultIsZeroes for Secret {}

/// Scalars from which the toxic waste could be computed. Overwritten before their memory goes back.
pub(super) struct Secrets(Vec<Scalar>);

impl Secrets {
    /// `len` zeros; `what` they are for is named if there is no memory.
    pub(super) fn zeroed(len: usize, what: &'static str) -> Result<Self, SetupError> {
        filled(len, Scalar::ZERO, what).map(Self)
    }

    /// Moves what is not zero to the front, in order, and returns its number. What is behind keeps no meaning.
    pub(super) fn compact(&mut self) -> usize {
        let mut kept = 0;
        for i in 0..self.0.len() {
            let value = self.0[i];
            if !value.is_zero_vartime() {
                self.0[kept] = value;
                kept += 1;
            }
        }
        kept
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.0.fill(Scalar::ZERO);
        // As far as safe code can tell the compiler that the zeros are wanted.
        black_box(self.0.as_mut_slice());
    }
}

impl Deref for Secrets {
    type Target = [Scalar];

    fn deref(&self) -> &[Scalar] {
        &self.0
    }
}

impl DerefMut for Secrets {
    fn deref_mut(&mut self) -> &mut [Scalar] {
        &mut self.0
    }
}

/// `len` times `value`, or an error if there is no memory for them.
pub(super) fn filled<T: Clone>(len: usize, value: T, what: &'static str) -> Result<Vec<T>, SetupError> {
    let mut vec = Vec::new();
    if vec.try_reserve_exact(len).is_err() {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        return Err(SetupError::OutOfMemory { what, bytes });
    }
    vec.resize(len, value);
    Ok(vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_keeps_the_order() {
        let values = [0u64, 3, 0, 0, 5, 7, 0].map(Scalar::from);
        let mut secrets = Secrets::zeroed(values.len(), "test").unwrap();
        secrets.copy_from_slice(&values);
        assert_eq!(secrets.compact(), 3);
        assert_eq!(secrets[..3], [3, 5, 7].map(Scalar::from));
        assert_eq!(Secrets::zeroed(0, "test").unwrap().compact(), 0);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let error = Secrets::zeroed(usize::MAX / 64, "the test").map(|_| ()).unwrap_err();
        assert!(matches!(error, SetupError::OutOfMemory { what: "the test", .. }), "{error}");
    }

    #[test]
    fn wiping_a_secret_leaves_zero() {
        let mut secret = Secret(Scalar::from(7));
        secret.zeroize();
        assert_eq!(secret.0, Scalar::ZERO);
    }
}
