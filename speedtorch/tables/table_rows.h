/// Moves rows between a table in any placement and a model's tensor on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string_view>

#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/row_index.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// How rows move between a table and a tensor.
enum class Route {
  host,      ///< host kernels on the table's memory
  in_place,  ///< CUDA kernels on the table's memory: `device`, or `pinned` over the link
  staged,    ///< for a table that CUDA does not reach: host kernels and pinned staging memory, then the copy
             ///< engine
  fetched,   ///< for a table of a GPU and a tensor elsewhere: CUDA kernels on that GPU, then a copy
};

std::string_view to_string(Route route);

/// @param on the device of the table's tensor: `cuda:N` for `pinned` and `device`, else `cpu`
/// @param model the device of the other tensor
Route route_of(Placement placement, at::Device on, at::Device model);

/// The device on which an index is needed to move rows between the table and a tensor on `model`. Each call
/// copies indices there from elsewhere.
at::Device index_device(const Table& table, at::Device model);

/// The table's rows as a new tensor on `model`: [I..., R...] for a table [rows, R...] and an index of shape
/// I. Not differentiable.
///
/// GPU work is queued on the current stream of its device. A staged gather returns when the host's part is
/// done. Host kernels first wait for the current stream of `pinned` memory's device, so that they see its
/// writes.
/// @throws IndexError, ShapeError, PlacementError as gather_rows() on tensors (speedtorch/rows/rows.h);
/// FileError if the file of a `mapped` table was shrunk
at::Tensor gather_rows(const Table& table, const RowIndex& index, at::Device model);

/// Gathers into `out` on any device, whose shape is the index's or [index.numel()] before the row's. @throws
/// also AutogradError, before anything moves, if `out` requires a gradient while gradients are on
void gather_rows(const Table& table, const RowIndex& index, at::Tensor& out);

/// table[index[i]] = values[i] for values on any device; `duplicates` says what repeated rows get. If the
/// table is on the host, waits for values on a GPU.
/// @throws as above; DuplicateError; FileError for the `mapped` table of a file that is open `read_only`
void scatter_rows(const Table& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

/// A copy of the whole table on the host, after the writes that the GPU's current stream has queued.
at::Tensor host_copy(const Table& table);

/// The size of the pieces in which large tables are copied, written and read.
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

/// Passes the table in order to `piece`, at most `bytes` (or one row) at a time: rows on the host, which
/// `piece` must not keep, and the number of the first. Needs memory for one piece, and none if the host
/// reaches the table.
void each_piece(const Table& table, std::int64_t bytes,
                const std::function<void(const at::Tensor& rows, std::int64_t first_row)>& piece);

}  // namespace speedtorch
