/// Opens an array in a file, whatever its format: a `.npy` file, or a tensor of a safetensors file. Table,
/// MappedFile and FileRows find their rows with it. docs/files.md describes both formats.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/files/file_reads.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/files/safetensors.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch {

enum class Access { read_only, read_write };

enum class ArrayFormat { npy, safetensors };

/// An open file and an array in it: C order, little-endian, `bytes` bytes from `data_offset` on.
struct ArrayFile {
  std::string name;  ///< of the file without its folder, and of the tensor: "model.safetensors:embed.weight"
  Descriptor file;
  ArrayFormat format = ArrayFormat::npy;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::int64_t data_offset = 0;     ///< of the first element, from the file's start
  std::int64_t bytes = 0;           ///< of all elements
};

/// The file and tensor of `FILE` or `FILE:TENSOR`.
struct ArrayPath {
  std::string file;
  std::optional<std::string> tensor;
};

/// If a file has the whole name, with its colons, it is opened. Otherwise the longest part before a colon
/// that names a file is the file. If no file exists, a part that ends in `.safetensors` before a colon is
/// taken for one.
ArrayPath split_array_path(const std::string& path);

/// Opens `FILE.npy` or `FILE.safetensors:TENSOR`; a file with a single tensor needs no `:TENSOR`. The content
/// says which format a file has. The elements may be unaligned.
/// @throws NpyError, SafetensorsError if it is no such file, if it has no such tensor, if LibTorch has no
/// type for the elements, or if the file is shorter or longer than its header says; FileError if it is
/// missing, not regular or not permitted. All name the file without its folder.
ArrayFile open_array(const std::string& path, Access access);

/// For elements that are used in place in the file.
/// @throws NpyError, SafetensorsError if they start at an offset that is not a multiple of their alignment
void require_aligned(const ArrayFile& array);

/// The array's rows, for FileRows: row i is element i of the first dimension.
/// @throws ShapeError for a scalar
FileTable file_table(const ArrayFile& array);

}  // namespace speedtorch
