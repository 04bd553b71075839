//! What a proof took, for people and for programs.

use std::time::Duration;

use prover_core::size::format_size;
use serde::Serialize;

use crate::circuits::Shape;
use crate::proving::{Phases, Report, Vectors};
use crate::ui::{seconds, table};

/// The times of a proof in seconds; null where a phase was not measured.
#[derive(Serialize)]
pub(super) struct PhaseTimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    setup: Option<f64>,
    synthesis: Option<f64>,
    fft: Option<f64>,
    msm: Option<f64>,
    prove: f64,
    verify: f64,
}

impl PhaseTimes {
    pub(super) fn new(setup: Option<Duration>, phases: &Phases, verify: Duration) -> Self {
        let number = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        Self {
            setup: number(setup),
            synthesis: number(phases.synthesis),
            fft: number(phases.fft),
            msm: number(phases.msm),
            prove: phases.total.as_secs_f64(),
            verify: verify.as_secs_f64(),
        }
    }
}

/// Where the proving vectors lived, for programs.
#[derive(Serialize)]
pub(super) struct VectorsObject {
    backend: String,
    pinned: bool,
    bytes: Option<u64>,
    growths: Option<u64>,
}

impl From<&Vectors> for VectorsObject {
    fn from(vectors: &Vectors) -> Self {
        let Vectors { backend, pinned, bytes, growths } = vectors.clone();
        Self { backend, pinned, bytes, growths }
    }
}

/// Where the proving vectors lived, for people.
pub(super) fn describe(vectors: &Vectors) -> String {
    let mut text = vectors.backend.clone();
    text += if vectors.pinned { ", pinned" } else { ", not pinned" };
    if let Some(bytes) = vectors.bytes {
        text += &format!(", {}", format_size(bytes));
    }
    match vectors.growths {
        Some(1) => text += ", grew once",
        Some(growths) => text += &format!(", grew {growths} times"),
        None => {}
    }
    text
}

/// The table of phases and the lines on memory, each line ended.
pub(super) fn text(
    shape: &Shape,
    setup: Option<Duration>,
    report: &Report,
    verify: Duration,
    peak: Option<u64>,
) -> String {
    let phase = |name: &str, time: Option<Duration>| {
        vec![name.to_owned(), time.map_or_else(|| "n/a".into(), seconds)]
    };
    let Phases { synthesis, fft, msm, total } = report.phases;
    let mut rows = vec![vec!["phase".into(), "time".into()]];
    rows.extend(setup.map(|setup| phase("set-up", Some(setup))));
    rows.extend([
        phase("prove", Some(total)),
        phase("  synthesis", synthesis),
        phase("  FFT", fft),
        phase("  MSM", msm),
        phase("verify", Some(verify)),
    ]);
    let mut text = format!(
        "{} constraints, {} public inputs, {} private variables, domain 2^{}\n\n{}\n\n",
        shape.rows(),
        shape.inputs - 1,
        shape.aux,
        shape.domain().trailing_zeros(),
        table(&rows),
    );
    text += &format!("a, b, c lived in: {}\n", describe(&report.vectors));
    if let Some(peak) = peak {
        text += &format!("peak memory:      {}\n", format_size(peak));
    }
    text
}
