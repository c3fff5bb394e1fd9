#include "speedtorch/files/npy_array.h"

#include <algorithm>
#include <array>

namespace speedtorch {
namespace {

struct Type {
  NpyElement element;
  std::string_view descr;
  std::int64_t bytes;
};

constexpr std::array<Type, 15> kTypes{{{NpyElement::boolean, "|b1", 1},
                                       {NpyElement::int8, "|i1", 1},
                                       {NpyElement::int16, "<i2", 2},
                                       {NpyElement::int32, "<i4", 4},
                                       {NpyElement::int64, "<i8", 8},
                                       {NpyElement::uint8, "|u1", 1},
                                       {NpyElement::uint16, "<u2", 2},
                                       {NpyElement::uint32, "<u4", 4},
                                       {NpyElement::uint64, "<u8", 8},
                                       {NpyElement::float16, "<f2", 2},
                                       {NpyElement::float32, "<f4", 4},
                                       {NpyElement::float64, "<f8", 8},
                                       {NpyElement::complex64, "<c8", 8},
                                       {NpyElement::complex128, "<c16", 16},
                                       {NpyElement::bfloat16, "<V2", 2}}};

const Type& type_of(NpyElement element) { return *std::ranges::find(kTypes, element, &Type::element); }

const Type& type_of(const std::string& descr) {
  const auto type = std::ranges::find(kTypes, descr, &Type::descr);
  if (type != kTypes.end()) return *type;
  const std::string named = "the .npy file holds elements of type '" + descr + "'";
  if (descr.starts_with('>')) {
    throw NpyError(named + ", big-endian; little-endian is needed: np.save('new.npy', a.astype('<" +
                   descr.substr(1) + "'))");
  }
  if (descr.starts_with("|O")) throw NpyError(named + ", Python objects, which only Python can read");
  throw NpyError(named + ", which LibTorch lacks; it has bool, int8 to int64, uint8 to uint64, " +
                 "float16 to float64, complex64, complex128 and, as '<V2', bfloat16");
}

std::int64_t elements_of(std::span<const std::int64_t> shape) {
  return NpyHeader{{}, false, {shape.begin(), shape.end()}, 0}.elements();
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (const auto extent : shape) text += std::to_string(extent) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) text.resize(text.size() - 2);
  return text + ")";
}

std::string words_of(NpyElement element, std::span<const std::int64_t> shape) {
  return "{'descr': '" + std::string(descr_of(element)) +
         "', 'fortran_order': False, 'shape': " + text_of(shape) + ", }";
}

/// The first ten bytes of format version 1.0, if `length` < 64 KiB more follow before the elements.
std::string beginning(std::size_t length) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(length & 0xFF) +
         static_cast<char>(length >> 8);
}

constexpr std::size_t kDigitsForRows =
    21;  // NumPy's own number: the digits that the first extent may grow to

/// Checks that the file has the `bytes` bytes of elements from `offset` on that its header promises.
void check_size(std::int64_t file_bytes, std::int64_t offset, std::int64_t bytes) {
  const std::int64_t behind = file_bytes - offset;
  if (behind == bytes) return;
  throw NpyError("the .npy file " +
                 std::string(behind < bytes ? "is cut off" : "is longer than its header says") +
                 ": the header promises " + std::to_string(bytes) + " bytes of elements, behind it are " +
                 std::to_string(behind));
}

}  // namespace

std::int64_t bytes_of(NpyElement element) { return type_of(element).bytes; }

std::string_view descr_of(NpyElement element) { return type_of(element).descr; }

std::int64_t npy_bytes(NpyElement element, std::span<const std::int64_t> shape) {
  if (shape.size() > kMostNpyDimensions)
    throw NpyError("a .npy file has at most 64 dimensions, not " + std::to_string(shape.size()));
  if (std::ranges::any_of(shape, [](auto extent) { return extent < 0; }))
    throw NpyError("a .npy file cannot have the shape " + text_of(shape));
  std::int64_t bytes = 0;
  std::int64_t end = 0;
  if (__builtin_mul_overflow(elements_of(shape), bytes_of(element), &bytes) ||
      __builtin_add_overflow(bytes, kNpyDataOffset, &end))
    throw NpyError("a .npy file of shape " + text_of(shape) + " would have more than 2^63 - 1 bytes");
  return bytes;
}

NpyArray npy_array(std::span<const std::byte> beginning, std::int64_t file_bytes) {
  NpyHeader header = parse_npy_header(beginning);
  const Type& type = type_of(header.descr);
  if (header.fortran) {
    throw NpyError(
        "the .npy file is in Fortran order; C order is needed: np.save('new.npy', np.ascontiguousarray(a))");
  }
  const std::int64_t bytes = npy_bytes(type.element, header.shape);
  check_size(file_bytes, header.data_offset, bytes);
  return {type.element, std::move(header.shape), header.data_offset, bytes};
}

std::string npy_header(NpyElement element, std::span<const std::int64_t> shape) {
  npy_bytes(element, shape);
  auto words = words_of(element, shape);
  words.resize(static_cast<std::size_t>(kNpyDataOffset) - 11, ' ');  // 64 extents of 19 digits fit
  return beginning(words.size() + 1) + words + '\n';
}

std::string numpys_header(NpyElement element, std::span<const std::int64_t> shape) {
  npy_bytes(element, shape);
  auto words = words_of(element, shape);
  if (!shape.empty()) words.append(kDigitsForRows - std::to_string(shape.front()).size(), ' ');
  words.append(64 - (10 + words.size() + 1) % 64, ' ');
  return beginning(words.size() + 1) + words + '\n';
}

}  // namespace speedtorch
