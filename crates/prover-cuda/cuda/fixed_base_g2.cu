#include "fixed_base.cuh"

namespace pinprover {

void fixed_base_g2(const void* base, const void* scalars, size_t count, void* out) { fixed::run<G2>(base, scalars, count, out); }

} // namespace pinprover
