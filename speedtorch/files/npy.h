/// NumPy's `.npy` files: any header, and the numbers of one-dimensional integer arrays. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace speedtorch {

/// The file is no `.npy` file, is damaged, or holds another kind of array. what() is one line.
struct NpyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The header of a `.npy` file (format versions 1.0, 2.0 and 3.0).
struct NpyHeader {
  std::string descr;     ///< the element type as NumPy writes it, such as "<i8"; no structured types
  bool fortran = false;  ///< column-major
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::int64_t data_offset = 0;     ///< of the elements, in bytes

  /// The product of `shape`.
  /// @throws NpyError if it does not fit into 63 bits
  [[nodiscard]] std::int64_t elements() const;
};

inline constexpr std::size_t kMostNpyDimensions = 64;  ///< NumPy's own limit

/// True if the bytes start as a `.npy` file does.
bool is_npy(std::span<const std::byte> file);

/// Parses the header at the start of a file; the elements may be missing. Refuses headers above 64 KiB.
/// @throws NpyError unless the bytes start with exactly such a header
NpyHeader parse_npy_header(std::span<const std::byte> file);

/// The numbers of a whole file: a one-dimensional array of int8 to int64 or uint8 to uint32, little-endian.
/// @throws NpyError for any other array, and if the file is shorter or longer than its header says
std::vector<std::int64_t> npy_integers(std::span<const std::byte> file);

}  // namespace speedtorch
