// From the evaluations a, b, c to the scalars of the H query.
#pragma once

#include "scalars.cuh"

class stream_t;

namespace pinprover {

// The largest domain that the transforms take.
constexpr uint32_t MAX_LOG_DOMAIN = 28;

// The coefficients of a vector, over the coset: for a and b.
void to_coset(void* vector, uint32_t log_domain, const stream_t& stream);
// The coefficients of c, in bit-reversed order.
void to_coefficients(void* vector, uint32_t log_domain, const stream_t& stream);

// h = (a b - c) / (X^n - 1), its first n - 1 coefficients as the scalars of `list` (whose `scalars` may be b's memory), point
// i for coefficient i; `a` and `b` over the coset, `c` coefficients in bit-reversed order. a is overwritten.
//
// On the coset g<w> the divisor is the constant g^n - 1, and the transform back is linear, so that c needs none:
// h = (coset^-1(a b) - c) / (g^n - 1).
void quotient(void* a, const void* b, const void* c, uint32_t log_domain, const ScalarList& list, const stream_t& stream);

} // namespace pinprover
