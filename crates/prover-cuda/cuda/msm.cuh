// The templates of msm.hpp; msm_g1.cu and msm_g2.cu instantiate them.
#pragma once

#include <algorithm>

#include "curve.cuh"
#include "error.hpp"
#include "msm.hpp"

namespace pinprover {

// A partial sum's key says with this bit that there is none.
constexpr uint32_t EMPTY = 0x80000000u;

constexpr unsigned SUM_THREADS = 128;
constexpr unsigned REDUCE_THREADS = 64;

// Sums the runs of equal keys in stretches of `stretch` entries, one stretch a thread (two threads in G2).
//
// AFFINE: entry i is the affine point points[values[i] & ~SIGN], negated if SIGN is set; keys == nullptr means that all keys
// are 0. Otherwise it is the partial sum points[i], unless EMPTY is set in its key.
//
// A run that begins and ends inside the stretch is stored in sums[key]. The stretch's first and last run may go on beyond it:
// their partial sums go to slots 2t and 2t+1, so that the slots are sorted by key again. Keys from `none` on are ignored.
template <class G, bool AFFINE>
__global__ __launch_bounds__(SUM_THREADS) void sum_runs(void* sums_, void* slots_, uint32_t* slot_keys,
                                                        const void* points_, const uint32_t* keys, const uint32_t* values,
                                                        uint32_t count, uint32_t stretch, uint32_t none)
{
#ifdef __CUDA_ARCH__
    using bucket_t = typename G::bucket;
    using bucket_mem = typename G::bucket_mem;
    using affine_t = typename G::affine;
    using affine_mem = typename G::affine_mem;
    bucket_mem* sums = static_cast<bucket_mem*>(sums_);
    bucket_mem* slots = static_cast<bucket_mem*>(slots_);

    const uint32_t t = (blockIdx.x * blockDim.x + threadIdx.x) / G::degree;
    const uint64_t start = (uint64_t)t * stretch;
    if (start >= count) return;
    const uint32_t begin = (uint32_t)start;
    const uint32_t end = count - begin < stretch ? count : begin + stretch;

    auto raw_key = [&](uint32_t i) -> uint32_t { return keys == nullptr ? 0 : keys[i]; };
    auto key_at = [&](uint32_t i) -> uint32_t { return raw_key(i) & ~EMPTY; };

    const uint32_t first = key_at(begin);
    const bool open_left = begin > 0 && key_at(begin - 1) == first && first < none;
    uint32_t key = first;
    bool in_first = true, any = false, first_partial = false;
    bucket_t sum;
    sum.inf();

    // Where the sum of the run that just ended goes.
    auto close = [&]() {
        if (key < none && any) {
            if (in_first && open_left) {
                slots[2 * (size_t)t] = sum;
                first_partial = true;
            } else {
                sums[key] = sum;
            }
        }
    };

    #pragma unroll 1
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t raw = raw_key(i), k = raw & ~EMPTY;
        if (k != key) {
            close();
            sum.inf();
            key = k;
            in_first = any = false;
        }
        if (k >= none || (raw & EMPTY)) continue;
        any = true;
        if (AFFINE) {
            const uint32_t value = values[i];
            affine_t p = static_cast<const affine_mem*>(points_)[value & ~SIGN];
            sum.add(p, (value & SIGN) != 0);
        } else {
            bucket_t p = static_cast<const bucket_mem*>(points_)[i];
            sum.add(p);
        }
    }

    const bool open_right = end < count && key < none && key_at(end) == key;
    bool last_partial = false;
    if (open_right && any) {
        if (in_first) {
            slots[2 * (size_t)t] = sum;
            first_partial = true;
        } else {
            slots[2 * (size_t)t + 1] = sum;
            last_partial = true;
        }
    } else {
        close();
    }
    if (threadIdx.x % G::degree == 0 && slot_keys != nullptr) {
        slot_keys[2 * (size_t)t] = first | (first_partial ? 0 : EMPTY);
        slot_keys[2 * (size_t)t + 1] = key | (last_partial ? 0 : EMPTY);
    }
#endif
}

