// A buffer on the device, for the length of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "error.hpp"

namespace pinprover {

class Buffer {
public:
    explicit Buffer(size_t bytes) { CUDA_OK(cudaMalloc(&memory, bytes)); }
    ~Buffer() { (void)cudaFree(memory); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    uint8_t* get() const { return static_cast<uint8_t*>(memory); }

private:
    void* memory = nullptr;
};

} // namespace pinprover
