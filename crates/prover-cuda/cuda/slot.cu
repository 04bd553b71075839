#include "slot.hpp"

#include <algorithm>

#include "curve.cuh"
#include "error.hpp"
#include "gpus.hpp"
#include "quotient.hpp"
#include <util/gpu_t.cuh>

namespace pinprover {

namespace {

// The five sums.
enum Which { H, L, A, B_G1, B_G2, SUMS };

// Bytes of a streamed key that are on the device at a time, twice.
constexpr size_t PIECE_BYTES = (size_t)512 << 20;
constexpr size_t SUM_BYTES = (MAX_WINDOWS + 1) * G2::bucket_bytes;

size_t words_of(uint64_t bits) { return (bits + 63) / 64 * 2; }

[[noreturn]] void refuse(const char* what, uint64_t expected, uint64_t found)
{
    throw Error(PC_USAGE, 0,
                std::string(what) + ": expected " + std::to_string(expected) + ", found " + std::to_string(found));
}

// A CUDA event with time.
class Mark {
public:
    Mark() { CUDA_OK(cudaEventCreate(&event)); }
    ~Mark() { (void)cudaEventDestroy(event); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    operator cudaEvent_t() const { return event; }
    void record(cudaStream_t stream) { CUDA_OK(cudaEventRecord(event, stream)); }
    void hold(cudaStream_t stream) const { CUDA_OK(cudaStreamWaitEvent(stream, event, 0)); }
    float since(const Mark& start) const
    {
        float ms = 0;
        CUDA_OK(cudaEventElapsedTime(&ms, start.event, event));
        return ms;
    }

private:
    cudaEvent_t event{};
};

} // namespace

void check_shape(const pc_shape& s, const pc_key& key)
{
    if (s.log_domain > MAX_LOG_DOMAIN)
        throw Error(PC_USAGE, 0,
                    "domain too large: 2^" + std::to_string(s.log_domain) + ", the device's limit is 2^" +
                        std::to_string(MAX_LOG_DOMAIN));
    const uint64_t domain = (uint64_t)1 << s.log_domain;
    if (s.rows > domain) refuse("rows of a, b and c, at most", domain, s.rows);
    // Indices of points keep their highest bit for a sign.
    if (s.inputs + s.aux >= SIGN) refuse("variables, at most", SIGN - 1, s.inputs + s.aux);
    if (s.a_aux > s.aux) refuse("auxiliary variables in the A query, at most", s.aux, s.a_aux);
    if (s.b_aux > s.aux) refuse("auxiliary variables in the B query, at most", s.aux, s.b_aux);
    if (s.b_inputs > s.inputs) refuse("inputs in the B query, at most", s.inputs, s.b_inputs);
    if (key.h.count != domain - 1) refuse("points of the H query", domain - 1, key.h.count);
    if (key.l.count != s.aux) refuse("points of the L query", s.aux, key.l.count);
    if (key.a.count != s.inputs + s.a_aux) refuse("points of the A query", s.inputs + s.a_aux, key.a.count);
    if (key.b_g1.count != s.b_inputs + s.b_aux)
        refuse("points of the B query in G1", s.b_inputs + s.b_aux, key.b_g1.count);
    if (key.b_g2.count != s.b_inputs + s.b_aux)
        refuse("points of the B query in G2", s.b_inputs + s.b_aux, key.b_g2.count);
}

Layout Layout::place(Arena& arena, const pc_shape& s, const pc_key& key)
{
    Layout layout{};
    auto take = [&](size_t size) { return arena.take(size); };
    auto take_words = [&](size_t count) { return arena.take_words(count); };
    const size_t domain = (size_t)1 << s.log_domain;

    for (auto** vector : {&layout.a, &layout.b, &layout.c}) *vector = take(32 * domain);
    layout.aux = take(32 * s.aux);
    layout.inputs = take(32 * s.inputs);
    layout.a_aux_bits = take(4 * words_of(s.aux));
    layout.b_input_bits = take(4 * words_of(s.inputs));
    layout.b_aux_bits = take(4 * words_of(s.aux));
    layout.a_aux_ranks = take_words(words_of(s.aux));
    layout.b_input_ranks = take_words(words_of(s.inputs));
    layout.b_aux_ranks = take_words(words_of(s.aux));
    rank_bits(nullptr, nullptr, words_of(std::max(s.aux, s.inputs)), nullptr, layout.rank_temp_bytes, nullptr);
    layout.rank_temp = take(layout.rank_temp_bytes);

    layout.counters = take_words(2 * SUMS);
    auto take_list = [&](size_t count, Which which) {
        ScalarList list{};
        list.scalars = reinterpret_cast<uint4*>(take(32 * count));
        list.points = take_words(count);
        list.ones = take_words(count);
        list.counters = layout.counters == nullptr ? nullptr : layout.counters + 2 * which;
        return list;
    };
    layout.list_l = take_list(s.aux, L);
    layout.list_a = take_list(s.inputs + s.a_aux, A);
    layout.list_b = take_list(s.b_inputs + s.b_aux, B_G1);
    // b is not needed any more when the coefficients of h are written.
    layout.list_h.scalars = reinterpret_cast<uint4*>(layout.b);
    layout.list_h.points = take_words(domain);
    for (auto& sums : layout.sums) sums = take(SUM_BYTES);

    const size_t witness = std::max({s.aux, s.inputs + s.a_aux, s.b_inputs + s.b_aux});
    layout.lane[0] = MsmSpace::place(arena, witness, G2::bucket_bytes);
    layout.lane[1] = MsmSpace::place(arena, domain, G1::bucket_bytes);

    size_t largest = 0;
    for (const pc_query* query : {&key.h, &key.l, &key.a, &key.b_g1, &key.b_g2}) {
        const size_t point = query == &key.b_g2 ? G2::affine_bytes : G1::affine_bytes;
        if (query->host) largest = std::max<size_t>(largest, query->count * point);
    }
    layout.piece_bytes = std::min(largest, PIECE_BYTES);
    if (layout.piece_bytes > 0)
        for (auto& piece : layout.pieces) piece = take(layout.piece_bytes);
    return layout;
}

struct Slot::State {
    explicit State(int ordinal)
        : ordinal(ordinal), gpu(device(ordinal)), copy(gpu.id()), lane{stream_t(gpu.id()), stream_t(gpu.id())}
    {
        CUDA_OK(cudaHostAlloc(&host, HOST_BYTES, cudaHostAllocPortable));
    }
    ~State()
    {
        (void)cudaSetDevice(ordinal);
        if (host != nullptr) (void)cudaFreeHost(host);
    }

