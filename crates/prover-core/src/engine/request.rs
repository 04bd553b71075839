//! What an engine is asked for.

use std::any::Any;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellperson::groth16::{
    replicate, synthesize_with, Key, KeyPair, KeySource, Parameters, ProvingAssignment, Query, Shape,
    SynthesisOptions, VerifyingKey,
};
use bellperson::{Circuit, SynthesisError};
use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use ff::Field;
use rand_core::{OsRng, RngCore};

use crate::memory::Priority;

/// From a circuit to its assignment, whatever its type.
pub(super) type Synthesis =
    Box<dyn FnOnce(SynthesisOptions) -> Result<ProvingAssignment<Scalar>, SynthesisError> + Send>;

/// One circuit of a job.
pub(super) struct CircuitRequest {
    pub(super) synthesis: Synthesis,
    pub(super) r: Scalar,
    pub(super) s: Scalar,
}

/// Circuits of one shape to prove with one key, for instance the partitions of one proof.
pub struct JobRequest {
    pub(super) key: Arc<dyn KeySource>,
    /// The same, if all counts are known beforehand.
    pub(super) params: Option<Arc<Parameters<Bls12>>>,
    pub(super) type_name: &'static str,
    pub(super) circuits: Vec<CircuitRequest>,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Instant>,
    pub(super) label: String,
    pub(super) expected: Option<Shape>,
}

impl JobRequest {
    /// Proves `circuits` with `params`. The blinding factors come from the system's generator.
    pub fn new<C>(params: Arc<Parameters<Bls12>>, circuits: impl IntoIterator<Item = C>) -> Self
    where
        C: Circuit<Scalar> + Send + 'static,
    {
        let key: Arc<dyn KeySource> = Arc::new(SharedParameters(params.clone()));
        Self { params: Some(params), ..Self::from_source(key, circuits) }
    }

    /// The same with a key from elsewhere, a mapped file for instance.
    pub fn from_source<C>(key: Arc<dyn KeySource>, circuits: impl IntoIterator<Item = C>) -> Self
    where
        C: Circuit<Scalar> + Send + 'static,
    {
        let synthesis =
            |circuit: C| -> Synthesis { Box::new(move |options| synthesize_with(circuit, options)) };
        Self::of(key, std::any::type_name::<C>(), circuits.into_iter().map(synthesis))
    }

    /// Proves one witness `count` times, each from a copy in memory of its own: a benchmark of everything but synthesis. A
    /// copy takes at least `pace`.
    pub fn replicas(
        params: Arc<Parameters<Bls12>>,
        template: Arc<ProvingAssignment<Scalar>>,
        count: usize,
        pace: Duration,
    ) -> Self {
        let key: Arc<dyn KeySource> = Arc::new(SharedParameters(params.clone()));
        let expected = template.shape();
        let synthesis = move |_| -> Synthesis {
            let template = template.clone();
            Box::new(move |options| {
                let start = Instant::now();
                let copy = replicate(&template, options)?;
                std::thread::sleep(pace.saturating_sub(start.elapsed()));
                Ok(copy)
            })
        };
        let request = Self::of(key, "replica", (0..count).map(synthesis));
        Self { params: Some(params), expected: Some(expected), ..request }
    }

    fn of(
        key: Arc<dyn KeySource>,
        type_name: &'static str,
        circuits: impl Iterator<Item = Synthesis>,
    ) -> Self {
        let blinded =
            |synthesis| CircuitRequest { synthesis, r: Scalar::random(OsRng), s: Scalar::random(OsRng) };
        Self {
            key,
            params: None,
            type_name,
            circuits: circuits.map(blinded).collect(),
            priority: Priority::NORMAL,
            deadline: None,
            label: String::new(),
            expected: None,
        }
    }

    /// Jobs of higher priority come first, those of equal priority in the order of submission.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// The job fails if it is not done by then. What has begun ends its stage first.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// A name for logs and the trace. Jobs are told apart by numbers of the engine's own, whatever their labels.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The shape that the circuits have. A wrong one costs time or memory only.
    pub fn expecting(mut self, shape: Shape) -> Self {
        self.expected = Some(shape);
        self
    }

    /// Blinding factors from `rng`: the same proofs for the same generator, for tests. They are not zero-knowledge to whoever
    /// knows its seed.
    pub fn blinding(mut self, rng: &mut impl RngCore) -> Self {
        for circuit in &mut self.circuits {
            (circuit.r, circuit.s) = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
        }
        self
    }

    /// How many circuits.
    pub fn len(&self) -> usize {
        self.circuits.len()
    }

    /// Whether there are none; such a job is done at once.
    pub fn is_empty(&self) -> bool {
        self.circuits.is_empty()
    }
}

impl fmt::Debug for JobRequest {
    /// The circuits hold witnesses, and the blinding factors are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRequest")
            .field("label", &self.label)
            .field("circuits", &self.circuits.len())
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// Parameters that are shared with the engine.
struct SharedParameters(Arc<Parameters<Bls12>>);

impl SharedParameters {
    fn with<T>(&self, read: impl FnOnce(&dyn KeySource) -> T) -> T {
        let params: &Parameters<Bls12> = &self.0;
        read(&Key(&params))
    }
}

impl KeySource for SharedParameters {
    fn vk(&self, _: usize) -> Result<&VerifyingKey<Bls12>, SynthesisError> {
        Ok(&self.0.vk)
    }

    fn h(&self, num_h: usize) -> Result<Query<G1Affine>, SynthesisError> {
        self.with(|key| key.h(num_h))
    }

    fn l(&self, num_l: usize) -> Result<Query<G1Affine>, SynthesisError> {
        self.with(|key| key.l(num_l))
    }

    fn a(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<G1Affine>, SynthesisError> {
        self.with(|key| key.a(num_inputs, num_aux))
    }

    fn b_g1(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<G1Affine>, SynthesisError> {
        self.with(|key| key.b_g1(num_inputs, num_aux))
    }

    fn b_g2(&self, num_inputs: usize, num_aux: usize) -> Result<KeyPair<G2Affine>, SynthesisError> {
        self.with(|key| key.b_g2(num_inputs, num_aux))
    }
}

/// What a panic said.
pub(super) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a text".to_owned(),
    };
    discard(payload);
    text
}

/// Drops a value of somebody else's type, whose drop may panic: that must end no thread of ours.
pub(super) fn discard<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        tracing::warn!("the drop of a circuit, a key or a panic panicked");
        // Its drop is not to be trusted, either.
        std::mem::forget(payload);
    }
}
