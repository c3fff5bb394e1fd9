/// The machine's NUMA nodes, and the node of each row of a table. Never run on a multi-socket machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/row_view.h"
#include "speedtorch/kernels/rows/row_owners.h"

namespace speedtorch {

/// The nodes that have memory, ascending by the kernel's numbers. Node k below is the k-th of them.
struct Nodes {
  std::vector<int> numbers;
  std::vector<int> node_of_cpu;  ///< by CPU number; -1 if the CPU's node has no memory

  [[nodiscard]] int count() const { return static_cast<int>(numbers.size()); }
};

/// @param root of the kernel's files (/sys); tests replace it. Returns one node without CPUs if there is
/// nothing to read.
Nodes read_nodes(const std::filesystem::path& root = "/");

/// Writes the node of each page (any address in it) by the kernel's numbers, negative for a page that was
/// never touched. Returns false if the system does not say.
using AskNodes = kernels::FunctionRef<bool(std::span<void* const> pages, std::span<int> node_numbers)>;

/// Asks the system (move_pages without moving).
bool ask_nodes(std::span<void* const> pages, std::span<int> node_numbers);

/// Returns which node owns which rows of `table`, judged by some of its pages: ranges of rows, or pages
/// interleaved over the nodes (numactl --interleave). Returns nothing if all rows are on one node, or in no
/// such order, or if the system does not say: then moving by node does not pay.
std::optional<kernels::RowOwners> find_owners(kernels::ConstRows table, const Nodes& nodes,
                                              AskNodes ask = ask_nodes);

/// The arguments of a movement by node (speedtorch/kernels/rows/node_rows.h).
struct NodePlan {
  kernels::RowOwners owners;
  std::vector<int> node_of_thread;
};

/// Plans a movement of `bytes` between `table` and other memory on threads that are pinned to `cpus`. Returns
/// nothing if it would not pay: one node, few bytes, threads that are unpinned or all on one node, rows on
/// one node or on unknown nodes.
std::optional<NodePlan> plan_by_node(kernels::ConstRows table, std::int64_t bytes, const Nodes& nodes,
                                     std::span<const int> cpus, AskNodes ask = ask_nodes);

}  // namespace speedtorch
