/// The shards that a rank can read by itself. For the library's own files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "speedtorch/sharded/rank_group.h"
#include "speedtorch/shared/shared_table.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// The shards of the ranks of this rank's node, in memory that all of them map.
class NodeShards {
 public:
  /// None.
  NodeShards() = default;
  /// Offers this rank's shard to the ranks of its node, and maps theirs. Collective.
  /// @param node tells ranks of one host apart; those with the same text share memory
  /// @throws on the rank that cannot share its shard what SharedTable::hold() throws, RankError on the others
  NodeShards(const RankGroup& group, const Table& shard, const std::string& node);

  /// The shard of another rank of this node; null for this rank and for those of other nodes.
  [[nodiscard]] const Table* of(int rank) const;

 private:
  std::optional<SharedTable> held_;
  std::vector<std::optional<SharedTable>> shards_;  // by rank
};

}  // namespace speedtorch
