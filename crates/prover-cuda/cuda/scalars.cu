#include "scalars.cuh"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/transform_iterator.h>

#include "curve.cuh"
#include "error.hpp"

namespace pinprover {

namespace {

constexpr int BLOCK = 256;

struct PopCount {
    __host__ __device__ uint32_t operator()(uint32_t word) const
    {
#ifdef __CUDA_ARCH__
        return __popc(word);
#else
        return __builtin_popcount(word);
#endif
    }
};

__global__ __launch_bounds__(BLOCK) void append_kernel(const void* scalars_, size_t count, const uint32_t* bitmap,
                                                       const uint32_t* ranks, uint32_t base, uint32_t from, uint32_t to,
                                                       ScalarList list)
{
#ifdef __CUDA_ARCH__
    using Scan = cub::BlockScan<uint32_t, BLOCK>;
    __shared__ typename Scan::TempStorage temp;
    __shared__ uint32_t first_scalar, first_one;
    const fr_t* scalars = static_cast<const fr_t*>(scalars_);
    const size_t stride = (size_t)gridDim.x * BLOCK;

    // The same number of rounds for all threads of a block: they meet in the scan.
    for (size_t start = (size_t)blockIdx.x * BLOCK; start < count; start += stride) {
        const size_t i = start + threadIdx.x;
        uint32_t point = 0;
        bool taken = i < count;
        if (taken) {
            if (bitmap != nullptr) {
                const uint32_t word = bitmap[i / 32], bit = i % 32;
                taken = (word >> bit) & 1;
                point = base + ranks[i / 32] + __popc(word & ((1u << bit) - 1));
            } else {
                point = base + (uint32_t)i;
            }
            taken = taken && point >= from && point < to;
            point -= from;
        }
        fr_t s;
        bool is_one = false;
        if (taken) {
            s = scalars[i];
            s.from();
            uint32_t rest = 0;
            const bool negative = s.abs();
            for (int k = 1; k < 8; k++) rest |= s[k];
            taken = (s[0] | rest) != 0;
            is_one = s[0] == 1 && rest == 0;
            if (negative) point |= SIGN;
        }
        // Both counts in one scan: at most 256 each.
        const uint32_t mine = taken ? (is_one ? 0x10000u : 1u) : 0u;
        uint32_t before, total;
        Scan(temp).ExclusiveSum(mine, before, total);
        if (threadIdx.x == 0) {
            first_scalar = atomicAdd(&list.counters[0], total & 0xffffu);
            first_one = atomicAdd(&list.counters[1], total >> 16);
        }
        __syncthreads();
        if (taken) {
            if (is_one) {
                list.ones[first_one + (before >> 16)] = point;
            } else {
                const size_t at = first_scalar + (before & 0xffffu);
                list.scalars[2 * at] = make_uint4(s[0], s[1], s[2], s[3]);
                list.scalars[2 * at + 1] = make_uint4(s[4], s[5], s[6], s[7]);
                list.points[at] = point;
            }
        }
        __syncthreads();
    }
#endif
}

__global__ __launch_bounds__(BLOCK) void digit_kernel(const uint4* scalars, const uint32_t* points, uint32_t count,
                                                      Digits digits, uint32_t first, uint32_t windows, uint32_t none,
                                                      uint32_t* keys, uint32_t* values)
{
#ifdef __CUDA_ARCH__
    // A column for each thread: which words a window needs is known only at run time.
    __shared__ uint32_t words[9][BLOCK];
    const uint32_t t = threadIdx.x;
    const uint32_t mask = (1u << digits.bits) - 1, half = 1u << (digits.bits - 1);

    for (uint32_t i = blockIdx.x * BLOCK + t; i < count; i += gridDim.x * BLOCK) {
        const uint4 low = scalars[2 * (size_t)i], high = scalars[2 * (size_t)i + 1];
        const uint32_t s[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        uint64_t carry = 0;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            carry += (uint64_t)s[k] + digits.bias[k];
            words[k][t] = (uint32_t)carry;
            carry >>= 32;
        }
        words[8][t] = 0;
        const uint32_t point = points[i];
        for (uint32_t w = 0; w < windows; w++) {
            const uint32_t window = first + w, off = window * digits.bits, word = off / 32;
            const uint64_t pair = words[word][t] | (uint64_t)words[word + 1][t] << 32;
            int32_t digit = (int32_t)((uint32_t)(pair >> (off % 32)) & mask);
            if (window + 1 < digits.windows) digit -= (int32_t)half;
            const uint32_t size = digit < 0 ? -digit : digit;
            const size_t at = (size_t)w * count + i;
            keys[at] = size ? (w << (digits.bits - 1)) + size - 1 : none;
            values[at] = digit < 0 ? point ^ SIGN : point;
        }
    }
#endif
}

int blocks_for(size_t count)
{
    const size_t blocks = (count + BLOCK - 1) / BLOCK;
    return static_cast<int>(blocks < 8192 ? (blocks ? blocks : 1) : 8192);
}

} // namespace

Digits Digits::of(uint32_t bits)
{
    Digits digits{};
    digits.bits = bits;
    digits.windows = 254 / bits + 1;
    for (uint32_t w = 0; w + 1 < digits.windows; w++) {
        const uint32_t bit = w * bits + bits - 1;
        digits.bias[bit / 32] |= 1u << (bit % 32);
    }
    return digits;
}

void rank_bits(const uint32_t* words, uint32_t* ranks, size_t count, void* temp, size_t& temp_bytes, cudaStream_t stream)
{
    auto ones = thrust::make_transform_iterator(words, PopCount{});
    CUDA_OK(cub::DeviceScan::ExclusiveSum(temp, temp_bytes, ones, ranks, count, stream));
}

void append_scalars(const void* scalars, size_t count, const uint32_t* bitmap, const uint32_t* ranks, uint32_t base,
                    uint32_t from, uint32_t to, const ScalarList& list, cudaStream_t stream)
{
    if (count == 0) return;
    append_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(scalars, count, bitmap, ranks, base, from, to, list);
    CUDA_OK(cudaGetLastError());
}

void digit_keys(const ScalarList& list, uint32_t count, const Digits& digits, uint32_t first, uint32_t windows,
                uint32_t none, uint32_t* keys, uint32_t* values, cudaStream_t stream)
{
    digit_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(list.scalars, list.points, count, digits, first, windows, none,
                                                         keys, values);
    CUDA_OK(cudaGetLastError());
}

void sort_pairs(uint32_t* (&keys)[2], uint32_t* (&values)[2], uint32_t count, uint32_t bits, void* temp,
                size_t temp_bytes, cudaStream_t stream)
{
    cub::DoubleBuffer<uint32_t> k(keys[0], keys[1]), v(values[0], values[1]);
    CUDA_OK(cub::DeviceRadixSort::SortPairs(temp, temp_bytes, k, v, count, 0, static_cast<int>(bits), stream));
    keys[0] = k.Current(), keys[1] = k.Alternate();
    values[0] = v.Current(), values[1] = v.Alternate();
}

size_t sort_temp_bytes(uint32_t count)
{
    size_t bytes = 0;
    cub::DoubleBuffer<uint32_t> k, v;
    CUDA_OK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, k, v, count, 0, 32));
    return bytes;
}

} // namespace pinprover
