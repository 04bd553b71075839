pragma circom 2.0.0;

// A number taken apart into bits and put together in reverse: wide rows, a witness of zeros and ones, and no
// public input besides the output.
template Bits(n) {
    signal input x;
    signal output reversed;

    signal bit[n];
    var sum = 0;
    var back = 0;
    for (var i = 0; i < n; i++) {
        bit[i] <-- (x >> i) & 1;
        bit[i] * (bit[i] - 1) === 0;
        sum += bit[i] * (1 << i);
        back += bit[i] * (1 << (n - 1 - i));
    }
    sum === x;
    reversed <== back;
}

component main = Bits(100);
