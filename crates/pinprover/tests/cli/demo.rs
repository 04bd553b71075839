//! `demo`.

use crate::support::run;

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
