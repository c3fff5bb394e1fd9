#include "benchmarks/transfer/method.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "benchmarks/suite/registry.h"

namespace stbench {
namespace {

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

const std::vector<Method>& methods() { return registered<Method>(); }

const Method& method_named(const std::string& name) { return by_name(methods(), name); }

RegisterMethod::RegisterMethod(Method method) {
  auto& all = registered<Method>();
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
