#include "benchmarks/transfer/method.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>

namespace stbench {
namespace {

std::vector<Method>& registered_methods() {
  static std::vector<Method> all;
  return all;
}

/// Ours first, the ceilings last.
std::ptrdiff_t place(harness::Role role) {
  using enum harness::Role;
  constexpr std::array order{ours, libtorch, peer, ceiling};
  return std::ranges::find(order, role) - order.begin();
}

}  // namespace

std::string index_copy_skip_reason(const TransferCase& one) {
  const bool refused = one.writes() && one.index_dtype == at::kInt;
  return refused ? "LibTorch's index_copy_ takes int64 indices only; use --index-dtype int64" : "";
}

std::vector<std::string> peer_names() {
  std::vector<std::string> names;
  for (const auto& method : registered_methods()) {
    if (method.asked_only && method.role == harness::Role::peer) names.push_back(method.name);
  }
  return names;
}

const std::vector<Method>& methods() { return registered_methods(); }

const Method& method_named(const std::string& name) {
  const auto found = std::ranges::find(registered_methods(), name, &Method::name);
  if (found == registered_methods().end()) throw std::out_of_range("no method is called '" + name + "'");
  return *found;
}

RegisterMethod::RegisterMethod(Method method) {
  auto& all = registered_methods();
  all.push_back(std::move(method));
  std::sort(all.begin(), all.end(), [](const Method& a, const Method& b) {
    const auto key = [](const Method& one) {
      return std::tuple(place(one.role), one.name != "speedtorch", one.asked_only);
    };
    if (key(a) != key(b)) return key(a) < key(b);
    return ::strverscmp(a.name.c_str(), b.name.c_str()) < 0;  // speedtorch_8sm before speedtorch_12sm
  });
}

}  // namespace stbench
