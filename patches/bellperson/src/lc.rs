//! Evaluation of a linear combination with a record of which variables it uses.

use ec_gpu_gen::multiexp_cpu::DensityTracker;
use ff::PrimeField;
use upstream::LinearCombination;

/// The value of `lc`. Every variable with a non-zero coefficient is marked in its tracker, where one is given.
pub(crate) fn eval_with_trackers<Scalar: PrimeField>(
    lc: &LinearCombination<Scalar>,
    mut input_density: Option<&mut DensityTracker>,
    mut aux_density: Option<&mut DensityTracker>,
    input_assignment: &[Scalar],
    aux_assignment: &[Scalar],
) -> Scalar {
    let one = Scalar::ONE;
    let mut acc = Scalar::ZERO;
    let mut add =
        |values: &[Scalar], index: usize, coeff: &Scalar, density: &mut Option<&mut DensityTracker>| {
            if coeff.is_zero_vartime() {
                return;
            }
            let value = values[index];
            acc += if coeff == &one { value } else { value * coeff };
            if let Some(density) = density {
                density.inc(index);
            }
        };
    for (index, coeff) in lc.iter_inputs() {
        add(input_assignment, *index, coeff, &mut input_density);
    }
    for (index, coeff) in lc.iter_aux() {
        add(aux_assignment, *index, coeff, &mut aux_density);
    }
    acc
}
