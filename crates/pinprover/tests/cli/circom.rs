//! Circuits from circom: set-up, proof, check, export; and whatever can be wrong with the files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{
    fixture, prove, prove_arguments, run, setup, verify, verify_arguments, Folder, Proved, Run,
};

/// The prime of the scalar field: the least number that is no public input.
const R: &str = "52435875175126190479447740508185965837690552500527637822603658699938581184513";

#[test]
fn the_commands_of_the_readme() {
    for name in ["multiplier", "bits", "rounds", "silent", "unused"] {
        let made = Proved::make(name);
        assert_eq!(made.folder.names(), ["c.params", "c.proof", "c.public.json", "c.vk"], "{name}");
        assert_eq!(fs::metadata(made.proof()).unwrap().len(), 192);
        let verdict = verify(&made.vk(), &made.proof(), &made.public()).expect(0);
        assert_eq!((verdict.stdout.as_str(), verdict.stderr.as_str()), ("valid\n", ""), "{name}");

        let out = made.folder.path("export");
        run(export_arguments(&made, &out)).expect(0);
        for file in ["verification_key.json", "proof.json", "public.json"] {
            let json: serde_json::Value = serde_json::from_slice(&fs::read(out.join(file)).unwrap()).unwrap();
            assert!(json.is_object() || file == "public.json" && json.is_array(), "{name}: {file}");
        }
        assert_eq!(fs::read_dir(&out).unwrap().count(), 3, "{name}");
    }
}

fn export_arguments(made: &Proved, out: &Path) -> Vec<std::ffi::OsString> {
    let (vk, proof, public) = (made.vk(), made.proof(), made.public());
    let mut arguments: Vec<_> =
        verify_arguments(&vk, &proof, &public).into_iter().map(|argument| argument.to_owned()).collect();
    arguments[0] = "export-snarkjs".into();
    arguments.extend(["--out-dir".into(), out.into()]);
    arguments
}

#[test]
fn each_command_has_its_object() {
    let made = Proved::make("multiplier");
    let json = |arguments: Vec<&std::ffi::OsStr>| {
        run(["--json".as_ref()].into_iter().chain(arguments)).expect(0).json()
    };
    let (r1cs, wtns) = (made.r1cs(), made.wtns());
    let (params, vk, proof, public) = (made.params(), made.vk(), made.proof(), made.public());
    let object = json(crate::support::setup_arguments(&r1cs, &params, &vk));
    assert_eq!((&object["command"], &object["ok"]), (&"setup".into(), &true.into()));
    assert_eq!((&object["constraints"], &object["public_inputs"]), (&3.into(), &1.into()));
    let object = json(prove_arguments(&r1cs, &wtns, &params, &proof, &public));
    assert_eq!((&object["command"], &object["valid"]), (&"prove".into(), &true.into()));
    assert_eq!((&object["seeded"], &object["proof_bytes"]), (&false.into(), &192.into()));
    let object = json(verify_arguments(&vk, &proof, &public));
    assert_eq!((&object["command"], &object["valid"]), (&"verify".into(), &true.into()));
    let arguments = export_arguments(&made, &made.folder.path("out"));
    let object = json(arguments.iter().map(|argument| argument.as_os_str()).collect());
    assert_eq!((&object["command"], &object["ok"]), (&"export-snarkjs".into(), &true.into()));
}

#[test]
fn two_proofs_differ_and_a_seed_is_loud_and_repeats() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let prove_once = |more: &[&str]| -> (Vec<u8>, String) {
        let (r1cs, wtns, params) = (made.r1cs(), made.wtns(), made.params());
        let (proof, public) = (folder.path("proof"), folder.path("public"));
        let arguments = prove_arguments(&r1cs, &wtns, &params, &proof, &public);
        let run = run(arguments.into_iter().chain(more.iter().map(|argument| argument.as_ref()))).expect(0);
        verify(&made.vk(), &proof, &public).expect(0);
        (fs::read(&proof).unwrap(), run.stderr)
    };
    let (one, quiet) = prove_once(&[]);
    assert_eq!(quiet, "");
    assert_ne!(one, prove_once(&[]).0);
    let (seeded, loud) = prove_once(&["--seed=1"]);
    assert!(loud.contains("NOT zero-knowledge"), "{loud}");
    assert_eq!(seeded, prove_once(&["--seed=1"]).0);
    assert_ne!(seeded, prove_once(&["--seed=2"]).0);
    prove_once(&["--trust-params"]);
}

