//! Damaged files of every kind: an error or a value, never a panic and never a large allocation.

use std::sync::OnceLock;

use pinprover::circom::{json, CircomCircuit, R1cs, Witness};
use pinprover::keys;
use proptest::prelude::*;

use super::{fixture_bytes, multiplier, witness, PROVABLE};

/// What happens to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    /// Four bytes that read as a large or a small number.
    Number(prop::sample::Index, u32, bool),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>();
    prop_oneof![
        4 => (index.clone(), 0_u8..8).prop_map(|(i, bit)| Damage::Flip(i, bit)),
        1 => index.clone().prop_map(Damage::Cut),
        1 => (index.clone(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(i, b)| Damage::Insert(i, b)),
        1 => (index.clone(), 1_usize..40).prop_map(|(i, n)| Damage::Remove(i, n)),
        3 => (index, prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(1 << 31), Just(1 << 20)], any::<bool>())
            .prop_map(|(i, n, big)| Damage::Number(i, n, big)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damages: &[Damage]) {
    for damage in damages {
        if bytes.is_empty() {
            return;
        }
        match damage {
            Damage::Flip(i, bit) => {
                let at = i.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Damage::Cut(i) => bytes.truncate(i.index(bytes.len())),
            Damage::Insert(i, new) => {
                let at = i.index(bytes.len());
                bytes.splice(at..at, new.iter().copied());
            }
            Damage::Remove(i, n) => {
                let at = i.index(bytes.len());
                let end = (at + n).min(bytes.len());
                bytes.drain(at..end);
            }
            Damage::Number(i, n, big) => {
                let at = i.index(bytes.len());
                let new = if *big { n.to_be_bytes() } else { n.to_le_bytes() };
                for (byte, new) in bytes[at..].iter_mut().zip(new) {
                    *byte = new;
                }
            }
        }
    }
}

fn made(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

/// params, vk, proof, proof.json, verification_key.json, public.json
fn files() -> &'static [Vec<u8>; 6] {
    static FILES: OnceLock<[Vec<u8>; 6]> = OnceLock::new();
    FILES.get_or_init(|| {
        let (params, proof, circuit) = multiplier();
        [
            made(|w| keys::write_params(params, w).unwrap()),
            made(|w| keys::write_vk(&params.vk, w).unwrap()),
            made(|w| keys::write_proof(proof, w).unwrap()),
            made(|w| json::write_proof(proof, w).unwrap()),
            made(|w| json::write_verification_key(&params.vk, w).unwrap()),
            made(|w| json::write_public(circuit.public_inputs().unwrap(), w).unwrap()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn r1cs_and_wtns(name in prop::sample::select(&PROVABLE[..]), damages in prop::collection::vec(damage(), 1..4)) {
        let mut bytes = fixture_bytes(&format!("{name}.r1cs"));
        apply(&mut bytes, &damages);
        if let Ok(circuit) = R1cs::from_bytes(&bytes).map(CircomCircuit::new) {
            if let Ok(circuit) = circuit.and_then(|c| c.with_witness(witness(name))) {
                let _ = circuit.first_unsatisfied();
            }
        }
        let mut bytes = fixture_bytes(&format!("{name}.wtns"));
        apply(&mut bytes, &damages);
        if let Ok(read) = Witness::from_bytes(&bytes) {
            let _ = super::circuit(name).with_witness(read).map(|c| c.first_unsatisfied());
        }
    }

    /// What is read in spite of the damage is written back as it was: nothing is guessed or ignored.
    #[test]
    fn keys_and_proofs(damages in prop::collection::vec(damage(), 1..3)) {
        let [params, vk, proof, ..] = files();
        let damaged = |good: &[u8]| {
            let mut bytes = good.to_vec();
            apply(&mut bytes, &damages);
            bytes
        };
        let bytes = damaged(vk);
        if let Ok(read) = keys::parse_vk(&bytes) {
            prop_assert_eq!(&made(|w| keys::write_vk(&read, w).unwrap()), &bytes);
        }
        let bytes = damaged(params);
        if let Ok(read) = keys::parse_params(&bytes, true) {
            prop_assert_eq!(&made(|w| keys::write_params(&read, w).unwrap()), &bytes);
        }
        let bytes = damaged(proof);
        if let Ok(read) = keys::parse_proof(&bytes) {
            prop_assert_eq!(&made(|w| keys::write_proof(&read, w).unwrap()), &bytes);
        }
    }

    #[test]
    fn snarkjs_json(damages in prop::collection::vec(damage(), 1..4)) {
        let [.., proof, vk, public] = files();
        let damaged = |good: &[u8]| {
            let mut bytes = good.to_vec();
            apply(&mut bytes, &damages);
            bytes
        };
        let _ = json::parse_proof(&damaged(proof));
        let _ = json::parse_verification_key(&damaged(vk));
        let _ = json::parse_public(&damaged(public), 1);
    }
}
