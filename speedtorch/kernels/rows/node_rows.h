/// Row movement on machines of several sockets: each row of the table is read or written by a thread of the
/// node that it lies on, so that only the other side's rows cross between sockets. Right by tests on made-up
/// topologies; not yet run on more than one socket, and not tuned before.
#pragma once

#include <cstdint>
#include <span>

#include "speedtorch/kernels/index_type.h"
#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/row_view.h"
#include "speedtorch/kernels/rows/row_owners.h"

namespace speedtorch::kernels {

/// The threads of a pool with their nodes. `for_threads(n, 1, body)` for as many items as threads does item k
/// on thread k if it can; if it does not, the movement is slower and right all the same.
struct NodeThreads {
  std::span<const int> node_of_thread;  ///< at least one
  ParallelFor for_threads;
};

/// As gather_rows and scatter_rows (rows.h), errors included. `Index` is int32 or int64.
template <IndexType Index>
void gather_rows_by_node(ConstRows table, const Index* index, std::int64_t count, Rows out,
                         const RowOwners& owners, const NodeThreads& threads);
template <IndexType Index>
void scatter_rows_by_node(ConstRows values, const Index* index, std::int64_t count, Rows table,
                          const RowOwners& owners, const NodeThreads& threads);

}  // namespace speedtorch::kernels
