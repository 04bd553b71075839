// Known answers, asked of a device before its first job.
#pragma once

namespace pinprover {

// Runs the kernels on a small problem and compares with the host's processor; throws what differs.
void self_test(int ordinal);

} // namespace pinprover
