#include "curve.cuh"
#include "error.hpp"
#include "quotient.hpp"

#include <ntt/ntt.cuh>

namespace pinprover {

namespace {

struct Words {
    uint32_t word[8];
};

constexpr int BLOCK = 256;

__global__ __launch_bounds__(BLOCK) void multiply_kernel(void* a_, const void* b_, size_t count)
{
#ifdef __CUDA_ARCH__
    fr_t* a = static_cast<fr_t*>(a_);
    const fr_t* b = static_cast<const fr_t*>(b_);
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += (size_t)gridDim.x * BLOCK) {
        fr_t x = a[i], y = b[i];
        a[i] = x * y;
    }
#endif
}

__global__ __launch_bounds__(BLOCK) void finish_kernel(const void* a_, const void* c_, uint32_t log_domain, Words scale_,
                                                       uint4* scalars, uint32_t* points)
{
#ifdef __CUDA_ARCH__
    const fr_t* a = static_cast<const fr_t*>(a_);
    const fr_t* c = static_cast<const fr_t*>(c_);
    fr_t scale;
    for (int k = 0; k < 8; k++) scale[k] = scale_.word[k];
    const size_t count = (size_t)1 << log_domain;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += (size_t)gridDim.x * BLOCK) {
        fr_t x = a[i], y = c[i];
        x -= y;
        x *= scale;
        x.from();
        const uint32_t sign = x.abs() ? SIGN : 0;
        const uint32_t at = __brev((uint32_t)i) >> (32 - log_domain);
        // The H query ends one short of the domain.
        if (at + 1 == count) continue;
        scalars[2 * (size_t)at] = make_uint4(x[0], x[1], x[2], x[3]);
        scalars[2 * (size_t)at + 1] = make_uint4(x[4], x[5], x[6], x[7]);
        points[at] = at | sign;
    }
#endif
}

int blocks_for(size_t count) { return static_cast<int>(std::min<size_t>((count + BLOCK - 1) / BLOCK, 1 << 16)); }

// 1 / (g^n - 1), for the generator 7 of the coset.
Words coset_scale(uint32_t log_domain)
{
    Words words{};
#ifndef __CUDA_ARCH__
    const fr_t one = fr_t::one();
    fr_t g = one;
    for (int i = 1; i < 7; i++) g += one;
    for (uint32_t i = 0; i < log_domain; i++) g = g * g;
    g -= one;
    g = 1 / g;
    std::memcpy(words.word, static_cast<const void*>(&g), sizeof words.word);
#endif
    return words;
}

} // namespace

using Order = NTT::InputOutputOrder;
using Direction = NTT::Direction;
using Type = NTT::Type;

void to_coset(void* vector, uint32_t log_domain, const stream_t& stream)
{
    if (log_domain == 0) return;
    fr_t* v = static_cast<fr_t*>(vector);
    NTT::Base_dev_ptr(const_cast<stream_t&>(stream), v, log_domain, Order::NR, Direction::inverse, Type::standard);
    NTT::Base_dev_ptr(const_cast<stream_t&>(stream), v, log_domain, Order::RN, Direction::forward, Type::coset);
}

void to_coefficients(void* vector, uint32_t log_domain, const stream_t& stream)
{
    if (log_domain == 0) return;
    fr_t* v = static_cast<fr_t*>(vector);
    NTT::Base_dev_ptr(const_cast<stream_t&>(stream), v, log_domain, Order::NR, Direction::inverse, Type::standard);
}

void quotient(void* a, const void* b, const void* c, uint32_t log_domain, const ScalarList& list, const stream_t& stream)
{
    // A domain of one has an empty H query.
    if (log_domain == 0) return;
    const size_t count = (size_t)1 << log_domain;
    multiply_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(a, b, count);
    CUDA_OK(cudaGetLastError());
    fr_t* v = static_cast<fr_t*>(a);
    NTT::Base_dev_ptr(const_cast<stream_t&>(stream), v, log_domain, Order::NR, Direction::inverse, Type::coset);
    finish_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(a, c, log_domain, coset_scale(log_domain), list.scalars,
                                                          list.points);
    CUDA_OK(cudaGetLastError());
}

} // namespace pinprover
