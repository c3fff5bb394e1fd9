/// Rows between a table in any placement and a model's tensor on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string_view>

#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/row_index.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// The way that rows take between a table and a tensor.
enum class Route {
  host,      ///< host kernels on the table's memory
  in_place,  ///< CUDA kernels on the table's memory: `device`, or `pinned` over the link
  staged,  ///< a table that CUDA does not reach: host kernels and pinned staging memory, then the copy engine
  fetched,  ///< a table of a GPU for a tensor that is elsewhere: CUDA kernels there, then a copy
};

std::string_view to_string(Route route);

/// @param on    the device that the table's tensor names: `cuda:N` for `pinned` and `device`, else `cpu`
/// @param model the device of the tensor
Route route_of(Placement placement, at::Device on, at::Device model);

/// Where the numbers of an index are needed for rows that go between the table and a tensor on `model`. Those
/// that are elsewhere are copied there by each call.
at::Device index_device(const Table& table, at::Device model);

/// The table's rows as a new tensor on `model`: for a table [rows, R...] and an index of shape I, [I...,
/// R...]. Autograd records nothing. On a GPU everything is queued on the current stream of the device on
/// which it happens; a staged gather returns when the host's part is done. Host kernels on `pinned` memory
/// wait for the current stream of its device first, so that they see what was written there.
/// @throws IndexError, ShapeError, PlacementError as gather_rows() on tensors (speedtorch/rows/rows.h);
/// FileError where the file of a `mapped` table was shrunk
at::Tensor gather_rows(const Table& table, const RowIndex& index, at::Device model);

/// The same into `out`, on any device, of the index's shape before the row's or with its places in one
/// dimension. @throws AutogradError also, before anything moves, where `out` requires a gradient and
/// gradients are on
void gather_rows(const Table& table, const RowIndex& index, at::Tensor& out);

/// table[index[i]] = values[i], or what `duplicates` says of rows named twice, for values on any device.
/// Where the table is the host's, waits for values that are a GPU's.
/// @throws as above; DuplicateError; FileError for the `mapped` table of a file that is open `read_only`
void scatter_rows(const Table& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

/// All of the table on the host, independent of it, after what the GPU's current stream still writes.
at::Tensor host_copy(const Table& table);

/// The same by pieces of at most `bytes` (or one row, where that is longer), in order: `piece` gets rows on
/// the host, which it must not keep, and the number of the first. Takes no more memory than one piece, and
/// none where the host reaches the table.
void each_piece(const Table& table, std::int64_t bytes,
                const std::function<void(const at::Tensor& rows, std::int64_t first_row)>& piece);

}  // namespace speedtorch
