#include "benchmarks/transfer/files_environment.h"

#include "benchmarks/transfer/arena.h"
#include "benchmarks/transfer/file_peers.h"
#include "speedtorch/files/pinned_file.h"

namespace stbench {
namespace {

std::string way_to_gpu(const reports::Identity& id) {
  const auto why = speedtorch::in_place_refusal(shape_of(id).bytes(), at::Device(id.device));
  return why.empty() ? "in place: the method in_place reads it registered with CUDA" : "staged: " + why;
}

}  // namespace

nlohmann::ordered_json files_environment(const std::vector<reports::Identity>& cases) {
  nlohmann::ordered_json found;
  for (const auto& id : cases) {
    if (id.placement != "mapped") continue;
    if (id.method == "file_rows" && !found.contains("reads")) {
      const auto refusal = RingLoop::refusal();
      found["reads"] = refusal.empty() ? "io_uring" : "advice";
      if (!refusal.empty()) found["reason"] = refusal;
    }
    if (id.device != "cpu" && !found.contains("to_" + id.device)) found["to_" + id.device] = way_to_gpu(id);
  }
  return found;
}

}  // namespace stbench
