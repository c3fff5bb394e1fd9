/// The memory nodes (sockets) of the machine, and on which of them the rows of a table lie. Not yet run on
/// more than one socket.
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

/// The nodes that have memory, by the kernel's numbers ascending; node k below is the k-th of them.
struct Nodes {
  std::vector<int> numbers;
  std::vector<int> node_of_cpu;  ///< by the CPU's number; -1 for one whose node has no memory

  [[nodiscard]] int count() const { return static_cast<int>(numbers.size()); }
};

/// @param root of the kernel's files (/sys); tests replace it. One node of no CPUs where there is nothing to
/// read.
Nodes read_nodes(const std::filesystem::path& root = "/");

/// Asks for each page (any address in it) on which node it lies, in the kernel's numbers; negative for one
/// that was never touched. False where the system does not tell.
using AskNodes = kernels::FunctionRef<bool(std::span<void* const> pages, std::span<int> node_numbers)>;

/// The system's own answer (move_pages without moving).
bool ask_nodes(std::span<void* const> pages, std::span<int> node_numbers);

/// Where the rows of `table` lie, from some of its pages: ranges where a node has many pages in a row, or
/// pages dealt out in turn (numactl --interleave). Nothing where all are on one node, in no such order, or
/// unknown: then it does not pay to know.
std::optional<kernels::RowOwners> find_owners(kernels::ConstRows table, const Nodes& nodes,
                                              AskNodes ask = ask_nodes);

/// What a movement by node (speedtorch/kernels/rows/node_rows.h) takes.
struct NodePlan {
  kernels::RowOwners owners;
  std::vector<int> node_of_thread;
};

/// The plan for a movement of `bytes` between `table` and somewhere else on threads that are pinned to
/// `cpus`. Nothing where it would not pay: one node, threads that are not pinned or on one node only, few
/// bytes, rows on one node or nobody knows where.
std::optional<NodePlan> plan_by_node(kernels::ConstRows table, std::int64_t bytes, const Nodes& nodes,
                                     std::span<const int> cpus, AskNodes ask = ask_nodes);

}  // namespace speedtorch
