// Multi-scalar multiplication on the device: Pippenger's method with sorted digits.
//
//   list of scalars --digit_keys--> (bucket, point) pairs --sort--> runs of one bucket
//     --sum_runs--> bucket sums --reduce--> a sum for each window --host--> the point
//
// The pairs of all windows of a pass are one sorted array, and every thread adds up an equally long stretch of it, whatever
// the lengths of the runs: a witness whose values are all the same takes as long as a random one. Runs that cross the
// border of a stretch leave partial sums, which are again a sorted array of (bucket, point): the same kernel sums those, and
// so on until one thread is left.
#pragma once

#include "arena.hpp"
#include "scalars.cuh"

namespace pinprover {

// The most windows that a scalar is cut into.
constexpr uint32_t MAX_WINDOWS = 64;

// Device memory for one multi-scalar multiplication at a time.
struct MsmSpace {
    uint32_t entries;   // pairs in a pass
    uint32_t slots;     // partial sums
    uint32_t buckets;   // buckets in a pass
    uint32_t* keys[2];
    uint32_t* values[2];
    void* temp;
    size_t temp_bytes;
    uint32_t* slot_keys;
    uint8_t* slot_points;
    uint8_t* bucket_points;

    // The space for `scalars` scalars at most and buckets of `bucket_bytes`, out of `arena`.
    static MsmSpace place(Arena& arena, size_t scalars, size_t bucket_bytes);
};

// How the windows' sums are to be put together.
struct MsmResult {
    Digits digits;
    bool empty;
};

// Partial sums that a thread sums.
constexpr uint32_t TREE_STRETCH = 8;

// Entries that a thread sums of an array of points; log2 of the buckets that a thread reduces, of `buckets` in windows of
// 2^log_window.
uint32_t run_stretch(uint32_t count);
uint32_t reduce_log_stretch(uint32_t buckets, uint32_t log_window);

// Width of the digits for a number of scalars.
uint32_t digit_bits(size_t scalars);

// Enqueues the sums of a list's windows: `sums` gets MAX_WINDOWS + 1 buckets, the last one for the ones.
template <class G>
MsmResult msm(const MsmSpace& space, const ScalarList& list, uint32_t scalars, uint32_t ones, const void* points,
              void* sums, cudaStream_t stream);

// Puts together what `msm` left in `sums`, copied to the host, and adds it to `out`, a Jacobian point.
template <class G>
void add_windows(const MsmResult& result, const void* sums, void* out);

} // namespace pinprover
