/// A method of the transfer suite: who moves the rows. One file in benchmarks/methods/ registers one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/arena.h"
#include "harness/contestant.h"

namespace stbench {

struct Method {
  std::string name;
  std::string summary;  ///< one line for `list`
  harness::Role role;
  Pattern pattern = Pattern::indexed;
  /// Where the method has a meaning at all; elsewhere it is not planned.
  std::function<bool(const reports::Identity&)> applies = [](const reports::Identity&) { return true; };
  /// Why it cannot run a case that it should, with the cure; empty where it can. Such a case is waived.
  std::function<std::string(const reports::Identity&)> refuses = [](const reports::Identity&) {
    return std::string();
  };
  std::function<void(Arena&, int set)> to;    ///< table rows into the model tensor
  std::function<void(Arena&, int set)> from;  ///< model tensor into table rows
};

/// LibTorch's index_copy_ takes no int32 indices: why a case that needs it to is waived.
std::string index_copy_refuses(const reports::Identity& id);

/// All methods: ours, LibTorch's, peers, ceilings, by name within each.
const std::vector<Method>& methods();

struct RegisterMethod {
  explicit RegisterMethod(Method method);
};

}  // namespace stbench
