//! The command line itself: help, options, sizes, the environment.

use crate::support::{command, run, Folder, Run};

const COMMANDS: [&str; 6] = ["demo", "setup", "prove", "verify", "export-snarkjs", "bench"];

#[test]
fn help_lists_every_command_and_each_has_its_own() {
    let help = run(["--help"]).expect(0);
    assert_eq!(help.stderr, "");
    for command in COMMANDS {
        let listed = help.stdout.lines().any(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert!(listed, "{command}: {}", help.stdout);
        let own = run([command, "--help"]).expect(0);
        assert!(own.stdout.contains("Usage: pinprover"), "{own:?}");
        assert!(own.stdout.contains("--json"), "{own:?}");
    }
    assert!(help.stdout.contains("6 proof does not verify"), "the exit codes are told: {}", help.stdout);
    let version = run(["--version"]).expect(0);
    assert_eq!(version.stdout, format!("pinprover {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_is_not_understood_is_a_usage_error() {
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["demo", "--frobnicate"],
        &["demo", "--circuit", "sudoku"],
        &["setup"],
        &["prove", "--r1cs", "a"],
        &["bench"],
        &["bench", "cpu", "--circuit", "squarings,sudoku"],
        &["demo", "--memory-backend", "tape"],
        &["demo", "--on-exhausted", "panic"],
        &["demo", "--no-pool", "--memory-backend", "mlock"],
    ] {
        let run = run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("--help") || run.stderr.contains("Usage"), "{arguments:?}: {run:?}");
    }
}

#[track_caller]
fn names_option_and_value(run: Run, option: &str, value: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    assert!(run.stderr.contains(option), "{option}: {run:?}");
    assert!(run.stderr.contains(value), "{value}: {run:?}");
}

#[test]
fn nonsense_sizes_name_the_option_and_the_value() {
    for value in
        ["12.5Gib", "potato", "-1GiB", "1e9", "NaN", "1.5", "5 potatoes", "99999999999TiB", "1GiB junk"]
    {
        for option in ["--memory", "--pinned-max", "--bytes"] {
            names_option_and_value(run(["demo".into(), format!("{option}={value}")]), option, value);
        }
    }
    for value in ["2^", "1k", "-5", "2^64", "1.5", "many"] {
        for option in ["--constraints", "--threads"] {
            names_option_and_value(run(["demo".into(), format!("{option}={value}")]), option, value);
        }
    }
    names_option_and_value(run(["demo", "--threads=0"]), "--threads", "0");
    names_option_and_value(run(["bench", "cpu", "--rounds=0"]), "--rounds", "0");
    // An empty value is no size either.
    let empty = run(["demo", "--memory="]);
    assert_eq!(empty.code, 2, "{empty:?}");
    assert!(empty.stderr.contains("--memory"), "{empty:?}");
}

#[test]
fn sizes_that_parse_are_taken() {
    for value in ["12.5GiB", "64 GiB", "512MiB"] {
        run(["demo", "--circuit=squarings", "--constraints=8", &format!("--memory={value}")]).expect(0);
    }
}

#[test]
fn sizes_a_circuit_cannot_have_name_the_option_and_the_value() {
    for (arguments, parts) in [
        (&["--circuit=squarings", "--constraints=2"][..], &["--constraints", "2", "the least is 3"][..]),
        (&["--circuit=mimc", "--constraints=5"], &["--constraints", "5", "the least is 6"]),
        (&["--circuit=sha256", "--constraints=100"], &["--constraints", "100", "sha256"]),
        (&["--circuit=squarings", "--constraints=2^40"], &["--constraints", "1099511627776", "2^30"]),
        (&["--circuit=sha256", "--bytes=0"], &["--bytes", "0 bytes"]),
        (&["--circuit=sha256", "--bytes=16777215TiB"], &["--bytes", "too many"]),
        (&["--circuit=mimc", "--bytes=64"], &["--bytes", "mimc"]),
    ] {
        run(["demo"].iter().chain(arguments)).expect_error(2, parts);
    }
    let both = run(["demo", "--circuit=sha256", "--bytes=64", "--constraints=2^16"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_bad_log_filter_is_a_configuration_error() {
    let demo = ["demo", "--circuit=squarings", "--constraints=8"];
    let run: Run = command(demo).env("RUST_LOG", "pinprover=loud").output().unwrap().into();
    run.expect_error(3, &["RUST_LOG", "pinprover=loud"]);
    // One that is fine brings log lines on standard error, and none on standard output.
    let run: Run = command(demo).arg("--json").env("RUST_LOG", "info").output().unwrap().into();
    let run = run.expect(0);
    assert!(run.stderr.contains("INFO"), "{run:?}");
    run.json();
}

#[test]
fn with_json_a_failure_is_an_object_too() {
    let run = run(["--json", "demo", "--circuit=squarings", "--constraints=2"]).expect(2);
    let error = run.json();
    assert_eq!(error["ok"], false);
    assert_eq!(error["error"]["kind"], "usage");
    assert_eq!(error["error"]["exit_code"], 2);
    assert!(error["error"]["message"].as_str().unwrap().contains("--constraints"), "{error}");
    assert!(run.stderr.starts_with("error: "), "{run:?}");
}

#[test]
fn no_file_is_made_where_none_is_named() {
    let folder = Folder::new();
    let status = command(["demo", "--circuit=squarings", "--constraints=8"])
        .current_dir(folder.root())
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    assert_eq!(folder.names(), [""; 0]);
}
