#include "benchmarks/transfer/method.h"

#include <string.h>

#include <algorithm>
#include <tuple>

namespace stbench {
namespace {

std::vector<Method>& registered_methods() {
  static std::vector<Method> all;
  return all;
}

/// Ours first, the ceilings last.
int place(harness::Role role) {
  switch (role) {
    case harness::Role::ours:
      return 0;
    case harness::Role::libtorch:
      return 1;
    case harness::Role::peer:
      return 2;
    case harness::Role::ceiling:
      return 3;
  }
  return 4;
}

}  // namespace

std::string index_copy_skip_reason(const reports::Identity& id) {
  const bool refused = id.direction != "to" && id.index_dtype == "int32";
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

RegisterMethod::RegisterMethod(Method method) {
  auto& all = registered_methods();
  all.push_back(std::move(method));
  std::sort(all.begin(), all.end(), [](const Method& a, const Method& b) {
    const auto key = [](const Method& one) {
      return std::tuple(place(one.role), one.name != "speedtorch", one.asked_only);
    };
    if (key(a) != key(b)) return key(a) < key(b);
    return ::strverscmp(a.name.c_str(), b.name.c_str()) < 0;  // 8 of something before 12 of it
  });
}

}  // namespace stbench