// Sums of (index + 1) * bucket over stretches of 2^log_stretch buckets of a window: out[t] for stretch t, with the window as
// its key. log_stretches: stretches a window.
//
// With lo the first index of the stretch: sum of (index + 1) B = sum of (index - lo + 1) B + lo * sum of B. All additions run
// through one place in the code, which the instruction cache then holds.
template <class G>
__global__ __launch_bounds__(REDUCE_THREADS) void reduce_buckets(void* out_, uint32_t* out_keys, const void* buckets_,
                                                                 uint32_t log_stretch, uint32_t log_stretches,
                                                                 uint32_t stretches)
{
#ifdef __CUDA_ARCH__
    using bucket_t = typename G::bucket;
    using bucket_mem = typename G::bucket_mem;
    constexpr unsigned POINTS = REDUCE_THREADS / G::degree;
    __shared__ bucket_mem plain[POINTS], weighted[POINTS], multiple[POINTS];

    const uint32_t t = (blockIdx.x * blockDim.x + threadIdx.x) / G::degree;
    const uint32_t me = threadIdx.x / G::degree;
    if (t >= stretches) return;
    const bucket_mem* buckets = static_cast<const bucket_mem*>(buckets_) + ((size_t)t << log_stretch);
    const uint32_t s = t & ((1u << log_stretches) - 1);

    bucket_t x, y;
    x.inf();
    plain[me] = x;
    weighted[me] = x;
    multiple[me] = x;

    const uint32_t length = 1u << log_stretch;
    const uint32_t bits = 2 * log_stretches, doublings = log_stretch;
    const uint32_t steps = 2 * length + bits + doublings + 1;
    #pragma unroll 1
    for (uint32_t step = 0; step < steps; step++) {
        bucket_mem* to;
        bool skip = false;
        if (step < 2 * length) {
            if (step & 1) {
                to = &weighted[me];
                y = plain[me];
            } else {
                to = &plain[me];
                y = buckets[length - 1 - step / 2];
            }
        } else if (step < 2 * length + bits) {
            const uint32_t b = step - 2 * length;
            to = &multiple[me];
            if (b & 1) {
                skip = ((s >> (log_stretches - 1 - b / 2)) & 1) == 0;
                y = plain[me];
            } else {
                y = multiple[me];
            }
        } else if (step < steps - 1) {
            to = &multiple[me];
            y = multiple[me];
        } else {
            to = &weighted[me];
            y = multiple[me];
        }
        if (skip) continue;
        x = *to;
        x.add(y);
        *to = x;
    }
    x = weighted[me];
    static_cast<bucket_mem*>(out_)[t] = x;
    if (threadIdx.x % G::degree == 0) out_keys[t] = t >> log_stretches;
#endif
}

namespace detail {

template <class G, bool AFFINE>
void launch_sum_runs(void* sums, void* slots, uint32_t* slot_keys, const void* points, const uint32_t* keys,
                     const uint32_t* values, uint32_t count, uint32_t stretch, uint32_t none, cudaStream_t stream)
{
    const uint32_t threads = (count + stretch - 1) / stretch;
    const uint32_t blocks = static_cast<uint32_t>(((uint64_t)threads * G::degree + SUM_THREADS - 1) / SUM_THREADS);
    sum_runs<G, AFFINE>
        <<<blocks, SUM_THREADS, 0, stream>>>(sums, slots, slot_keys, points, keys, values, count, stretch, none);
    CUDA_OK(cudaGetLastError());
}

// Sums the runs of partial sums at the beginning of the slots, level by level. Each level's slots follow the last one's.
template <class G>
void sum_slots(const MsmSpace& space, void* sums, uint32_t count, uint32_t none, cudaStream_t stream)
{
    uint8_t* points = space.slot_points;
    uint32_t* keys = space.slot_keys;
    uint64_t used = count;
    for (;;) {
        if (used > space.slots) throw Error(PC_INTERNAL, 0, "an MSM has more partial sums than its workspace");
        const uint32_t threads = (count + TREE_STRETCH - 1) / TREE_STRETCH;
        uint8_t* next_points = points + (size_t)count * G::bucket_bytes;
        uint32_t* next_keys = keys + count;
        launch_sum_runs<G, false>(sums, next_points, threads == 1 ? nullptr : next_keys, points, keys, nullptr, count,
                                  TREE_STRETCH, none, stream);
        if (threads == 1) return;
        points = next_points;
        keys = next_keys;
        count = 2 * threads;
        used += count;
    }
}

} // namespace detail

