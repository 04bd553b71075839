// The groups and fields of BLS12-381, as sppark has them.
//
// sppark's types have one definition for the host (blst's assembly) and another for the device, so a kernel's signature must
// not name them: kernels here take plain pointers and a tag, `G1` or `G2`, and find the types inside.
//
// On the device an element of Fp2 lives in two neighbouring lanes of a warp, one coefficient each (`degree` is 2), and the
// two must take the same path through the code: kernels branch on the index of the point alone, which is the thread's index
// divided by `degree`.
#pragma once

#include <cuda.h>

#include <ec/jacobian_t.hpp>
#include <ec/xyzz_t.hpp>
#include <ff/bls12-381-fp2.hpp>

template <class F, unsigned DEGREE>
struct Group {
    using field = F;
    using bucket = xyzz_t<F>;
    using bucket_mem = typename bucket::mem_t;
    using affine = typename bucket::affine_t;
    using affine_mem = typename affine::mem_t;
    using point = jacobian_t<F>;
    static constexpr unsigned degree = DEGREE;
    static constexpr size_t affine_bytes = 96 * DEGREE;
    static constexpr size_t bucket_bytes = 192 * DEGREE;
    static constexpr size_t point_bytes = 144 * DEGREE;
};

// Types of their own: a kernel's name must not spell out the field.
struct G1 : Group<fp_t, 1> {};
struct G2 : Group<fp2_t, 2> {};

static_assert(sizeof(G1::affine_mem) == G1::affine_bytes && sizeof(G1::bucket_mem) == G1::bucket_bytes, "layout");
static_assert(sizeof(G2::affine_mem) == G2::affine_bytes && sizeof(G2::bucket_mem) == G2::bucket_bytes, "layout");
