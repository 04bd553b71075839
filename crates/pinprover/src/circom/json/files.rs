//! The three kinds of file.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use bellperson::groth16::{prepare_verifying_key, PreparedVerifyingKey, Proof, VerifyingKey};
use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use group::prime::PrimeCurveAffine;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::Value;

use super::decimal;
use super::error::JsonError;
use super::points::{self, Fp2, G1, G2};
use super::JsonFileError;
use crate::circom::file::{self, ReadError};

const PROTOCOL: &str = "groth16";
const CURVE: &str = "bls12381";

/// Bytes that a proof's file may have; it has about 1,700.
const PROOF_LIMIT: u64 = 1 << 16;
/// Bytes that a key's file may have: four million public inputs.
const KEY_LIMIT: u64 = 1 << 30;
/// Bytes that a public input may take: 77 digits, quotes, comma and much white space.
const PUBLIC_INPUT_LIMIT: u64 = 256;

#[derive(Serialize, Deserialize)]
struct ProofJson {
    pi_a: G1,
    pi_b: G2,
    pi_c: G1,
    protocol: String,
    curve: String,
}

/// Field order and names are snarkjs's.
#[derive(Serialize, Deserialize)]
struct KeyJson {
    protocol: String,
    curve: String,
    #[serde(rename = "nPublic")]
    n_public: usize,
    vk_alpha_1: G1,
    vk_beta_2: G2,
    vk_gamma_2: G2,
    vk_delta_2: G2,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vk_alphabeta_12: Option<[[Fp2; 3]; 2]>,
    #[serde(rename = "IC")]
    ic: Vec<G1>,
}

/// What a verifier needs. bellperson's [`VerifyingKey`] has two more points (`beta_g1`, `delta_g1`), which are
/// the prover's and not in snarkjs's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationKey {
    /// alpha in G1.
    pub alpha_g1: G1Affine,
    /// beta in G2.
    pub beta_g2: G2Affine,
    /// gamma in G2.
    pub gamma_g2: G2Affine,
    /// delta in G2.
    pub delta_g2: G2Affine,
    /// One point for the constant one and one for each public input.
    pub ic: Vec<G1Affine>,
}

impl From<&VerifyingKey<Bls12>> for VerificationKey {
    fn from(vk: &VerifyingKey<Bls12>) -> Self {
        Self {
            alpha_g1: vk.alpha_g1,
            beta_g2: vk.beta_g2,
            gamma_g2: vk.gamma_g2,
            delta_g2: vk.delta_g2,
            ic: vk.ic.clone(),
        }
    }
}

impl VerificationKey {
    /// The form that [`bellperson::groth16::verify_proof`] takes.
    pub fn prepare(&self) -> PreparedVerifyingKey<Bls12> {
        // The two points of the prover's are not read there.
        prepare_verifying_key(&VerifyingKey {
            alpha_g1: self.alpha_g1,
            beta_g1: G1Affine::identity(),
            beta_g2: self.beta_g2,
            gamma_g2: self.gamma_g2,
            delta_g1: G1Affine::identity(),
            delta_g2: self.delta_g2,
            ic: self.ic.clone(),
        })
    }
}

/// Writes `proof.json`.
///
/// # Errors
/// The writer's.
pub fn write_proof<W: Write>(proof: &Proof<Bls12>, writer: W) -> io::Result<()> {
    let json = ProofJson {
        pi_a: points::g1(&proof.a),
        pi_b: points::g2(&proof.b),
        pi_c: points::g1(&proof.c),
        protocol: PROTOCOL.to_string(),
        curve: CURVE.to_string(),
    };
    write(&json, writer)
}

/// Writes `verification_key.json`.
///
/// # Errors
/// The writer's.
pub fn write_verification_key<W: Write>(vk: &VerifyingKey<Bls12>, writer: W) -> io::Result<()> {
    let json = KeyJson {
        protocol: PROTOCOL.to_string(),
        curve: CURVE.to_string(),
        n_public: vk.ic.len().saturating_sub(1),
        vk_alpha_1: points::g1(&vk.alpha_g1),
        vk_beta_2: points::g2(&vk.beta_g2),
        vk_gamma_2: points::g2(&vk.gamma_g2),
        vk_delta_2: points::g2(&vk.delta_g2),
        vk_alphabeta_12: Some(points::pairing(&vk.alpha_g1, &vk.beta_g2)),
        ic: vk.ic.iter().map(points::g1).collect(),
    };
    write(&json, writer)
}

/// Writes `public.json`: the public values, outputs first, without the constant one.
///
/// # Errors
/// The writer's.
pub fn write_public<W: Write>(public: &[Scalar], writer: W) -> io::Result<()> {
    let json: Vec<String> = public.iter().map(|value| decimal::digits(&value.to_bytes_be())).collect();
    write(&json, writer)
}

/// Reads `proof.json`. Every point is checked to be in its subgroup.
///
/// # Errors
/// The file and the first thing that is wrong with it.
pub fn read_proof(path: impl AsRef<Path>) -> Result<Proof<Bls12>, JsonFileError> {
    read(path.as_ref(), PROOF_LIMIT, parse_proof)
}

