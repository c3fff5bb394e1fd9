/// A method of the transfer suite: who moves the rows. One file in benchmarks/transfer/methods/ registers
/// one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/transfer/arena.h"
#include "harness/benchmark_case.h"

namespace stbench {

struct Method {
  std::string name;
  std::string summary;  ///< one line for `list`
  harness::Role role;
  Pattern pattern = Pattern::indexed;
  bool asked_only = false;             ///< planned only where --peers, --method or a preset names it
  Equality equality = Equality::bits;  ///< what `to` promises of a row
  std::string where;                   ///< of one that is asked for: the cells it takes part in, for a user
  /// Where the method has a meaning at all; elsewhere it is not planned.
  std::function<bool(const reports::Identity&)> supports = [](const reports::Identity&) { return true; };
  /// Why it cannot run a case that it should, with the cure; empty where it can. Such a case is waived.
  std::function<std::string(const reports::Identity&)> skip_reason = [](const reports::Identity&) {
    return std::string();
  };
  std::function<void(Arena&, int set)> to;    ///< table rows into the model tensor
  std::function<void(Arena&, int set)> from;  ///< model tensor into table rows

  /// Who moves the rows in another process, instead of `to` and `from`: opens a cell there, whose arena must
  /// be in shared memory, and returns what runs `repeat` operations over rotating sets from `first` on and
  /// says how many seconds they took by the other process's clock.
  using Elsewhere = std::function<double(int first, int repeat)>;
  std::function<Elsewhere(const std::shared_ptr<Arena>&, const reports::Identity&)> open;
};

/// LibTorch's index_copy_ takes no int32 indices: why a case that needs it to is waived.
std::string index_copy_skip_reason(const reports::Identity& id);

/// The names that --peers takes.
std::vector<std::string> peer_names();

/// All methods: ours, LibTorch's, peers, ceilings; within each those first that need not be asked for, by
/// name.
const std::vector<Method>& methods();

struct RegisterMethod {
  explicit RegisterMethod(Method method);
};

}  // namespace stbench
