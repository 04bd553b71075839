#!/usr/bin/env bash
# All tests: the workspace's own, a user's workspace through the patch, upstream's tests against the fork, and real circom
# circuits under snarkjs's verdict. Needs Rust and a C compiler; the last part also Node.js with npm, and is reported as
# skipped without it. With CI set nothing may be skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

passed=0 failed=0 skipped=0
run() {
  local name=$1 start=$SECONDS
  shift
  echo "==== $name: $*"
  if "$@"; then
    passed=$((passed + 1)); echo "==== $name: passed in $((SECONDS - start)) s"
  else
    failed=$((failed + 1)); echo "==== $name: FAILED after $((SECONDS - start)) s"
  fi
}

run workspace cargo test --workspace
run downstream scripts/downstream_tests.sh
if run binary cargo build --release -p pinprover && command -v npm > /dev/null; then
  run circom scripts/circom_e2e.sh
elif [ -n "${CI:-}" ]; then
  failed=$((failed + 1)); echo "==== circom: FAILED: npm is not installed"
else
  skipped=$((skipped + 1)); echo "==== circom: skipped: npm is not installed"
fi
run upstream scripts/upstream_tests.sh

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
