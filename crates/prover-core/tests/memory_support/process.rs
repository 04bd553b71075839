//! Tests that need a process of their own.

use std::process::{Command, Output};

const CHILD: &str = "PROVER_CORE_TEST_CHILD";

/// Whether this is such a process.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the named test of this binary again in a process of its own, where it may change limits.
pub fn in_own_process(test: &str, child: impl FnOnce()) {
    if is_child() {
        return child();
    }
    let output = rerun(test, &[]);
    let shown = shown(&output);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}

/// Runs the named test again with these variables set, and says how it went.
pub fn rerun(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// All that a process said.
pub fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