/// Reads `verification_key.json`. Every point is checked to be in its subgroup, and `vk_alphabeta_12`, if it is
/// there, to be the pairing it should be.
///
/// # Errors
/// The file and the first thing that is wrong with it.
pub fn read_verification_key(path: impl AsRef<Path>) -> Result<VerificationKey, JsonFileError> {
    read(path.as_ref(), KEY_LIMIT, parse_verification_key)
}

/// Reads `public.json`, which must hold `expected` values.
///
/// # Errors
/// The file and the first thing that is wrong with it.
pub fn read_public(path: impl AsRef<Path>, expected: usize) -> Result<Vec<Scalar>, JsonFileError> {
    let limit = (expected as u64 + 16).saturating_mul(PUBLIC_INPUT_LIMIT);
    // Far too many values are too many, not an oversized file.
    read(path.as_ref(), limit.max(1 << 20), |bytes| parse_public(bytes, expected))
}

/// Reads the content of `proof.json`.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_proof(bytes: &[u8]) -> Result<Proof<Bls12>, JsonError> {
    let json: ProofJson = serde_json::from_slice(bytes).map_err(JsonError::Syntax)?;
    check_kind(&json.protocol, &json.curve)?;
    Ok(Proof {
        a: points::parse_g1(&json.pi_a, "pi_a", 0)?,
        b: points::parse_g2(&json.pi_b, "pi_b", 0)?,
        c: points::parse_g1(&json.pi_c, "pi_c", 0)?,
    })
}

/// Reads the content of `verification_key.json`.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_verification_key(bytes: &[u8]) -> Result<VerificationKey, JsonError> {
    let json: KeyJson = serde_json::from_slice(bytes).map_err(JsonError::Syntax)?;
    check_kind(&json.protocol, &json.curve)?;
    let expected = json.n_public.saturating_add(1);
    if json.ic.len() != expected {
        return Err(JsonError::Length { field: "IC", expected, found: json.ic.len() });
    }
    let vk = VerificationKey {
        alpha_g1: points::parse_g1(&json.vk_alpha_1, "vk_alpha_1", 0)?,
        beta_g2: points::parse_g2(&json.vk_beta_2, "vk_beta_2", 0)?,
        gamma_g2: points::parse_g2(&json.vk_gamma_2, "vk_gamma_2", 0)?,
        delta_g2: points::parse_g2(&json.vk_delta_2, "vk_delta_2", 0)?,
        ic: json
            .ic
            .par_iter()
            .enumerate()
            .map(|(index, point)| points::parse_g1(point, "IC", index))
            .collect::<Result<_, _>>()?,
    };
    match json.vk_alphabeta_12 {
        Some(value) if value != points::pairing(&vk.alpha_g1, &vk.beta_g2) => Err(JsonError::AlphaBeta),
        _ => Ok(vk),
    }
}

/// Reads the content of `public.json`, which must hold `expected` values.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_public(bytes: &[u8], expected: usize) -> Result<Vec<Scalar>, JsonError> {
    let json: Vec<Value> = serde_json::from_slice(bytes).map_err(JsonError::Syntax)?;
    if json.len() != expected {
        return Err(JsonError::Length { field: "public inputs", expected, found: json.len() });
    }
    json.iter()
        .enumerate()
        .map(|(index, value)| {
            let text = value.as_str().ok_or(JsonError::NotAString { index })?;
            decimal::scalar(text).map_err(|cause| JsonError::Number { field: "public input", index, cause })
        })
        .collect()
}

fn check_kind(protocol: &str, curve: &str) -> Result<(), JsonError> {
    if protocol != PROTOCOL {
        return Err(JsonError::Protocol { found: protocol.to_string() });
    }
    // As snarkjs compares: letters and digits only, in any case.
    let plain: String =
        curve.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if plain != CURVE {
        return Err(JsonError::Curve { found: curve.to_string() });
    }
    Ok(())
}

fn read<T>(
    path: &Path,
    limit: u64,
    parse: impl FnOnce(&[u8]) -> Result<T, JsonError>,
) -> Result<T, JsonFileError> {
    let bytes = file::read(path, limit, |_| true).map_err(|e| match e {
        ReadError::Io(e) => JsonError::Io(e),
        ReadError::TooLarge { limit } => JsonError::TooLarge { limit },
        ReadError::Head => unreachable!("every head is taken"),
    });
    bytes
        .and_then(|bytes| if bytes.is_empty() { Err(JsonError::Empty) } else { parse(&bytes) })
        .map_err(|cause| JsonFileError::new(path, cause))
}

fn write<T: Serialize, W: Write>(json: &T, writer: W) -> io::Result<()> {
    let mut writer = BufWriter::new(writer);
    let mut serializer = Serializer::with_formatter(&mut writer, PrettyFormatter::with_indent(b" "));
    json.serialize(&mut serializer)?;
    writer.flush()
}
