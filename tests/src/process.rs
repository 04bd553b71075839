//! Tests that need a process of their own.

use std::process::{Command, Output};

const CHILD: &str = "PINPROVER_TEST_CHILD";

/// Whether this is such a process.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the named test of this binary again with these variables set, and says how it went.
///
/// # Panics
/// If the binary cannot be started.
pub fn rerun(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().expect("the path of this binary"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("a process can be started")
}

/// All that a process said.
pub fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