#[test]
fn a_proof_that_does_not_verify_exits_with_6() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let other = folder.file("other.json", r#"["34"]"#);
    let verdict = verify(&made.vk(), &made.proof(), &other).expect(6);
    assert_eq!((verdict.stdout.as_str(), verdict.stderr.as_str()), ("invalid\n", ""));
    let (vk, proof) = (made.vk(), made.proof());
    let arguments = verify_arguments(&vk, &proof, &other);
    let object = run(arguments.into_iter().chain(["--json".as_ref()])).expect(6).json();
    assert_eq!((&object["valid"], &object["ok"]), (&false.into(), &false.into()));

    // The key of another set-up of the same circuit.
    made.setup(&folder.path("params"), &folder.path("vk")).expect(0);
    verify(&folder.path("vk"), &made.proof(), &made.public()).expect(6);

    // What does not verify is not exported.
    let mut arguments = export_arguments(made, &folder.path("out"));
    let at = arguments.iter().position(|argument| argument == "--public").unwrap();
    arguments[at + 1] = other.into();
    run(arguments).expect_error(6, &["c.proof", "does not verify"]);
    assert!(!folder.path("out").exists());
}

/// A key of a circuit with the same counts: one coefficient of B is 2 where it was 1.
fn similar_r1cs(folder: &Folder) -> PathBuf {
    let mut bytes = fs::read(fixture("multiplier.r1cs")).unwrap();
    let mut one = vec![1];
    one.resize(32, 0);
    let at = bytes.windows(32).position(|window| window == one).unwrap();
    bytes[at] = 2;
    folder.file("similar.r1cs", bytes)
}

#[test]
fn a_key_of_a_similar_circuit_fails_the_self_check() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let similar = similar_r1cs(&folder);
    setup(&similar, &folder.path("params"), &folder.path("vk")).expect(0);
    let before = folder.content();
    prove(&made.r1cs(), &made.wtns(), &folder.path("params"), &folder.path("proof"), &folder.path("public"))
        .expect_error(6, &["self-check"]);
    // The witness of the one does not satisfy the other: seen before any proof.
    prove(&similar, &made.wtns(), &folder.path("params"), &folder.path("proof"), &folder.path("public"))
        .expect_error(1, &["multiplier.wtns", "does not satisfy", "constraint 0"]);
    assert_eq!(folder.content(), before);
}

#[test]
fn a_key_of_another_circuit_is_named_with_counts() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let rounds = (fixture("rounds.r1cs"), fixture("rounds.wtns"));
    prove(&rounds.0, &rounds.1, &made.params(), &folder.path("proof"), &folder.path("public"))
        .expect_error(1, &["c.params", "needs 4", "key has 2"]);
    // A witness of another circuit.
    prove(&made.r1cs(), &rounds.1, &made.params(), &folder.path("proof"), &folder.path("public"))
        .expect_error(1, &["rounds.wtns", "4 wires"]);
    assert_eq!(folder.names(), [""; 0]);
}

