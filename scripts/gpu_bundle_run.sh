#!/usr/bin/env bash
# Runs the GPU suite of a bundle (scripts/gpu_bundle.sh). One line a check; the count at the end.
#   run.sh             the tests
#   run.sh --sanitize  and a proof under compute-sanitizer's memcheck and racecheck
set -uo pipefail
cd "$(dirname "$0")"
passed=0 failed=0 skipped=0

# A test that found no device says so, and is not a pass: libtest itself cannot tell.
count() {
  local name=$1 log=$2 line
  while read -r line; do
    case $line in
      "skipped: no CUDA device"*) skipping=1 ;;
      *"skipped: no CUDA device"*) skipping=1 ;;
    esac
    if [[ $line =~ ^(test\ )?([a-z_0-9:]+)?.*\.\.\.\ ?(.*)$ && $line == test\ * ]]; then current=${BASH_REMATCH[2]}; fi
    case $line in
      *"... ok" | ok)
        if [ "${skipping:-0}" = 1 ]; then
          skipped=$((skipped + 1)) && echo "skipped  $name: ${current:-?}"
        else
          passed=$((passed + 1)) && echo "ok       $name: ${current:-?}"
        fi
        skipping=0
        ;;
      *"... FAILED" | FAILED)
        failed=$((failed + 1)) && echo "FAILED   $name: ${current:-?}"
        skipping=0
        ;;
    esac
  done < "$log"
}

run() {
  local name=$1 log status
  shift
  log=$(mktemp)
  timeout 300 "$@" > "$log" 2>&1
  status=$?
  local before=$failed
  count "$name" "$log"
  if [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ]; then
    failed=$((failed + 1))
    echo "FAILED   $name: ended with $status"
    tail -20 "$log"
  elif [ "$failed" -ne "$before" ]; then
    grep -A8 "panicked" "$log" | head -40
  fi
  rm -f "$log"
}

for test in gpu_oracle gpu_fixed_base cuda_memory cuda_hostile memory_backends; do
  run "$test" "./test-$test" --nocapture --test-threads=1
done
if nvidia-smi > /dev/null 2>&1; then
  for test in memory_pool memory_field memory_pool_model; do
    run "$test over cuda-register" env PROVER_CORE_TEST_BACKEND=cuda-register "./test-$test" --test-threads=1
  done
else
  skipped=$((skipped + 3))
  echo "skipped  the pool's suite over cuda-register: no CUDA device"
fi

if [ "${1:-}" = --sanitize ]; then
  for tool in memcheck racecheck; do
    if ! command -v compute-sanitizer > /dev/null; then
      skipped=$((skipped + 1))
      echo "skipped  $tool: no compute-sanitizer"
      continue
    fi
    if timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ./test-gpu_oracle --test-threads=1 children_and_zero_blinding > /dev/null 2>&1; then
      passed=$((passed + 1))
      echo "ok       $tool: a proof"
    else
      failed=$((failed + 1))
      echo "FAILED   $tool: a proof"
    fi
  done
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
