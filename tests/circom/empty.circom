pragma circom 2.0.0;

// No constraint survives circom's optimiser.
template Empty() {
    signal input a;
    signal output b;
    b <== a;
}

component main = Empty();
