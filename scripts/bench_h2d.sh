#!/usr/bin/env bash
# How fast proving vectors get to a CUDA device, by where they live: a table on standard output, JSON and a plot in
# OUT (default: the folder bench-h2d here). Takes at most six minutes.
#
#   scripts/bench_h2d.sh [options of `pinprover bench h2d`]
#
# PINPROVER   a built binary, for machines without Rust; otherwise it is built here, if cargo is there
# OUT         the folder for h2d.json, h2d.svg and h2d.txt
# Exit codes are the tool's: 4 if there is no CUDA device. 124: the six minutes were over.
set -euo pipefail

out=${OUT:-bench-h2d}
pinprover=${PINPROVER:-}
if [ -z "$pinprover" ]; then
    if ! command -v cargo > /dev/null; then
        echo "bench_h2d.sh: no cargo here: set PINPROVER to a built binary" >&2
        exit 3
    fi
    root=$(cd "$(dirname "$0")/.." && pwd)
    cargo build --release --manifest-path "$root/Cargo.toml" -p pinprover
    pinprover=${CARGO_TARGET_DIR:-$root/target}/release/pinprover
fi
if [ ! -x "$pinprover" ]; then
    echo "bench_h2d.sh: PINPROVER=$pinprover is not a program" >&2
    exit 3
fi

mkdir -p "$out"
# Through a file, so that the exit code is the tool's.
code=0
timeout --kill-after=10 350 "$pinprover" bench h2d --json-file "$out/h2d.json" --plot "$out/h2d.svg" "$@" \
    > "$out/h2d.txt" || code=$?
cat "$out/h2d.txt"
if [ "$code" = 124 ]; then
    echo "bench_h2d.sh: stopped after 350 seconds; try fewer --rounds or a smaller --constraints" >&2
fi
exit "$code"
