#include "benchmarks/steps/net.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace stbench {
namespace {

/// Local to a function, because files register in any order.
std::vector<Net>& registered_nets() {
  static std::vector<Net> all;
  return all;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t Net::sample_elements() const { return elements_of(sample); }

std::int64_t Net::parameter_elements() const {
  std::int64_t all = 0;
  for (const auto& parameter : parameters) all += elements_of(parameter.shape);
  return all;
}

const std::vector<Net>& nets() { return registered_nets(); }

std::vector<std::string> net_names() {
  std::vector<std::string> names;
  for (const auto& net : nets()) names.push_back(net.name);
  return names;
}

const Net& net_named(const std::string& name) {
  const auto found = std::ranges::find(nets(), name, &Net::name);
  if (found == nets().end()) throw std::out_of_range("no net is called '" + name + "'");
  return *found;
}

RegisterNet::RegisterNet(Net net) {
  auto& all = registered_nets();
  all.insert(std::ranges::lower_bound(all, net.name, {}, &Net::name), std::move(net));
}

}  // namespace stbench
