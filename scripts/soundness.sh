#!/usr/bin/env bash
# The unsafe code under Miri (tree borrows) and AddressSanitizer, and the models of registry and budget under loom.
# Needs a nightly toolchain with miri and rust-src: rustup toolchain install nightly -c miri -c rust-src
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export RUST_BACKTRACE=0
step() {
  local start=$SECONDS
  echo "==== $1"
  shift
  "$@"
  echo "==== passed in $((SECONDS - start)) s"
}

loom() { RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$root/target/loom cargo test --release "$@"; }
step "loom: registry" loom -p pinned-alloc --test loom
step "loom: budget" loom -p prover-core --test loom_budget

miri() { MIRIFLAGS="-Zmiri-tree-borrows" CARGO_TARGET_DIR=$root/target/miri cargo +nightly miri test "$@"; }
step "miri: pinned-alloc" miri -p pinned-alloc
step "miri: the fork's assignment" miri -p pinprover-tests --test assignment_memory
step "miri: the fork's prover, with the dummy engine of upstream's tests" scripts/upstream_tests.sh miri

asan() {
  RUSTFLAGS=-Zsanitizer=address RUSTDOCFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$root/target/asan \
    cargo +nightly test --target x86_64-unknown-linux-gnu "$@"
}
step "asan: pinned-alloc" asan -p pinned-alloc
step "asan: the fork in registered memory" asan -p pinprover-tests --test assignment_memory --test oracle_memory
