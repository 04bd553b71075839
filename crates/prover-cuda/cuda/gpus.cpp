// The registry of devices that sppark's templates ask for (its own opens every device of the machine; ours, only those that
// were asked for).
#include "error.hpp"

#include <mutex>
#include <util/gpu_t.cuh>

#include "gpus.hpp"

namespace {

std::mutex lock;
std::vector<const gpu_t*> opened;
std::vector<int> ordinals;

} // namespace

namespace pinprover {

void open_devices(const int32_t* wanted, size_t count)
{
    std::lock_guard<std::mutex> guard(lock);
    const std::vector<int> list(wanted, wanted + count);
    if (!opened.empty()) {
        if (list == ordinals) return;
        throw Error(PC_USAGE, 0, "the devices of this process are chosen already");
    }
    std::vector<const gpu_t*> gpus;
    for (int ordinal : list) {
        cudaDeviceProp props;
        CUDA_OK(cudaGetDeviceProperties(&props, ordinal));
        CUDA_OK(cudaSetDevice(ordinal));
        // They live as long as the process: CUDA may be gone when destructors of statics run.
        gpus.push_back(new gpu_t(static_cast<int>(gpus.size()), ordinal, props));
    }
    opened = gpus;
    ordinals = list;
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

size_t ngpus() { return opened.size(); }

const gpu_t& select_gpu(int id)
{
    if (id < 0 || static_cast<size_t>(id) >= opened.size()) throw pinprover::Error(PC_USAGE, 0, "no such device is open");
    opened[id]->select();
    return *opened[id];
}

const cudaDeviceProp& gpu_props(int id) { return opened.at(static_cast<size_t>(id))->props(); }

const std::vector<const gpu_t*>& all_gpus() { return opened; }
