//! The quotient polynomial: from the evaluations a, b, c over the domain to the coefficients of
//! h = (a b - c) / z, where z is the polynomial that vanishes on the domain.
//!
//! Over a coset of the domain z is a constant, so: inverse FFT of each, FFT over the coset, multiply, subtract, divide,
//! inverse FFT over the coset. All in place, and without the copy that a parallel FFT usually makes:
//!
//! ```text
//!   natural order ──split──► 2^t blocks ──FFT of each──► blocks in bit-reversed order     (inverse transform)
//!   blocks in bit-reversed order ──FFT of each──► 2^t blocks ──join──► natural order      (forward transform)
//! ```
//!
//! `split` is the first t layers of a decimation in frequency, `join` the last t of a decimation in time; the FFT of a
//! block is ec-gpu-gen's serial one, and blocks run in parallel. Between the two transforms everything is element by
//! element, so the order there does not matter. Only the last result must be put in order, and b is free to take it.
//!
//! Everything parallel runs on rayon's threads alone. ec-gpu-gen's pool runs rayon's work and waits for it; waiting for
//! that pool from one of rayon's threads, as a caller's may be, can deadlock.

use ec_gpu_gen::fft_cpu::serial_fft;
use ec_gpu_gen::threadpool::Worker;
use ff::PrimeField;
use rayon::prelude::*;
use upstream::SynthesisError;

use crate::memory::PinnedVec;

/// Blocks are not split below this size: a thread would have too little to do. log2 of elements.
const LEAST_BLOCK_LOG: u32 = 8;

/// Elements that one task works on where they are independent of each other.
const CHUNK: usize = 1 << 12;

/// The evaluation domain: the powers of a root of unity of order `size`.
struct Domain<F> {
    log_size: u32,
    omega: F,
    omega_inv: F,
    size_inv: F,
    /// log2 of the number of blocks.
    log_blocks: u32,
}

impl<F: PrimeField> Domain<F> {
    /// # Errors
    /// [`SynthesisError::PolynomialDegreeTooLarge`] if the field has no root of unity of that order.
    fn new(size: usize, threads_log: u32) -> Result<Self, SynthesisError> {
        assert!(size.is_power_of_two());
        let log_size = size.trailing_zeros();
        if log_size > 0 && log_size >= F::S {
            return Err(SynthesisError::PolynomialDegreeTooLarge);
        }
        let omega = (log_size..F::S).fold(F::ROOT_OF_UNITY, |omega, _| omega.square());
        Ok(Self {
            log_size,
            omega,
            omega_inv: invert(omega),
            size_inv: invert(F::from(size as u64)),
            log_blocks: threads_log.min(log_size.saturating_sub(LEAST_BLOCK_LOG)),
        })
    }

    fn block_len(&self) -> usize {
        1 << (self.log_size - self.log_blocks)
    }

    /// Where the blocks' order puts the block with index `block`: the natural index of its first element. The next
    /// element of the block is `2^log_blocks` further.
    fn first_index(&self, block: usize) -> usize {
        match self.log_blocks {
            0 => 0,
            bits => block.reverse_bits() >> (usize::BITS - bits),
        }
    }

    /// Inverse transform without the factor 1/size: natural order in, blocks in bit-reversed order out.
    fn inverse(&self, values: &mut [F]) {
        let mut omega = self.omega_inv;
        for layer in 0..self.log_blocks {
            for part in values.chunks_mut(1 << (self.log_size - layer)) {
                butterflies(part, omega, |low, high, w| {
                    let difference = *low - *high;
                    *low += *high;
                    *high = difference * w;
                });
            }
            omega = omega.square();
        }
        self.blocks(values, omega);
    }

    /// Forward transform: blocks in bit-reversed order in, natural order out.
    fn forward(&self, values: &mut [F]) {
        let omega = (0..self.log_blocks).fold(self.omega, |omega, _| omega.square());
        self.blocks(values, omega);
        for layer in (0..self.log_blocks).rev() {
            let omega = (0..layer).fold(self.omega, |omega, _| omega.square());
            for part in values.chunks_mut(1 << (self.log_size - layer)) {
                butterflies(part, omega, |low, high, w| {
                    let twisted = *high * w;
                    *high = *low - twisted;
                    *low += twisted;
                });
            }
        }
    }

    /// The FFT of each block, in place, blocks in parallel.
    fn blocks(&self, values: &mut [F], omega: F) {
        let log_len = self.log_size - self.log_blocks;
        values.par_chunks_mut(self.block_len()).for_each(|block| serial_fft(block, &omega, log_len));
    }

    /// Multiplies the element of natural index i by `factor * base^i`, in blocks' order.
    fn scale_by_powers(&self, values: &mut [F], factor: F, base: F) {
        let step = base.pow_vartime([1u64 << self.log_blocks]);
        values.par_chunks_mut(self.block_len()).enumerate().for_each(|(block, values)| {
            let mut power = factor * base.pow_vartime([self.first_index(block) as u64]);
            for value in values {
                *value *= power;
                power *= step;
            }
        });
    }
}

fn invert<F: PrimeField>(value: F) -> F {
    Option::from(value.invert()).expect("roots of unity, powers of two and generators are not zero")
}

/// Applies `butterfly(low, high, omega^j)` to element j of either half of `part`, in parallel.
fn butterflies<F: PrimeField>(part: &mut [F], omega: F, butterfly: impl Fn(&mut F, &mut F, F) + Sync) {
    let (low, high) = part.split_at_mut(part.len() / 2);
    low.par_chunks_mut(CHUNK).zip(high.par_chunks_mut(CHUNK)).enumerate().for_each(|(i, (low, high))| {
        let mut w = omega.pow_vartime([(i * CHUNK) as u64]);
        for (low, high) in low.iter_mut().zip(high) {
            butterfly(low, high, w);
            w *= omega;
        }
    });
}

