/// NumPy's `.npy` files: the header of any, and the numbers of one-dimensional integer arrays. Needs no
/// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace speedtorch {

/// The file is no `.npy` file, is damaged, or holds what was not asked for. what() is one line.
class NpyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What stands before the elements of a `.npy` file (format versions 1.0, 2.0 and 3.0).
struct NpyHeader {
  std::string descr;                ///< the element type as NumPy writes it, e.g. "<i8"; no structured types
  bool fortran = false;             ///< column-major
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::int64_t data_offset = 0;     ///< where the elements begin, in bytes

  /// The product of `shape`.
  /// @throws NpyError where it does not fit 63 bits.
  [[nodiscard]] std::int64_t elements() const;
};

/// True where the bytes begin as each `.npy` file does.
bool is_npy(std::span<const std::byte> file);

/// The header at the beginning of a file; the elements need not be there. Headers above 64 KiB are refused.
/// @throws NpyError for what is not exactly such a header.
NpyHeader parse_npy_header(std::span<const std::byte> file);

/// The numbers of a whole file: a one-dimensional array of int8 to int64 or uint8 to uint32, little-endian.
/// @throws NpyError for anything else, and where the file is shorter or longer than its header says.
std::vector<std::int64_t> npy_integers(std::span<const std::byte> file);

/// The same of the file at that path.
/// @throws NpyError also where it cannot be read.
std::vector<std::int64_t> read_npy_integers(const std::string& path);

}  // namespace speedtorch
