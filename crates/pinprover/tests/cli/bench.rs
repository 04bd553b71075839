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

/// Every option of the table, without a device: the CPU alone.
#[test]
fn proofs_over_sizes_have_medians_and_say_who_was_left_out() {
    let folder = Folder::new();
    let json_file = folder.path("result.json");
    let arguments = [
        "bench",
        "prove",
        "--sizes=100,300",
        "--circuit=squarings",
        "--provers=cpu",
        "--cpu-max=200",
        "--rounds=2",
        "--warm-up=0",
    ];
    let written = ["--json".as_ref(), "--json-file".as_ref(), json_file.as_os_str()];
    let object = run(arguments.iter().map(AsRef::as_ref).chain(written)).expect(0).json();
    assert_eq!(
        object,
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(json_file).unwrap()).unwrap()
    );
    let rows = object["sizes"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{object}");
    assert_eq!((&rows[0]["constraints"], &rows[0]["prover"]), (&100.into(), &"cpu".into()));
    for time in ["setup", "synthesis", "prove", "verify", "fft", "msm_h", "prove_and_check"] {
        assert!(rows[0][time].as_f64().unwrap() > 0.0, "{time}: {object}");
    }
    assert_eq!((&rows[0]["left_out"], &rows[0]["memory"]), (&serde_json::Value::Null, &"pages".into()));
    assert_eq!((&rows[1]["left_out"], &rows[1]["constraints"]), (&"above --cpu-max 200".into(), &300.into()));
    assert_eq!(rows[1]["prove"], serde_json::Value::Null);
    let table = run(arguments).expect(0).stdout;
    for part in ["squarings, medians of 2 proofs", "cpu left out, above --cpu-max 200", "vectors, cpu: pages"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn proofs_over_sizes_honour_the_options_they_share() {
    let arguments = ["bench", "prove", "--json", "--sizes=100", "--rounds=1", "--warm-up=0", "--no-pool"];
    // By --backend nobody is left out.
    let cpu = ["--backend=cpu", "--cpu-max=10"];
    let object = run(arguments.iter().chain(&cpu)).expect(0).json();
    assert_eq!(
        (&object["sizes"][0]["memory"], &object["sizes"][0]["prover"]),
        (&"heap".into(), &"cpu".into())
    );
    run(["bench", "prove", "--sizes=100", "--provers=cpu,auto,cpu"]).expect_error(2, &["--provers", "cpu"]);
    let mut command = command(["bench", "prove", "--sizes=2^20", "--provers=gpu,cpu"]);
    let hidden = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert_eq!(Run::from(hidden).expect(4).stdout, "");
}

/// The parent's side: what a peer may do wrong has its own tests beside the code; here it is that nothing stays behind.
#[test]
fn a_peer_that_does_not_do_its_part_is_an_error_and_leaves_no_file() {
    let folder = Folder::new();
    let arguments = [
        "bench",
        "prove",
        "--sizes=100",
        "--provers=cpu",
        "--rounds=1",
        "--warm-up=0",
        "--peer",
        "--peer-timeout=60",
    ];
    let with = |program: &str| {
        let dir = format!("--peer-dir={}", folder.root().display());
        let program = format!("--peer-program={program}");
        run(arguments.into_iter().map(str::to_owned).chain([dir, program]))
    };
    with("/no/such/program").expect_error(1, &["/no/such/program", "peer-supraseal"]);
    with("/bin/false").expect_error(1, &["read the key and the circuit", "exit status: 1"]);
    // It prints the folder that it was to read.
    with("/bin/echo").expect_error(1, &["pinprover-peer", "no answer"]);
    assert_eq!(folder.names(), [""; 0]);
    let nowhere = run(arguments.iter().chain(&["--peer-dir=/no/such/folder", "--peer-program=/bin/false"]));
    nowhere.expect_error(1, &["/no/such/folder"]);
    let alone = run(["bench", "prove", "--peer-timeout=5"]);
    assert!(alone.code == 2 && alone.stderr.contains("--peer"), "{alone:?}");
}

#[test]
fn an_interrupted_wait_for_a_peer_leaves_no_file() {
    let folder = Folder::new();
    let mut command = command(["bench", "prove", "--sizes=100", "--provers=cpu", "--peer"]);
    let program = folder.file("peer.sh", "#!/bin/sh\nexec cat\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let files = folder.path("files");
    std::fs::create_dir(&files).unwrap();
    command.arg("--peer-dir").arg(&files).arg("--peer-program").arg(&program).env("RUST_LOG", "info");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.map_while(Result::ok).any(|line| line.contains("reads the key"));
    assert!(started, "{:?}", child.wait_with_output());
    let made = std::fs::read_dir(&files).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_dir(made).unwrap().count(), 2);
    // SAFETY: the process is our own child, and not yet waited for, so its id is not another's.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) }, 0);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(std::fs::read_dir(&files).unwrap().count(), 0);
}

/// Field cases 4 and 44: what names no device is told before anything is done.
#[test]
fn devices_are_named_by_number_or_uuid() {
    for bad in ["x", "-1", "0,", "0,GPU"] {
        let run =
            Run::from(command(["demo", "--constraints=100", &format!("--devices={bad}")]).output().unwrap());
        assert!(run.code == 2 && run.stderr.contains("--devices"), "{run:?}");
    }
    // Whatever there is, with all of it hidden there is none of these.
    for (devices, backend) in
        [("7", "gpu"), ("GPU-00000000-0000-0000-0000-000000000000", "gpu"), ("0,1", "gpu")]
    {
        let mut command = command(["demo", "--constraints=100", "--devices", devices, "--backend", backend]);
        let hidden = command.env("CUDA_VISIBLE_DEVICES", "");
        Run::from(hidden.output().unwrap()).expect_error(4, &["no"]);
    }
}
