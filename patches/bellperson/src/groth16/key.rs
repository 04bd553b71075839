//! A proving key as the provers see it.
//!
//! Upstream's [`ParameterSource`] has associated types and is generic over the engine, so it cannot be a trait object,
//! and a registered backend is one. [`KeySource`] is the same thing for BLS12-381 without either.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use blstrs::{Bls12, G1Affine, G2Affine};
use ec_gpu_gen::multiexp_cpu::SourceBuilder;
use pairing::{Engine, MultiMillerLoop};
use upstream::groth16::{ParameterSource, VerifyingKey};
use upstream::SynthesisError;

use super::assignment::Shape;

/// Bases of a query: the vector, and the index of the first one meant.
pub type Query<G> = (Arc<Vec<G>>, usize);

/// The two parts of a query: bases of the inputs, and of the auxiliary variables.
pub type KeyPair<G> = (Query<G>, Query<G>);

/// A proving key, as an object. Counts are in elements.
pub trait KeySource<E: MultiMillerLoop = Bls12>: Send + Sync {
    /// The verifying key.
    ///
    /// # Errors
    /// Those of the source.
    fn vk(&self, num_inputs: usize) -> Result<&VerifyingKey<E>, SynthesisError>;
    /// The H query for `domain_size - 1` coefficients.
    ///
    /// # Errors
    /// Those of the source, for instance a key file that cannot be read.
    fn h(&self, num_h: usize) -> Result<Query<E::G1Affine>, SynthesisError>;
    /// The L query, a base for each auxiliary variable.
    ///
    /// # Errors
    /// As [`h`](Self::h).
    fn l(&self, num_l: usize) -> Result<Query<E::G1Affine>, SynthesisError>;
    /// The A query: for the inputs, and for the auxiliary variables of the density.
    ///
    /// # Errors
    /// As [`h`](Self::h).
    fn a(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<E::G1Affine>, SynthesisError>;
    /// The B query in G1: for the inputs and the auxiliary variables of the densities.
    ///
    /// # Errors
    /// As [`h`](Self::h).
    fn b_g1(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<E::G1Affine>, SynthesisError>;
    /// The B query in G2.
    ///
    /// # Errors
    /// As [`h`](Self::h).
    fn b_g2(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<E::G2Affine>, SynthesisError>;
}

/// Any source of BLS12-381 parameters, as a [`KeySource`]. Made only for `E = Bls12` (see [`erase`]).
struct Erased<'p, E, P>(&'p P, PhantomData<fn() -> E>);

/// `params` as an object, if the engine is BLS12-381.
pub(crate) fn erase<'p, E, P>(params: &'p P) -> Option<Box<dyn KeySource + 'p>>
where
    E: MultiMillerLoop,
    P: ParameterSource<E>,
{
    is_bls12::<E>().then(|| Box::new(Erased::<E, P>(params, PhantomData)) as Box<dyn KeySource + 'p>)
}

/// Whether the engine is BLS12-381 as blstrs has it.
pub(crate) fn is_bls12<E: Engine>() -> bool {
    std::any::TypeId::of::<E>() == std::any::TypeId::of::<Bls12>()
}

/// The same value under the name that its type has for the other engine.
pub(crate) fn same_type<T: 'static, U: 'static>(value: T) -> U {
    let mut value = Some(value);
    let value: &mut dyn Any = &mut value;
    let value: &mut Option<U> = value.downcast_mut().expect("the caller compared the engines");
    value.take().expect("it was just put there")
}

fn query<G, H, B>(builder: B) -> Query<H>
where
    G: group::prime::PrimeCurveAffine,
    H: 'static,
    B: SourceBuilder<G>,
{
    let (bases, skip) = builder.get();
    (same_type::<Arc<Vec<G>>, Arc<Vec<H>>>(bases), skip)
}

impl<E, P> KeySource for Erased<'_, E, P>
where
    E: MultiMillerLoop,
    P: ParameterSource<E>,
{
    fn vk(&self, num_inputs: usize) -> Result<&VerifyingKey<Bls12>, SynthesisError> {
        let vk: &dyn Any = self.0.get_vk(num_inputs)?;
        Ok(vk.downcast_ref().expect("made only for BLS12-381"))
    }

    fn h(&self, num_h: usize) -> Result<Query<G1Affine>, SynthesisError> {
        Ok(query(self.0.get_h(num_h)?))
    }

    fn l(&self, num_l: usize) -> Result<Query<G1Affine>, SynthesisError> {
        Ok(query(self.0.get_l(num_l)?))
    }

    fn a(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<G1Affine>, SynthesisError> {
        let (inputs, aux) = self.0.get_a(num_inputs, num_aux)?;
        Ok((query(inputs), query(aux)))
    }

    fn b_g1(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<G1Affine>, SynthesisError> {
        let (inputs, aux) = self.0.get_b_g1(num_inputs, num_aux)?;
        Ok((query(inputs), query(aux)))
    }

    fn b_g2(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<G2Affine>, SynthesisError> {
        let (inputs, aux) = self.0.get_b_g2(num_inputs, num_aux)?;
        Ok((query(inputs), query(aux)))
    }
}

/// Any source of parameters, as a [`KeySource`] of its own engine.
#[derive(Clone, Copy, Debug)]
pub struct Key<'p, P>(pub &'p P);

impl<E, P> KeySource<E> for Key<'_, P>
where
    E: MultiMillerLoop,
    P: ParameterSource<E>,
{
    fn vk(&self, num_inputs: usize) -> Result<&VerifyingKey<E>, SynthesisError> {
        self.0.get_vk(num_inputs)
    }

    fn h(&self, num_h: usize) -> Result<Query<E::G1Affine>, SynthesisError> {
        Ok(self.0.get_h(num_h)?.get())
    }

    fn l(&self, num_l: usize) -> Result<Query<E::G1Affine>, SynthesisError> {
        Ok(self.0.get_l(num_l)?.get())
    }

    fn a(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<E::G1Affine>, SynthesisError> {
        let (inputs, aux) = self.0.get_a(num_inputs, num_aux)?;
        Ok((inputs.get(), aux.get()))
    }

    fn b_g1(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<E::G1Affine>, SynthesisError> {
        let (inputs, aux) = self.0.get_b_g1(num_inputs, num_aux)?;
        Ok((inputs.get(), aux.get()))
    }

    fn b_g2(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<E::G2Affine>, SynthesisError> {
        let (inputs, aux) = self.0.get_b_g2(num_inputs, num_aux)?;
        Ok((inputs.get(), aux.get()))
    }
}

/// Checks that a verifying key can belong to a circuit of this shape.
///
/// # Errors
/// [`SynthesisError::IncompatibleLengthVector`] with both numbers.
pub(crate) fn check_vk<E: Engine + MultiMillerLoop>(
    vk: &VerifyingKey<E>,
    shape: Shape,
) -> Result<(), SynthesisError> {
    if vk.ic.len() != shape.inputs {
        return Err(mismatch("the verifying key", vk.ic.len(), "inputs", shape.inputs));
    }
    Ok(())
}

/// Checks that a query has a base for every scalar. `skip` bases come before the first.
///
/// A source may hand out a slice of something longer, so more bases than scalars are no error here.
///
/// # Errors
/// [`SynthesisError::IncompatibleLengthVector`] with both numbers.
pub(crate) fn check_query<G>(name: &str, query: &Query<G>, scalars: usize) -> Result<(), SynthesisError> {
    let bases = query.0.len().saturating_sub(query.1);
    if bases < scalars {
        return Err(mismatch(name, bases, "bases", scalars));
    }
    Ok(())
}

fn mismatch(name: &str, found: usize, what: &str, expected: usize) -> SynthesisError {
    SynthesisError::IncompatibleLengthVector(format!(
        "{name} has {found} {what}, the circuit needs {expected}: the parameters belong to another circuit"
    ))
}
