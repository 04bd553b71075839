pragma circom 2.0.0;

// Inputs that no constraint uses: circom keeps the wire of the public one always, those of the private ones with
// --O0 (unused_O0.r1cs).
template Unused() {
    signal input used;
    signal input ignored;
    signal input first_spare;
    signal input x;
    signal input last_spare;
    signal output y;
    y <== x * x + 3 * used;
}

component main {public [used, ignored]} = Unused();
