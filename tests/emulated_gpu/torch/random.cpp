#include "tests/emulated_gpu/torch/random.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>

namespace emulated_gpu {
namespace {

/// Mixes bits as SplitMix64's output function does: neighbouring offsets give unrelated seeds.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::optional<std::size_t> generator_argument(const Call& call) {
  const auto& arguments = call.schema().arguments();
  for (std::size_t a = 0; a < arguments.size(); ++a)
    if (arguments[a].name() == "generator") return a;
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> draw_seed(const Call& call) {
  const auto argument = generator_argument(call);
  if (!argument) return std::nullopt;
  const auto& value = call.arguments()[*argument];
  auto generator = value.isGenerator() ? value.toGenerator()
                                       : at::cuda::detail::getDefaultCUDAGenerator(call.device().index());
  TORCH_CHECK(generator.device().is_cuda(), "Expected a 'cuda' device type for generator but found '",
              generator.device().type(), "'");
  const std::scoped_lock lock(generator.mutex());
  // LibTorch's kernels move the offset on by multiples of four.
  const auto [seed, offset] = generator.get<at::CUDAGeneratorImpl>()->philox_engine_inputs(4);
  return mixed(mixed(seed) + offset);
}

}  // namespace emulated_gpu
