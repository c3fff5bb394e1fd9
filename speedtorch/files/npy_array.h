/// The array of a `.npy` file: its elements' type, its shape and where it begins, held against the file's
/// real size before anything is mapped or allocated; and the header of a new file. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "speedtorch/files/npy.h"

namespace speedtorch {

/// The elements that NumPy and LibTorch share. NumPy has no bfloat16 of its own: its files hold what the
/// package ml_dtypes writes for it, the two-byte type '<V2'.
enum class NpyElement {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
  complex64,
  complex128,
  bfloat16
};

/// Bytes of one element.
std::int64_t bytes_of(NpyElement element);
/// As it stands in a header, such as "<f4".
std::string_view descr_of(NpyElement element);

/// An array in C order, little-endian, that fills its file from `data_offset` to the end.
struct NpyArray {
  NpyElement element = NpyElement::float32;
  std::vector<std::int64_t> shape;
  std::int64_t data_offset = 0;
  std::int64_t bytes = 0;  ///< of all elements
};

/// How many bytes of a file npy_array() may need to see: the longest header.
inline constexpr std::int64_t kNpyHeaderBytes = 12 + 64 * 1024;

/// The array of a file of `file_bytes` bytes that begins with `beginning` (all of it, or kNpyHeaderBytes).
/// @throws NpyError where parse_npy_header() does; for big-endian, Fortran order, and elements that are not
/// shared; where the file is shorter or longer than its header says.
NpyArray npy_array(std::span<const std::byte> beginning, std::int64_t file_bytes);

/// For elements that are used where they lie in the file.
/// @throws NpyError where they begin at an address that is no multiple of their parts' size
void require_aligned(const NpyArray& array);

/// Where the elements of a new file begin: at a page, so that rows of a power of two of bytes keep to pages.
inline constexpr std::int64_t kNpyDataOffset = 4096;

/// The kNpyDataOffset bytes that stand before the elements of a new file, format version 1.0.
/// @throws NpyError for more than 64 dimensions, a negative one, or more than 2^63 - 1 bytes in all.
std::string npy_header(NpyElement element, std::span<const std::int64_t> shape);

/// What np.save() writes before the elements: padded to a multiple of 64 bytes, with room for another number
/// of rows. @throws NpyError as npy_header() does
std::string numpys_header(NpyElement element, std::span<const std::int64_t> shape);

/// Bytes of all elements. @throws NpyError as npy_header() does
std::int64_t npy_bytes(NpyElement element, std::span<const std::int64_t> shape);

}  // namespace speedtorch
