//! `bench cpu`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{command, run, Folder, Run};

#[test]
fn the_race_is_even_on_proofs_and_complete_on_times() {
    let folder = Folder::new();
    let cache = format!("--key-cache={}", folder.path("keys").display());
    let arguments = [
        "bench",
        "cpu",
        "--constraints=200",
        "--circuit=squarings,mimc",
        "--rounds=2",
        "--warm-up=1",
        &cache,
    ];
    let object = run(arguments.iter().chain(&["--json"])).expect(0).json();
    assert_eq!(object["ok"], true);
    assert_eq!(object["rounds"], 2);
    let circuits = object["circuits"].as_array().unwrap();
    assert_eq!(circuits.len(), 2);
    for circuit in circuits {
        assert_eq!(circuit["constraints"], 200);
        assert_eq!(circuit["proofs_equal"], true);
        for prover in ["ours", "upstream"] {
            for phase in ["synthesis", "fft", "msm", "total"] {
                assert!(circuit[prover][phase].as_f64().unwrap() > 0.0, "{prover} {phase}: {object}");
            }
        }
        assert!(circuit["ratio"]["total"].as_f64().unwrap() > 0.0, "{object}");
    }
    let kept = std::fs::read_dir(folder.path("keys")).unwrap();
    let mut kept: Vec<_> = kept.map(|entry| entry.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept, ["hints.json", "mimc-99-rounds.params", "squarings-198.params"]);
    // The second run finds the keys, and has a table.
    let table = run(arguments).expect(0).stdout;
    for part in [
        "squarings-198",
        "mimc-99-rounds",
        "synthesis",
        "FFT",
        "MSM",
        "total",
        "peak memory",
        "ratio",
        "upstream",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn an_interrupted_run_leaves_no_file() {
    let folder = Folder::new();
    let keys = folder.path("keys");
    let mut child = command(["bench", "cpu", "--constraints=2^17", "--circuit=squarings", "--threads=1"])
        .arg("--key-cache")
        .arg(&keys)
        .env("RUST_LOG", "info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The key of 2^17 takes far longer to make than a signal takes to arrive.
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.map_while(Result::ok).any(|line| line.contains("make the key"));
    assert!(started, "{:?}", child.wait_with_output());
    // SAFETY: the process is our own child, and not yet waited for, so its id is not another's.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) }, 0);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(output.stdout, b"");
    assert_eq!(std::fs::read_dir(&keys).unwrap().count(), 0);
}

/// Field cases 31 and 44: without a device (or with all of them hidden) the answer is plain, and quick.
#[test]
fn uploads_need_a_device_and_say_so() {
    let folder = Folder::new();
    for (option, value) in [("--device", "0"), ("--rounds", "3")] {
        let plot = folder.path("plot.svg");
        let mut command = command(["bench", "h2d", "--constraints=100", "--sizes=1MiB", option, value]);
        let hidden = command.arg("--plot").arg(&plot).env("CUDA_VISIBLE_DEVICES", "");
        Run::from(hidden.output().unwrap()).expect_error(4, &["no CUDA device"]);
        assert!(!plot.exists());
    }
    for backend in ["cuda-register", "cuda-host-alloc"] {
        let mut command = command(["demo", "--constraints=100", "--memory-backend", backend]);
        let hidden = command.env("CUDA_VISIBLE_DEVICES", "");
        let memory = format!("memory backend {backend}: no CUDA device");
        Run::from(hidden.output().unwrap()).expect_error(4, &[&memory]);
    }
}

#[test]
fn nonsense_for_uploads_is_refused_before_the_device_is_asked() {
    for (option, part) in [
        ("--sizes=0", "0 bytes"),
        ("--sizes=1TB5", "--sizes"),
        ("--copying=4096", "at most 1024"),
        ("--constraints=1", "--constraints"),
    ] {
        let run = run(["bench", "h2d", option]);
        assert!(run.code == 2 && run.stderr.contains(part), "{run:?}");
    }
}
