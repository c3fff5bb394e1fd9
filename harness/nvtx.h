/// Named spans on the time line of NVIDIA's profilers.
#pragma once

#include <string>

namespace stbench::harness {

/// True where the program was built with the NVTX header; without it a range is nothing.
bool has_nvtx();

/// A range of the calling thread, from here to the end of the scope. It costs nothing to speak of without a
/// profiler.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace stbench::harness
