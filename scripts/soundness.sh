#!/usr/bin/env bash
# The models of registry and budget under loom, and the unsafe code under Miri (tree borrows) and AddressSanitizer.
#   scripts/soundness.sh                     all of them
#   scripts/soundness.sh loom miri miri-prover miri-assignment asan    only these
# Miri and AddressSanitizer need a nightly toolchain: rustup toolchain install nightly -c miri -c rust-src
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
under_loom() { RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$root/target/loom cargo test --release "$@"; }
under_miri() { MIRIFLAGS="-Zmiri-tree-borrows" CARGO_TARGET_DIR=$root/target/miri cargo +nightly miri test "$@"; }
under_asan() {
  RUSTFLAGS=-Zsanitizer=address RUSTDOCFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$root/target/asan \
    cargo +nightly test --target x86_64-unknown-linux-gnu "$@"
}

[ $# -gt 0 ] || set -- loom miri miri-prover asan miri-assignment
for tool; do
  case $tool in
    loom)
      step "loom: registry" under_loom -p pinned-alloc --test loom
      step "loom: budget" under_loom -p prover-core --test loom_budget
      ;;
    miri)
      step "miri: pinned-alloc" under_miri -p pinned-alloc
      step "miri: the fork's assignment, the quick tests" under_miri -p pinprover-tests \
        --test assignment_memory -- exact releasing blocks_grow failing_circuit outlives
      ;;
    miri-assignment)
      # Takes long: bit vectors are slow under Miri.
      step "miri: the fork's assignment, all tests" under_miri -p pinprover-tests --test assignment_memory
      ;;
    miri-prover)
      # With the dummy engine of upstream's tests: Miri cannot call blst.
      step "miri: the fork's prover" scripts/upstream_tests.sh miri
      ;;
    asan)
      step "asan: pinned-alloc" under_asan -p pinned-alloc
      step "asan: the fork in registered memory" \
        under_asan -p pinprover-tests --test assignment_memory --test oracle_memory
      ;;
    *) echo "usage: scripts/soundness.sh [loom] [miri] [miri-prover] [miri-assignment] [asan]" >&2; exit 2 ;;
  esac
done
