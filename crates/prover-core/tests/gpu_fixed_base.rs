//! Products of key generation on a device, against those of the CPU.
#![cfg(feature = "cuda")]

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use prover_core::cuda::DeviceSelector;
use prover_core::prover::GpuFixedBase;
use prover_core::setup::{CpuFixedBase, FixedBase};
use rand_core::OsRng;

fn scalars(count: usize) -> Vec<Scalar> {
    let special =
        [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(1 << 16), Scalar::from((1 << 16) - 1)];
    (0..count).map(|i| if i % 7 == 3 { special[i % special.len()] } else { Scalar::random(OsRng) }).collect()
}

#[test]
fn points_of_both_groups_equal_the_cpus_for_any_count() {
    if !prover_core::cuda::devices().is_ok_and(|devices| !devices.is_empty()) {
        println!("skipped: no CUDA device");
        return;
    }
    let device = GpuFixedBase::new(&DeviceSelector::Ordinal(0)).expect("the device can be used");
    let cpu = CpuFixedBase::new();
    let base1 = G1Projective::random(OsRng).to_affine();
    let base2 = G2Projective::random(OsRng).to_affine();
    // One thread inverts for 64 points; a launch takes 2^19.
    for count in [0, 1, 2, 63, 64, 65, 127, 1000, (1 << 19) + 1] {
        let scalars = scalars(count);
        let mut found = vec![G1Affine::identity(); count];
        let mut expected = found.clone();
        device.g1(&base1, &scalars, &mut found).expect("G1 on the device");
        cpu.g1(&base1, &scalars, &mut expected).expect("G1 on the CPU");
        assert!(found == expected, "{count} points of G1");
        let count = count.min(5000);
        let mut found = vec![G2Affine::identity(); count];
        let mut expected = found.clone();
        device.g2(&base2, &scalars[..count], &mut found).expect("G2 on the device");
        cpu.g2(&base2, &scalars[..count], &mut expected).expect("G2 on the CPU");
        assert!(found == expected, "{count} points of G2");
    }
}
