/// Saves and loads tables: `.npy` as np.save() writes it, and torch's format as torch.load() reads it.
/// MappedFile (speedtorch/files/mapped_file.h) is for tables that live in a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "speedtorch/tables/table.h"

namespace speedtorch {

/// Writes the table as np.save() would, byte for byte, in pieces of 64 MiB. The file appears under its name
/// once it is whole and on the disk, and replaces another of that name. If the table is `mapped` from that
/// very file, flushes it instead.
/// @throws FileError if it cannot be written, and then the old file stays; NpyError if NumPy has no such
/// elements
void save_npy(const Table& table, const std::string& path);

/// Writes the table as torch.save() writes a CPU tensor; torch.load() reads it, also with `weights_only`. The
/// file appears as above. A table that the host reaches is not copied first.
/// @throws FileError
void save_torch(const Table& table, const std::string& path);

/// Loads the single tensor of a file of torch.save(), torch::pickle_save() or save_torch() as a table.
/// Tensors of any device are read to the host first, which needs their size in memory beside the table.
/// @throws FileError if the file is of another kind or holds anything else
Table load_torch(const std::string& path, const TableOptions& options = default_table_options());

}  // namespace speedtorch
