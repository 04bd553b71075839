// The templates of fixed_base.hpp: a table of all multiples of the base by 16-bit digits, in 16 windows, so that a scalar
// costs 16 additions; and one inversion for 64 points on the way back to affine coordinates.
#pragma once

#include <algorithm>

#include "buffer.hpp"
#include "curve.cuh"
#include "error.hpp"
#include "fixed_base.hpp"

namespace pinprover {
namespace fixed {

constexpr uint32_t BITS = 16, WINDOWS = 16;
constexpr size_t TABLE = (size_t)WINDOWS << BITS;
constexpr size_t BATCH = (size_t)1 << 19;
constexpr uint32_t INVERT = 64;
constexpr unsigned THREADS = 128;

// out[window * 2^16 + digit] = digit * 2^(16 window) * base, of bits[0 .. 255]: 2^i * base.
template <class G>
__global__ __launch_bounds__(THREADS) void table_kernel(void* out_, const void* powers_)
{
#ifdef __CUDA_ARCH__
    using bucket_t = typename G::bucket;
    const uint32_t t = (blockIdx.x * blockDim.x + threadIdx.x) / G::degree;
    if (t >= TABLE) return;
    const uint32_t window = t >> BITS, digit = t & ((1u << BITS) - 1);
    bucket_t sum;
    sum.inf();
    #pragma unroll 1
    for (uint32_t bit = 0; bit < BITS; bit++) {
        if (((digit >> bit) & 1) == 0) continue;
        bucket_t power = static_cast<const typename G::bucket_mem*>(powers_)[window * BITS + bit];
        sum.add(power);
    }
    static_cast<typename G::bucket_mem*>(out_)[t] = sum;
#endif
}

// powers[i] = 2^i * base.
template <class G>
__global__ void powers_kernel(void* powers_, const void* base_)
{
#ifdef __CUDA_ARCH__
    using bucket_t = typename G::bucket;
    typename G::affine base = *static_cast<const typename G::affine_mem*>(base_);
    bucket_t sum;
    sum.inf();
    sum.add(base);
    #pragma unroll 1
    for (uint32_t i = 0; i < WINDOWS * BITS; i++) {
        static_cast<typename G::bucket_mem*>(powers_)[i] = sum;
        bucket_t same = sum;
        sum.add(same);
    }
#endif
}

template <class G>
__global__ __launch_bounds__(THREADS) void multiply_kernel(void* out_, const void* table_, const void* scalars_, uint32_t count)
{
#ifdef __CUDA_ARCH__
    using bucket_t = typename G::bucket;
    __shared__ uint32_t words[8][THREADS];
    const uint32_t t = (blockIdx.x * blockDim.x + threadIdx.x) / G::degree;
    if (t >= count) return;
    fr_t s = static_cast<const fr_t*>(scalars_)[t];
    s.from();
    for (int k = 0; k < 8; k++) words[k][threadIdx.x] = s[k];
    bucket_t sum;
    sum.inf();
    #pragma unroll 1
    for (uint32_t window = 0; window < WINDOWS; window++) {
        const uint32_t digit = (words[window / 2][threadIdx.x] >> (16 * (window & 1))) & 0xffffu;
        if (digit == 0) continue;
        typename G::affine p = static_cast<const typename G::affine_mem*>(table_)[((size_t)window << BITS) + digit];
        sum.add(p);
    }
    static_cast<typename G::bucket_mem*>(out_)[t] = sum;
#endif
}

// To affine coordinates: x = X / ZZ, y = Y / ZZZ. `prefix` holds a field element for each point.
template <class G>
__global__ __launch_bounds__(THREADS) void affine_kernel(void* out_, const void* points_, void* prefix_, uint32_t count)
{
#ifdef __CUDA_ARCH__
    using field_t = typename G::field;
    using field_mem = typename field_t::mem_t;
    const uint32_t t = (blockIdx.x * blockDim.x + threadIdx.x) / G::degree;
    // No thread leaves early: sppark's inversion is the work of two neighbouring lanes, and of whole warps.
    const uint32_t begin = min(t * INVERT, count), end = min(begin + INVERT, count);
    // A point is X, Y, ZZZ, ZZ.
    const field_mem* points = static_cast<const field_mem*>(points_);
    field_mem* prefix = static_cast<field_mem*>(prefix_);
    field_mem* out = static_cast<field_mem*>(out_);

    field_t product = field_t::one();
    #pragma unroll 1
    for (uint32_t i = begin; i < end; i++) {
        prefix[i] = product;
        field_t zzz = points[4 * (size_t)i + 2];
        if (!zzz.is_zero()) product *= zzz;
    }
    __syncwarp();
    field_t inverse = 1 / product;
    #pragma unroll 1
    for (uint32_t i = end; i-- > begin;) {
        field_t zzz = points[4 * (size_t)i + 2];
        field_t x, y;
        if (zzz.is_zero()) {
            x.zero();
            y.zero();
        } else {
            field_t before = prefix[i];
            field_t one_zzz = inverse * before;
            inverse *= zzz;
            field_t zz = points[4 * (size_t)i + 3];
            x = one_zzz * zz; // 1 / Z
            x.sqr();
            field_t px = points[4 * (size_t)i], py = points[4 * (size_t)i + 1];
            x *= px;
            y = one_zzz * py;
        }
        out[2 * (size_t)i] = x;
        out[2 * (size_t)i + 1] = y;
    }
#endif
}

inline unsigned blocks(size_t points, unsigned degree) { return static_cast<unsigned>((points * degree + THREADS - 1) / THREADS); }

template <class G>
void run(const void* base, const void* scalars_, size_t count, void* out_)
{
    const uint8_t* scalars = static_cast<const uint8_t*>(scalars_);
    uint8_t* out = static_cast<uint8_t*>(out_);
    constexpr size_t WORK = BATCH > TABLE ? BATCH : TABLE;
    Buffer table(TABLE * G::affine_bytes), points(WORK * G::bucket_bytes), prefix(WORK * G::affine_bytes / 2);
    Buffer powers(WINDOWS * BITS * G::bucket_bytes), scalar(BATCH * 32), result(BATCH * G::affine_bytes);

    CUDA_OK(cudaMemcpy(result.get(), base, G::affine_bytes, cudaMemcpyHostToDevice));
    powers_kernel<G><<<1, G::degree>>>(powers.get(), result.get());
    CUDA_OK(cudaGetLastError());
    table_kernel<G><<<blocks(TABLE, G::degree), THREADS>>>(points.get(), powers.get());
    CUDA_OK(cudaGetLastError());
    affine_kernel<G><<<blocks((TABLE + INVERT - 1) / INVERT, G::degree), THREADS>>>(table.get(), points.get(), prefix.get(), TABLE);
    CUDA_OK(cudaGetLastError());

    for (size_t first = 0; first < count; first += BATCH) {
        const uint32_t n = static_cast<uint32_t>(std::min(BATCH, count - first));
        CUDA_OK(cudaMemcpy(scalar.get(), scalars + 32 * first, 32 * (size_t)n, cudaMemcpyHostToDevice));
        multiply_kernel<G><<<blocks(n, G::degree), THREADS>>>(points.get(), table.get(), scalar.get(), n);
        CUDA_OK(cudaGetLastError());
        affine_kernel<G><<<blocks((n + INVERT - 1) / INVERT, G::degree), THREADS>>>(result.get(), points.get(), prefix.get(), n);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaMemcpy(out + G::affine_bytes * first, result.get(), G::affine_bytes * (size_t)n, cudaMemcpyDeviceToHost));
    }
}

} // namespace fixed
} // namespace pinprover
