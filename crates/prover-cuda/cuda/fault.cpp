// Calls that fail on purpose: tests make each of them fail in turn, and see that nothing is lost.
#include <atomic>

#include "error.hpp"

namespace pinprover {

namespace {

std::atomic<int64_t> calls{0};
// Of `calls`, the one that fails; 0: none.
std::atomic<int64_t> failing{0};
std::atomic<int> failure{0};
std::atomic<bool> for_good{false};

} // namespace

bool fault_due(cudaError_t& injected)
{
    const int64_t call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
    const int64_t at = failing.load(std::memory_order_acquire);
    if (at == 0 || call < at || (call > at && !for_good.load(std::memory_order_relaxed))) return false;
    injected = static_cast<cudaError_t>(failure.load(std::memory_order_relaxed));
    return true;
}

} // namespace pinprover

extern "C" {

void pc_fault(int64_t nth, int32_t code, int32_t sticky)
{
    using namespace pinprover;
    failing.store(0, std::memory_order_release);
    failure.store(code, std::memory_order_relaxed);
    for_good.store(sticky != 0, std::memory_order_relaxed);
    if (nth > 0) failing.store(calls.load(std::memory_order_relaxed) + nth, std::memory_order_release);
}

int64_t pc_calls(void) { return pinprover::calls.load(std::memory_order_relaxed); }

} // extern "C"
