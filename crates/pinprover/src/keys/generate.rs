//! New keys, for circuits of the tool.

use bellperson::groth16::{self, Parameters};
use bellperson::Circuit;
use blstrs::{Bls12, Scalar};
use prover_core::setup::{self, CpuFixedBase, FixedBase, KeySize, SetupError, ToxicWaste};
use rand_core::{CryptoRng, RngCore};

use crate::circuits::Shape;
use crate::error::Error;
use crate::ui;

/// Makes the key of the circuit that `circuit` makes, whose counts are `shape`, on the CPU. The same `rng` gives the
/// same key as upstream's generator. `action` is what the error says was tried.
///
/// # Errors
/// [`Error::Memory`] if the key needs more memory than there is, before it is taken where that can be foreseen;
/// [`Error::Synthesis`].
pub fn generate<C: Circuit<Scalar>>(
    action: &'static str,
    circuit: impl Fn() -> C,
    shape: &Shape,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Parameters<Bls12>, Error> {
    generate_with(action, circuit, shape, rng, &CpuFixedBase::new())
}

/// [`generate`], with something else to multiply points.
///
/// # Errors
/// As [`generate`], and [`Error::Input`] if a device fails.
pub fn generate_with<C: Circuit<Scalar>>(
    action: &'static str,
    circuit: impl Fn() -> C,
    shape: &Shape,
    rng: &mut (impl RngCore + CryptoRng),
    fixed_base: &dyn FixedBase,
) -> Result<Parameters<Bls12>, Error> {
    let size = KeySize {
        shape: groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux },
        a: shape.inputs + shape.a_aux,
        b: shape.b_inputs + shape.b_aux,
    };
    setup::generate(circuit, Some(size), ToxicWaste::random(rng), fixed_base, &|stage, done, total| {
        tracing::debug!("{}: {done} of {total}", stage.name());
        ui::detail(|| Some(format!("{} {}", stage.name(), ui::part(done as u64, total as u64))));
    })
    .map_err(|e| match e {
        SetupError::Synthesis(cause) => Error::synthesis(action)(cause),
        e if e.is_memory() => Error::Memory(format!("{action}: {e}")),
        e => Error::Input(format!("{action}: {e}")),
    })
}
