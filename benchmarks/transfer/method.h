/// A method of the transfer suite: a way to move rows. One file in benchmarks/transfer/methods/ registers
/// one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/tables/row_check.h"
#include "benchmarks/transfer/operands.h"
#include "benchmarks/transfer/transfer_case.h"
#include "harness/benchmark_case.h"

namespace stbench {

struct Method {
  std::string name;
  std::string summary;  ///< one line for `list`
  harness::Role role;
  Pattern pattern = Pattern::indexed;
  bool asked_only = false;             ///< planned only if --peers, --method or a preset names it
  Equality equality = Equality::bits;  ///< what `to` promises of a row
  std::string where;                   ///< if asked_only: the cells that it supports, for a user
  /// True for the cases that the method exists for; others are not planned.
  std::function<bool(const TransferCase&)> supports = [](const TransferCase&) { return true; };
  /// Why it cannot run a case that it supports, with the cure; empty if it can. Such a case is waived.
  std::function<std::string(const TransferCase&)> skip_reason = [](const TransferCase&) {
    return std::string();
  };
  std::function<void(Operands&, int set)> to;    ///< table rows into the model tensor
  std::function<void(Operands&, int set)> from;  ///< values into table rows

  /// Looks up `index` before the first sample, so that samples find the method in its steady state. For a
  /// method that keeps rows in case.cache_bytes of its own memory. @returns the share of look-ups that hit.
  /// Such a method has index sets that no look-up has named before, and runs for one caller.
  std::function<double(Operands&, const at::Tensor& index)> warm;
  /// Columns of its record, after its samples.
  std::function<reports::Columns(Operands&)> columns;

  /// Instead of `to` and `from`, for rows that another process moves: runs `repeat` operations over rotating
  /// sets from `first` on. @returns their seconds by the other process's clock
  using OutOfProcess = std::function<double(int first, int repeat)>;
  /// Opens a case in the other process, on operands in shared memory.
  std::function<OutOfProcess(std::shared_ptr<Operands>, const TransferCase&)> open;
};

/// True if the method keeps rows from call to call.
inline bool keeps_rows(const Method& method) { return static_cast<bool>(method.warm); }

/// Why LibTorch's index_copy_ cannot run the case, which it can with int64 indices only.
std::string index_copy_skip_reason(const TransferCase& one);

/// All methods: ours, LibTorch's, peers, ceilings; within each those first that need not be asked for, by
/// name.
const std::vector<Method>& methods();

/// @throws std::out_of_range for a name that the command line would refuse
const Method& method_named(const std::string& name);

struct RegisterMethod {
  explicit RegisterMethod(Method method);
};

}  // namespace stbench
