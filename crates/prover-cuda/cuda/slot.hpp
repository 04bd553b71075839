// One proof at a time on a device: its streams, its events, and the order of its work.
//
//   copy stream   witness ──► a ──► b ──► c
//                    │        │     │     │
//   lane 0           ├ lists ─┼─────┼─────┼──► A, L, B-G2, B-G1
//   lane 1           │        └ ntt ┴ ntt ┴ ntt, quotient ──► H
//
// The witness goes first: four of the five sums need nothing else, and they hide the rest of the upload.
#pragma once

#include <memory>

#include "msm.hpp"
#include "prover_cuda.h"

class gpu_t;
class stream_t;

namespace pinprover {

// Where everything lies in a proof's workspace.
struct Layout {
    uint8_t *a, *b, *c, *aux, *inputs;
    uint8_t *a_aux_bits, *b_input_bits, *b_aux_bits;
    uint32_t *a_aux_ranks, *b_input_ranks, *b_aux_ranks;
    void* rank_temp;
    size_t rank_temp_bytes;
    ScalarList list_h, list_l, list_a, list_b;
    uint32_t* counters;
    uint8_t* sums[5];
    MsmSpace lane[2];
    uint8_t* pieces[2]; // of a streamed key
    size_t piece_bytes;

    static Layout place(Arena& arena, const pc_shape& shape, const pc_key& key);
};

class Slot {
public:
    explicit Slot(int ordinal);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    void begin(const pc_shape& shape, const pc_key& key, const pc_assignment& assignment, void* workspace, size_t bytes);
    void run();
    void wait_upload();
    void* event();
    void finish(pc_sums& sums);
    void abandon();
    void drain() noexcept;

private:
    struct State;
    std::unique_ptr<State> state;
};

void check_shape(const pc_shape& shape, const pc_key& key);

} // namespace pinprover
