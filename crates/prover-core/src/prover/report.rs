//! How a proof came about. Reports hold sizes, places and times, and nothing of the witness.

use std::time::{Duration, Instant};

use bellperson::groth16::native::Phases;
use bellperson::groth16::{Placement, Shape};
use pinned_alloc::Residency;
use serde::Serialize;

/// Everything about one proof but its secrets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProofReport {
    /// Counts up from 1 for each proof of the process's prover.
    pub number: u64,
    /// The Rust type of the circuit; empty for a proof from assignments.
    pub circuit: String,
    /// What computed the proof: `"gpu"` or `"cpu"`.
    pub prover: &'static str,
    /// Constraints, with the one for each input.
    pub constraints: usize,
    /// Inputs, with the constant one.
    pub inputs: usize,
    /// Auxiliary variables.
    pub aux: usize,
    /// What was known of the size before the synthesis.
    pub hint: HintOutcome,
    /// Where the vectors lived.
    pub memory: MemoryReport,
    /// How long it took.
    pub phases: PhaseReport,
    /// Whether the proof was checked with the verifying key.
    pub checked: bool,
    /// What the device did; `None` for a proof of the CPU.
    pub device: Option<DeviceReport>,
}

/// What a device did for a proof. Times of its work are by CUDA events; in seconds when serialised.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Its number.
    pub ordinal: u32,
    /// Whether the key was loaded for this proof.
    pub key_loaded: bool,
    /// Bytes of the key that did not fit the device and came from the host in this proof.
    pub key_streamed_bytes: u64,
    /// Finding the key, or loading it.
    #[serde(serialize_with = "seconds")]
    pub key: Duration,
    /// From the begin of the upload to the assembled proof, by wall clock.
    #[serde(serialize_with = "seconds")]
    pub prove: Duration,
    /// Copy of the witness.
    #[serde(serialize_with = "seconds")]
    pub upload_witness: Duration,
    /// Copy of a, b and c.
    #[serde(serialize_with = "seconds")]
    pub upload_abc: Duration,
    /// From the first copy to the last kernel. The phases overlap: they do not add up to it.
    #[serde(serialize_with = "seconds")]
    pub busy: Duration,
    /// When the first copy was enqueued.
    #[serde(skip)]
    pub begun: Instant,
    /// What ran when.
    #[serde(skip)]
    pub spans: Vec<DeviceSpan>,
}

/// A part of a device's work for one proof, since [`DeviceReport::begun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceSpan {
    /// What: `"upload witness"`, `"upload a, b, c"`, `"NTT"`, or an MSM by the name of its query.
    pub name: &'static str,
    /// Whether it is a copy, not a computation.
    pub copy: bool,
    /// Its begin.
    pub begin: Duration,
    /// Its end.
    pub end: Duration,
}

#[cfg(any(test, feature = "cuda"))]
impl DeviceReport {
    /// A part of the work.
    pub(crate) fn span(name: &'static str, copy: bool, begin: Duration, end: Duration) -> DeviceSpan {
        DeviceSpan { name, copy, begin, end }
    }

    /// A report whose times are all zero, begun now.
    pub(crate) fn empty(name: &str, ordinal: u32) -> Self {
        Self {
            name: name.to_owned(),
            ordinal,
            key_loaded: false,
            key_streamed_bytes: 0,
            key: Duration::ZERO,
            prove: Duration::ZERO,
            upload_witness: Duration::ZERO,
            upload_abc: Duration::ZERO,
            busy: Duration::ZERO,
            begun: Instant::now(),
            spans: Vec::new(),
        }
    }
}

#[cfg(feature = "cuda")]
impl DeviceReport {
    pub(super) fn new(
        (name, ordinal): (&str, u32),
        (key_loaded, key_streamed_bytes): (bool, u64),
        key: Duration,
        begun: Instant,
        times: &prover_cuda::slot::Times,
    ) -> Self {
        let duration = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
        let parts = [
            ("upload witness", true, times.upload_witness),
            ("upload a, b, c", true, times.upload_abc),
            ("NTT", false, times.ntt),
            ("MSM H", false, times.h),
            ("MSM L", false, times.l),
            ("MSM A", false, times.a),
            ("MSM B-G1", false, times.b_g1),
            ("MSM B-G2", false, times.b_g2),
        ];
        let span = |(name, copy, span): (_, _, prover_cuda::slot::Span)| {
            Self::span(name, copy, duration(span.begin), duration(span.end))
        };
        Self {
            key_loaded,
            key_streamed_bytes,
            key,
            prove: begun.elapsed(),
            upload_witness: duration(times.upload_witness.seconds()),
            upload_abc: duration(times.upload_abc.seconds()),
            busy: duration(times.total()),
            begun,
            spans: parts.into_iter().map(span).collect(),
            ..Self::empty(name, ordinal)
        }
    }
}

