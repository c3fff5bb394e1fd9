/// The header of a safetensors file: the names, types, shapes and places of its tensors. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace speedtorch {

/// The file is no safetensors file, is damaged, or lacks the tensor. what() is one line. It names the byte of
/// the file, the tensor, the value, and what would be right.
struct SafetensorsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor in C order, little-endian.
struct SafetensorsTensor {
  std::string dtype;                ///< as the file writes it, such as "BF16"
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::int64_t offset = 0;          ///< of the first element, from the file's start
  std::int64_t bytes = 0;           ///< of all elements
};

struct Safetensors {
  std::map<std::string, SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata;  ///< of `__metadata__`
};

inline constexpr std::int64_t kSafetensorsLengthBytes = 8;  ///< the bytes that give the header's length
inline constexpr std::int64_t kLongestSafetensorsHeader = 100'000'000;  ///< the format's own limit
inline constexpr std::size_t kMostSafetensorsTensors = 1'000'000;
inline constexpr std::size_t kMostSafetensorsDimensions = 64;  ///< as of a `.npy` file

/// The bytes before the first tensor: the length and the header behind it.
/// @param beginning the first kSafetensorsLengthBytes + 1 bytes of a file, or all if it has fewer
/// @throws SafetensorsError if there are fewer, if the header is too long for the file or the format, or if
/// it does not begin with '{'
std::int64_t safetensors_header_bytes(std::span<const std::byte> beginning, std::int64_t file_bytes);

/// Parses and checks the header of a file of `file_bytes` bytes.
///
/// All that this accepts, the package `safetensors` accepts with the same result. This is stricter: it
/// refuses equal keys, a header that does not begin with '{', a `__metadata__` of null, entries in other
/// forms than an object, extents of 2^63 and more, more than 64 dimensions, and more than a million tensors.
/// @param beginning the file's first safetensors_header_bytes() bytes, or more
/// @throws SafetensorsError if the header is no such JSON, if a tensor's bytes are not those of its type and
/// shape, and if the tensors overlap or leave bytes of the file unused
Safetensors parse_safetensors(std::span<const std::byte> beginning, std::int64_t file_bytes);

/// The tensor of that name, or without a name the only one.
/// @throws SafetensorsError that says which tensors there are
const SafetensorsTensor& tensor_named(const Safetensors& file, const std::optional<std::string>& name);

}  // namespace speedtorch
