#include "benchmarks/steps/net.h"

#include <c10/util/accumulate.h>

#include <utility>

#include "benchmarks/suite/registry.h"

namespace stbench {

std::int64_t Net::sample_elements() const { return c10::multiply_integers(sample); }

std::int64_t Net::parameter_elements() const {
  std::int64_t all = 0;
  for (const auto& parameter : parameters) all += c10::multiply_integers(parameter.shape);
  return all;
}

const std::vector<Net>& nets() { return registered<Net>(); }
std::vector<std::string> net_names() { return names_of(nets()); }
const Net& net_named(const std::string& name) { return by_name(nets(), name); }
RegisterNet::RegisterNet(Net net) { add_by_name(std::move(net)); }

}  // namespace stbench
