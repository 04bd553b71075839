//! The proofs in turns.

use std::time::Duration;

use bellperson::groth16::{prepare_verifying_key, verify_proof, Parameters};
use blstrs::{Bls12, Scalar};
use rand_core::OsRng;
use serde::Serialize;

use super::median::median;
use crate::bench::listen;
use crate::circuits::{BuiltIn, Instance, Shape};
use crate::error::Error;
use crate::proving::{Blinding, Phases, Session, Vectors};
use crate::ui::Progress;

/// One circuit, proved by both.
pub struct Race<'a> {
    /// The circuit.
    pub circuit: BuiltIn,
    /// Its key.
    pub params: &'a Parameters<Bls12>,
    /// Our prover.
    pub session: &'a Session,
}

/// The medians of a race.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Ours.
    pub ours: Medians,
    /// Upstream's.
    pub upstream: Medians,
    /// Where our vectors lived in the last round.
    pub vectors: Vectors,
}

/// The medians of one prover's times, in seconds; `None` where a round has no figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Medians {
    /// The circuit to a, b, c and the witness.
    pub synthesis: Option<f64>,
    /// a, b, c to h.
    pub fft: Option<f64>,
    /// The multi-scalar multiplications.
    pub msm: Option<f64>,
    /// All of it.
    pub total: f64,
}

impl Race<'_> {
    /// Proves in turns, `warm_up` rounds that do not count and `rounds` that do. Each round has its own r and s;
    /// who goes first alternates. Two steps of `progress` a round.
    ///
    /// # Errors
    /// [`Error::ProofsDiffer`] if the two proofs of a round are not the same bytes, and what proving returns.
    pub fn run(&self, warm_up: usize, rounds: usize, progress: &Progress) -> Result<Finish, Error> {
        let instance: Instance<Scalar> = self.circuit.instance(&mut OsRng);
        let shape =
            Shape::of(self.circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
        let verifier = prepare_verifying_key(&self.params.vk);
        let (mut ours, mut theirs, mut vectors) = (Vec::new(), Vec::new(), None);
        for round in 0..warm_up + rounds {
            let blinding = Blinding::fresh();
            let run_ours = || {
                let work = || self.session.prove(&shape, instance.circuit.clone(), self.params, blinding);
                progress.step(&format!("{} by us, round {}", self.circuit, round + 1), work).0
            };
            let run_upstream = || {
                let work = || upstream_proof(&instance, self.params, blinding);
                progress.step(&format!("{} by upstream, round {}", self.circuit, round + 1), work).0
            };
            let (proved, (upstream_proof, upstream_phases)) = if round % 2 == 0 {
                let ours = run_ours()?;
                (ours, run_upstream()?)
            } else {
                let theirs = run_upstream()?;
                (run_ours()?, theirs)
            };
            let mut our_proof = Vec::new();
            proved.proof.write(&mut our_proof).map_err(Error::io("write", "a proof"))?;
            if our_proof != upstream_proof {
                return Err(Error::ProofsDiffer {
                    circuit: self.circuit.to_string(),
                    one: "upstream".to_owned(),
                    other: "our prover".to_owned(),
                });
            }
            if round == 0
                && !verify_proof(&verifier, &proved.proof, &instance.public)
                    .map_err(Error::synthesis("verify"))?
            {
                return Err(Error::SelfCheck("delete the kept key and run again"));
            }
            if round >= warm_up {
                ours.push(proved.report.phases);
                theirs.push(upstream_phases);
            }
            vectors = Some(proved.report.vectors);
        }
        Ok(Finish {
            ours: Medians::of(&ours),
            upstream: Medians::of(&theirs),
            vectors: vectors.expect("there is at least one round"),
        })
    }
}

/// One proof by upstream, as bytes. The two crates' keys are one type: ours is upstream's, re-exported.
pub(crate) fn upstream_proof(
    instance: &Instance<Scalar>,
    params: &Parameters<Bls12>,
    blinding: Blinding,
) -> Result<(Vec<u8>, Phases), Error> {
    let circuit = instance.circuit.clone();
    let (proof, phases) = listen::phases_of(|| {
        upstream::groth16::create_proof::<Bls12, _, _>(circuit, params, blinding.r, blinding.s)
    });
    let mut bytes = Vec::new();
    let proof = proof.map_err(Error::synthesis("prove with upstream"))?;
    proof.write(&mut bytes).map_err(Error::io("write", "a proof"))?;
    Ok((bytes, phases))
}

impl Medians {
    fn of(rounds: &[Phases]) -> Self {
        let of = |pick: fn(&Phases) -> Option<Duration>| {
            rounds
                .iter()
                .map(|phases| pick(phases).map(|time| time.as_secs_f64()))
                .collect::<Option<Vec<_>>>()
                .map(median)
        };
        Self {
            synthesis: of(|phases| phases.synthesis),
            fft: of(|phases| phases.fft),
            msm: of(|phases| phases.msm),
            total: of(|phases| Some(phases.total)).expect("every round has a total"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
        let round = |msm: Option<u64>, total| Phases {
            msm: msm.map(Duration::from_secs),
            total: Duration::from_secs(total),
            ..Phases::default()
        };
        let medians = Medians::of(&[round(Some(1), 5), round(Some(3), 4), round(Some(2), 9)]);
        assert_eq!((medians.msm, medians.synthesis, medians.total), (Some(2.0), None, 5.0));
        assert_eq!(Medians::of(&[round(Some(1), 5), round(None, 4)]).msm, None);
    }
}