/// One way to spoil a file, and what the error says beside the file's name.
type Spoiled = (&'static str, fn(Vec<u8>) -> Vec<u8>, &'static [&'static str]);

fn cut_in_half(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() / 2);
    bytes
}

const SPOILED: [Spoiled; 4] = [
    ("empty", |_| Vec::new(), &["0 bytes"]),
    ("cut", cut_in_half, &[]),
    ("longer", |bytes| [bytes, vec![0; 5]].concat(), &["bytes"]),
    ("text", |_| b"{\"this is\": \"another file\"}".to_vec(), &[]),
];

#[test]
fn spoiled_inputs_are_named_and_nothing_is_written() {
    let made = Proved::multiplier();
    for (how, spoil, parts) in SPOILED {
        let folder = Folder::new();
        let spoiled = |path: PathBuf| folder.file(&format!("{how}.bad"), spoil(fs::read(path).unwrap()));
        let expect = |run: Run| {
            run.expect_error(1, &[&[how, ".bad"][..], parts].concat());
            assert_eq!(folder.names(), [format!("{how}.bad")], "nothing was written");
        };
        let (proof, public) = (folder.path("proof"), folder.path("public"));
        let bad = spoiled(made.r1cs());
        expect(setup(&bad, &folder.path("params"), &folder.path("vk")));
        expect(prove(&bad, &made.wtns(), &made.params(), &proof, &public));
        expect(prove(&made.r1cs(), &spoiled(made.wtns()), &made.params(), &proof, &public));
        expect(prove(&made.r1cs(), &made.wtns(), &spoiled(made.params()), &proof, &public));
        expect(verify(&spoiled(made.vk()), &made.proof(), &made.public()));
        expect(verify(&made.vk(), &spoiled(made.proof()), &made.public()));
    }
}

#[test]
fn missing_inputs_are_named() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let absent = folder.path("absent");
    let (proof, public) = (folder.path("proof"), folder.path("public"));
    for run in [
        setup(&absent, &folder.path("params"), &folder.path("vk")),
        prove(&absent, &made.wtns(), &made.params(), &proof, &public),
        prove(&made.r1cs(), &absent, &made.params(), &proof, &public),
        prove(&made.r1cs(), &made.wtns(), &absent, &proof, &public),
        verify(&absent, &made.proof(), &made.public()),
        verify(&made.vk(), &absent, &made.public()),
        verify(&made.vk(), &made.proof(), &absent),
        // A folder is no file.
        verify(folder.root(), &made.proof(), &made.public()),
    ] {
        run.expect_error(1, &[folder.root().to_str().unwrap()]);
    }
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn circuits_we_cannot_prove_are_named_with_the_reason() {
    let folder = Folder::new();
    for (file, parts) in [
        ("multiplier_bn128.r1cs", &["bn128", "bls12381"][..]),
        ("multiplier_goldilocks.r1cs", &["bls12381"]),
        ("custom_gate.r1cs", &["custom"]),
        ("empty.r1cs", &["no constraints"]),
    ] {
        let parts = [&[file][..], parts].concat();
        setup(&fixture(file), &folder.path("params"), &folder.path("vk")).expect_error(1, &parts);
    }
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn public_inputs_must_be_as_many_and_below_r() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    for (public, parts) in [
        ("[]".to_owned(), &["expected 1", "found 0"][..]),
        (r#"["33", "33"]"#.to_owned(), &["expected 1", "found 2"]),
        (format!(r#"["{R}"]"#), &["not below"]),
        (r#"["-1"]"#.to_owned(), &[]),
        (r#"["0x21"]"#.to_owned(), &[]),
        (r#"["33""#.to_owned(), &[]),
        (r#"{"0": "33"}"#.to_owned(), &[]),
        (String::new(), &[]),
    ] {
        let public = folder.file("public.json", public);
        let parts = [&["public.json"][..], parts].concat();
        verify(&made.vk(), &made.proof(), &public).expect_error(1, &parts);
    }
}

#[test]
fn a_witness_that_does_not_satisfy_is_named_with_its_constraint() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let mut bytes = fs::read(made.wtns()).unwrap();
    let last = bytes.len() - 32;
    assert_eq!(bytes[last], 11, "the witness ends with b");
    bytes[last] = 12;
    let bad = folder.file("bad.wtns", bytes);
    let run = prove(&made.r1cs(), &bad, &made.params(), &folder.path("proof"), &folder.path("public"))
        .expect_error(1, &["bad.wtns", "constraint 0"]);
    assert!(!run.stderr.contains("12"), "no value of the witness: {run:?}");
    assert_eq!(folder.names(), ["bad.wtns"]);
}
