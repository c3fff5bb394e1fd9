#include "speedtorch/kernels/isa.h"

#include <hwy/highway.h>

#include <algorithm>
#include <string>

#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {
namespace {

struct Isa {
  std::int64_t target;
  std::string_view name;
};

/// Plain C++. The compiler decides which of the two it is.
constexpr std::int64_t baseline = HWY_EMU128 | HWY_SCALAR;

/// Best first; of several targets with one name, the first that runs here. CMakeLists.txt disables Highway's
/// other targets for this directory. Targets newer than 1.0.3 are under #ifdef.
constexpr Isa known[] = {
#if HWY_ARCH_X86
#ifdef HWY_AVX10_2
    {HWY_AVX10_2, "avx512"},
#endif
#ifdef HWY_AVX3_SPR
    {HWY_AVX3_SPR, "avx512"},
#endif
#ifdef HWY_AVX3_ZEN4
    {HWY_AVX3_ZEN4, "avx512"},
#endif
    {HWY_AVX3, "avx512"},      {HWY_AVX2, "avx2"},
#ifdef HWY_SSE2
    {HWY_SSE2, "sse2"},
#endif
#elif HWY_ARCH_ARM
    {HWY_SVE2, "sve2"},
    {HWY_SVE, "sve"},
#ifdef HWY_NEON_BF16
    {HWY_NEON_BF16, "neon"},
#endif
    {HWY_NEON, "neon"},
#ifdef HWY_NEON_WITHOUT_AES
    {HWY_NEON_WITHOUT_AES, "neon"},
#endif
#endif
    {baseline, "baseline"},
};

bool runs_here(const Isa& isa) {
  return (isa.target & HWY_TARGETS & (HWY_SUPPORTED_TARGETS | baseline)) != 0;
}

}  // namespace

std::vector<std::string_view> supported_isas() {
  std::vector<std::string_view> names;
  for (const auto& isa : known) {
    const bool again = !names.empty() && names.back() == isa.name;
    if (runs_here(isa) && !again) names.push_back(isa.name);
  }
  return names;
}

void use_isa(std::string_view name) {
  const auto* isa = std::find_if(std::begin(known), std::end(known), [name](const Isa& one) {
    return runs_here(one) && (name == "best" || name == one.name);
  });
  if (isa == std::end(known)) {
    std::string names = "best";
    for (const auto supported : supported_isas()) names.append(", ").append(supported);
    throw IsaError("no instruction set '" + std::string(name) + "' here; supported are " + names);
  }
  hwy::GetChosenTarget().Update(isa->target);
}

std::string_view isa_in_use() {
  if (!hwy::GetChosenTarget().IsInitialized()) use_isa("best");
  const auto index = hwy::GetChosenTarget().GetIndex();
  for (const auto& isa : known) {
    hwy::ChosenTarget only;
    only.Update(isa.target);
    if (runs_here(isa) && only.GetIndex() == index) return isa.name;
  }
  return "baseline";
}

}  // namespace speedtorch::kernels
