#!/usr/bin/env bash
# Runs the GPU suite of a bundle (scripts/gpu_bundle.sh): needs a driver, no Rust. One line a check; the count at the end.
#   run.sh             all tests, those of minutes included
#   run.sh --quick     without those
#   run.sh --large     and proofs of 2^26 and 2^27 constraints: some minutes more, and 65 GiB of host memory
#   run.sh --sanitize  and a small proof under compute-sanitizer's memcheck and racecheck
# Exit codes: 0 nothing failed, 1 something did, 3 a wrong option. A check that was skipped has not passed.
set -uo pipefail
cd "$(dirname "$0")"
quick=0 large=0 sanitize=0
for option in "$@"; do
  case $option in
    --quick) quick=1 ;;
    --large) large=1 ;;
    --sanitize) sanitize=1 ;;
    *) echo "run.sh: unknown option $option; there are --quick, --large and --sanitize" >&2 && exit 3 ;;
  esac
done

passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
missing="skipped: no CUDA device"

ok() { passed=$((passed + 1)) && echo "ok       $1"; }
bad() { failed=$((failed + 1)) && echo "FAILED   $1"; }
skip() { skipped=$((skipped + 1)) && echo "skipped  $1"; }

# Counts what a test binary wrote with one test thread. A test that found no device says so, and is not a pass: libtest
# itself cannot tell; nor does one that says `not run:` and why. What a test printed may stand between its name and its verdict.
# `verdicts` is how many were found.
count() {
  local name=$1 line current="" skipping=""
  verdicts=0
  while IFS= read -r line; do
    if [[ $line =~ ^test\ ([A-Za-z0-9_:]+)(\ -\ should\ panic)?\ \.\.\.\ ?(.*)$ ]]; then
      current=${BASH_REMATCH[1]} skipping="" line=${BASH_REMATCH[3]}
    fi
    if [ -z "$current" ]; then continue; fi
    case $line in
      *"$missing"*) skipping="no CUDA device" ;;
      *"not run: "*) skipping=${line##*not run: } ;;
      ok)
        if [ -n "$skipping" ]; then skip "$name: $current: $skipping"; else ok "$name: $current"; fi
        verdicts=$((verdicts + 1)) current=""
        ;;
      FAILED)
        bad "$name: $current"
        verdicts=$((verdicts + 1)) current=""
        ;;
      ignored*)
        skip "$name: $current: left out"
        current=""
        ;;
    esac
  done < "$log"
}

# run NAME SECONDS COMMAND...
run() {
  local name=$1 seconds=$2 status before=$failed verdicts said
  shift 2
  timeout --kill-after=10 "$seconds" "$@" > "$log" 2>&1
  status=$?
  count "$name"
  # What the binary itself counted: no verdict may have been missed, and none made up.
  said=$(sed -n 's/^test result: .*\. \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' "$log" | tail -1)
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    bad "$name: stopped after $seconds seconds"
  elif [ -z "$said" ]; then
    bad "$name: ended with $status before its tests did"
  elif [ $((${said% *} + ${said#* })) -ne "$verdicts" ] || [ "$verdicts" -eq 0 ]; then
    bad "$name: $verdicts verdicts where the binary counts ${said% *} passed and ${said#* } failed"
  elif [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ]; then
    bad "$name: ended with $status"
  fi
  if [ "$failed" -ne "$before" ]; then
    grep -A8 "panicked" "$log" | head -40 | sed 's/^/    /'
    tail -5 "$log" | sed 's/^/    /'
  fi
}

# One binary, a process for each of its modules. part MODULE SECONDS OPTION...
part() {
  local module=$1 seconds=$2
  shift 2
  run "gpu $module" "$seconds" ./test-gpu --nocapture --test-threads=1 "$@" "$module::"
}

part oracle 300
for test in gpu_fixed_base cuda_memory cuda_hostile memory_backends; do
  run "$test" 300 "./test-$test" --nocapture --test-threads=1
done
part faults 300
part field 300
if [ "$quick" = 1 ]; then
  part proofs 300
  part large 120 --skip rows_2_to_the_21 --skip rows_2_to_the_22 --skip rows_2_to_the_24
else
  part proofs 900 --include-ignored
  part large 600
fi
if [ "$large" = 1 ]; then part large 1800 --ignored; fi
# These do not look for a device themselves.
if timeout 60 nvidia-smi -L 2> /dev/null | grep -q '^GPU '; then
  for test in memory_pool memory_field memory_pool_model; do
    run "$test over cuda-register" 300 \
      env PROVER_CORE_TEST_BACKEND=cuda-register "./test-$test" --nocapture --test-threads=1
  done
else
  for test in memory_pool memory_field memory_pool_model; do
    skip "$test over cuda-register: no CUDA device"
  done
fi

# Only in bundles that have it: supraseal-c2's proof and ours, for the same key, witness, r and s, are the same bytes.
if [ -x ./pinprover-peer ]; then
  timeout --kill-after=10 300 ./pinprover --quiet bench prove --backend gpu --sizes 2^12 --rounds 1 --warm-up 0 --peer \
    > "$log" 2>&1
  status=$?
  if [ "$status" = 4 ]; then
    skip "peer: no CUDA device"
  elif [ "$status" -ne 0 ]; then
    bad "peer: ended with $status"
    tail -5 "$log" | sed 's/^/    /'
  elif ! grep -q "its proofs are ours, byte for byte" "$log"; then
    bad "peer: no proof was compared"
  else
    ok "peer: proofs of supraseal-c2 are ours, byte for byte"
  fi
fi

if [ "$sanitize" = 1 ]; then
  proof=oracle::children_and_zero_blinding
  for tool in memcheck racecheck; do
    if ! command -v compute-sanitizer > /dev/null; then
      skip "$tool: no compute-sanitizer"
      continue
    fi
    timeout --kill-after=10 300 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ./test-gpu --nocapture --test-threads=1 --exact "$proof" > "$log" 2>&1
    status=$?
    if [ "$status" -ne 0 ]; then
      bad "$tool: $proof ended with $status"
      tail -20 "$log" | sed 's/^/    /'
    elif grep -q "$missing" "$log"; then
      skip "$tool: $proof: no CUDA device"
    elif ! grep -q '^test result: ok\. 1 passed' "$log"; then
      bad "$tool: $proof did not run"
    else
      ok "$tool: $proof"
    fi
  done
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
