/// Tables in files that others read: `.npy` as np.save() writes them, and torch's format as torch.load()
/// reads it. For a table that lives in a file there is MappedFile (speedtorch/files/mapped_file.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "speedtorch/tables/table.h"

namespace speedtorch {

/// Writes the table as np.save() would, byte for byte. The file appears under its name when it is whole and
/// on the disk, in place of another of that name; the table is written by pieces of 64 MiB. A `mapped` table
/// that is that very file is flushed instead.
/// @throws FileError where it cannot be written, what was there before then stays; NpyError where NumPy has
/// no such elements
void save_npy(const Table& table, const std::string& path);

/// Writes the table as torch.save() of a CPU tensor: torch.load() reads it, with `weights_only` too. Appears
/// as above. What the host reaches is written without a copy of it.
/// @throws FileError
void save_torch(const Table& table, const std::string& path);

/// The tensor that torch.save(), torch::pickle_save() or save_torch() wrote, as a table: a file with one
/// tensor of any device, which is read to the host first (once its size in memory beside the table).
/// @throws FileError where the file is none of that kind or holds something else
Table load_torch(const std::string& path, const TableOptions& options = default_table_options());

}  // namespace speedtorch
