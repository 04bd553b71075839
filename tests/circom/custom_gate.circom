pragma circom 2.0.6;
pragma custom_templates;

// A custom gate, which is no rank-1 constraint.
template custom Gate() {
    signal input a;
    signal output b;
    b <-- a * a * a;
}

template WithGate() {
    signal input a;
    signal output b;
    component gate = Gate();
    gate.a <== a;
    b <== gate.b * a;
}

component main = WithGate();
