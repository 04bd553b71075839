#!/usr/bin/env bash
# Makes the .r1cs and .wtns files of this directory again from its .circom and .input.json files.
# Usage: tests/circom/remake.sh   (needs node and npm; the packages are pinned in tests/npm)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
npm_dir=$here/../npm
npm --prefix "$npm_dir" install --no-audit --no-fund >/dev/null
circom2=$npm_dir/node_modules/.bin/circom2
snarkjs=$npm_dir/node_modules/.bin/snarkjs

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$here"

for name in multiplier unused rounds bits silent empty; do
    "$circom2" "$name.circom" --prime bls12381 --r1cs --wasm -o "$tmp" >/dev/null
    "$snarkjs" wtns calculate "$tmp/${name}_js/$name.wasm" "$name.input.json" "$name.wtns" >/dev/null
    cp "$tmp/$name.r1cs" "$name.r1cs"
done

# The same without the optimiser, which then leaves the wires of unused private inputs in.
mkdir "$tmp/O0"
"$circom2" unused.circom --O0 --prime bls12381 --r1cs --wasm -o "$tmp/O0" >/dev/null
"$snarkjs" wtns calculate "$tmp/O0/unused_js/unused.wasm" unused.input.json unused_O0.wtns >/dev/null
cp "$tmp/O0/unused.r1cs" unused_O0.r1cs

# What must be refused: custom gates, and other primes.
"$circom2" custom_gate.circom --prime bls12381 --r1cs -o "$tmp" >/dev/null
cp "$tmp/custom_gate.r1cs" custom_gate.r1cs
for prime in bn128 goldilocks; do
    mkdir "$tmp/$prime"
    "$circom2" multiplier.circom --prime "$prime" --r1cs --wasm -o "$tmp/$prime" >/dev/null
    "$snarkjs" wtns calculate "$tmp/$prime/multiplier_js/multiplier.wasm" multiplier.input.json \
        "multiplier_$prime.wtns" >/dev/null
    cp "$tmp/$prime/multiplier.r1cs" "multiplier_$prime.r1cs"
done
ls -l ./*.r1cs ./*.wtns
