#!/usr/bin/env bash
# Real circom circuits from source to snarkjs's verdict.
#
# Compiles circuits of circomlib (SHA-256, Poseidon, MiMC sponge, a Merkle path) and our own fixtures with
# `circom --prime bls12381`, runs `pinprover setup / prove / verify / export-snarkjs` on them, and asks
# `snarkjs groth16 verify` about every proof: it must accept it, and refuse it with any public value changed. Then
# gives the tool bad input and checks exit code, message, and that nothing was written.
#
# Usage: scripts/circom_e2e.sh
#   PINPROVER  the binary to test (default target/release/pinprover)
#   WORK       where files go (default target/circom_e2e, emptied first)
# Needs node, npm and, the first time, the npm registry. Exit codes: 0 all passed, 1 a step failed,
# 3 something that the script needs is missing.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
pinprover=${PINPROVER:-$root/target/release/pinprover}
work=${WORK:-$root/target/circom_e2e}
npm_dir=$root/tests/npm
fixtures=$root/tests/circom

missing() {
    echo "circom_e2e: NOT RUN: $1" >&2
    exit 3
}
fail() {
    echo "circom_e2e: FAILED: $1" >&2
    exit 1
}
trap 'echo "circom_e2e: FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR

command -v node >/dev/null || missing "node is not installed"
command -v npm >/dev/null || missing "npm is not installed"
[[ -x $pinprover ]] || missing "no binary at $pinprover; run: cargo build --release -p pinprover"
pinprover=$(realpath "$pinprover")

npm --prefix "$npm_dir" ci --no-audit --no-fund --loglevel=error >&2 \
    || missing "npm could not install the packages of tests/npm"
circom2=$npm_dir/node_modules/.bin/circom2
snarkjs=$npm_dir/node_modules/.bin/snarkjs
circomlib=$npm_dir/node_modules/circomlib/circuits

rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")
cd "$work"
# A copy: circom2 runs in a sandbox that sees the current directory only and follows no link out of it.
cp -r "$circomlib" circomlib

proved=0 refused=0 bad=0

# Runs a command that must exit with code $1, with its output in last.log.
expect() {
    local want=$1 code=0
    shift
    "$@" >"$work/last.log" 2>&1 || code=$?
    if [[ $code != "$want" ]]; then
        cat "$work/last.log" >&2
        fail "exit code $code where $want was expected: $*"
    fi
}

# compile NAME SOURCE INPUT-JSON: NAME.r1cs and NAME.wtns, the witness by circom's own calculator.
compile() {
    local name=$1
    printf '%s\n' "$2" >"$name.circom"
    printf '%s\n' "$3" >"$name.input.json"
    "$circom2" "$name.circom" --prime bls12381 --r1cs --wasm >"$name.compile.log" 2>&1 \
        || { cat "$name.compile.log" >&2; fail "circom refused $name"; }
    expect 0 "$snarkjs" wtns calculate "${name}_js/$name.wasm" "$name.input.json" "$name.wtns"
}

# check NAME R1CS WTNS: set-up, proof, verification, export, snarkjs.
check() {
    local name=$1 r1cs=$2 wtns=$3 out=$work/$1.out
    mkdir -p "$out"
    expect 0 "$pinprover" setup --r1cs "$r1cs" --params "$out/c.params" --vk "$out/c.vk"
    expect 0 "$pinprover" prove --r1cs "$r1cs" --wtns "$wtns" --params "$out/c.params" \
        --proof "$out/c.proof" --public "$out/c.public.json"
    [[ $(stat -c %s "$out/c.proof") == 192 ]] || fail "$name: the proof does not have 192 bytes"
    expect 0 "$pinprover" verify --vk "$out/c.vk" --proof "$out/c.proof" --public "$out/c.public.json"
    expect 0 "$pinprover" export-snarkjs --vk "$out/c.vk" --proof "$out/c.proof" \
        --public "$out/c.public.json" --out-dir "$out/snarkjs"

    # The public values are the witness's first, as snarkjs reads it.
    expect 0 "$snarkjs" wtns export json "$wtns" "$out/witness.json"
    node -e '
        const read = f => JSON.parse(require("fs").readFileSync(f));
        const [w, p, q, vk] = process.argv.slice(1).map(read);
        const want = JSON.stringify(w.slice(1, 1 + vk.nPublic));
        if (JSON.stringify(p) !== want || JSON.stringify(q) !== want) throw "public values differ";
    ' "$out/witness.json" "$out/c.public.json" "$out/snarkjs/public.json" "$out/snarkjs/verification_key.json" \
        || fail "$name: the public values are not those of the witness"

    local files=("$out/snarkjs/verification_key.json" "$out/snarkjs/public.json" "$out/snarkjs/proof.json")
    expect 0 "$snarkjs" groth16 verify "${files[@]}"
    grep -q 'OK!' last.log || fail "$name: snarkjs did not say OK"
    proved=$((proved + 1))

    # The same with the first and with the last public value one larger.
    local count i
    count=$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).length' "$out/c.public.json")
    for i in $([[ $count == 0 ]] || printf '%s\n' 0 $((count - 1)) | sort -u); do
        node -e '
            const fs = require("fs"), [from, to, i] = process.argv.slice(1);
            const p = JSON.parse(fs.readFileSync(from));
            p[i] = (BigInt(p[i]) + 1n).toString();
            fs.writeFileSync(to, JSON.stringify(p));
        ' "$out/c.public.json" "$out/tampered.json" "$i"
        expect 1 "$snarkjs" groth16 verify "${files[0]}" "$out/tampered.json" "${files[2]}"
        grep -q 'Invalid proof' last.log || fail "$name: snarkjs failed, but not because the proof is invalid"
        expect 6 "$pinprover" verify --vk "$out/c.vk" --proof "$out/c.proof" --public "$out/tampered.json"
        refused=$((refused + 1))
    done
    echo "circom_e2e: $name: proved, snarkjs agrees ($count public values)"
}

