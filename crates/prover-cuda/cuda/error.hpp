// Errors inside the library are exceptions; none leaves it. Every function of the C ABI runs its body through `guard`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <cuda_runtime.h>
#include <util/exception.cuh>

#include "prover_cuda.h"

namespace pinprover {

// Counts the checked calls, and says whether the next one is to fail (`pc_fault`).
bool fault_due(cudaError_t& injected);

// The file without the folders of the machine that compiled it.
[[noreturn]] inline void throw_cuda(cudaError_t status, const char* call, const char* path, int line)
{
    const char* slash = std::strrchr(path, '/');
    const char* file = slash == nullptr ? path : slash + 1;
    throw cuda_error{-status, std::string(call) + " at " + file + ":" + std::to_string(line) + " failed: \"" +
                                  cudaGetErrorString(status) + "\""};
}

// An error with the kind that the caller branches on.
class Error : public std::runtime_error {
public:
    Error(pc_kind kind, int code, const std::string& what) : std::runtime_error(what), kind(kind), code(code) {}
    pc_kind kind;
    int code;
};

inline pc_kind kind_of(int cuda_code)
{
    switch (cuda_code) {
    case cudaErrorMemoryAllocation:
        return PC_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
        return PC_NO_DEVICE;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
        return PC_WRONG_ARCHITECTURE;
    default:
        return PC_DEVICE;
    }
}

inline void fill(pc_error* error, pc_kind kind, int code, const char* text)
{
    if (error == nullptr) return;
    error->kind = kind;
    error->code = code;
    std::snprintf(error->message, sizeof error->message, "%s", text);
}

// Runs `body`; turns whatever it throws into a status and a message.
template <class Body>
int guard(pc_error* error, Body&& body) noexcept
{
    try {
        body();
        return 0;
    } catch (const Error& e) {
        fill(error, e.kind, e.code, e.what());
    } catch (const cuda_error& e) {
        // sppark negates CUDA's codes.
        const int code = e.code() < 0 ? -e.code() : e.code();
        fill(error, kind_of(code), code, e.what());
        // Errors that are not sticky must not be found by the next call.
        (void)cudaGetLastError();
    } catch (const std::bad_alloc&) {
        fill(error, PC_OUT_OF_MEMORY, 0, "out of host memory");
    } catch (const std::exception& e) {
        fill(error, PC_INTERNAL, 0, e.what());
    } catch (...) {
        fill(error, PC_INTERNAL, 0, "unknown exception");
    }
    return 1;
}

} // namespace pinprover

// sppark's macro, with a place for tests to make a call fail that would not.
#undef CUDA_OK
#define CUDA_OK(expr)                                                                                                  \
    do {                                                                                                               \
        cudaError_t status_ = cudaSuccess;                                                                             \
        if (!pinprover::fault_due(status_)) status_ = (expr);                                                          \
        if (status_ != cudaSuccess) pinprover::throw_cuda(status_, #expr, __FILE__, __LINE__);                         \
    } while (0)
