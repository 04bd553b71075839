//! Which circuit it is. The size of a circuit is remembered under its identity.

use bellperson::groth16::backend::CircuitId;
use bellperson::groth16::VerifyingKey;
use blstrs::Bls12;
use sha2::{Digest, Sha256};

use super::device::KeyDigest;
use crate::hints::HintKey;

/// A digest of the circuit's type and its verifying key. One of the two may be missing; then a hint may belong to another
/// circuit of the type, which costs time only.
pub(crate) fn identity(circuit: &CircuitId<'_>) -> HintKey {
    identity_of(circuit.type_name, circuit.vk.map(vk_digest).as_ref())
}

/// The same, with the digest at hand.
pub(crate) fn identity_of(type_name: &str, vk: Option<&KeyDigest>) -> HintKey {
    let mut hash = Sha256::new();
    // A proof from assignments knows no type; the key says it all.
    match vk {
        Some(digest) => {
            hash.update(b"key\0");
            hash.update(digest);
        }
        None => {
            hash.update(b"type\0");
            hash.update(type_name.as_bytes());
        }
    }
    HintKey::digest(&hash.finalize().into())
}

/// SHA-256 of a verifying key as it is written to files.
pub(crate) fn vk_digest(vk: &VerifyingKey<Bls12>) -> KeyDigest {
    let mut hash = Sha256::new();
    vk.write(&mut Writer(&mut hash)).expect("hashing does not fail");
    hash.finalize().into()
}

struct Writer<'h>(&'h mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
