// Which devices are open.
#pragma once

#include <cstddef>
#include <cstdint>

class gpu_t;

namespace pinprover {

// Opens devices by their ordinals; once a process.
void open_devices(const int32_t* ordinals, size_t count);

// An open device, made current for this thread.
const gpu_t& device(int ordinal);

} // namespace pinprover
