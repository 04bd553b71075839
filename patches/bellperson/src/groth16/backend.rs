//! A prover that takes over every `create_*proof*` call of the process.
//!
//! A prover registers itself once, at start-up. From then on each call to [`create_random_proof`](super::create_random_proof)
//! and its kin for BLS12-381, in any crate, synthesises with the options that the backend gives, and hands it the result:
//!
//! ```text
//!   create_random_proof ──► Backend::options ──► synthesis ──► Backend::prove ──► proofs
//! ```
//!
//! Without a backend, and for any other curve, the [native](super::native) prover runs. A backend may call it, too.
//! Registration is separate from that of the memory ([`pinned_alloc`]): a program may have one without the other.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use blstrs::{Bls12, Scalar};
use upstream::groth16::{Proof, VerifyingKey};
use upstream::SynthesisError;

use super::assignment::{ProvingAssignment, Shape};
use super::key::KeySource;
use super::synthesis::SynthesisOptions;

static CURRENT: RwLock<Option<Arc<dyn Backend>>> = RwLock::new(None);

/// What is known of a circuit before its synthesis.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CircuitId<'a> {
    /// The Rust type of the circuit. Circuits of several sizes may share it.
    pub type_name: &'static str,
    /// The verifying key, which tells circuits of one type apart. `None` if the parameters do not give it beforehand.
    pub vk: Option<&'a VerifyingKey<Bls12>>,
}

impl<'a> CircuitId<'a> {
    /// An identity from its parts.
    pub fn new(type_name: &'static str, vk: Option<&'a VerifyingKey<Bls12>>) -> Self {
        Self { type_name, vk }
    }
}

impl fmt::Debug for CircuitId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitId").field("type_name", &self.type_name).finish_non_exhaustive()
    }
}

/// Circuits to prove: all of one shape, all with the same key.
#[non_exhaustive]
pub struct Job<'a> {
    /// Which circuit it is.
    pub circuit: CircuitId<'a>,
    /// The synthesised circuits. Their memory goes back when the backend drops or releases them.
    pub assignments: Vec<ProvingAssignment<Scalar>>,
    /// The proving key.
    pub key: &'a dyn KeySource,
    /// The blinding r of each circuit.
    pub r: Vec<Scalar>,
    /// The blinding s of each circuit.
    pub s: Vec<Scalar>,
    /// Whether the caller asked for priority over other proofs.
    pub priority: bool,
    /// How long the synthesis of these circuits took, together.
    pub synthesis: Duration,
    /// The shape that the synthesis was told to expect.
    pub expected: Option<Shape>,
}

impl<'a> Job<'a> {
    /// A job from its parts. `r` and `s` have one element an assignment.
    pub fn new(
        circuit: CircuitId<'a>,
        assignments: Vec<ProvingAssignment<Scalar>>,
        key: &'a dyn KeySource,
        r: Vec<Scalar>,
        s: Vec<Scalar>,
    ) -> Self {
        Self { circuit, assignments, key, r, s, priority: false, synthesis: Duration::ZERO, expected: None }
    }

    /// Checks that there is one r and one s an assignment, for a backend that is about to pair them.
    ///
    /// # Errors
    /// [`SynthesisError::IncompatibleLengthVector`] with the numbers.
    pub fn check_blinding(&self) -> Result<(), SynthesisError> {
        super::batch::check_blinding(self.assignments.len(), self.r.len(), self.s.len())
    }
}

impl fmt::Debug for Job<'_> {
    /// r and s are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("circuit", &self.circuit)
            .field("assignments", &self.assignments)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// A prover for BLS12-381. Called from any thread, several at once.
pub trait Backend: Send + Sync {
    /// A short name for logs.
    fn name(&self) -> &str;

    /// How to synthesise this circuit.
    fn options(&self, circuit: &CircuitId<'_>) -> SynthesisOptions {
        let _ = circuit;
        SynthesisOptions::default().pad_to_domain(true)
    }

    /// How many circuits of one call are synthesised before the first of them is proved. 0 counts as 1.
    fn batch_size(&self) -> usize {
        rayon::current_num_threads()
    }

    /// Proves the circuits of a job, in order, one proof an assignment.
    ///
    /// With the same r and s the proofs must be those of the [native](super::native) prover, byte for byte.
    ///
    /// # Errors
    /// The caller of `create_*proof*` gets them.
    fn prove(&self, job: Job<'_>) -> Result<Vec<Proof<Bls12>>, SynthesisError>;
}

/// Another backend is registered already.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlreadyRegistered {
    /// The name of the backend in place.
    pub by: String,
}

impl fmt::Display for AlreadyRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a Groth16 backend is registered already: {}; drop its registration first", self.by)
    }
}

impl std::error::Error for AlreadyRegistered {}

/// Keeps a backend registered; dropping it unregisters. Calls that run already end on the backend they began with.
#[must_use = "dropping the registration unregisters the backend"]
pub struct Registration(());

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registration")
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let backend = CURRENT.write().unwrap_or_else(|e| e.into_inner()).take();
        // Its own drop may take time, or call back: the lock is free by now.
        drop(backend);
    }
}

/// Registers a backend until the returned [`Registration`] is dropped.
///
/// # Errors
/// [`AlreadyRegistered`] if there is one.
pub fn register(backend: Arc<dyn Backend>) -> Result<Registration, AlreadyRegistered> {
    let mut current = CURRENT.write().unwrap_or_else(|e| e.into_inner());
    if let Some(other) = current.clone() {
        // Its name is its own code, and may look at the registration.
        drop(current);
        return Err(AlreadyRegistered { by: other.name().to_owned() });
    }
    *current = Some(backend);
    Ok(Registration(()))
}

/// The registered backend, if any.
pub fn current() -> Option<Arc<dyn Backend>> {
    CURRENT.read().unwrap_or_else(|e| e.into_inner()).clone()
}