# refuse CODE WORD COMMAND...: must exit with CODE, say WORD, not panic, and write nothing into $work/none.
refuse() {
    local code=$1 word=$2
    shift 2
    mkdir -p "$work/none"
    expect "$code" "$@"
    grep -qi -- "$word" last.log || { cat last.log >&2; fail "the message lacks \"$word\": $*"; }
    ! grep -q 'panicked' last.log || { cat last.log >&2; fail "a panic: $*"; }
    [[ -z $(ls -A "$work/none") ]] || fail "files were left behind: $(ls -A "$work/none") by $*"
    bad=$((bad + 1))
}

# ---- our own circuits ------------------------------------------------------------------------------------------

for name in multiplier unused unused_O0 rounds bits silent; do
    check "$name" "$fixtures/$name.r1cs" "$fixtures/$name.wtns"
done

# ---- circomlib -------------------------------------------------------------------------------------------------

sha_bits=512
compile sha256 'pragma circom 2.0.0;
include "circomlib/sha256/sha256.circom";
component main = Sha256('$sha_bits');' \
    "$(node -p 'JSON.stringify({in: Array.from({length: '$sha_bits'}, (_, i) => (0x5a >> (i % 8)) & 1)})')"
check sha256 sha256.r1cs sha256.wtns
# An oracle that is not circom: node's own SHA-256 of the same message.
node -e '
    const fs = require("fs"), read = f => JSON.parse(fs.readFileSync(f));
    const bits = read("sha256.input.json").in;
    const bytes = Buffer.alloc(bits.length / 8);
    bits.forEach((b, i) => { bytes[i >> 3] |= b << (7 - i % 8); });
    const digest = require("crypto").createHash("sha256").update(bytes).digest();
    const found = read("sha256.out/c.public.json");
    const want = Array.from({length: 256}, (_, i) => String((digest[i >> 3] >> (7 - i % 8)) & 1));
    if (JSON.stringify(found) !== JSON.stringify(want)) throw "the proved digest is not the SHA-256 of the message";
' || fail "sha256: wrong digest"

compile poseidon 'pragma circom 2.0.0;
include "circomlib/poseidon.circom";
component main {public [inputs]} = Poseidon(3);' '{"inputs": ["1", "2", "3"]}'
check poseidon poseidon.r1cs poseidon.wtns

compile mimc 'pragma circom 2.0.0;
include "circomlib/mimcsponge.circom";
component main = MiMCSponge(2, 220, 1);' '{"ins": ["7", "8"], "k": "0"}'
check mimc mimc.r1cs mimc.wtns

compile merkle 'pragma circom 2.0.0;
include "circomlib/poseidon.circom";
include "circomlib/mux1.circom";
template Merkle(depth) {
    signal input leaf;
    signal input path[depth];
    signal input right[depth];
    signal output root;
    component mux[depth];
    component hash[depth];
    signal node[depth + 1];
    node[0] <== leaf;
    for (var i = 0; i < depth; i++) {
        right[i] * (right[i] - 1) === 0;
        mux[i] = MultiMux1(2);
        mux[i].c[0][0] <== node[i];
        mux[i].c[0][1] <== path[i];
        mux[i].c[1][0] <== path[i];
        mux[i].c[1][1] <== node[i];
        mux[i].s <== right[i];
        hash[i] = Poseidon(2);
        hash[i].inputs[0] <== mux[i].out[0];
        hash[i].inputs[1] <== mux[i].out[1];
        node[i + 1] <== hash[i].out;
    }
    root <== node[depth];
}
component main = Merkle(16);' \
    "$(node -p 'const n = [...Array(16).keys()]; JSON.stringify({leaf: "99", path: n.map(i => String(1000 + i)), right: n.map(i => String(i % 2))})')"
