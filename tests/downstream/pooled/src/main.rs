//! The prover of `plain`, in the pool. The second of the two lines is the first of `main`.

use blstrs::Scalar;
use plain::Keys;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prover = prover_core::init(prover_core::Config::default())?;

    let keys = Keys::generate();
    for _ in 0..2 {
        let proofs = keys.prove(&[Scalar::from(3)]);
        assert!(keys.verify(&proofs[0], Scalar::from(27)));
    }
    for report in prover.reports() {
        let (abc, aux) = (report.memory.abc, report.memory.aux);
        assert!(report.circuit.ends_with("CubeRoot") && report.checked);
        assert_eq!((abc.backend, aux.backend), ("pages", "pages"));
        println!(
            "proof {}: {} constraints, a, b, c in {} ({} bytes), witness in {}, hint {:?}, checked: {}",
            report.number, report.constraints, abc.backend, abc.bytes, aux.backend, report.hint, report.checked
        );
    }
    assert_eq!(prover.reports().len(), 2);
    Ok(())
}
