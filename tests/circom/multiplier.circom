pragma circom 2.0.0;

// One product, with a public output and two private inputs.
template Multiplier() {
    signal input a;
    signal input b;
    signal output c;
    c <== a * b;
}

component main = Multiplier();