check merkle merkle.r1cs merkle.wtns

# ---- bad input -------------------------------------------------------------------------------------------------

none=$work/none
good=$work/multiplier.out
setup() { echo "$pinprover" setup --r1cs "$1" --params "$none/c.params" --vk "$none/c.vk"; }
prove() {
    echo "$pinprover" prove --r1cs "$1" --wtns "$2" --params "$3" --proof "$none/c.proof" --public "$none/c.public.json"
}
verify() { echo "$pinprover" verify --vk "$1" --proof "$2" --public "$3"; }
m_r1cs=$fixtures/multiplier.r1cs m_wtns=$fixtures/multiplier.wtns

mkdir -p bad
head -c 200 "$m_r1cs" >bad/short.r1cs
head -c 200 "$m_wtns" >bad/short.wtns
head -c -1 "$good/c.params" >bad/short.params
head -c 191 "$good/c.proof" >bad/short.proof
: >bad/empty
node -e '
    const fs = require("fs"), [wtns, params, proof] = process.argv.slice(1).map(f => fs.readFileSync(f));
    // The last value of the witness plus one: the product no longer holds.
    const w = Buffer.from(wtns); w[w.length - 32] += 1; fs.writeFileSync("bad/wrong.wtns", w);
    // A count of 2^32 - 1 points of IC.
    const p = Buffer.from(params); p.writeUInt32BE(0xffffffff, 864); fs.writeFileSync("bad/count.params", p);
    const q = Buffer.from(params); q[900] ^= 1; fs.writeFileSync("bad/flip.params", q);
    const r = Buffer.from(proof); r[20] ^= 1; fs.writeFileSync("bad/flip.proof", r);
' "$m_wtns" "$good/c.params" "$good/c.proof"
echo '[]' >bad/few.json
echo '["33", "33"]' >bad/many.json
echo '["52435875175126190479447740508185965837690552500527637822603658699938581184546"]' >bad/above_r.json
echo '["-33"]' >bad/negative.json
echo '[33]' >bad/number.json

# shellcheck disable=SC2046 # The commands are words without blanks in them.
{
    refuse 1 'truncated' $(setup bad/short.r1cs)
    refuse 1 'empty' $(setup bad/empty)
    refuse 1 'magic' $(setup "$m_wtns")
    refuse 1 'bn128' $(setup "$fixtures/multiplier_bn128.r1cs")
    refuse 1 'goldilocks' $(setup "$fixtures/multiplier_goldilocks.r1cs")
    refuse 1 'no constraints' $(setup "$fixtures/empty.r1cs")
    refuse 1 'custom gates' $(setup "$fixtures/custom_gate.r1cs")
    refuse 1 'no such file' $(setup bad/nowhere.r1cs)
    refuse 1 'truncated' $(prove "$m_r1cs" bad/short.wtns "$good/c.params")
    refuse 1 'bn128' $(prove "$m_r1cs" "$fixtures/multiplier_bn128.wtns" "$good/c.params")
    refuse 1 'constraint 0' $(prove "$m_r1cs" bad/wrong.wtns "$good/c.params")
    refuse 1 'another' $(prove "$m_r1cs" "$fixtures/rounds.wtns" "$good/c.params")
    refuse 1 'another circuit' $(prove "$m_r1cs" "$m_wtns" "$work/rounds.out/c.params")
    refuse 1 'b_g2' $(prove "$m_r1cs" "$m_wtns" bad/short.params)
    refuse 1 'vk.ic' $(prove "$m_r1cs" "$m_wtns" bad/count.params)
    refuse 1 'vk.ic, point 0' $(prove "$m_r1cs" "$m_wtns" bad/flip.params)
    refuse 1 '192' $(verify "$good/c.vk" bad/short.proof "$good/c.public.json")
    refuse 1 'proof.a' $(verify "$good/c.vk" bad/flip.proof "$good/c.public.json")
    refuse 1 'follow' $(verify "$good/c.params" "$good/c.proof" "$good/c.public.json")
    refuse 1 'expected 1' $(verify "$good/c.vk" "$good/c.proof" bad/few.json)
    refuse 1 'expected 1' $(verify "$good/c.vk" "$good/c.proof" bad/many.json)
    refuse 1 'not below' $(verify "$good/c.vk" "$good/c.proof" bad/above_r.json)
    refuse 1 'sign' $(verify "$good/c.vk" "$good/c.proof" bad/negative.json)
    refuse 1 'string' $(verify "$good/c.vk" "$good/c.proof" bad/number.json)
    # A good proof under the key of another circuit with as many public values, and of another set-up.
    refuse 6 '' $(verify "$work/bits.out/c.vk" "$good/c.proof" "$good/c.public.json")
}

echo "circom_e2e: passed: $proved circuits proved and accepted by snarkjs, $refused changed statements refused by" \
    "both, $bad bad inputs refused"
