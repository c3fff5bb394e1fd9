/// Positions of an index sorted by the node that their rows lie on, and shared among the threads of that
/// node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speedtorch/kernels/index_type.h"
#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/rows/row_owners.h"

namespace speedtorch::kernels {

/// The positions of an index: those of node 0's rows, then those of node 1's, ..., ascending within a node.
struct Partition {
  std::vector<std::int64_t> positions;  ///< each of [0, count) once
  std::vector<std::int64_t> begins;     ///< node k's are positions[begins[k]] to positions[begins[k + 1] - 1]
};

/// Sorts [0, count) by the owners of the rows that `index` names, all of which are in the table (counting
/// sort: two passes over the index).
template <IndexType Index>
Partition partition_by_owner(const Index* index, std::int64_t count, const RowOwners& owners,
                             ParallelFor parallel_for);

/// Places [begin, end) in Partition::positions.
struct Share {
  std::int64_t begin;
  std::int64_t end;
};

/// The part of each thread: an even share of the rows on its node. What lies on a node without a thread is
/// shared by all. Together each position once. There is at least one thread.
std::vector<std::vector<Share>> share_by_node(const Partition& partition,
                                              std::span<const int> node_of_thread);

}  // namespace speedtorch::kernels
