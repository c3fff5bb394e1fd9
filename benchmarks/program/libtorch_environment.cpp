#include "benchmarks/program/libtorch_environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <cstdlib>

#include "speedtorch/cuda.h"

namespace stbench {
namespace {

nlohmann::ordered_json variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
}

nlohmann::ordered_json version(int number) {
  if (number == 0) return nullptr;
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

}  // namespace

harness::EnvironmentSources environment_sources() {
  const auto& status = speedtorch::cuda_status();
  return {.cuda_bus_ids = status.bus_ids, .emulated_gpu = status.emulated};
}

nlohmann::ordered_json libtorch_environment() {
  return {{"version", TORCH_VERSION},
          {"cpu_capability", at::get_cpu_capability()},
          {"threads", at::get_num_threads()},
          {"gomp_spincount", variable("GOMP_SPINCOUNT")},
          {"omp_wait_policy", variable("OMP_WAIT_POLICY")},
          {"thp_mem_alloc_enable", variable("THP_MEM_ALLOC_ENABLE")}};
}

nlohmann::ordered_json cuda_environment() {
  const auto& status = speedtorch::cuda_status();
  return {{"available", status.available},
          {"devices", status.devices},
          {"names", status.names},
          {"runtime", version(status.runtime_version)},
          {"driver", version(status.driver_version)},
          {"found", status.found},
          {"missing", status.missing}};
}

}  // namespace stbench