template <class G>
MsmResult msm(const MsmSpace& space, const ScalarList& list, uint32_t scalars, uint32_t ones, const void* points,
              void* sums, cudaStream_t stream)
{
    MsmResult result{};
    result.empty = scalars == 0 && ones == 0;
    result.digits = Digits::of(digit_bits(scalars));
    // A bucket of zeros is the identity.
    CUDA_OK(cudaMemsetAsync(sums, 0, (MAX_WINDOWS + 1) * G::bucket_bytes, stream));
    uint8_t* window_sums = static_cast<uint8_t*>(sums);

    if (ones > 0) {
        const uint32_t stretch = run_stretch(ones), threads = (ones + stretch - 1) / stretch;
        void* sum = window_sums + MAX_WINDOWS * G::bucket_bytes;
        detail::launch_sum_runs<G, true>(sum, space.slot_points, space.slot_keys, points, nullptr, list.ones, ones,
                                         stretch, 1, stream);
        detail::sum_slots<G>(space, sum, 2 * threads, 1, stream);
    }
    if (scalars == 0) return result;

    const Digits& digits = result.digits;
    const uint32_t log_buckets = digits.bits - 1;
    const uint32_t at_once =
        std::max(1u, std::min({digits.windows, space.entries / scalars, space.buckets >> log_buckets}));
    if ((uint64_t)scalars * at_once > space.entries || (uint64_t)at_once << log_buckets > space.buckets)
        throw Error(PC_USAGE, 0, "an MSM of " + std::to_string(scalars) + " scalars is larger than its workspace");

    for (uint32_t first = 0; first < digits.windows; first += at_once) {
        const uint32_t windows = std::min(at_once, digits.windows - first);
        const uint32_t count = scalars * windows, none = windows << log_buckets;
        uint32_t* keys[2] = {space.keys[0], space.keys[1]};
        uint32_t* values[2] = {space.values[0], space.values[1]};
        digit_keys(list, scalars, digits, first, windows, none, keys[0], values[0], stream);
        uint32_t bits = 1;
        while (none >> bits) bits++;
        sort_pairs(keys, values, count, bits, space.temp, space.temp_bytes, stream);

        CUDA_OK(cudaMemsetAsync(space.bucket_points, 0, (size_t)none * G::bucket_bytes, stream));
        const uint32_t stretch = run_stretch(count), threads = (count + stretch - 1) / stretch;
        detail::launch_sum_runs<G, true>(space.bucket_points, space.slot_points, space.slot_keys, points, keys[0],
                                         values[0], count, stretch, none, stream);
        detail::sum_slots<G>(space, space.bucket_points, 2 * threads, none, stream);

        const uint32_t log_stretch = reduce_log_stretch(none, log_buckets);
        const uint32_t log_stretches = log_buckets - log_stretch, stretches = windows << log_stretches;
        const uint32_t blocks = (stretches * G::degree + REDUCE_THREADS - 1) / REDUCE_THREADS;
        reduce_buckets<G><<<blocks, REDUCE_THREADS, 0, stream>>>(space.slot_points, space.slot_keys, space.bucket_points,
                                                                log_stretch, log_stretches, stretches);
        CUDA_OK(cudaGetLastError());
        detail::sum_slots<G>(space, window_sums + first * G::bucket_bytes, stretches, windows, stream);
    }
    return result;
}

template <class G>
void add_windows(const MsmResult& result, const void* sums_, void* out_)
{
#ifndef __CUDA_ARCH__
    using bucket_t = typename G::bucket;
    using point_t = typename G::point;
    static_assert(sizeof(point_t) == G::point_bytes && sizeof(bucket_t) == G::bucket_bytes, "layout");
    if (result.empty) return;
    auto load = [&](uint32_t i) {
        bucket_t bucket;
        std::memcpy(static_cast<void*>(&bucket), static_cast<const uint8_t*>(sums_) + i * G::bucket_bytes, G::bucket_bytes);
        return static_cast<point_t>(bucket);
    };
    point_t sum;
    sum.inf();
    for (uint32_t w = result.digits.windows; w--;) {
        for (uint32_t i = 0; i < result.digits.bits; i++) sum.dbl();
        sum.add(load(w));
    }
    sum.add(load(MAX_WINDOWS));
    point_t out;
    std::memcpy(static_cast<void*>(&out), out_, G::point_bytes);
    out.add(sum);
    std::memcpy(out_, static_cast<const void*>(&out), G::point_bytes);
#endif
}

} // namespace pinprover
