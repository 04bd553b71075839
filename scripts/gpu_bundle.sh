#!/usr/bin/env bash
# Builds the GPU suite into target/gpu-bundle: test binaries, the tool, and run.sh, for a machine with a driver but without Rust.
#   scripts/gpu_bundle.sh && scp -r target/gpu-bundle gpu-box: && ssh gpu-box gpu-bundle/run.sh
# PINPROVER_CUDA_ARCHS: compute capabilities, by default 90.
# PINPROVER_BUNDLE_PEER=1: and pinprover-peer, what `pinprover bench prove --peer` measures against (supraseal-c2: some minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
eval "$(scripts/cuda_toolchain.sh)"
export PINPROVER_CUDA_ARCHS=${PINPROVER_CUDA_ARCHS:-90}
export CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_DEBUG=0
# Made beside the bundle and moved at the end: a build that fails leaves the former bundle as it was.
bundle=target/gpu-bundle
new=$bundle.new
rm -rf "$new"
mkdir -p "$new"

# Copies the executables that cargo built for the tests named.
tests() {
  local package=$1
  shift
  local chosen=()
  for test in "$@"; do chosen+=(--test "$test"); done
  cargo test --release -p "$package" --features cuda --no-run "${chosen[@]}" --message-format=json |
    python3 -c '
import json, shutil, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message.get("profile", {}).get("test"):
        shutil.copy(message["executable"], sys.argv[1] + "/test-" + message["target"]["name"])
' "$new"
  for test in "$@"; do
    if [ ! -x "$new/test-$test" ]; then
      echo "error: cargo built no executable for the test $test of $package" >&2
      exit 1
    fi
  done
}
cargo build --release -p pinprover --bin pinprover --features cuda --message-format=json |
  python3 -c '
import json, shutil, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        shutil.copy(message["executable"], sys.argv[1] + "/pinprover")
' "$new"
tests pinprover-tests gpu
tests prover-core gpu_fixed_base cuda_memory cuda_hostile memory_backends memory_pool memory_field memory_pool_model
if [ "${PINPROVER_BUNDLE_PEER:-}" = 1 ]; then
  PEER_NVCC=${NVCC:-$(command -v nvcc)} NVCC=$PWD/scripts/peer_nvcc.sh \
    cargo build --release -p pinprover --bin pinprover-peer --features peer-supraseal --message-format=json |
    python3 -c '
import json, shutil, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        shutil.copy(message["executable"], sys.argv[1] + "/pinprover-peer")
' "$new"
  test -x "$new/pinprover-peer"
fi
cp scripts/gpu_bundle_run.sh "$new/run.sh"
cp scripts/bench_h2d.sh "$new/"

size=$(du -sm "$new" | cut -f1)
echo "$bundle: $size MiB"
if [ "$size" -gt 60 ]; then
  echo "error: the bundle must stay under 60 MiB" >&2
  exit 1
fi
rm -rf "$bundle"
mv "$new" "$bundle"
