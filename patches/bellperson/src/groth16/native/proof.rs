//! One proof, from an assignment to the three points.

use std::ops::{AddAssign, Mul, MulAssign};
use std::time::{Duration, Instant};

use group::prime::PrimeCurveAffine;
use group::Curve;
use log::debug;
use pairing::MultiMillerLoop;
use upstream::groth16::{Proof, VerifyingKey};
use upstream::SynthesisError;

use super::msm::Msm;
use super::quotient::quotient;
use crate::groth16::assignment::ProvingAssignment;
use crate::groth16::key::{check_query, check_vk, KeySource};

/// How long the steps of a proof took, each by wall clock. Reading of the key runs beside the step before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phases {
    /// The FFTs, to the quotient polynomial.
    pub fft: Duration,
    /// The MSM over the H query.
    pub msm_h: Duration,
    /// The MSM over the L query.
    pub msm_l: Duration,
    /// The MSM over the A query.
    pub msm_a: Duration,
    /// The MSM over the B query in G1.
    pub msm_b_g1: Duration,
    /// The MSM over the B query in G2.
    pub msm_b_g2: Duration,
    /// Putting the proof together.
    pub assembly: Duration,
}

impl Phases {
    /// All MSMs together.
    pub fn msm(&self) -> Duration {
        self.msm_h + self.msm_l + self.msm_a + self.msm_b_g1 + self.msm_b_g2
    }

    /// All steps together.
    pub fn total(&self) -> Duration {
        self.fft + self.msm() + self.assembly
    }
}

/// The sums of the five queries: each the query's points by their scalars.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Sums<E: MultiMillerLoop> {
    pub h: E::G1,
    pub l: E::G1,
    pub a: E::G1,
    pub b_g1: E::G1,
    pub b_g2: E::G2,
}

/// The verifying key, if an assignment can be proved with it.
///
/// # Errors
/// Vectors that were given back, a key for another number of inputs, an identity where Groth16 allows none.
pub fn checked_vk<'k, E: MultiMillerLoop>(
    assignment: &ProvingAssignment<E::Fr>,
    key: &'k dyn KeySource<E>,
) -> Result<&'k VerifyingKey<E>, SynthesisError> {
    assignment.check_whole()?;
    let shape = assignment.shape();
    let vk = key.vk(shape.inputs)?;
    check_vk(vk, shape)?;
    if (vk.delta_g1.is_identity() | vk.delta_g2.is_identity()).into() {
        // Someone is trying a subversion attack on the parameters.
        return Err(SynthesisError::UnexpectedIdentity);
    }
    Ok(vk)
}

/// Runs a step and notes how long it took.
fn timed<T>(name: &str, into: &mut Duration, step: impl FnOnce() -> T) -> T {
    debug!("{name}");
    let start = Instant::now();
    let value = step();
    *into = start.elapsed();
    value
}

/// Proves one assignment with the blinding factors `r` and `s`.
pub(super) fn prove<E, M>(
    mut assignment: ProvingAssignment<E::Fr>,
    key: &dyn KeySource<E>,
    r: E::Fr,
    s: E::Fr,
) -> Result<(Proof<E>, Phases), SynthesisError>
where
    E: MultiMillerLoop,
    M: Msm<E>,
{
    let vk = checked_vk(&assignment, key)?;
    let mut phases = Phases::default();
    let sums = sums::<E, M>(&mut assignment, key, &mut phases)?;
    drop(assignment);
    let proof = timed("assembly", &mut phases.assembly, || assemble(vk, sums, r, s));
    Ok((proof, phases))
}

