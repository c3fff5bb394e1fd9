/// Checks whether this machine has room for the cases of the transfer suite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/transfer/transfer_case.h"
#include "harness/machine.h"

namespace stbench {

using Placements = std::vector<speedtorch::Placement>;

class TransferFit {
 public:
  /// @param disk_free bytes that are free for the files of `mapped` tables; nothing if unknown
  TransferFit(const harness::Machine& machine, std::optional<std::int64_t> disk_free)
      : memory_(machine.memory_available), disk_free_(disk_free) {}

  /// @throws UsageError if the host has no room for a table of this shape in one of the placements
  void require_host(const TransferCase& shape, const Placements& placements) const;
  /// @throws UsageError if the GPU of the case has no room for the model tensor, the values, and the table if
  /// one of the placements is `device`
  void require_gpu(const TransferCase& shape, const Placements& placements) const;
  /// Why a cell cannot be warm: not all pages of its file fit into memory. Empty if it can.
  [[nodiscard]] std::string warm_skip_reason(const TransferCase& cell) const;
  /// True if so many tables of this shape may lie in memory together.
  [[nodiscard]] bool fit_together(const TransferCase& shape, std::size_t tables) const;

  /// Bytes of a table of about `wanted` bytes, or less if the memory has no room for it; at least one batch
  /// if `wanted` allows.
  [[nodiscard]] std::int64_t bytes_within(std::int64_t wanted, const TransferCase& shape) const;

 private:
  void require_disk(const TransferCase& shape, const Placements& placements) const;

  std::int64_t memory_;  ///< bytes available
  std::optional<std::int64_t> disk_free_;
};

}  // namespace stbench
