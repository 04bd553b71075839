// The C ABI.
#include <memory>

#include <util/gpu_t.cuh>

#include "error.hpp"
#include "fixed_base.hpp"
#include "gpus.hpp"
#include "self_test.hpp"
#include "slot.hpp"

using namespace pinprover;

struct pc_slot {
    explicit pc_slot(int ordinal) : slot(ordinal) {}
    Slot slot;
};

extern "C" {

int pc_open(const int32_t* ordinals, int32_t count, pc_error* error)
{
    return guard(error, [&] { open_devices(ordinals, static_cast<size_t>(count)); });
}

int pc_memory(int32_t ordinal, uint64_t* free_bytes, uint64_t* total_bytes, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        size_t free = 0, total = 0;
        CUDA_OK(cudaMemGetInfo(&free, &total));
        *free_bytes = free;
        *total_bytes = total;
    });
}

int pc_alloc(int32_t ordinal, uint64_t bytes, void** out, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        CUDA_OK(cudaMalloc(out, bytes));
    });
}

int pc_free(int32_t ordinal, void* memory, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        CUDA_OK(cudaFree(memory));
    });
}

int pc_write(int32_t ordinal, void* to, const void* from, uint64_t bytes, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        CUDA_OK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    });
}

int pc_pin(int32_t ordinal, const void* memory, uint64_t bytes, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        CUDA_OK(cudaHostRegister(const_cast<void*>(memory), bytes, cudaHostRegisterPortable));
    });
}

int pc_unpin(int32_t ordinal, const void* memory, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        CUDA_OK(cudaHostUnregister(const_cast<void*>(memory)));
    });
}

int pc_plan_proof(int32_t ordinal, const pc_shape* shape, const pc_key* key, uint64_t* workspace_bytes, pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        check_shape(*shape, *key);
        Arena arena(nullptr);
        (void)Layout::place(arena, *shape, *key);
        *workspace_bytes = arena.used();
    });
}

int pc_slot_open(int32_t ordinal, pc_slot** out, pc_error* error)
{
    return guard(error, [&] { *out = new pc_slot(ordinal); });
}

int pc_slot_close(pc_slot* slot, pc_error* error)
{
    return guard(error, [&] { delete slot; });
}

int pc_slot_begin(pc_slot* slot, const pc_shape* shape, const pc_key* key, const pc_assignment* assignment,
                  void* workspace, uint64_t workspace_bytes, pc_error* error)
{
    return guard(error, [&] { slot->slot.begin(*shape, *key, *assignment, workspace, workspace_bytes); });
}

int pc_slot_event(pc_slot* slot, void** event, pc_error* error)
{
    return guard(error, [&] { *event = slot->slot.event(); });
}

int pc_slot_run(pc_slot* slot, pc_error* error)
{
    return guard(error, [&] { slot->slot.run(); });
}

int pc_slot_wait_upload(pc_slot* slot, pc_error* error)
{
    return guard(error, [&] { slot->slot.wait_upload(); });
}

int pc_slot_finish(pc_slot* slot, pc_sums* sums, pc_error* error)
{
    const int status = guard(error, [&] { slot->slot.finish(*sums); });
    if (status != 0) slot->slot.drain();
    return status;
}

int pc_slot_abandon(pc_slot* slot, pc_error* error)
{
    return guard(error, [&] { slot->slot.abandon(); });
}

int pc_fixed_base(int32_t ordinal, int32_t group, const void* base, const void* scalars, uint64_t count, void* out,
                  pc_error* error)
{
    return guard(error, [&] {
        (void)device(ordinal);
        if (group == 1) fixed_base_g1(base, scalars, count, out);
        else if (group == 2) fixed_base_g2(base, scalars, count, out);
        else throw Error(PC_USAGE, 0, "group is 1 or 2");
    });
}

int pc_self_test(int32_t ordinal, pc_error* error)
{
    return guard(error, [&] { self_test(ordinal); });
}

} // extern "C"
