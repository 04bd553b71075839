//! From a circuit to a [`ProvingAssignment`].

use std::io;

use ff::PrimeField;
use upstream::{Circuit, ConstraintSystem, Index, SynthesisError, Variable};

use super::assignment::{ProvingAssignment, Shape};

/// Where a synthesis may put its vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryPolicy {
    /// Registered memory if there is an allocator and it has some, otherwise the heap, with a warning.
    #[default]
    PreferRegistered,
    /// Registered memory, or an error.
    RequireRegistered,
    /// The heap; the allocator is not asked.
    Heap,
}

impl MemoryPolicy {
    /// Checks that an assignment lives where the policy wants it.
    ///
    /// # Errors
    /// [`SynthesisError::IoError`] of kind `OutOfMemory` if registered memory is required and was refused.
    pub fn check<Scalar: PrimeField>(
        self,
        assignment: &ProvingAssignment<Scalar>,
    ) -> Result<(), SynthesisError> {
        match assignment.refusal() {
            Some(refusal) if self == Self::RequireRegistered => Err(out_of_memory(refusal)),
            _ => Ok(()),
        }
    }
}

/// How to synthesise. The default asks nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SynthesisOptions {
    /// The expected size. A wrong guess costs time or memory, nothing else.
    pub expect: Option<Shape>,
    /// Where the vectors may live.
    pub memory: MemoryPolicy,
    /// Ask for as much as the evaluation domain needs, because a CPU prover extends a, b and c to it in place. A GPU
    /// prover does that in device memory and leaves this off.
    pub pad_to_domain: bool,
}

impl SynthesisOptions {
    /// Expect this size.
    pub fn expecting(mut self, shape: impl Into<Option<Shape>>) -> Self {
        self.expect = shape.into();
        self
    }

    /// Put the vectors there.
    pub fn memory(mut self, policy: MemoryPolicy) -> Self {
        self.memory = policy;
        self
    }

    /// See [`pad_to_domain`](Self::pad_to_domain).
    pub fn pad_to_domain(mut self, pad: bool) -> Self {
        self.pad_to_domain = pad;
        self
    }

    fn capacity(&self) -> Option<Shape> {
        self.expect.map(|shape| match self.pad_to_domain {
            true => Shape { constraints: shape.domain_size(), ..shape },
            false => shape,
        })
    }
}

/// Synthesises a circuit with its witness, into registered memory if an allocator is registered. `expect` is the shape
/// that the circuit is thought to have; a wrong one costs time only.
///
/// The result holds everything a prover needs; [`prove_assignments`](super::prove_assignments) goes on from there.
///
/// # Errors
/// Whatever the circuit returns.
pub fn synthesize<Scalar, C>(
    circuit: C,
    expect: Option<Shape>,
) -> Result<ProvingAssignment<Scalar>, SynthesisError>
where
    Scalar: PrimeField,
    C: Circuit<Scalar>,
{
    synthesize_with(circuit, SynthesisOptions::default().expecting(expect).pad_to_domain(true))
}

/// [`synthesize`] with all options.
///
/// # Errors
/// Whatever the circuit returns; [`SynthesisError::IoError`] of kind `OutOfMemory` if registered memory is required and
/// not to be had.
pub fn synthesize_with<Scalar, C>(
    circuit: C,
    options: SynthesisOptions,
) -> Result<ProvingAssignment<Scalar>, SynthesisError>
where
    Scalar: PrimeField,
    C: Circuit<Scalar>,
{
    let mut assignment = empty(&options)?;

    assignment.alloc_input(|| "", || Ok(Scalar::ONE))?;
    circuit.synthesize(&mut assignment)?;
    // Full density of the inputs in the A query.
    for i in 0..assignment.input_assignment().len() {
        let input = Variable::new_unchecked(Index::Input(i));
        assignment.enforce(|| "", |lc| lc + input, |lc| lc, |lc| lc);
    }
    finish(assignment, &options)
}

/// A copy of an assignment, where the options want it; what they expect is not looked at. For whoever proves one witness
/// many times, a benchmark for instance.
///
/// # Errors
/// [`SynthesisError::IncompatibleLengthVector`] if a, b and c of `source` were given back; memory as [`synthesize_with`].
pub fn replicate<Scalar: PrimeField>(
    source: &ProvingAssignment<Scalar>,
    options: SynthesisOptions,
) -> Result<ProvingAssignment<Scalar>, SynthesisError> {
    source.check_whole()?;
    let mut assignment = empty(&options.expecting(source.shape()))?;
    assignment.copy_from(source);
    finish(assignment, &options)
}

/// The last steps of a synthesis.
fn finish<Scalar: PrimeField>(
    mut assignment: ProvingAssignment<Scalar>,
    options: &SynthesisOptions,
) -> Result<ProvingAssignment<Scalar>, SynthesisError> {
    if options.pad_to_domain {
        // Now, so that it is done before the blocks are sealed, and counted.
        assignment.reserve_domain();
    }
    assignment.seal();

    options.memory.check(&assignment)?;
    Ok(assignment)
}

/// The root of a synthesis, where the options want it.
fn empty<Scalar: PrimeField>(
    options: &SynthesisOptions,
) -> Result<ProvingAssignment<Scalar>, SynthesisError> {
    let on_heap = || match options.capacity() {
        Some(shape) => ProvingAssignment::on_heap(shape),
        None => ProvingAssignment::new(),
    };
    if options.memory == MemoryPolicy::Heap {
        return Ok(on_heap());
    }
    match ProvingAssignment::over_registered(options.capacity()) {
        Ok(assignment) => Ok(assignment),
        Err(refusal) if options.memory == MemoryPolicy::RequireRegistered => Err(out_of_memory(&refusal)),
        // Nobody registered an allocator: the heap is where upstream would be.
        Err(_) if pinned_alloc::current_name().is_none() => Ok(on_heap()),
        Err(refusal) => {
            log::warn!("the proving vectors go to the heap: {refusal}");
            let mut assignment = on_heap();
            assignment.set_refusal(refusal);
            Ok(assignment)
        }
    }
}

fn out_of_memory(refusal: &pinned_alloc::AllocError) -> SynthesisError {
    let text = format!("registered memory is required: {refusal}");
    SynthesisError::IoError(io::Error::new(io::ErrorKind::OutOfMemory, text))
}
