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
    locked: bool,
    bytes: u64,
    growths: u32,
    /// Why they are on the heap although there is a pool.
    refusal: Option<String>,
}

impl From<&Vectors> for VectorsObject {
    fn from(vectors: &Vectors) -> Self {
        let Vectors { backend, pinned, locked, bytes, growths, refusal } = vectors.clone();
        Self { backend, pinned, locked, bytes, growths, refusal }
    }
}

/// Where the proving vectors lived, for people.
pub(super) fn describe(vectors: &Vectors) -> String {
    let Vectors { backend, pinned, locked, bytes, growths, refusal } = vectors;
    let kept = match (pinned, locked) {
        (true, _) => "pinned",
        (_, true) => "locked in RAM, not pinned",
        _ => "not pinned",
    };
    let mut text = format!("{backend}, {kept}, {}", format_size(*bytes));
    text += &match growths {
        0 => ", never outgrown".to_owned(),
        1 => ", outgrown once".to_owned(),
        _ => format!(", outgrown {growths} times"),
    };
    if let Some(refusal) = refusal {
        text += &format!(" ({refusal})");
    }
    text
}

/// The counts of a circuit, for people.
pub(super) fn counts(shape: &Shape) -> String {
    format!(
        "{}, {}, {}, domain 2^{}",
        plural(shape.rows(), "constraint"),
        plural(shape.inputs - 1, "public input"),
        plural(shape.aux, "private variable"),
        shape.domain().trailing_zeros(),
    )
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
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
    let mut text = format!("{}\n\n{}\n\n", counts(shape), table(&rows));
    text += &format!("a, b, c lived in: {}\n", describe(&report.vectors));
    if let Some(peak) = peak {
        text += &format!("peak memory:      {}\n", format_size(peak));
    }
    text
}
