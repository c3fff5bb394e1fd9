#include "benchmarks/transfer/files_environment.h"

#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"
#include "speedtorch/files/pinned_file.h"

namespace stbench {
namespace {

std::string way_to_gpu(const TransferCase& one) {
  const auto why = speedtorch::in_place_refusal(one.shape().bytes(), one.device);
  return why.empty() ? "in place: the method in_place reads it registered with CUDA" : "staged: " + why;
}

}  // namespace

nlohmann::ordered_json files_environment(const std::vector<TransferCase>& cases) {
  nlohmann::ordered_json found;
  for (const auto& one : cases) {
    if (one.placement != speedtorch::Placement::mapped) continue;
    if (one.method->name == "file_rows" && !found.contains("reads")) {
      const auto refusal = RingLoop::refusal();
      found["reads"] = refusal.empty() ? "io_uring" : "advice";
      if (!refusal.empty()) found["reason"] = refusal;
    }
    const auto way = "to_" + one.device.str();
    if (one.on_gpu() && !found.contains(way)) found[way] = way_to_gpu(one);
  }
  return found;
}

}  // namespace stbench
