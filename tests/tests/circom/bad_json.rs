//! JSON that must be refused, each with an error that says what and where.

use pinprover::circom::json;
use serde_json::{json, Value};

use super::multiplier;

fn proof() -> Value {
    let mut bytes = Vec::new();
    json::write_proof(&multiplier().1, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn key() -> Value {
    let mut bytes = Vec::new();
    json::write_verification_key(&multiplier().0.vk, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[track_caller]
fn check(error: impl std::fmt::Display, needles: &[&str]) {
    let text = error.to_string();
    for needle in needles {
        assert!(text.contains(needle), "{text:?} lacks {needle:?}");
    }
}

#[track_caller]
fn refuse_public(text: &str, expected: usize, needles: &[&str]) {
    check(json::parse_public(text.as_bytes(), expected).expect_err("bad public inputs were read"), needles);
}

#[track_caller]
fn refuse_proof(change: impl FnOnce(&mut Value), needles: &[&str]) {
    let mut value = proof();
    change(&mut value);
    let result = json::parse_proof(value.to_string().as_bytes()).map(|_| ());
    check(result.expect_err("a bad proof was read"), needles);
}

#[track_caller]
fn refuse_key(change: impl FnOnce(&mut Value), needles: &[&str]) {
    let mut value = key();
    change(&mut value);
    let result = json::parse_verification_key(value.to_string().as_bytes()).map(|_| ());
    check(result.expect_err("a bad key was read"), needles);
}

const R: &str = "52435875175126190479447740508185965837690552500527637822603658699938581184513";
const P: &str = "4002409555221667393417789825735904156556882819939007885332058136124031650490837864442687629129015664037894272559787";

#[test]
fn public_inputs() {
    refuse_public("", 1, &["JSON"]);
    refuse_public("[\"1\"", 1, &["JSON", "line 1"]);
    refuse_public("{}", 1, &["JSON"]);
    refuse_public("[\"1\"] x", 1, &["JSON", "trailing"]);
    refuse_public("[]", 1, &["expected 1", "found 0"]);
    refuse_public("[\"1\", \"2\"]", 1, &["expected 1", "found 2"]);
    refuse_public("[\"1\"]", 0, &["expected 0", "found 1"]);
    refuse_public("[\"1\", 2]", 2, &["public input 1", "string"]);
    refuse_public("[null]", 1, &["public input 0", "string"]);
    refuse_public("[[\"1\"]]", 1, &["public input 0", "string"]);
    refuse_public(&format!("[\"1\", \"{R}\"]"), 2, &["public input 1", "not below"]);
    refuse_public(&format!("[\"{}\"]", "9".repeat(100_000)), 1, &["public input 0", "not below"]);
    refuse_public("[\"-1\"]", 1, &["public input 0", "sign"]);
    refuse_public("[\"+1\"]", 1, &["public input 0", "sign"]);
    refuse_public("[\"0x21\"]", 1, &["public input 0", "decimal"]);
    refuse_public("[\"33 \"]", 1, &["public input 0", "decimal"]);
    refuse_public("[\"3e1\"]", 1, &["public input 0", "decimal"]);
    refuse_public("[\"033\"]", 1, &["public input 0", "zero"]);
    refuse_public("[\"\"]", 1, &["public input 0", "empty"]);
    refuse_public(&"[".repeat(100_000), 1, &["JSON"]);
    assert!(json::parse_public(b"[\"0\"]", 1).is_ok());
}

#[test]
fn proofs() {
    refuse_proof(|v| v["protocol"] = json!("plonk"), &["protocol", "groth16", "plonk"]);
    refuse_proof(|v| v["curve"] = json!("bn128"), &["curve", "bn128", "--prime bls12381"]);
    refuse_proof(|v| drop(v.as_object_mut().unwrap().remove("curve")), &["curve"]);
    refuse_proof(|v| drop(v.as_object_mut().unwrap().remove("pi_b")), &["pi_b"]);
    refuse_proof(|v| v["pi_a"] = json!(["1", "2"]), &["JSON"]);
    refuse_proof(|v| v["pi_a"][0] = json!(7), &["JSON"]);
    refuse_proof(|v| v["pi_a"][2] = json!("2"), &["pi_a", "third coordinate"]);
    refuse_proof(|v| v["pi_a"] = json!(["0", "1", "0"]), &["pi_a", "third coordinate"]);
    refuse_proof(|v| v["pi_b"][2] = json!(["1", "1"]), &["pi_b", "third coordinate"]);
    refuse_proof(|v| v["pi_c"][0] = json!(P), &["pi_c", "not below"]);
    refuse_proof(|v| v["pi_c"][0] = json!("-3"), &["pi_c", "sign"]);
    refuse_proof(|v| v["pi_a"][1] = json!("5"), &["pi_a", "not on the curve"]);
    refuse_proof(|v| v["pi_a"] = json!(["0", "0", "1"]), &["pi_a", "not on the curve"]);
    // (0, 2) is a point of the curve y^2 = x^3 + 4, of order 3.
    refuse_proof(|v| v["pi_a"] = json!(["0", "2", "1"]), &["pi_a", "subgroup"]);
    refuse_proof(
        |v| {
            let swapped = json!([v["pi_b"][0][1], v["pi_b"][0][0]]);
            v["pi_b"][0] = swapped;
        },
        &["pi_b", "not on the curve"],
    );
    let mut other_spelling = proof();
    other_spelling["curve"] = json!("BLS12-381");
    assert!(json::parse_proof(other_spelling.to_string().as_bytes()).is_ok());
}

#[test]
fn keys() {
    refuse_key(|v| v["protocol"] = json!("fflonk"), &["protocol", "fflonk"]);
    refuse_key(|v| v["curve"] = json!("bn128"), &["curve", "bn128"]);
    refuse_key(|v| v["nPublic"] = json!(2), &["IC", "expected 3", "found 2"]);
    refuse_key(|v| v["nPublic"] = json!(u64::MAX), &["IC", "found 2"]);
    refuse_key(|v| v["nPublic"] = json!(-1), &["JSON"]);
    refuse_key(|v| v["IC"] = json!([]), &["IC", "expected 2", "found 0"]);
    refuse_key(|v| v["IC"][1] = json!(["0", "2", "1"]), &["IC 1", "subgroup"]);
    refuse_key(|v| v["IC"][1][0] = json!("x"), &["IC 1", "decimal"]);
    for (i, field) in ["vk_beta_2", "vk_gamma_2", "vk_delta_2"].into_iter().enumerate() {
        refuse_key(|v| v[field][0][i % 2] = json!("1"), &[field, "not on the curve"]);
    }
    refuse_key(|v| v["vk_alpha_1"][2] = json!("0"), &["vk_alpha_1", "third coordinate"]);
    refuse_key(|v| v["vk_alphabeta_12"][1][0][0] = json!("1"), &["vk_alphabeta_12"]);
    let mut without = key();
    without.as_object_mut().unwrap().remove("vk_alphabeta_12");
    assert!(json::parse_verification_key(without.to_string().as_bytes()).is_ok());
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.json");
    let named = |what: &str| {
        for text in [
            json::read_public(&path, 1).unwrap_err().to_string(),
            json::read_proof(&path).map(|_| ()).unwrap_err().to_string(),
            json::read_verification_key(&path).unwrap_err().to_string(),
        ] {
            assert!(text.starts_with(&path.display().to_string()) && text.contains(what), "{text}");
        }
    };
    named("cannot be read");
    std::fs::write(&path, []).unwrap();
    named("empty");
    std::fs::write(&path, "[").unwrap();
    named("JSON");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    named("larger");
    // The limit grows with the number of public inputs.
    let many = format!("[{}]", vec![format!("\"{}\"", "1".repeat(76)); 20_000].join(",\n"));
    std::fs::write(&path, &many).unwrap();
    assert_eq!(json::read_public(&path, 20_000).unwrap().len(), 20_000);
    assert!(json::read_public(&path, 1).is_err());
}
