// Parts of one allocation, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pinprover {

// Hands out aligned parts of `memory`. Over nullptr it only counts: the parts are nullptr, and `used` says how much is needed.
class Arena {
public:
    explicit Arena(uint8_t* memory) : memory(memory) {}

    uint8_t* take(size_t bytes)
    {
        uint8_t* here = memory == nullptr ? nullptr : memory + used_;
        used_ += (bytes + ALIGN - 1) / ALIGN * ALIGN;
        return here;
    }

    uint32_t* take_words(size_t count) { return reinterpret_cast<uint32_t*>(take(4 * count)); }

    size_t used() const { return used_; }

private:
    static constexpr size_t ALIGN = 256;
    uint8_t* memory;
    size_t used_ = 0;
};

} // namespace pinprover
