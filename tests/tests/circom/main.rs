//! circom circuits, key files and snarkjs's JSON: good ones proved end to end, bad ones refused.
//!
//! | module | subject |
//! |---|---|
//! | `build` | `.r1cs` and `.wtns` files made by hand, byte by byte |
//! | `round_trip` | set-up, proof, verification and every file on the way, on the fixtures |
//! | `random` | the same on random constraint systems with all that circom may leave in |
//! | `bad_circom` | `.r1cs` and `.wtns` files that must be refused |
//! | `bad_keys` | keys and proofs that must be refused |
//! | `bad_json` | JSON that must be refused |
//! | `mutations` | damaged files of every kind: an error or a value, never a panic |
//!
//! snarkjs's own verdict is asked for in `scripts/circom_e2e.sh`.

mod bad_circom;
mod bad_json;
mod bad_keys;
mod build;
mod mutations;
mod random;
mod round_trip;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bellperson::groth16::{create_random_proof, generate_random_parameters, Parameters, Proof};
use blstrs::Bls12;
use pinprover::circom::{CircomCircuit, R1cs, Witness};
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha20Rng;

/// The circuits of `tests/circom` that can be proved.
const PROVABLE: [&str; 6] = ["multiplier", "unused", "unused_O0", "rounds", "bits", "silent"];

fn fixture(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("circom").join(file)
}

fn fixture_bytes(file: &str) -> Vec<u8> {
    std::fs::read(fixture(file)).unwrap()
}

fn circuit(name: &str) -> CircomCircuit {
    CircomCircuit::new(R1cs::read(fixture(&format!("{name}.r1cs"))).unwrap()).unwrap()
}

fn witness(name: &str) -> Arc<Witness> {
    Arc::new(Witness::read(fixture(&format!("{name}.wtns"))).unwrap())
}

fn proved(name: &str) -> CircomCircuit {
    circuit(name).with_witness(witness(name)).unwrap()
}

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(0x636f_6d63_6972)
}

fn setup(circuit: &CircomCircuit) -> Parameters<Bls12> {
    generate_random_parameters::<Bls12, _, _>(circuit.clone(), &mut rng()).unwrap()
}

/// Parameters, proof and circuit of `multiplier`, made once.
fn multiplier() -> &'static (Parameters<Bls12>, Proof<Bls12>, CircomCircuit) {
    static MADE: OnceLock<(Parameters<Bls12>, Proof<Bls12>, CircomCircuit)> = OnceLock::new();
    MADE.get_or_init(|| {
        let circuit = proved("multiplier");
        let params = setup(&circuit);
        let proof = create_random_proof(circuit.clone(), &params, &mut rng()).unwrap();
        (params, proof, circuit)
    })
}
