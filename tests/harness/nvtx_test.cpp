// A program of its own: the profiler's side of NVTX is bound at the first range of a process.
#include "harness/nvtx.h"
#include "harness/span.h"

#include <gmock/gmock.h>

#include <vector>

#ifdef STBENCH_HAS_NVTX
#include <nvtx3/nvToolsExt.h>

namespace {

std::vector<std::string> events;  ///< what a profiler would see

int NVTX_API push(const char* name) {
  events.emplace_back(name);
  return 0;
}
int NVTX_API pop() {
  events.emplace_back("pop");
  return 0;
}

int NVTX_API attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

}  // namespace
#endif

namespace stbench::harness {
namespace {

TEST(Nvtx, SpansAreSeenByAProfilerUnderTheirNames) {
#ifdef STBENCH_HAS_NVTX
  InitializeInjectionNvtx2_fnptr = attach;  // where NVTX looks for a profiler that is linked in
  EXPECT_TRUE(has_nvtx());
  EXPECT_TRUE(is_profiled());
  events.clear();
  {
    const Span outer("sample", "a case");
    const Span inner("verify", "a case");
  }
  EXPECT_THAT(events, testing::ElementsAre("sample: a case", "verify: a case", "pop", "pop"));
#else
  EXPECT_FALSE(has_nvtx());
  GTEST_SKIP() << "built without the NVTX header";
#endif
}

}  // namespace
}  // namespace stbench::harness
