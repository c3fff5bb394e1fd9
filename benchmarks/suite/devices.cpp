#include "benchmarks/suite/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/errors.h"
#include "harness/numbers.h"
#include "reports/number.h"
#include "speedtorch/cuda.h"

namespace stbench {

speedtorch::Placement placement_of(const std::string& name) {
  using enum speedtorch::Placement;
  for (const auto placement : {libtorch, pageable, hugepage, mapped, pinned, device}) {
    if (to_string(placement) == name) return placement;
  }
  throw UsageError("unknown placement '" + name + "'");
}

bool cuda_only(const std::string& placement) { return speedtorch::needs_cuda(placement_of(placement)); }

void require_gpu_for(const std::vector<std::string>& placements, const std::vector<std::string>& devices) {
  if (std::ranges::any_of(devices, [](const auto& device) { return device != "cpu"; })) return;
  for (const auto& placement : placements) {
    if (cuda_only(placement))
      throw UsageError(fmt::format("--placement {} goes with a CUDA device only, not with --device {}",
                                   placement, fmt::join(devices, ",")));
  }
}

std::string resolve_device(const std::string& device) {
  if (device == "cpu") return device;
  const auto& cuda = speedtorch::cuda_status();
  const auto name = device == "cuda" ? "cuda:0" : device;
  if (!name.starts_with("cuda:") || !reports::is_digits(std::string_view(name).substr(5)))
    throw UsageError(fmt::format("--device '{}' is unknown; it takes cpu, cuda or cuda:N", device));
  if (!cuda.available) {
    throw UsageError(
        fmt::format("--device {} cannot be used here\nfound: {}; missing: {}\n{}, or use --device cpu",
                    device, cuda.found, cuda.missing, cuda.cure));
  }
  if (harness::parse_count(name.substr(5), "--device") >= cuda.devices) {
    throw UsageError(fmt::format("--device {}: this machine has {} GPU(s), cuda:0 to cuda:{}", device,
                                 cuda.devices, cuda.devices - 1));
  }
  return name;
}

}  // namespace stbench