    static constexpr size_t HOST_BYTES = SUMS * SUM_BYTES + 2 * SUMS * sizeof(uint32_t);

    uint8_t* host_sums(Which which) const { return static_cast<uint8_t*>(host) + which * SUM_BYTES; }
    uint32_t* host_counters() const
    {
        return reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(host) + SUMS * SUM_BYTES);
    }

    int ordinal;
    const gpu_t& gpu;
    stream_t copy, lane[2];
    void* host = nullptr;
    Mark start, witness, a, b, c, counted;
    Mark begun[SUMS], done[SUMS], quotient_begun, quotient_done;
    Mark piece_ready[2], piece_free[2];
    pc_shape shape{};
    pc_key key{};
    Layout layout{};
    MsmResult results[SUMS] = {};
    pc_sums out{};
    bool busy = false;

    void upload(const pc_assignment& from);
    void make_lists();
    void append(Which which, uint32_t first, uint32_t last, cudaStream_t stream);
    template <class G>
    void resident(Which which, const ScalarList& list, uint32_t scalars, uint32_t ones, const pc_query& query, int lane_);
    template <class G>
    void streamed(Which which, const ScalarList& list, const pc_query& query, int lane_, uint8_t* out);
};

void Slot::State::upload(const pc_assignment& from)
{
    const size_t domain = (size_t)1 << shape.log_domain, rows = shape.rows;
    auto send = [&](void* to, const void* data, size_t bytes) {
        if (bytes > 0) CUDA_OK(cudaMemcpyAsync(to, data, bytes, cudaMemcpyHostToDevice, copy));
    };
    start.record(copy);
    send(layout.inputs, from.inputs, 32 * shape.inputs);
    send(layout.a_aux_bits, from.a_aux_density, (shape.aux + 63) / 64 * 8);
    send(layout.b_input_bits, from.b_input_density, (shape.inputs + 63) / 64 * 8);
    send(layout.b_aux_bits, from.b_aux_density, (shape.aux + 63) / 64 * 8);
    send(layout.aux, from.aux, 32 * shape.aux);
    witness.record(copy);
    const struct {
        uint8_t* to;
        const void* from;
        Mark& mark;
    } vectors[] = {{layout.a, from.a, a}, {layout.b, from.b, b}, {layout.c, from.c, c}};
    for (const auto& vector : vectors) {
        send(vector.to, vector.from, 32 * rows);
        if (rows < domain) CUDA_OK(cudaMemsetAsync(vector.to + 32 * rows, 0, 32 * (domain - rows), copy));
        vector.mark.record(copy);
    }
}

// Appends what a query needs of the scalars for its points [first, last).
void Slot::State::append(Which which, uint32_t first, uint32_t last, cudaStream_t stream)
{
    const uint32_t inputs = static_cast<uint32_t>(shape.inputs), b_inputs = static_cast<uint32_t>(shape.b_inputs);
    auto bits = [](const uint8_t* words) { return reinterpret_cast<const uint32_t*>(words); };
    const ScalarList& list = which == L ? layout.list_l : which == A ? layout.list_a : layout.list_b;
    CUDA_OK(cudaMemsetAsync(list.counters, 0, 2 * sizeof(uint32_t), stream));
    switch (which) {
    case L:
        append_scalars(layout.aux, shape.aux, nullptr, nullptr, 0, first, last, list, stream);
        break;
    case A:
        append_scalars(layout.inputs, inputs, nullptr, nullptr, 0, first, last, list, stream);
        append_scalars(layout.aux, shape.aux, bits(layout.a_aux_bits), layout.a_aux_ranks, inputs, first, last, list, stream);
        break;
    default:
        append_scalars(layout.inputs, inputs, bits(layout.b_input_bits), layout.b_input_ranks, 0, first, last, list, stream);
        append_scalars(layout.aux, shape.aux, bits(layout.b_aux_bits), layout.b_aux_ranks, b_inputs, first, last, list,
                       stream);
    }
}

void Slot::State::make_lists()
{
    cudaStream_t stream = lane[0];
    witness.hold(stream);
    auto rank = [&](const uint8_t* words, uint32_t* ranks, uint64_t bits) {
        size_t bytes = layout.rank_temp_bytes;
        if (bits > 0)
            rank_bits(reinterpret_cast<const uint32_t*>(words), ranks, words_of(bits), layout.rank_temp, bytes, stream);
    };
    rank(layout.a_aux_bits, layout.a_aux_ranks, shape.aux);
    rank(layout.b_input_bits, layout.b_input_ranks, shape.inputs);
    rank(layout.b_aux_bits, layout.b_aux_ranks, shape.aux);
    CUDA_OK(cudaMemsetAsync(layout.counters, 0, 2 * SUMS * sizeof(uint32_t), stream));
    if (!key.l.host) append(L, 0, static_cast<uint32_t>(key.l.count), stream);
    if (!key.a.host) append(A, 0, static_cast<uint32_t>(key.a.count), stream);
    if (!key.b_g1.host || !key.b_g2.host) append(B_G1, 0, static_cast<uint32_t>(key.b_g1.count), stream);
    CUDA_OK(cudaMemcpyAsync(host_counters(), layout.counters, 2 * SUMS * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
    counted.record(stream);
}

template <class G>
void Slot::State::resident(Which which, const ScalarList& list, uint32_t scalars, uint32_t ones, const pc_query& query,
                           int lane_)
{
    cudaStream_t stream = lane[lane_];
    begun[which].record(stream);
    results[which] = msm<G>(layout.lane[lane_], list, scalars, ones, query.points, layout.sums[which], stream);
    CUDA_OK(cudaMemcpyAsync(host_sums(which), layout.sums[which], (MAX_WINDOWS + 1) * G::bucket_bytes,
                            cudaMemcpyDeviceToHost, stream));
    done[which].record(stream);
}

// The same for points in host memory: piece by piece, the next one on its way while one is summed.
template <class G>
void Slot::State::streamed(Which which, const ScalarList& list, const pc_query& query, int lane_, uint8_t* out)
{
    cudaStream_t stream = lane[lane_];
    begun[which].record(stream);
    const uint64_t piece = std::max<uint64_t>(1, layout.piece_bytes / G::affine_bytes);
    auto send = [&](uint64_t first, int buffer) {
        const uint64_t count = std::min(piece, query.count - first);
        piece_free[buffer].hold(copy);
        CUDA_OK(cudaMemcpyAsync(layout.pieces[buffer], static_cast<const uint8_t*>(query.points) + first * G::affine_bytes,
                                count * G::affine_bytes, cudaMemcpyHostToDevice, copy));
        piece_ready[buffer].record(copy);
    };
    for (auto& mark : piece_free) mark.record(stream);
    int buffer = 0;
    if (query.count > 0) send(0, 0);
    for (uint64_t first = 0; first < query.count; first += piece, buffer ^= 1) {
        const uint64_t last = std::min(first + piece, query.count);
        if (last < query.count) send(last, buffer ^ 1);
        ScalarList part = list;
        uint32_t scalars = static_cast<uint32_t>(last - first), ones = 0;
        // Indices count from the query's first point.
        const uint8_t* points = layout.pieces[buffer] - first * G::affine_bytes;
        if (which == H) {
            part.scalars += 2 * first;
            part.points += first;
        } else {
            append(which == B_G2 ? B_G1 : which, static_cast<uint32_t>(first), static_cast<uint32_t>(last), stream);
            points = layout.pieces[buffer];
            CUDA_OK(cudaMemcpyAsync(host_counters(), part.counters, 2 * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
            CUDA_OK(cudaStreamSynchronize(stream));
            scalars = host_counters()[0];
            ones = host_counters()[1];
        }
        piece_ready[buffer].hold(stream);
        const MsmResult result = msm<G>(layout.lane[lane_], part, scalars, ones, points, layout.sums[which], stream);
        piece_free[buffer].record(stream);
        CUDA_OK(cudaMemcpyAsync(host_sums(which), layout.sums[which], (MAX_WINDOWS + 1) * G::bucket_bytes,
                                cudaMemcpyDeviceToHost, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        add_windows<G>(result, host_sums(which), out);
    }
    done[which].record(stream);
}

Slot::Slot(int ordinal) : state(new State(ordinal)) {}

Slot::~Slot() { drain(); }

void Slot::drain() noexcept
{
    try {
        abandon();
    } catch (...) {
        // The error that led here is the one to tell.
    }
}

void Slot::abandon()
{
    State& s = *state;
    s.busy = false;
    (void)device(s.ordinal);
    // All are waited for, whatever one of them says.
    const cudaError_t waited[] = {cudaStreamSynchronize(s.copy), cudaStreamSynchronize(s.lane[0]),
                                  cudaStreamSynchronize(s.lane[1])};
    for (cudaError_t status : waited) CUDA_OK(status);
}

void Slot::begin(const pc_shape& shape, const pc_key& key, const pc_assignment& assignment, void* workspace, size_t bytes)
{
    State& s = *state;
    if (s.busy) throw Error(PC_USAGE, 0, "the slot is proving already");
    check_shape(shape, key);
    (void)device(s.ordinal);
    Arena arena(static_cast<uint8_t*>(workspace));
    const Layout layout = Layout::place(arena, shape, key);
    if (arena.used() > bytes) refuse("bytes of workspace", arena.used(), bytes);
    s.shape = shape;
    s.key = key;
    s.layout = layout;
    s.busy = true;
    try {
        s.upload(assignment);
        s.make_lists();
    } catch (...) {
        // What was enqueued before still reads the caller's memory.
        drain();
        throw;
    }
}

void* Slot::event() { return static_cast<cudaEvent_t>(state->c); }

void Slot::wait_upload()
{
    (void)device(state->ordinal);
    CUDA_OK(cudaStreamSynchronize(state->copy));
}

void Slot::run()
{
    State& s = *state;
    if (!s.busy) throw Error(PC_USAGE, 0, "the slot has nothing to prove");
    (void)device(s.ordinal);
    const Layout& layout = s.layout;
    const uint32_t log_domain = s.shape.log_domain;
    stream_t& second = s.lane[1];
    // A Jacobian point of zeros is the identity.
    std::memset(&s.out, 0, sizeof s.out);

    s.a.hold(second);
    s.quotient_begun.record(second);
    to_coset(layout.a, log_domain, second);
    s.b.hold(second);
    to_coset(layout.b, log_domain, second);
    s.c.hold(second);
    to_coefficients(layout.c, log_domain, second);
    quotient(layout.a, layout.b, layout.c, log_domain, layout.list_h, second);
    s.quotient_done.record(second);
    const uint32_t h_scalars = static_cast<uint32_t>(s.key.h.count);
    if (!s.key.h.host) s.resident<G1>(H, layout.list_h, h_scalars, 0, s.key.h, 1);

    CUDA_OK(cudaEventSynchronize(s.counted));
    uint32_t counts[2 * SUMS];
    std::memcpy(counts, s.host_counters(), sizeof counts);
    auto scalars = [&](Which list) { return counts[2 * list]; };
    auto ones = [&](Which list) { return counts[2 * list + 1]; };
    if (!s.key.a.host) s.resident<G1>(A, layout.list_a, scalars(A), ones(A), s.key.a, 0);
    if (!s.key.l.host) s.resident<G1>(L, layout.list_l, scalars(L), ones(L), s.key.l, 0);
    if (!s.key.b_g2.host) s.resident<G2>(B_G2, layout.list_b, scalars(B_G1), ones(B_G1), s.key.b_g2, 0);
    if (!s.key.b_g1.host) s.resident<G1>(B_G1, layout.list_b, scalars(B_G1), ones(B_G1), s.key.b_g1, 0);

    // Points from the host come after all that is resident: their lists are made anew for each piece.
    if (s.key.h.host) s.streamed<G1>(H, layout.list_h, s.key.h, 1, s.out.h);
    if (s.key.a.host) s.streamed<G1>(A, layout.list_a, s.key.a, 0, s.out.a);
    if (s.key.l.host) s.streamed<G1>(L, layout.list_l, s.key.l, 0, s.out.l);
    if (s.key.b_g2.host) s.streamed<G2>(B_G2, layout.list_b, s.key.b_g2, 0, s.out.b_g2);
    if (s.key.b_g1.host) s.streamed<G1>(B_G1, layout.list_b, s.key.b_g1, 0, s.out.b_g1);
}

void Slot::finish(pc_sums& out)
{
    State& s = *state;
    if (!s.busy) throw Error(PC_USAGE, 0, "the slot has nothing to prove");
    (void)device(s.ordinal);
    CUDA_OK(cudaStreamSynchronize(s.lane[0]));
    CUDA_OK(cudaStreamSynchronize(s.lane[1]));
    CUDA_OK(cudaStreamSynchronize(s.copy));
    if (!s.key.h.host) add_windows<G1>(s.results[H], s.host_sums(H), s.out.h);
    if (!s.key.a.host) add_windows<G1>(s.results[A], s.host_sums(A), s.out.a);
    if (!s.key.l.host) add_windows<G1>(s.results[L], s.host_sums(L), s.out.l);
    if (!s.key.b_g1.host) add_windows<G1>(s.results[B_G1], s.host_sums(B_G1), s.out.b_g1);
    if (!s.key.b_g2.host) add_windows<G2>(s.results[B_G2], s.host_sums(B_G2), s.out.b_g2);

    pc_times& times = s.out.times;
    auto span = [&](const Mark& begin, const Mark& end) { return pc_span{begin.since(s.start), end.since(s.start)}; };
    times.upload_witness = span(s.start, s.witness);
    times.upload_abc = span(s.witness, s.c);
    times.ntt = span(s.quotient_begun, s.quotient_done);
    pc_span* const each[SUMS] = {&times.h, &times.l, &times.a, &times.b_g1, &times.b_g2};
    for (int which = 0; which < SUMS; which++) *each[which] = span(s.begun[which], s.done[which]);
    out = s.out;
    s.busy = false;
}

} // namespace pinprover
