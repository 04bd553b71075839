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

struct G1 {
    using field = fp_t;
    using bucket = xyzz_t<fp_t>;
    using bucket_mem = bucket::mem_t;
    using affine = bucket::affine_t;
    using affine_mem = affine::mem_t;
    using point = jacobian_t<fp_t>;
    static constexpr unsigned degree = 1;
    static constexpr size_t affine_bytes = 96;
    static constexpr size_t bucket_bytes = 192;
    static constexpr size_t point_bytes = 144;
};

struct G2 {
    using field = fp2_t;
    using bucket = xyzz_t<fp2_t>;
    using bucket_mem = bucket::mem_t;
    using affine = bucket::affine_t;
    using affine_mem = affine::mem_t;
    using point = jacobian_t<fp2_t>;
    static constexpr unsigned degree = 2;
    static constexpr size_t affine_bytes = 192;
    static constexpr size_t bucket_bytes = 384;
    static constexpr size_t point_bytes = 288;
};

static_assert(sizeof(G1::affine_mem) == G1::affine_bytes && sizeof(G1::bucket_mem) == G1::bucket_bytes, "layout");
static_assert(sizeof(G2::affine_mem) == G2::affine_bytes && sizeof(G2::bucket_mem) == G2::bucket_bytes, "layout");
