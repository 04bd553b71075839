#include "fixed_base.cuh"

namespace pinprover {

void fixed_base_g1(const void* base, const void* scalars, size_t count, void* out) { fixed::run<G1>(base, scalars, count, out); }

} // namespace pinprover
