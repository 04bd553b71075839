/* The C ABI of the kernels. Every function returns 0 for success, else fills `error`. No exception leaves it.
 *
 * Memory layouts are blst's: scalars are 32 bytes in Montgomery form, affine points of G1 96 bytes and of G2 192 bytes with
 * coordinates in Montgomery form (the identity is all zeros), projective results Jacobian, 144 and 288 bytes. Integers are
 * little-endian. Sizes are in bytes where the name says so, else in elements. */
#ifndef PROVER_CUDA_H
#define PROVER_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    PC_OK = 0,
    PC_INTERNAL = 1,
    PC_DEVICE = 2,            /* the device reported an error; `code` is CUDA's */
    PC_OUT_OF_MEMORY = 3,     /* device or host memory */
    PC_NO_DEVICE = 4,
    PC_WRONG_ARCHITECTURE = 5,/* the library holds no code for this device */
    PC_USAGE = 6              /* the caller's mistake: sizes that do not fit together */
} pc_kind;

typedef struct {
    int32_t kind;
    int32_t code;
    char message[504];
} pc_error;

/* The sizes of one proof. */
typedef struct {
    uint64_t rows;        /* length of a, b and c before they are padded with zeros */
    uint32_t log_domain;
    uint32_t reserved;
    uint64_t inputs;      /* the constant one included */
    uint64_t aux;
    uint64_t a_aux;       /* auxiliary variables in the A query */
    uint64_t b_inputs;    /* inputs in the B query */
    uint64_t b_aux;       /* auxiliary variables in the B query */
} pc_shape;

/* Where a query's points are: on the device, or, if `host` is not zero, in host memory to be streamed. */
typedef struct {
    const void* points;
    uint64_t count;
    int32_t host;
    int32_t reserved;
} pc_query;

typedef struct {
    pc_query h, l, a, b_g1, b_g2; /* a, b: the points of the inputs first */
} pc_key;

/* Host memory of one assignment. It must stay valid and unchanged until the upload is done. */
typedef struct {
    const void *a, *b, *c, *aux, *inputs;
    const uint64_t *a_aux_density, *b_input_density, *b_aux_density; /* bits, least significant first */
} pc_assignment;

/* Milliseconds since the first copy began, by CUDA events. */
typedef struct {
    float begin, end;
} pc_span;

typedef struct {
    pc_span upload_witness, upload_abc; /* on the copy stream */
    pc_span ntt, h, l, a, b_g1, b_g2;
} pc_times;

typedef struct {
    uint8_t h[144], l[144], a[144], b_g1[144], b_g2[288]; /* Jacobian */
    pc_times times;
} pc_sums;

typedef struct pc_slot pc_slot;

/* Opens devices, those that are not open yet. No other device gets a context. */
int pc_open(const int32_t* ordinals, int32_t count, pc_error* error);
int pc_memory(int32_t ordinal, uint64_t* free_bytes, uint64_t* total_bytes, pc_error* error);
int pc_alloc(int32_t ordinal, uint64_t bytes, void** out, pc_error* error);
int pc_free(int32_t ordinal, void* memory, pc_error* error);
/* Copies from the host and waits. */
int pc_write(int32_t ordinal, void* to, const void* from, uint64_t bytes, pc_error* error);
/* Page-locks memory that exists, for copies at the speed of the bus; and undoes it. */
int pc_pin(int32_t ordinal, const void* memory, uint64_t bytes, pc_error* error);
int pc_unpin(int32_t ordinal, const void* memory, pc_error* error);

/* Device memory that a proof of this shape needs beside the key. */
int pc_plan_proof(int32_t ordinal, const pc_shape* shape, const pc_key* key, uint64_t* workspace_bytes, pc_error* error);

/* A slot proves one circuit at a time, on streams of its own. */
int pc_slot_open(int32_t ordinal, pc_slot** out, pc_error* error);
/* Waits for what runs. */
int pc_slot_close(pc_slot* slot, pc_error* error);
/* Begins the upload; `workspace` is device memory of at least the planned size, the slot's until
 * pc_slot_finish or pc_slot_abandon is back. */
int pc_slot_begin(pc_slot* slot, const pc_shape* shape, const pc_key* key, const pc_assignment* assignment,
                  void* workspace, uint64_t workspace_bytes, pc_error* error);
/* A CUDA event that passes when the device no longer reads the assignment's memory. It is the slot's: the next begin records
 * it again, and it goes with the slot. */
int pc_slot_event(pc_slot* slot, void** event, pc_error* error);
/* Enqueues the computation; returns before it ends, unless points are streamed. */
int pc_slot_run(pc_slot* slot, pc_error* error);
/* Waits until the device no longer reads the assignment's memory. */
int pc_slot_wait_upload(pc_slot* slot, pc_error* error);
/* Waits for the result. The slot is free after it, with an error as well. */
int pc_slot_finish(pc_slot* slot, pc_sums* sums, pc_error* error);
/* Waits for all that was enqueued and forgets it: the way out after an error. If it fails, whether the device still reads the
 * assignment's memory is unknown. */
int pc_slot_abandon(pc_slot* slot, pc_error* error);

/* One base by many scalars: `out[i] = scalars[i] * base`, affine. Host memory in and out. `group` is 1 or 2. */
int pc_fixed_base(int32_t ordinal, int32_t group, const void* base, const void* scalars, uint64_t count, void* out,
                  pc_error* error);

/* For tests: the nth checked CUDA call from now on is not made and fails with CUDA's `code`; with `sticky`, all after it, too.
 * 0 ends it. Process-wide. */
void pc_fault(int64_t nth, int32_t code, int32_t sticky);
/* Checked CUDA calls so far, in this process. */
int64_t pc_calls(void);

/* Known answers: transforms and MSMs of the kernels against sums made on the host's processor. */
int pc_self_test(int32_t ordinal, pc_error* error);

#ifdef __cplusplus
}
#endif
#endif
