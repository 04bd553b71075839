use blstrs::Scalar;
use plain::Keys;

#[test]
fn upstreams_api_proves_through_the_fork() {
    let keys = Keys::generate();
    let secrets = [3, 4, 5].map(Scalar::from);
    let proofs = keys.prove(&secrets);
    assert_eq!(proofs.len(), 3);
    for (proof, x) in proofs.iter().zip(secrets) {
        assert!(keys.verify(proof, x * x * x));
        assert!(!keys.verify(proof, x));
    }
    assert!(keys.prove(&[]).is_empty());
    // The version says who proves: upstream's 0.27.0 says the same, but has no backends. The script checks the tree.
    assert_eq!(bellperson::BELLMAN_VERSION, "0.27.0");
}
