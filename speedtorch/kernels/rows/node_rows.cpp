#include "speedtorch/kernels/rows/node_rows.h"

#include <algorithm>
#include <array>
#include <memory>

#include "speedtorch/kernels/rows/partition.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"
#include "speedtorch/kernels/rows/rows.h"

namespace speedtorch::kernels {
namespace {

/// A node's rows lie anywhere on both sides, and the kernels take an index for one side. So rows are gathered
/// into a stage that stays in a core's second-level cache, and scattered from there.
constexpr std::int64_t kStageBytes = 64 << 10;
constexpr std::int64_t kStageRows = 1024;

/// Indices for which the check wakes a thread.
constexpr std::int64_t kCheckGrain = 128 << 10;

template <IndexType Index>
struct NodeMove {
  ConstRows from;
  Rows to;
  const Index* index;
  std::int64_t count;
  Direction direction;

  std::int64_t table_rows() const { return direction == Direction::gather ? from.rows : to.rows; }
  std::int64_t stage_rows() const {
    return std::clamp<std::int64_t>(kStageBytes / from.row_bytes, 1, kStageRows);
  }

  /// Moves the rows of `positions`, as many at a time as fit into the stage.
  void run_share(std::span<const std::int64_t> positions, std::byte* stage) const {
    const std::int64_t width = from.row_bytes;
    const bool gather = direction == Direction::gather;
    std::array<std::int64_t, kStageRows> named;
    // Planned for all rows: whether they outgrow the cache does not depend on the stage.
    auto leave = plan_scatter<std::int64_t>({stage, count, width, width}, nullptr, to);
    const auto step = static_cast<std::size_t>(stage_rows());
    for (std::size_t at = 0; at < positions.size(); at += step) {
      const auto part = positions.subspan(at, std::min(step, positions.size() - at));
      const auto rows = static_cast<std::int64_t>(part.size());
      std::transform(part.begin(), part.end(), named.begin(),
                     [this](std::int64_t position) { return std::int64_t{index[position]}; });
      run(plan_gather(from, gather ? named.data() : part.data(), {stage, rows, width, width}), 0, rows);
      leave.index = gather ? part.data() : named.data();
      run(leave, 0, rows);
    }
  }
};

template <IndexType Index>
void run_by_node(const NodeMove<Index>& move, const RowOwners& owners, const NodeThreads& threads) {
  check_indices(move.index, move.count, move.table_rows(), kCheckGrain, threads.for_threads);
  if (move.from.row_bytes == 0) return;
  const auto partition = partition_by_owner(move.index, move.count, owners, threads.for_threads);
  const auto shares = share_by_node(partition, threads.node_of_thread);
  const auto stage_bytes = static_cast<std::size_t>(move.stage_rows() * move.from.row_bytes);
  // Allocated here, since the threads must not throw, and left untouched, so that its pages are the threads'.
  const auto stages = std::make_unique_for_overwrite<std::byte[]>(stage_bytes * shares.size());
  const auto run_thread = [&](std::size_t thread) {
    for (const Share& share : shares[thread]) {
      const auto begin = static_cast<std::size_t>(share.begin);
      const auto size = static_cast<std::size_t>(share.end - share.begin);
      move.run_share(std::span(partition.positions).subspan(begin, size),
                     stages.get() + thread * stage_bytes);
    }
  };
  threads.for_threads(static_cast<std::int64_t>(shares.size()), 1,
                      [&](std::int64_t first, std::int64_t last) {
                        for (std::int64_t thread = first; thread < last; ++thread)
                          run_thread(static_cast<std::size_t>(thread));
                      });
}

}  // namespace

template <IndexType Index>
void gather_rows_by_node(ConstRows table, const Index* index, std::int64_t count, Rows out,
                         const RowOwners& owners, const NodeThreads& threads) {
  check_gather_shapes(table, count, out);
  run_by_node(NodeMove<Index>{table, out, index, count, Direction::gather}, owners, threads);
}

template <IndexType Index>
void scatter_rows_by_node(ConstRows values, const Index* index, std::int64_t count, Rows table,
                          const RowOwners& owners, const NodeThreads& threads) {
  check_scatter_shapes(values, count, table);
  run_by_node(NodeMove<Index>{values, table, index, count, Direction::scatter}, owners, threads);
}

template void gather_rows_by_node(ConstRows, const std::int32_t*, std::int64_t, Rows, const RowOwners&,
                                  const NodeThreads&);
template void gather_rows_by_node(ConstRows, const std::int64_t*, std::int64_t, Rows, const RowOwners&,
                                  const NodeThreads&);
template void scatter_rows_by_node(ConstRows, const std::int32_t*, std::int64_t, Rows, const RowOwners&,
                                   const NodeThreads&);
template void scatter_rows_by_node(ConstRows, const std::int64_t*, std::int64_t, Rows, const RowOwners&,
                                   const NodeThreads&);

}  // namespace speedtorch::kernels
