/// Cases of the transfer suite that are measured in the same rounds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "benchmarks/suite/suite.h"
#include "benchmarks/tables/table_store.h"
#include "benchmarks/transfer/cold.h"
#include "benchmarks/transfer/indices.h"
#include "benchmarks/transfer/plan.h"
#include "harness/machine.h"
#include "reports/record.h"

namespace stbench {

/// Filled tables and drawn index sets, which all groups of a run share.
struct TransferRun {
  /// @param file_ of --table; null without one
  TransferRun(std::uint64_t seed, std::shared_ptr<const TableFile> file_, const harness::Machine& machine)
      : file(std::move(file_)),
        tables({seed, file.get()}, machine.memory_available),
        last_level_cache(machine.last_level_cache_bytes) {}
  /// Made when the first cold case needs it.
  std::shared_ptr<CacheWalk> cache_walk() {
    if (!walk) walk = std::make_shared<CacheWalk>(last_level_cache);
    return walk;
  }

  std::shared_ptr<const TableFile> file;
  TableStore tables;
  std::int64_t last_level_cache;
  std::shared_ptr<CacheWalk> walk;
  TransferIndices indices;
};

std::unique_ptr<Group> transfer_group(TransferPlan::Cases plan, std::shared_ptr<TransferRun> run,
                                      const harness::Machine& machine);

/// Makes damage that the last check of a shared table found part of the records of all cases that used it.
void mark_users_wrong(TableStore& tables, std::vector<reports::Record>& records);

}  // namespace stbench
