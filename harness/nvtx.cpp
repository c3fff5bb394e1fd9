#include "harness/nvtx.h"

#ifdef STBENCH_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace stbench::harness {

#ifdef STBENCH_HAS_NVTX
bool has_nvtx() { return true; }
NvtxRange::NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
NvtxRange::~NvtxRange() { nvtxRangePop(); }
#else
bool has_nvtx() { return false; }
NvtxRange::NvtxRange(const std::string& /*name*/) {}
NvtxRange::~NvtxRange() = default;
#endif

}  // namespace stbench::harness
