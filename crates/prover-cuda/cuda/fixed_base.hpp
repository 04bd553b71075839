// One base by many scalars, for the making of keys.
#pragma once

#include <cstddef>

namespace pinprover {

// out[i] = scalars[i] * base, affine; host memory in and out. Takes about 800 MiB of device memory while it runs.
void fixed_base_g1(const void* base, const void* scalars, size_t count, void* out);
void fixed_base_g2(const void* base, const void* scalars, size_t count, void* out);

} // namespace pinprover
