//! `demo`.

use crate::support::{run, Folder};

const TINY: [&str; 3] = ["demo", "--circuit=squarings", "--constraints=16"];

fn tiny(more: &[&str]) -> crate::support::Run {
    run(TINY.iter().chain(more))
}

#[test]
fn the_table_has_phases_memory_and_verdict() {
    let run = tiny(&[]).expect(0);
    for part in [
        "squarings-14: 16 constraints",
        "domain 2^4",
        "set-up",
        "synthesis",
        "FFT",
        "MSM",
        "verify",
        "192 bytes, valid",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(run.stdout.contains("a, b, c lived in: "), "{}", run.stdout);
    if cfg!(target_os = "linux") {
        assert!(run.stdout.contains("peak memory: "), "{}", run.stdout);
    }
    assert_eq!(run.stderr, "", "no noise where standard error is no terminal");
}

#[test]
fn the_object_has_the_same() {
    let object = run(["--json", "demo", "--circuit=mimc", "--constraints=64"]).expect(0).json();
    assert_eq!(object["command"], "demo");
    assert_eq!(object["ok"], true);
    assert_eq!(object["valid"], true);
    assert_eq!(object["circuit"], "mimc-31-rounds");
    assert_eq!(object["constraints"], 64);
    assert_eq!(object["domain"], 64);
    assert_eq!(object["proof_bytes"], 192);
    assert_eq!(object["proof"].as_str().unwrap().len(), 384);
    let phases = &object["phases"];
    let seconds = |phase: &str| phases[phase].as_f64().unwrap_or_else(|| panic!("{phase}: {object}"));
    let parts = seconds("synthesis") + seconds("fft") + seconds("msm");
    assert!(parts > 0.0 && parts <= seconds("prove"), "{object}");
    assert!(seconds("setup") > 0.0 && seconds("verify") > 0.0, "{object}");
    let vectors = &object["vectors"];
    assert_eq!(vectors["pinned"], false, "no device, nothing pinned");
    // a, b and c over the domain, and the witness: 32 bytes an element.
    assert!(vectors["bytes"].as_u64().unwrap() >= 32 * (3 * 64 + 63), "{object}");
    assert_eq!(vectors["growths"], 0, "the size is known beforehand");
}

#[test]
fn a_seed_is_loud_and_repeats_and_without_one_nothing_does() {
    let proof = |more: &[&str]| tiny(&[&["--json"], more].concat()).expect(0).json()["proof"].clone();
    assert_eq!(proof(&["--seed=1"]), proof(&["--seed=1"]));
    assert_ne!(proof(&["--seed=1"]), proof(&["--seed=2"]));
    assert_ne!(proof(&[]), proof(&[]));
    let seeded = tiny(&["--seed=7", "--json"]).expect(0);
    assert!(seeded.stderr.contains("NOT secret"), "{seeded:?}");
    assert_eq!(seeded.json()["seeded"], true);
    assert_eq!(tiny(&["--json"]).json()["seeded"], false);
}

#[test]
fn memory_that_cannot_be_had_is_exit_5_or_the_heap_as_the_user_wants() {
    let fails = ["--on-exhausted=fail", "--on-exhausted=wait"];
    for policy in fails {
        let started = std::time::Instant::now();
        let options = ["--pinned-max=4KiB", policy, "--pinned-wait=1"];
        tiny(&options).expect_error(5, &["4096 bytes", "--pinned-max"]);
        assert!(started.elapsed().as_secs() < 60, "the wait has an end");
    }
    let object = tiny(&["--json", "--pinned-max=4KiB", "--on-exhausted=heap"]).expect(0);
    assert!(object.stderr.contains("WARN") && object.stderr.contains("--pinned-max"), "loud: {object:?}");
    assert_eq!(object.json()["vectors"]["backend"], "heap");
    assert!(object.json()["vectors"]["refusal"].as_str().unwrap().contains("4096"));
}

#[test]
fn memory_options_that_contradict_are_exit_3() {
    tiny(&["--memory=1KiB"]).expect_error(3, &["1024", "--memory-budget"]);
    tiny(&["--memory=2MiB", "--pinned-max=3MiB"]).expect_error(3, &["3145728", "2097152", "--pinned-max"]);
}

#[test]
fn hints_are_kept_and_never_replace_another_file() {
    let folder = Folder::new();
    let hints = folder.path("hints.json");
    let option = format!("--hints={}", hints.display());
    tiny(&[&option]).expect(0);
    let kept = std::fs::read_to_string(&hints).unwrap();
    assert!(kept.contains("constraints"), "{kept}");
    // Damaged hints cost a warning; something else under that name is not ours to replace.
    folder.file("hints.json", &kept[..kept.len() / 2]);
    assert!(tiny(&[&option]).expect(0).stderr.contains("WARN"));
    folder.file("hints.json", "a proving key, say");
    tiny(&[&option]).expect_error(3, &["--hints", "hints.json"]);
    assert_eq!(std::fs::read_to_string(&hints).unwrap(), "a proving key, say");
    assert_eq!(folder.names(), ["hints.json"]);
}

#[test]
fn every_memory_option_gives_a_proof() {
    for options in [
        &["--no-pool"][..],
        &["--no-pinned"],
        &["--memory-backend=auto"],
        &["--memory-backend=pages"],
        &["--memory-backend=heap"],
        // Locking may be refused here; the heap is then what the policy says.
        &["--memory-backend=mlock", "--on-exhausted=heap"],
        &["--memory-budget=64MiB", "--pinned-max=32MiB", "--on-exhausted=wait", "--pinned-wait=5"],
        &["--threads=1"],
        &["--threads=3", "--quiet"],
    ] {
        let run = tiny(options);
        assert!(run.code == 0 && run.stdout.contains("valid"), "{options:?}: {run:?}");
    }
}
