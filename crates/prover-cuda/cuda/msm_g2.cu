#include "msm.cuh"

namespace pinprover {

template MsmResult msm<G2>(const MsmSpace&, const ScalarList&, uint32_t, uint32_t, const void*, void*, cudaStream_t);
template void add_windows<G2>(const MsmResult&, const void*, void*);

} // namespace pinprover
