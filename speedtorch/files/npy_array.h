/// The array of a `.npy` file (element type, shape, start), checked against the file's real size before
/// anything is mapped or allocated, and the header of a new file. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "speedtorch/files/npy.h"

namespace speedtorch {

/// The element types that NumPy and LibTorch share. NumPy has no bfloat16: its files hold the two-byte type
/// '<V2', as the package ml_dtypes writes it.
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
/// The type in a header, such as "<f4".
std::string_view descr_of(NpyElement element);

/// An array in C order, little-endian, that fills its file from `data_offset` to the end.
struct NpyArray {
  NpyElement element = NpyElement::float32;
  std::vector<std::int64_t> shape;
  std::int64_t data_offset = 0;
  std::int64_t bytes = 0;  ///< of all elements
};

/// The bytes of a file that npy_array() may need: the longest header.
inline constexpr std::int64_t kNpyHeaderBytes = 12 + 64 * 1024;

/// Returns the array of a file of `file_bytes` bytes that starts with `beginning` (the whole file, or
/// kNpyHeaderBytes).
/// @throws NpyError as parse_npy_header() does; for big-endian, Fortran order and element types that are not
/// shared; if the file is shorter or longer than its header says
NpyArray npy_array(std::span<const std::byte> beginning, std::int64_t file_bytes);

/// The offset of a new file's elements: a page, so that rows of 2^n bytes do not straddle pages.
inline constexpr std::int64_t kNpyDataOffset = 4096;

/// The kNpyDataOffset bytes before the elements of a new file, format version 1.0.
/// @throws NpyError for more than 64 dimensions, a negative one, or more than 2^63 - 1 bytes in all
std::string npy_header(NpyElement element, std::span<const std::int64_t> shape);

/// The bytes that np.save() writes before the elements: padded to a multiple of 64 bytes, with space for
/// another number of rows. @throws NpyError as npy_header() does
std::string numpys_header(NpyElement element, std::span<const std::int64_t> shape);

/// Bytes of all elements. @throws NpyError as npy_header() does
std::int64_t npy_bytes(NpyElement element, std::span<const std::int64_t> shape);

}  // namespace speedtorch
