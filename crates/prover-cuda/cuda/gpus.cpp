// The registry of devices that sppark's templates ask for (its own opens every device of the machine; ours, only those that
// were asked for).
#include "error.hpp"

#include <algorithm>
#include <mutex>
#include <util/gpu_t.cuh>

#include "gpus.hpp"

namespace {

std::mutex lock;
// Only ever added to: an index stays good.
std::vector<const gpu_t*> opened;

} // namespace

namespace pinprover {

void open_devices(const int32_t* wanted, size_t count)
{
    std::lock_guard<std::mutex> guard(lock);
    for (size_t i = 0; i < count; i++) {
        const int ordinal = wanted[i];
        const auto is_it = [&](const gpu_t* gpu) { return gpu->cid() == ordinal; };
        if (std::any_of(opened.begin(), opened.end(), is_it)) continue;
        cudaDeviceProp props;
        CUDA_OK(cudaGetDeviceProperties(&props, ordinal));
        CUDA_OK(cudaSetDevice(ordinal));
        // They live as long as the process: CUDA may be gone when destructors of statics run.
        opened.push_back(new gpu_t(static_cast<int>(opened.size()), ordinal, props));
    }
}

const gpu_t& device(int ordinal)
{
    std::lock_guard<std::mutex> guard(lock);
    for (const gpu_t* gpu : opened)
        if (gpu->cid() == ordinal) {
            CUDA_OK(cudaSetDevice(ordinal));
            return *gpu;
        }
    throw Error(PC_USAGE, 0, "device " + std::to_string(ordinal) + " is not open");
}

} // namespace pinprover

size_t ngpus()
{
    std::lock_guard<std::mutex> guard(lock);
    return opened.size();
}

const gpu_t& select_gpu(int id)
{
    std::lock_guard<std::mutex> guard(lock);
    if (id < 0 || static_cast<size_t>(id) >= opened.size()) throw pinprover::Error(PC_USAGE, 0, "no such device is open");
    opened[id]->select();
    return *opened[id];
}

const cudaDeviceProp& gpu_props(int id) { return opened.at(static_cast<size_t>(id))->props(); }

const std::vector<const gpu_t*>& all_gpus() { return opened; }
