//! What the prover asks of multi-scalar multiplication (MSM): sums of bases times scalars.

use ec_gpu_gen::multiexp_cpu::DensityTracker;
use ec_gpu_gen::EcError;
use ff::Field;
use pairing::Engine;
use upstream::gpu::GpuError;
use upstream::SynthesisError;

use crate::groth16::key::Query;

/// Multi-scalar multiplication in both groups of an engine.
pub(super) trait Msm<E: Engine> {
    /// The factor that every scalar must carry. A constant of the method: folded into other factors where possible.
    fn scale() -> E::Fr;

    /// Multiplies scalars by [`scale`](Self::scale), in place.
    fn prepare(scalars: &mut [E::Fr]) {
        let scale = Self::scale();
        if scale != E::Fr::ONE {
            super::quotient::multiply(scalars, scale);
        }
    }

    /// The sum of bases times prepared scalars in G1. With a density, only the marked scalars count, and each of those
    /// has the next base.
    ///
    /// # Errors
    /// An identity among the bases of non-zero scalars: the parameters are subverted.
    fn g1(
        query: &Query<E::G1Affine>,
        scalars: &[E::Fr],
        density: Option<&DensityTracker>,
    ) -> Result<E::G1, SynthesisError>;

    /// As [`g1`](Self::g1), in G2.
    ///
    /// # Errors
    /// As [`g1`](Self::g1).
    fn g2(
        query: &Query<E::G2Affine>,
        scalars: &[E::Fr],
        density: Option<&DensityTracker>,
    ) -> Result<E::G2, SynthesisError>;
}

/// A base that is used is the identity.
pub(super) fn identity_in_key() -> SynthesisError {
    // Word for word what upstream's MSM answers.
    GpuError::from(EcError::Simple("Encountered an identity element in the CRS.")).into()
}
