pragma circom 2.0.0;

// What circom leaves in although no constraint uses it: a public input, two private inputs.
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
