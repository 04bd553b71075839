pragma circom 2.0.0;

// A toy permutation of two field elements: x -> (x + k + constant)^5 in a Feistel ladder. Not a hash to rely on;
// it is here for its shape: long chains of products, big coefficients, several public outputs.
template Rounds(n) {
    signal input left;
    signal input right;
    signal input key;
    signal output out[2];

    signal l[n + 1];
    signal r[n + 1];
    signal square[n];
    signal fourth[n];
    var constant = 7;

    l[0] <== left;
    r[0] <== right;
    for (var i = 0; i < n; i++) {
        constant = constant * constant + 13 * i + 1;
        square[i] <== (l[i] + key + constant) * (l[i] + key + constant);
        fourth[i] <== square[i] * square[i];
        r[i + 1] <== l[i];
        l[i + 1] <== r[i] + fourth[i] * (l[i] + key + constant);
    }
    out[0] <== l[n] + 5 * r[n];
    out[1] <== 3 * l[n] - r[n];
}

component main {public [key]} = Rounds(24);
