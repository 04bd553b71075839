#!/usr/bin/env bash
# Proves from a separate workspace that knows only upstream's API and takes the fork by [patch.crates-io], and checks that a
# lock file made before the patch picks it up without `cargo update`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/target/downstream-work
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
# A copy, so that no lock file is left behind; its paths lead back here.
cp -r tests/downstream "$work"
cd "$work"
sed -i "s|\"\(\.\./\)*\(patches\|crates\)/|\"$root/\2/|" Cargo.toml pooled/Cargo.toml
# Shared with the workspace, whose profile it repeats: dependencies are not built twice.
export CARGO_TARGET_DIR=$root/target

# The user's state before: no patch, a lock file at the published 0.27.0.
sed -i.patched 's/members = .*/members = ["plain"]/; /^\[patch/,/^$/d' Cargo.toml
cargo generate-lockfile --quiet
grep -A1 'name = "bellperson"' Cargo.lock | grep -q 'version = "0.27.0"'
if grep -q 'version = "0.26.0"' Cargo.lock; then echo "the fork was there before the patch"; exit 1; fi
mv Cargo.toml.patched Cargo.toml

cargo test --workspace
cargo run --quiet -p pooled
if ! cargo tree --offline -p plain -i bellperson@0.27.0 | grep -q "patches/bellperson"; then
  echo "the patch was not picked up"; exit 1
fi
echo "downstream: the patch is picked up by an existing lock file, and proves"