/// What was known of a circuit's size before its synthesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HintOutcome {
    /// Nothing.
    Absent,
    /// The truth.
    Exact,
    /// Too little: vectors had to grow.
    TooSmall,
    /// Too much: memory was taken in vain.
    TooLarge,
}

impl HintOutcome {
    /// Compares what was expected with what came.
    pub(super) fn of(expected: Option<Shape>, found: Shape) -> Self {
        match expected {
            None => Self::Absent,
            Some(expected) if expected.constraints < found.constraints || expected.aux < found.aux => {
                Self::TooSmall
            }
            Some(expected) if expected == found => Self::Exact,
            Some(_) => Self::TooLarge,
        }
    }
}

/// Where the vectors of a proof lived, after the synthesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryReport {
    /// a, b and c.
    pub abc: VectorReport,
    /// The witness.
    pub aux: VectorReport,
    /// Blocks that grew in place.
    pub grown_in_place: u32,
    /// Vectors that moved to a larger block.
    pub moved: u32,
    /// Vectors that moved to the heap.
    pub moved_to_heap: u32,
    /// Why vectors are on the heap although there is a pool; `None` if they are not.
    pub refusal: Option<String>,
}

/// Where some vectors lived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VectorReport {
    /// The pool's backend, or `"heap"`.
    pub backend: &'static str,
    /// Page-locked and known to a device, so that it is read by DMA.
    pub pinned: bool,
    /// Locked in RAM, which pinned memory is, too.
    pub locked: bool,
    /// Bytes held.
    pub bytes: usize,
}

impl VectorReport {
    fn new(backend: Option<&'static str>, residency: Residency, bytes: usize) -> Self {
        Self {
            backend: backend.unwrap_or("heap"),
            pinned: residency == Residency::Pinned,
            locked: matches!(residency, Residency::Locked | Residency::Pinned),
            bytes,
        }
    }
}

impl MemoryReport {
    /// From where an assignment says it lives.
    pub(super) fn new(placement: &Placement, refusal: Option<String>) -> Self {
        let growths = placement.growths;
        Self {
            abc: VectorReport::new(placement.abc_allocator, placement.abc_residency, placement.abc_bytes),
            aux: VectorReport::new(placement.aux_allocator, placement.aux_residency, placement.aux_bytes),
            grown_in_place: growths.in_place,
            moved: growths.moved,
            moved_to_heap: growths.to_heap,
            refusal,
        }
    }
}

/// How long the parts of a proof took, by wall clock; in seconds when serialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseReport {
    /// From the circuit to a, b, c and the witness. Of a batch: all its circuits, divided by their number. Zero for a proof
    /// from assignments.
    #[serde(serialize_with = "seconds")]
    pub synthesis: Duration,
    /// The FFTs.
    #[serde(serialize_with = "seconds")]
    pub fft: Duration,
    /// The MSM over the H query.
    #[serde(serialize_with = "seconds")]
    pub msm_h: Duration,
    /// The MSM over the L query.
    #[serde(serialize_with = "seconds")]
    pub msm_l: Duration,
    /// The MSM over the A query.
    #[serde(serialize_with = "seconds")]
    pub msm_a: Duration,
    /// The MSM over the B query in G1.
    #[serde(serialize_with = "seconds")]
    pub msm_b_g1: Duration,
    /// The MSM over the B query in G2.
    #[serde(serialize_with = "seconds")]
    pub msm_b_g2: Duration,
    /// Putting the proof together.
    #[serde(serialize_with = "seconds")]
    pub assembly: Duration,
    /// The computation, from the assignment to the proof. On a device the parts overlap, so that it is less than their sum.
    #[serde(serialize_with = "seconds")]
    pub prove: Duration,
    /// The self-check.
    #[serde(serialize_with = "seconds")]
    pub verify: Duration,
}

impl PhaseReport {
    /// From the times of the prover.
    pub(super) fn new(synthesis: Duration, phases: &Phases, prove: Duration, verify: Duration) -> Self {
        Self {
            synthesis,
            fft: phases.fft,
            msm_h: phases.msm_h,
            msm_l: phases.msm_l,
            msm_a: phases.msm_a,
            msm_b_g1: phases.msm_b_g1,
            msm_b_g2: phases.msm_b_g2,
            assembly: phases.assembly,
            prove,
            verify,
        }
    }

    /// All MSMs together.
    pub fn msm(&self) -> Duration {
        self.msm_h + self.msm_l + self.msm_a + self.msm_b_g1 + self.msm_b_g2
    }

    /// Everything, from the circuit to the checked proof.
    pub fn total(&self) -> Duration {
        self.synthesis + self.prove + self.verify
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
