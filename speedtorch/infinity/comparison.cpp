#include "speedtorch/infinity/comparison.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <map>

namespace speedtorch::infinity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The maximum of |a - b|; infinite for NaN.
double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return kInfinity;
  if (a.numel() == 0 || a.equal(b)) return 0;
  const double found =
      a.to(at::kCPU, at::kDouble).sub(b.to(at::kCPU, at::kDouble)).abs().max().item<double>();
  return std::isnan(found) ? kInfinity : found;
}

std::map<std::string, at::Tensor> all_of(const Model& model) {
  std::map<std::string, at::Tensor> all;
  for (const NamedTensor& named : model.named_parameters()) all["parameter " + named.name] = named.tensor;
  for (const NamedTensor& named : model.named_buffers()) all["buffer " + named.name] = named.tensor;
  return all;
}

}  // namespace

void determinize(std::uint64_t seed, bool be_deterministic) {
  at::manual_seed(seed);
  at::globalContext().setDeterministicAlgorithms(be_deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(be_deterministic);
  if (be_deterministic) at::globalContext().setBenchmarkCuDNN(false);
}

bool close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return largest_difference(a, b) <= tolerance;
}

bool close(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

std::vector<Difference> differences(const Model& a, const Model& b, double tolerance) {
  std::vector<Difference> found;
  const auto of_a = all_of(a);
  auto of_b = all_of(b);
  for (const auto& [name, tensor] : of_a) {
    const auto other = of_b.extract(name);
    const double largest = other.empty() ? kInfinity : largest_difference(tensor, other.mapped());
    if (largest > tolerance) found.push_back({name, largest});
  }
  for (const auto& [name, tensor] : of_b) found.push_back({name, kInfinity});
  return found;
}

bool equal_networks(const Model& a, const Model& b) { return differences(a, b, 0).empty(); }

}  // namespace speedtorch::infinity