/// The five MSMs. Memory goes back in between: a and c after the FFTs, b after the H query.
fn sums<E, M>(
    assignment: &mut ProvingAssignment<E::Fr>,
    key: &dyn KeySource<E>,
    phases: &mut Phases,
) -> Result<Sums<E>, SynthesisError>
where
    E: MultiMillerLoop,
    M: Msm<E>,
{
    let shape = assignment.shape();
    let a_aux_total = assignment.a_aux_density().get_total_density();
    let b_input_total = assignment.b_input_density().get_total_density();
    let b_aux_total = assignment.b_aux_density().get_total_density();

    // While one step computes, the key of the next is read: a mapped key has to be decoded from its file.
    let size = shape.domain_size();
    let (done, h_query) = rayon::join(
        || {
            timed("fft", &mut phases.fft, || {
                let [a, b, c] = assignment.padded_abc();
                quotient([a, b, c], M::scale())
            })
        },
        || key.h(size - 1),
    );
    done?;
    let h_query = h_query?;
    check_query("the H query", &h_query, size - 1)?;

    let (h, l_query) = rayon::join(
        || timed("multiexp h", &mut phases.msm_h, || M::g1(&h_query, assignment.b(), None)),
        || key.l(shape.aux),
    );
    let h = h?;
    drop(h_query);
    assignment.release_abc();
    let l_query = l_query?;
    check_query("the L query", &l_query, shape.aux)?;

    let mut inputs = assignment.input_assignment().to_vec();
    M::prepare(&mut inputs);
    M::prepare(assignment.aux_mut());
    let assignment = &*assignment;
    let aux = assignment.aux_assignment();

    let (l, next) = rayon::join(
        || timed("multiexp l", &mut phases.msm_l, || M::g1(&l_query, aux, None)),
        || {
            let a = key.a(shape.inputs, a_aux_total)?;
            let b_g1 = key.b_g1(b_input_total, b_aux_total)?;
            let b_g2 = key.b_g2(b_input_total, b_aux_total)?;
            Ok::<_, SynthesisError>((a, b_g1, b_g2))
        },
    );
    let l = l?;
    drop(l_query);
    let (a_queries, b_g1_queries, b_g2_queries) = next?;
    check_query("the A query of the inputs", &a_queries.0, shape.inputs)?;
    check_query("the A query of the witness", &a_queries.1, a_aux_total)?;
    check_query("the B query (G1) of the inputs", &b_g1_queries.0, b_input_total)?;
    check_query("the B query (G1) of the witness", &b_g1_queries.1, b_aux_total)?;
    check_query("the B query (G2) of the inputs", &b_g2_queries.0, b_input_total)?;
    check_query("the B query (G2) of the witness", &b_g2_queries.1, b_aux_total)?;

    let a = timed("multiexp a", &mut phases.msm_a, || {
        let mut a = M::g1(&a_queries.0, &inputs, None)?;
        a.add_assign(&M::g1(&a_queries.1, aux, Some(assignment.a_aux_density()))?);
        Ok::<_, SynthesisError>(a)
    })?;
    let b_input = Some(assignment.b_input_density());
    let b_aux = Some(assignment.b_aux_density());
    let b_g1 = timed("multiexp b_g1", &mut phases.msm_b_g1, || {
        let mut b = M::g1(&b_g1_queries.0, &inputs, b_input)?;
        b.add_assign(&M::g1(&b_g1_queries.1, aux, b_aux)?);
        Ok::<_, SynthesisError>(b)
    })?;
    let b_g2 = timed("multiexp b_g2", &mut phases.msm_b_g2, || {
        let mut b = M::g2(&b_g2_queries.0, &inputs, b_input)?;
        b.add_assign(&M::g2(&b_g2_queries.1, aux, b_aux)?);
        Ok::<_, SynthesisError>(b)
    })?;
    Ok(Sums { h, l, a, b_g1, b_g2 })
}

/// A = alpha + a + r delta, B = beta + b + s delta, C = h + l + s A + r B - r s delta, as Groth16 (2016/260, section 3.2)
/// has them; C is expanded so that B is needed in G1 only without its constants.
pub fn assemble<E: MultiMillerLoop>(vk: &VerifyingKey<E>, sums: Sums<E>, r: E::Fr, s: E::Fr) -> Proof<E> {
    let Sums { h, l, a, b_g1, b_g2 } = sums;

    let mut g_a = vk.delta_g1.mul(r);
    g_a.add_assign(&vk.alpha_g1);
    g_a.add_assign(&a);

    let mut g_b = vk.delta_g2.mul(s);
    g_b.add_assign(&vk.beta_g2);
    g_b.add_assign(&b_g2);

    let mut g_c = a;
    g_c.mul_assign(s);
    let mut b_r = b_g1;
    b_r.mul_assign(r);
    g_c.add_assign(&b_r);
    g_c.add_assign(&vk.delta_g1.mul(r * s));
    g_c.add_assign(&vk.alpha_g1.mul(s));
    g_c.add_assign(&vk.beta_g1.mul(r));
    g_c.add_assign(&h);
    g_c.add_assign(&l);

    Proof { a: g_a.to_affine(), b: g_b.to_affine(), c: g_c.to_affine() }
}
