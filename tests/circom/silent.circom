pragma circom 2.0.0;

// Nothing public at all: the statement is that the prover knows two factors.
template Silent() {
    signal input a;
    signal input b;
    a * b === 1517;
}

component main = Silent();