/// Multiplies every element by `factor`, in parallel.
pub(super) fn multiply<F: PrimeField>(values: &mut [F], factor: F) {
    values.par_chunks_mut(CHUNK).for_each(|values| values.iter_mut().for_each(|value| *value *= factor));
}

/// Leaves in `b` the coefficients of the quotient times `scale`, `size - 1` of them, and gives the memory of `a` and `c`
/// back. All three hold evaluations over the domain, padded with zeros to its size, a power of two.
///
/// # Errors
/// [`SynthesisError::PolynomialDegreeTooLarge`] if the field has no domain of that size.
pub(super) fn quotient<F: PrimeField>(
    [a, b, c]: [&mut PinnedVec<F>; 3],
    scale: F,
) -> Result<(), SynthesisError> {
    let size = a.len();
    // As many threads as ec-gpu-gen's FFT would take: `EC_GPU_NUM_THREADS`, or one a core.
    let domain = Domain::new(size, Worker::new().log_num_threads())?;
    let generator = F::MULTIPLICATIVE_GENERATOR;

    for vec in [&mut *a, &mut *b, &mut *c] {
        let values = vec.as_mut_slice();
        domain.inverse(values);
        domain.scale_by_powers(values, domain.size_inv, generator);
        domain.forward(values);
    }

    // z = X^size - 1 is the same everywhere on the coset.
    let z_inv = invert(generator.pow_vartime([size as u64]) - F::ONE);
    a.as_mut_slice()
        .par_chunks_mut(CHUNK)
        .zip(b.as_slice().par_chunks(CHUNK))
        .zip(c.as_slice().par_chunks(CHUNK))
        .for_each(|((a, b), c)| {
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = (*a * b - c) * z_inv;
            }
        });
    c.release();

    domain.inverse(a.as_mut_slice());
    domain.scale_by_powers(a.as_mut_slice(), domain.size_inv * scale, invert(generator));
    let (blocks, stride) = (1usize << domain.log_blocks, domain.block_len());
    let a_values = a.as_slice();
    // The element of natural index k is element k / blocks of the block that begins with index k % blocks.
    b.as_mut_slice().par_chunks_mut(CHUNK).enumerate().for_each(|(i, b)| {
        for (k, b) in (i * CHUNK..).zip(b) {
            *b = a_values[domain.first_index(k % blocks) * stride + k / blocks];
        }
    });
    a.release();
    // The degree of the quotient is at most size - 2.
    b.truncate(size - 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blstrs::Scalar;
    use ff::Field;
    use rand_core::{RngCore, SeedableRng};

    fn random(len: usize, rng: &mut impl RngCore) -> Vec<Scalar> {
        (0..len).map(|_| Scalar::random(&mut *rng)).collect()
    }

    fn vec_of(values: &[Scalar]) -> PinnedVec<Scalar> {
        let mut vec = PinnedVec::with_heap_capacity(values.len());
        vec.extend_from_slice(values);
        vec
    }

    /// Upstream's way, on vectors of its own.
    fn expected(a: &[Scalar], b: &[Scalar], c: &[Scalar]) -> Vec<Scalar> {
        use upstream::domain::EvaluationDomain;
        let worker = Worker::new();
        let on_coset = |values: &[Scalar]| {
            let mut domain = EvaluationDomain::from_coeffs(values.to_vec()).unwrap();
            domain.ifft(&worker, &mut None).unwrap();
            domain.coset_fft(&worker, &mut None).unwrap();
            domain
        };
        let mut h = on_coset(a);
        h.mul_assign(&worker, &on_coset(b));
        h.sub_assign(&worker, &on_coset(c));
        h.divide_by_z_on_coset(&worker);
        h.icoset_fft(&worker, &mut None).unwrap();
        let mut h = h.into_coeffs();
        h.pop();
        h
    }

    #[test]
    fn the_quotient_is_upstreams_for_every_size() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for log in 0..=13 {
            let [a, b, c] = [0; 3].map(|_| random(1 << log, &mut rng));
            let expected = expected(&a, &b, &c);
            let [mut a, mut b, mut c] = [a, b, c].map(|values| vec_of(&values));
            quotient([&mut a, &mut b, &mut c], Scalar::ONE).unwrap();
            assert!(b.as_slice() == expected, "size 2^{log}");
            assert_eq!((a.capacity(), c.capacity()), (0, 0), "a and c are given back");
        }
    }

    #[test]
    fn every_number_of_blocks_transforms_alike() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        let size = 1 << 12;
        let values = random(size, &mut rng);
        let mut reference: Option<Vec<Scalar>> = None;
        for threads_log in 0..=4 {
            let domain = Domain::<Scalar>::new(size, threads_log).unwrap();
            assert_eq!(domain.log_blocks, threads_log);
            let mut transformed = values.clone();
            domain.inverse(&mut transformed);
            domain.scale_by_powers(&mut transformed, domain.size_inv, Scalar::from(7));
            domain.forward(&mut transformed);
            assert!(*reference.get_or_insert_with(|| transformed.clone()) == transformed);
        }
    }

    #[test]
    fn a_domain_larger_than_the_field_has_is_an_error() {
        assert!(matches!(
            Domain::<Scalar>::new(1 << Scalar::S, 1),
            Err(SynthesisError::PolynomialDegreeTooLarge)
        ));
    }
}
