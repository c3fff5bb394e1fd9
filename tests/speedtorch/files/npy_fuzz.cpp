/// The fuzz target of the `.npy` reader: any bytes give an array or an NpyError. libFuzzer calls it
/// (npy_fuzz, if clang is found), and so does replay_corpus.cpp with the committed corpus.
#include <cstdint>
#include <span>

#include "speedtorch/files/npy.h"
#include "speedtorch/files/npy_array.h"
#include "tests/fuzz.h"

namespace speedtorch {
namespace {

using stbench::test::require;

void require_the_same(const NpyArray& one, const NpyArray& other) {
  require(one.element == other.element, "the element type survives a round trip");
  require(one.shape == other.shape, "the shape survives a round trip");
  require(one.bytes == other.bytes, "the size survives a round trip");
}

/// An array that is written and read again must be equal.
void check_array(std::span<const std::byte> file, std::int64_t file_bytes) {
  const NpyArray array = npy_array(file, file_bytes);
  require(array.data_offset >= 10 && array.bytes >= 0, "offset and size are in the file");
  require(array.data_offset + array.bytes == file_bytes, "the elements fill the file to its end");
  require(array.shape.size() <= 64, "there are at most 64 dimensions");
  const std::string header = npy_header(array.element, array.shape);
  require(header.size() == kNpyDataOffset, "a new header is a page");
  const NpyArray again = npy_array(std::as_bytes(std::span(header)), kNpyDataOffset + array.bytes);
  require(again.data_offset == kNpyDataOffset, "a new header is as long as it says");
  require_the_same(array, again);
}

void check_header(std::span<const std::byte> file) {
  const NpyHeader header = parse_npy_header(file);
  require(header.data_offset <= static_cast<std::int64_t>(file.size()), "the header is in the file");
  require(header.descr.size() <= 64 && header.shape.size() <= 64, "what the header makes us keep is bounded");
}

void check_integers(std::span<const std::byte> file) {
  const auto numbers = npy_integers(file);
  require(numbers.size() <= file.size(), "there are not more numbers than bytes");
}

template <class Check>
void refusing(Check check) {
  try {
    check();
  } catch (const NpyError& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "a refusal is one line");
  }
}

/// Uses whatever size the header promises, so that the code behind the check of the size runs too.
void check_promised_size(std::span<const std::byte> file) {
  const NpyHeader header = parse_npy_header(file);
  std::int64_t bytes = 0;
  for (int item = 1; item <= 16; item *= 2) {
    if (__builtin_mul_overflow(header.elements(), item, &bytes)) return;
    if (__builtin_add_overflow(bytes, header.data_offset, &bytes)) return;
    refusing([&] { check_array(file, bytes); });
  }
}

}  // namespace
}  // namespace speedtorch

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace speedtorch;
  const auto file = std::as_bytes(std::span(data, size));
  refusing([&] { check_header(file); });
  refusing([&] { check_array(file, static_cast<std::int64_t>(size)); });
  refusing([&] { check_promised_size(file); });
  refusing([&] { check_integers(file); });
  return 0;
}
