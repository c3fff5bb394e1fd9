/// The plan of the transfer suite: which cases on this machine, in which groups, and what is waived.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/suite/suite.h"
#include "benchmarks/transfer/indices.h"
#include "benchmarks/transfer/transfer_case.h"

namespace stbench {

struct TransferPlan {
  /// Cases measured in the same rounds: one or more placements of one direction, shape, device and number of
  /// cores.
  struct Cases {
    std::vector<TransferCase> cases;
    double seconds = 0;
  };
  std::vector<Cases> groups;
  std::vector<reports::Record> waived;
  std::vector<std::string> warnings;
};

/// Plans the preset's axes, with the given ones in their place.
/// Distributions are read into `indices`.
/// @param disk_free bytes that are free for the files of `mapped` tables; nothing if unknown
/// @throws UsageError for what cannot be done as asked, before anything is allocated.
TransferPlan plan_transfer(const Options& options, const harness::Machine& machine,
                           std::optional<std::int64_t> disk_free, TransferIndices& indices);

}  // namespace stbench
