#include "self_test.hpp"

#include <vector>

#include "arena.hpp"
#include "buffer.hpp"
#include "curve.cuh"
#include "error.hpp"
#include "gpus.hpp"
#include "msm.hpp"
#include "quotient.hpp"
#include <util/gpu_t.cuh>

extern "C" {
const void* blst_p1_affine_generator(void);
const void* blst_p2_affine_generator(void);
}

namespace pinprover {

#ifndef __CUDA_ARCH__
namespace {

constexpr uint32_t LOG_DOMAIN = 10, POINTS = 1000;

[[noreturn]] void wrong(const char* what)
{
    throw Error(PC_DEVICE, 0, std::string("the device gives wrong answers: ") + what + " differs from the processor's");
}

// Values that differ from run to run in nothing: a wrong answer must be reproducible.
class Values {
public:
    uint64_t next()
    {
        state += 0x9e3779b97f4a7c15u;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    fr_t scalar()
    {
        fr_t s;
        uint64_t words[4] = {next(), next(), next(), next() >> 2};
        std::memcpy(static_cast<void*>(&s), words, sizeof words);
        return s;
    }

private:
    uint64_t state = 0;
};

fr_t small(uint32_t value)
{
    fr_t sum;
    sum.zero();
    for (uint32_t bit = 32; bit--;) {
        sum += sum;
        if ((value >> bit) & 1) sum += fr_t::one();
    }
    return sum;
}

fr_t power(fr_t base, const uint64_t (&exponent)[4])
{
    fr_t result = fr_t::one();
    for (int bit = 255; bit >= 0; bit--) {
        result = result * result;
        if ((exponent[bit / 64] >> (bit % 64)) & 1) result *= base;
    }
    return result;
}

// A root of unity of order 2^log.
fr_t root(uint32_t log)
{
    // (r - 1) >> log, with r the order of the scalar field.
    const uint64_t r1[4] = {0xffffffff00000000u, 0x53bda402fffe5bfeu, 0x3339d80809a1d805u, 0x73eda753299d7d48u};
    uint64_t e[4];
    for (int i = 0; i < 4; i++) e[i] = (r1[i] >> log) | (i < 3 ? r1[i + 1] << (64 - log) : 0);
    return power(small(7), e);
}

// h(x) (x^n - 1) = a(x) b(x) - c(x) at a point off the domain, with c = a b on it.
void test_quotient(const gpu_t& gpu)
{
    const uint32_t n = 1u << LOG_DOMAIN;
    Values values;
    std::vector<fr_t> evaluations[3];
    for (auto& v : evaluations) v.resize(n);
    for (uint32_t i = 0; i < n; i++) {
        evaluations[0][i] = values.scalar();
        evaluations[1][i] = values.scalar();
        evaluations[2][i] = evaluations[0][i] * evaluations[1][i];
    }
    stream_t& stream = gpu;
    Buffer memory(3 * 32 * n + 4 * n);
    uint8_t* v[3];
    for (int i = 0; i < 3; i++) {
        v[i] = memory.get() + 32 * n * i;
        CUDA_OK(cudaMemcpyAsync(v[i], evaluations[i].data(), 32 * n, cudaMemcpyHostToDevice, stream));
    }
    ScalarList list{};
    list.scalars = reinterpret_cast<uint4*>(v[1]);
    list.points = reinterpret_cast<uint32_t*>(memory.get() + 3 * 32 * n);
    to_coset(v[0], LOG_DOMAIN, stream);
    to_coset(v[1], LOG_DOMAIN, stream);
    to_coefficients(v[2], LOG_DOMAIN, stream);
    quotient(v[0], v[1], v[2], LOG_DOMAIN, list, stream);
    std::vector<fr_t> h(n);
    std::vector<uint32_t> points(n);
    CUDA_OK(cudaMemcpyAsync(h.data(), v[1], 32 * n, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaMemcpyAsync(points.data(), list.points, 4 * n, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));

    const fr_t x = values.scalar(), one = fr_t::one();
    fr_t at_x[3], w = one, vanishing = x;
    for (uint32_t i = 0; i < LOG_DOMAIN; i++) vanishing = vanishing * vanishing;
    vanishing -= one;
    for (auto& f : at_x) f.zero();
    const fr_t omega = root(LOG_DOMAIN);
    // f(x) = (x^n - 1) / n * sum of f_i w^i / (x - w^i).
    for (uint32_t i = 0; i < n; i++) {
        fr_t term = x;
        term -= w;
        term = 1 / term;
        term *= w;
        for (int k = 0; k < 3; k++) {
            fr_t part = evaluations[k][i];
            part *= term;
            at_x[k] += part;
        }
        w *= omega;
    }
    fr_t scale = 1 / small(n);
    scale *= vanishing;
    for (auto& f : at_x) f *= scale;

    fr_t sum;
    sum.zero();
    for (uint32_t i = n - 1; i--;) {
        sum *= x;
        fr_t coefficient = h[i];
        coefficient.to();
        if ((points[i] & ~SIGN) != i) wrong("the order of the coefficients");
        if (points[i] & SIGN) sum -= coefficient;
        else sum += coefficient;
    }
    sum *= vanishing;
    fr_t expected = at_x[0] * at_x[1];
    expected -= at_x[2];
    expected -= sum;
    if (!expected.is_zero()) wrong("the quotient of the transforms");
}

// Sums of known multiples of the generator: random scalars, zeros, ones and minus ones; points repeated and the identity.
template <class G>
void test_msm(const gpu_t& gpu, const void* generator_, const char* name)
{
    using point_t = typename G::point;
    using affine_t = typename G::affine;
    affine_t generator;
    std::memcpy(static_cast<void*>(&generator), generator_, G::affine_bytes);

    Values values;
    std::vector<fr_t> scalars(POINTS);
    std::vector<affine_t> points(POINTS);
    point_t running;
    running.inf();
    fr_t expected_scalar;
    expected_scalar.zero();
    for (uint32_t i = 0; i < POINTS; i++) {
        // Points: the identity, then multiples of the generator, each twice.
        if (i % 2 == 1) running.add(generator);
        points[i] = i == 0 ? affine_t(typename G::field(), typename G::field()) : static_cast<affine_t>(running);
        if (i == 0) std::memset(static_cast<void*>(&points[0]), 0, G::affine_bytes);
        fr_t s;
        switch (i % 8) {
        case 0:
            s.zero();
            break;
        case 1:
            s = fr_t::one();
            break;
        case 2:
            s.zero();
            s -= fr_t::one();
            break;
        default:
            s = values.scalar();
        }
        scalars[i] = i == 0 ? values.scalar() : s;
        if (i > 0) {
            fr_t term = scalars[i];
            term *= small((i + 1) / 2);
            expected_scalar += term;
        }
    }

    stream_t& stream = gpu;
    Arena size(nullptr);
    (void)MsmSpace::place(size, POINTS, G::bucket_bytes);
    const size_t sums_bytes = (MAX_WINDOWS + 1) * G::bucket_bytes;
    Buffer space_memory(size.used()), sums(sums_bytes), inputs(POINTS * (32 + G::affine_bytes)), lists(POINTS * 40 + 64);
    Arena arena(space_memory.get());
    const MsmSpace space = MsmSpace::place(arena, POINTS, G::bucket_bytes);
    uint8_t* device_points = inputs.get();
    uint8_t* device_scalars = inputs.get() + POINTS * G::affine_bytes;
    CUDA_OK(cudaMemcpyAsync(device_points, points.data(), POINTS * G::affine_bytes, cudaMemcpyHostToDevice, stream));
    CUDA_OK(cudaMemcpyAsync(device_scalars, scalars.data(), POINTS * 32, cudaMemcpyHostToDevice, stream));
    ScalarList list{};
    list.scalars = reinterpret_cast<uint4*>(lists.get());
    list.points = reinterpret_cast<uint32_t*>(lists.get() + 32 * POINTS);
    list.ones = list.points + POINTS;
    list.counters = list.ones + POINTS;
    CUDA_OK(cudaMemsetAsync(list.counters, 0, 8, stream));
    append_scalars(device_scalars, POINTS, nullptr, nullptr, 0, 0, POINTS, list, stream);
    uint32_t counts[2];
    CUDA_OK(cudaMemcpyAsync(counts, list.counters, 8, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    const MsmResult result = msm<G>(space, list, counts[0], counts[1], device_points, sums.get(), stream);
    std::vector<uint8_t> host(sums_bytes);
    CUDA_OK(cudaMemcpyAsync(host.data(), sums.get(), sums_bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    point_t found;
    std::memset(static_cast<void*>(&found), 0, G::point_bytes);
    add_windows<G>(result, host.data(), &found);

    expected_scalar.from();
    uint64_t words[4];
    std::memcpy(words, static_cast<const void*>(&expected_scalar), sizeof words);
    point_t expected;
    expected.inf();
    for (int bit = 255; bit >= 0; bit--) {
        expected.dbl();
        if ((words[bit / 64] >> (bit % 64)) & 1) expected.add(generator);
    }
    if (static_cast<affine_t>(found) != static_cast<affine_t>(expected)) wrong(name);
}

} // namespace

void self_test(int ordinal)
{
    const gpu_t& gpu = device(ordinal);
    test_quotient(gpu);
    test_msm<G1>(gpu, blst_p1_affine_generator(), "a sum in G1");
    test_msm<G2>(gpu, blst_p2_affine_generator(), "a sum in G2");
}
#endif

} // namespace pinprover
