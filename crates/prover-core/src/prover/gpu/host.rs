//! The assignment as the device reads it.

use bellperson::groth16::{ProvingAssignment, Shape};
use blstrs::Scalar;
use prover_cuda::slot::{Assignment, Shape as DeviceShape, Views};

use super::cast;

/// An assignment that a device may be reading.
pub(super) struct Held(pub(super) ProvingAssignment<Scalar>);

// SAFETY: the vectors lie in blocks or on the heap, where a move of the assignment leaves them, and nothing changes them
// through this wrapper, which only hands the assignment back whole.
unsafe impl Assignment for Held {
    fn views(&self) -> Views<'_> {
        let assignment = &self.0;
        Views {
            a: cast::scalars(assignment.a()),
            b: cast::scalars(assignment.b()),
            c: cast::scalars(assignment.c()),
            aux: cast::scalars(assignment.aux_assignment()),
            inputs: cast::scalars(assignment.input_assignment()),
            a_aux_density: cast::words(assignment.a_aux_density().bv.as_raw_slice()),
            b_input_density: cast::words(assignment.b_input_density().bv.as_raw_slice()),
            b_aux_density: cast::words(assignment.b_aux_density().bv.as_raw_slice()),
        }
    }
}

/// The sizes of its proof.
pub(super) fn device_shape(assignment: &ProvingAssignment<Scalar>) -> DeviceShape {
    let Shape { inputs, aux, .. } = assignment.shape();
    DeviceShape {
        rows: assignment.a().len(),
        log_domain: assignment.shape().domain_size().ilog2(),
        inputs,
        aux,
        a_aux: assignment.a_aux_density().get_total_density(),
        b_inputs: assignment.b_input_density().get_total_density(),
        b_aux: assignment.b_aux_density().get_total_density(),
    }
}
