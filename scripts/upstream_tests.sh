#!/usr/bin/env bash
# Runs the integration tests of the published bellperson 0.27.0, unchanged, against the fork.
#
# The tests are taken from the crates registry into target/upstream-tests and thrown away afterwards.
#   scripts/upstream_tests.sh                 all of them
#   scripts/upstream_tests.sh miri [FILTER]   those of groth16.rs with the dummy engine, under Miri with tree borrows
# Any other arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=0.27.0
work=$root/target/upstream-tests
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/fetch/src" "$work/run/src"

# A package of its own that depends on the published crate makes cargo download it; metadata tells where it lies.
cat > "$work/fetch/Cargo.toml" <<EOF
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
bellperson = "=$version"
[workspace]
EOF
touch "$work/fetch/src/lib.rs"
published=$(cargo metadata --format-version 1 --manifest-path "$work/fetch/Cargo.toml" | python3 -c '
import json, os, sys
packages = json.load(sys.stdin)["packages"]
print(*[os.path.dirname(p["manifest_path"]) for p in packages if p["name"] == "bellperson"])')
test -d "$published/tests"

cp -r "$published/tests" "$work/run/tests"
cat > "$work/run/Cargo.toml" <<EOF
[package]
name = "upstream-tests"
version = "0.0.0"
edition = "2024"
[features]
default = ["groth16"]
groth16 = []
cuda = []
opencl = []
cuda-supraseal = []
_coverage = []
[dependencies]
bellperson = "=$version"
[dev-dependencies]
bellpepper-core = "0.2"
bincode = "1.3.1"
blake2s_simd = "1.0.0"
blstrs = { version = "0.7.0", features = ["__private_bench"] }
byteorder = "1"
csv = "1.1.5"
digest = "0.10.6"
ec-gpu-gen = "0.7.0"
env_logger = "0.10.0"
ff = "0.13.0"
group = "0.13.0"
hex-literal = "0.4"
itertools = "0.10.0"
log = "0.4.8"
memmap2 = "0.5.8"
pairing = "0.23"
rand = { version = "0.8", default-features = false, features = ["std", "std_rng"] }
rand_chacha = "0.3"
rand_core = "0.6"
rand_xorshift = "0.3"
rayon = "1.5.0"
serde = { version = "1.0", features = ["derive"] }
sha2 = "0.10.6"
subtle = "2.2.1"
tempfile = "3.1.0"
temp-env = "0.3.0"
[patch.crates-io]
bellperson = { path = "$root/patches/bellperson" }
# As in the workspace, so that dependencies are not built twice.
[profile.dev]
opt-level = 1
debug = "line-tables-only"
[profile.dev.package."*"]
opt-level = 3
debug = false
[workspace]
EOF
touch "$work/run/src/lib.rs"
cp "$root/Cargo.lock" "$work/run/Cargo.lock"

cd "$work/run"
if [ "${1:-}" = miri ]; then
  shift
  export CARGO_TARGET_DIR=$root/target/miri
  # The prover, small: the other tests of the file would take Miri hours.
  MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-disable-isolation -Zmiri-ignore-leaks" \
    cargo +nightly miri test --test groth16 -- "${1:-test_xordemo}"
else
  export CARGO_TARGET_DIR=$root/target
  cargo test --no-fail-fast "$@"
  # Prove that it was the fork that ran.
  cargo tree --offline -i bellperson@$version | grep -q "patches/bellperson"
fi
