// How much work a thread gets, and the memory for it.
#include <algorithm>

#include "msm.hpp"

namespace pinprover {

uint32_t run_stretch(uint32_t count)
{
    // Longer stretches leave fewer partial sums, which are dearer to add; shorter ones fill the device.
    if (count >= 1u << 23) return 64;
    if (count >= 1u << 20) return 32;
    return count >= 1u << 17 ? 16 : 8;
}

uint32_t reduce_log_stretch(uint32_t buckets, uint32_t log_window)
{
    uint32_t log = 2;
    while (log < 6 && (buckets >> (log + 1)) >= 1u << 16) log++;
    return std::min(log, log_window);
}

uint32_t digit_bits(size_t scalars)
{
    // Field products: 10 for each addition to a bucket, 28 for the two additions that a bucket costs afterwards.
    uint32_t best = 4;
    double least = 1e300;
    for (uint32_t bits = 4; bits <= 22; bits++) {
        const double windows = 254 / bits + 1;
        const double cost = windows * (10.0 * static_cast<double>(scalars) + 28.0 * static_cast<double>(1u << (bits - 1)));
        if (cost < least) least = cost, best = bits;
    }
    return best;
}

namespace {

// Slots of all levels above `count` entries.
size_t tree_slots(size_t count)
{
    size_t total = 0;
    while (count > 1) {
        total += count;
        const size_t threads = (count + TREE_STRETCH - 1) / TREE_STRETCH;
        if (threads == 1) break;
        count = 2 * threads;
    }
    return total + 2;
}

} // namespace

MsmSpace MsmSpace::place(Arena& arena, size_t scalars, size_t bucket_bytes)
{
    MsmSpace space{};
    scalars = std::max<size_t>(scalars, 1);
    // All windows at once if that is little, else as many as fit 2^26 pairs, and one at least.
    size_t entries = scalars, buckets = 8;
    size_t slots = 64;
    for (size_t n = scalars;; n = n / 2) {
        const Digits digits = Digits::of(digit_bits(n));
        const size_t windows =
            std::max<size_t>(1, std::min<size_t>(digits.windows, std::max<size_t>(1u << 26, scalars) / n));
        entries = std::max(entries, n * windows);
        buckets = std::max<size_t>(buckets, std::min<size_t>(windows * digits.buckets(), std::max(1u << 21, digits.buckets())));
        if (n <= 1) break;
    }
    for (size_t count : {entries, std::min<size_t>(entries, (1u << 23) - 1), std::min<size_t>(entries, (1u << 20) - 1),
                         std::min<size_t>(entries, (1u << 17) - 1)}) {
        const size_t stretch = run_stretch(static_cast<uint32_t>(count));
        slots = std::max(slots, tree_slots(2 * ((count + stretch - 1) / stretch)));
    }
    slots = std::max(slots, tree_slots(std::max<size_t>(buckets >> 2, 1u << 17 < buckets ? 1u << 17 : buckets)));
    space.entries = static_cast<uint32_t>(entries);
    space.slots = static_cast<uint32_t>(slots);
    space.buckets = static_cast<uint32_t>(buckets);
    space.temp_bytes = sort_temp_bytes(space.entries);

    for (auto*& keys : space.keys) keys = arena.take_words(entries);
    for (auto*& values : space.values) values = arena.take_words(entries);
    space.temp = arena.take(space.temp_bytes);
    space.slot_keys = arena.take_words(slots);
    space.slot_points = arena.take(bucket_bytes * slots);
    space.bucket_points = arena.take(bucket_bytes * buckets);
    return space;
}

} // namespace pinprover
