// Scalars on the device: which of them count, and their digits.
//
// A multi-scalar multiplication here begins with a list: the scalars that are neither 0, 1 nor -1, each with the index of
// its point, and a second list of the points whose scalar is 1 or -1. Witnesses are mostly zeros and ones, and these two
// values cost nothing and one addition.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace pinprover {

// The sign of a scalar travels in the highest bit of the point's index.
constexpr uint32_t SIGN = 0x80000000u;

// A query's scalars, on the device. The order is that of no input: sums do not depend on it.
struct ScalarList {
    uint4* scalars;     // two for each: |scalar| below 2^254, canonical
    uint32_t* points;   // for each: the index of its point, and SIGN
    uint32_t* ones;     // the points with scalar 1, or -1 (SIGN)
    uint32_t* counters; // lengths of the lists: [0] scalars, [1] ones
};

// How a scalar is cut into signed digits of `bits` bits: digit w is bits [w*bits, (w+1)*bits) of scalar + bias, less
// 2^(bits-1), but for the topmost, which is not offset. |scalar| < 2^254 leaves it at most 2^(bits-1).
struct Digits {
    uint32_t bits;
    uint32_t windows;
    uint32_t bias[8];

    static Digits of(uint32_t bits);
    uint32_t buckets() const { return 1u << (bits - 1); }
};

// Ranks of set bits: ranks[i] = bits set in words before word i of 32 bits. `temp` as asked for with temp == nullptr.
void rank_bits(const uint32_t* words, uint32_t* ranks, size_t count, void* temp, size_t& temp_bytes, cudaStream_t stream);

// Appends scalars[0..count) to the list. `bitmap` and `ranks` choose those of a density (both null: all). The index of a
// point is its rank among the chosen, plus `base`; only indices in [from, to) are taken, and `from` is subtracted.
void append_scalars(const void* scalars, size_t count, const uint32_t* bitmap, const uint32_t* ranks, uint32_t base,
                    uint32_t from, uint32_t to, const ScalarList& list, cudaStream_t stream);

// Digits of the windows [first, first+windows) as sort keys: (window << (bits-1)) + |digit| - 1, or `none` for a zero digit;
// values are the points' indices with the digit's sign. Window w fills [w*count, (w+1)*count).
void digit_keys(const ScalarList& list, uint32_t count, const Digits& digits, uint32_t first, uint32_t windows,
                uint32_t none, uint32_t* keys, uint32_t* values, cudaStream_t stream);

// Sorts pairs by key, on the lowest `bits`; the result's buffers are swapped into keys[0] and values[0].
void sort_pairs(uint32_t* (&keys)[2], uint32_t* (&values)[2], uint32_t count, uint32_t bits, void* temp,
                size_t temp_bytes, cudaStream_t stream);
size_t sort_temp_bytes(uint32_t count);

} // namespace pinprover
